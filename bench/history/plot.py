#!/usr/bin/env python3
"""Draws the history of the measurements: one line for each measure.

    bench/history/plot.py [SUBJECT …] [--measure TEXT] [--all] [--out bench/results/history]

A subject is a file of this folder without `.csv`; without a subject all files are drawn, one
picture each. A picture has one panel for each unit. Measures with a single value are left out
unless `--all` is given; `--measure` keeps the measures that contain a text. The pictures are SVG,
drawn by matplotlib if it is installed and by this script if not.

Values of one day stand side by side in the order of the file. The shape of a point is the kind of
machine: a step between two shapes says nothing about the code.
"""
import argparse
import csv
import math
import sys
from collections import defaultdict
from datetime import date
from html import escape
from pathlib import Path

try:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
except ImportError:
    pyplot = None

HERE = Path(__file__).resolve().parent
COLUMNS = ["date", "commit", "machine", "measure", "value", "unit", "note"]
COLOURS = [
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf",
]  # fmt: skip
WIDTH, PANEL_HEIGHT, LEFT, RIGHT, TOP, BOTTOM, LEGEND_LINE = 900, 260, 90, 20, 34, 34, 15


def read(path):
    """Returns the rows of a history file, checked."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            sys.exit(f"{path}: the columns are {reader.fieldnames}, and must be {COLUMNS}")
        rows = list(reader)
    for line, row in enumerate(rows, 2):
        try:
            row["day"] = date.fromisoformat(row["date"]).toordinal()
            row["number"] = float(row["value"])
        except ValueError as error:
            sys.exit(f"{path}:{line}: {error}")
    return rows


def panels(rows, text, with_single):
    """Returns {unit: {measure: [(x in days, value, machine), …]}}."""
    lines = defaultdict(list)
    for row in rows:
        if text in row["measure"]:
            lines[row["unit"], row["measure"]].append(row)
    of_unit = defaultdict(dict)
    for (unit, measure), found in lines.items():
        if len(found) < 2 and not with_single:
            continue
        of_day = defaultdict(list)
        for row in found:
            of_day[row["day"]].append(row)
        of_unit[unit][measure] = [
            (day + (at + 0.5) / len(same), row["number"], row["machine"])
            for day, same in sorted(of_day.items())
            for at, row in enumerate(same)
        ]
    return of_unit


def is_logarithmic(lines):
    """Returns true if the values need a logarithmic axis: all positive, and far from each other."""
    values = [value for points in lines.values() for _, value, _ in points]
    return min(values) > 0 and max(values) / min(values) > 20


def days(of_unit):
    """Returns the first day and the day after the last one of all points."""
    places = [x for lines in of_unit.values() for points in lines.values() for x, _, _ in points]
    return math.floor(min(places)), math.floor(max(places)) + 1


def with_matplotlib(subject, of_unit, path):
    """Draws with matplotlib."""
    first, last = days(of_unit)
    figure, axes = pyplot.subplots(
        len(of_unit), 1, figsize=(11, 4 * len(of_unit)), squeeze=False, constrained_layout=True
    )
    for axis, (unit, lines) in zip(axes[:, 0], of_unit.items()):
        for measure, points in lines.items():
            (line,) = axis.plot([x for x, _, _ in points], [y for _, y, _ in points], label=measure)
            for x, y, machine in points:
                axis.plot(x, y, "s" if machine == "slow" else "o", color=line.get_color())
        axis.set_yscale("log" if is_logarithmic(lines) else "linear")
        axis.set_title(f"{subject}, {unit}")
        axis.set_xticks(range(first, last + 1))
        axis.set_xticklabels([date.fromordinal(day).isoformat() for day in range(first, last + 1)])
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path)
    pyplot.close(figure)


def ticks(low, high, logarithmic):
    """Returns the values at which the vertical axis has a line."""
    if logarithmic:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [10.0**decade for decade in decades]
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step *= 5 if (high - low) / step > 10 else 1
    return [at * step for at in range(math.floor(low / step), math.ceil(high / step) + 1)]


def panel(subject, unit, lines, top, first, last):
    """Returns the SVG elements of one panel and its height."""
    values = [value for points in lines.values() for _, value, _ in points]
    logarithmic = is_logarithmic(lines)
    low, high = (min(values), max(values)) if logarithmic else (min(0, *values), max(values))
    high = high if high > low else low + 1
    marks = ticks(low, high, logarithmic)
    low, high = min(low, marks[0]), max(high, marks[-1])
    scale = math.log10 if logarithmic else float
    right, bottom = WIDTH - RIGHT, top + TOP + PANEL_HEIGHT

    def place(x, value):
        share = (scale(value) - scale(low)) / (scale(high) - scale(low))
        across = LEFT + (x - first) / (last - first) * (right - LEFT)
        return across, bottom - share * PANEL_HEIGHT

    out = [f'<text x="{LEFT}" y="{top + 20}" class="title">{escape(f"{subject}, {unit}")}</text>']
    for mark in marks:
        _, y = place(first, mark)
        out.append(f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="end">{mark:,.10g}</text>')
    for day in range(first, last):
        x, _ = place(day, low)
        label = date.fromordinal(day).isoformat()
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + TOP}" y2="{bottom}" class="grid"/>')
        if (right - LEFT) / (last - first) > 70 or (day - first) % 7 == 0:
            out.append(f'<text x="{x:.1f}" y="{bottom + 16}">{label}</text>')
    y = bottom + BOTTOM
    for at, (measure, points) in enumerate(lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        dashes = ["", "6 3", "2 2", "8 3 2 3"][at // len(COLOURS) % 4]
        style = f'stroke="{colour}" stroke-dasharray="{dashes}"'
        places = [(*place(x, value), value, machine) for x, value, machine in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in places)
        out.append(f'<polyline points="{path}" class="line" {style}/>')
        for x, point_y, value, machine in places:
            title = f"<title>{escape(measure)}: {value:,.10g} {escape(unit)}, {machine}</title>"
            if machine == "slow":
                square = f'x="{x - 3:.1f}" y="{point_y - 3:.1f}" width="6" height="6"'
                out.append(f'<rect {square} fill="{colour}">{title}</rect>')
            else:
                circle = f'cx="{x:.1f}" cy="{point_y:.1f}" r="3"'
                out.append(f'<circle {circle} fill="{colour}">{title}</circle>')
        out.append(f'<line x1="{LEFT}" x2="{LEFT + 24}" y1="{y}" y2="{y}" class="line" {style}/>')
        out.append(f'<text x="{LEFT + 30}" y="{y + 4}">{escape(measure)}</text>')
        y += LEGEND_LINE
    return out, y + 10 - top


def by_hand(subject, of_unit, path):
    """Writes a plain SVG."""
    first, last = days(of_unit)
    out, top = [], 0
    for unit, lines in of_unit.items():
        elements, height = panel(subject, unit, lines, top, first, last)
        out += elements
        top += height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}">\n'
        "<style>text{font:11px sans-serif}.title{font-weight:bold}.end{text-anchor:end}"
        ".grid{stroke:#ddd}.line{fill:none;stroke-width:1.5}</style>\n"
        f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>\n'
    )
    path.write_text(head + "\n".join(out) + "\n</svg>\n", encoding="utf-8")


def main():
    subjects = sorted(path.stem for path in HERE.glob("*.csv"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(subjects))
    parser.add_argument("--measure", default="", help="only measures that contain this text")
    parser.add_argument("--all", action="store_true", help="also measures with a single value")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "history")
    options = parser.parse_args()
    if unknown := set(options.subjects) - set(subjects):
        sys.exit(f"there is no subject {', '.join(sorted(unknown))}: {', '.join(subjects)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for subject in options.subjects or subjects:
        of_unit = panels(read(HERE / f"{subject}.csv"), options.measure, options.all)
        if not of_unit:
            print(f"{subject}: no measure has two values, see --all")
            continue
        path = options.out / f"{subject}.svg"
        (with_matplotlib if pyplot else by_hand)(subject, of_unit, path)
        print(path)


if __name__ == "__main__":
    main()
