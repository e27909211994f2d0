"""Reports the results of time_series.py as a table, goals and a picture. Needs only Python.

    python3 bench/time_series_report.py bench/results/time_series.json    prints and draws again
"""
import json
import math
import sys
from pathlib import Path

COLOURS = {"espalier": "#2f7d4f", "cassandra": "#5b7a9d"}
PERCENTILES = (50, 99, 99.9, 100)
PARTITIONS = 10
GOAL = 2.0


def percentile(values, percent):
    """Returns the lowest value that at least `percent` percent of the values do not exceed; None if
    there are no values."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1] if ordered else None


def parts(server):
    """Returns the reads of each part of the run: {name: [(at, latency_us, service_us)]}."""
    idle, load = server["phases"]["idle"], server["phases"]["load"]
    event, reads = load["invalidated"], load["reads"]
    behind = [read for read in reads if read[0] >= event["to"]][:PARTITIONS]
    first = [read for read in reads if event["from"] <= read[0] < event["to"]] + behind
    return {
        "idle": idle["reads"],
        "load": [read for read in reads if read not in first],
        "invalidated": first,
    }


def grown(before, after):
    """Returns the growth of the counters."""
    return {name: after[name] - before[name] for name in after if name in before}


def summary(server):
    """Returns percentiles in µs by part, and counters when idle, in the load before the
    invalidation (full), and after it."""
    load = server["phases"]["load"]
    event = load["invalidated"]
    latencies = {
        name: {
            "reads": len(reads),
            "us": {
                f"{percent:g}": percentile([read[1] for read in reads], percent)
                for percent in PERCENTILES
            },
        }
        for name, reads in parts(server).items()
    }
    return {
        "latency": latencies,
        "rows_per_s": load["rows"] / (load["to"] - load["from"]),
        "full": grown(load["before"], event["before"]),
        "invalidated": grown(event["before"], load["after"]),
        "idle": grown(server["phases"]["idle"]["before"], server["phases"]["idle"]["after"]),
    }


def judge(found, servers):
    """Yields the goals: (text, True if the goal is met)."""
    if "espalier" in found:
        ours = found["espalier"]
        full, after = ours["full"], ours["invalidated"]
        yield (
            f"after the invalidation one read of each of {PARTITIONS} partitions misses: "
            f"{after['misses']} reads did",
            after["misses"] == PARTITIONS,
        )
        evicted = full["rows_evicted"]
        yield (
            f"while memory is full no read misses: {full['misses']} of {full['reads']}, while "
            f"{evicted:,} rows were evicted"
            + ("" if evicted else " (it was not full: more --seconds or a higher --rate)"),
            full["misses"] == 0 and evicted > 0,
        )
        partitions = full["partitions_evicted"] + after["partitions_evicted"]
        yield (
            f"only rows are evicted: {evicted + after['rows_evicted']:,} rows, {partitions} "
            "partitions",
            partitions == 0 and evicted > 0,
        )
        idle, load = (ours["latency"][part]["us"]["99.9"] for part in ("idle", "load"))
        flushes = full["flushes"] + after["flushes"]
        yield (
            f"p99.9 of reads beside {flushes} flushes and the evictions is at most {GOAL:g} times "
            "that of the idle node: "
            f"{load / idle:.2f} times",
            load <= GOAL * idle and flushes > 0 and evicted > 0,
        )
    for name, server in servers.items():
        yield (
            f"{name}: each head was what had been acknowledged: {len(server['wrong'])} were not",
            not server["wrong"],
        )


def table(found):
    """Returns lines of Markdown."""
    lines = [
        "| server | reads | number | p50, µs | p99 | p99.9 | longest |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, figures in found.items():
        for part, latency in figures["latency"].items():
            lines.append(
                f"| {name} | {part} | {latency['reads']} | "
                + " | ".join(f"{us:,}" for us in latency["us"].values())
                + " |"
            )
    lines += [
        "",
        "| server | when | reads | with misses | rows evicted | partitions evicted | flushes | "
        "compactions |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, figures in found.items():
        for part, text in (
            ("idle", "idle"),
            ("full", "load before the invalidation"),
            ("invalidated", "load from it on"),
        ):
            counted = [
                figures[part].get(key)
                for key in (
                    "reads",
                    "misses",
                    "rows_evicted",
                    "partitions_evicted",
                    "flushes",
                    "compactions",
                )
            ]
            lines.append(
                f"| {name} | {text} | "
                + " | ".join("–" if count is None else f"{count:,}" for count in counted)
                + " |"
            )
    return lines


def notes(found, measured):
    """Yields notes that a reader of the figures must know."""
    wanted = measured["arguments"]["rate"] * PARTITIONS
    for name, figures in found.items():
        yield f"{name}: {figures['rows_per_s']:,.0f} rows/s of {wanted:,} that were due"
        if figures["rows_per_s"] < wanted * 0.95:
            yield f"{name}: the writers did not keep up; check which processes use the cores"
        if figures["latency"]["load"]["reads"] < 1000:
            yield f"{name}: of fewer than 1000 reads p99.9 is the longest"
        if refused := sum(figures[part].get("refused", 0) for part in ("full", "invalidated")):
            yield f"{name}: {refused:,} rows found no room in the cache"
    for name, server in measured["servers"].items():
        yield from (f"{name}: {text[:300]}" for text in server["wrong"][:5])


class Scale:
    """Maps seconds to the right and decades of µs upwards, the same in all panels."""

    width, height, left, right = 960, 260, 60, 20

    def __init__(self, servers):
        all_us = [
            read[1]
            for server in servers
            for phase in ("idle", "load")
            for read in server["phases"][phase]["reads"]
        ]
        self.low, self.high = math.floor(math.log10(min(all_us))), math.ceil(
            math.log10(max(all_us))
        )
        self.seconds = max(
            server["phases"]["load"]["to"] - server["phases"]["idle"]["from"] for server in servers
        )

    def x(self, seconds):
        return round(self.left + (self.width - self.left - self.right) * seconds / self.seconds, 1)

    def y(self, us):
        return round(
            self.height * (1 - (math.log10(us) - self.low) / max(self.high - self.low, 1)), 1
        )


def panel(name, server, limit_us, scale):
    """Yields SVG elements: the reads of one server, and the events during them."""
    idle, load = server["phases"]["idle"], server["phases"]["load"]
    begin, last = idle["from"], scale.width - scale.right
    yield (
        f'<text x="{scale.left}" y="-8" font-size="13">{name}: µs of a read from when it was due, '
        'over seconds; '
        '<tspan fill="#e08a1e">flushes</tspan></text>'
    )
    for us in (10 ** power for power in range(scale.low, scale.high + 1)):
        yield (
            f'<line x1="{scale.left}" x2="{last}" y1="{scale.y(us)}" y2="{scale.y(us)}" '
            'stroke="#ddd"/>'
            f'<text x="{scale.left - 6}" y="{scale.y(us) + 4}" text-anchor="end">{us:,}</text>'
        )
    for second in range(0, int(scale.seconds) + 1, max(10, int(scale.seconds) // 120 * 10)):
        yield (
            f'<text x="{scale.x(second)}" y="{scale.height + 14}" '
            f'text-anchor="middle">{second}</text>'
        )
    for at in server["flushes"]:
        if begin <= at <= load["to"]:
            x = scale.x(at - begin)
            yield (
                f'<line x1="{x}" x2="{x}" y1="{scale.height - 14}" y2="{scale.height}" '
                'stroke="#e08a1e"/>'
            )
    for at, text in (
        (load["from"], "writers begin"),
        (load["invalidated"]["from"], "cached rows are forgotten"),
    ):
        x = scale.x(at - begin)
        yield (
            f'<line x1="{x}" x2="{x}" y1="0" y2="{scale.height}" stroke="#b03030" '
            'stroke-dasharray="4 3"/>'
            f'<text x="{x + 3}" y="11" fill="#b03030">{text}</text>'
        )
    if limit_us < 10 ** scale.high:
        y = scale.y(limit_us)
        yield (
            f'<line x1="{scale.left}" x2="{last}" y1="{y}" y2="{y}" stroke="#888" '
            'stroke-dasharray="2 3"/>'
            f'<text x="{last}" y="{y - 3}" text-anchor="end" fill="#666">{GOAL:g} × p99.9 of the '
            'idle node</text>'
        )
    for at, us, _ in idle["reads"] + load["reads"]:
        yield (
            f'<circle cx="{scale.x(at - begin)}" cy="{scale.y(us)}" r="1.6" '
            f'fill="{COLOURS[name]}"/>'
        )


def picture(found, servers):
    """Returns the latency of the reads over time, as SVG."""
    scale, top = Scale(servers.values()), 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scale.width}" '
        f'height="{len(servers) * (scale.height + top) + 30}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for number, (name, server) in enumerate(servers.items()):
        limit_us = GOAL * found[name]["latency"]["idle"]["us"]["99.9"]
        lines += [
            f'<g transform="translate(0 {top + number * (scale.height + top)})">',
            *panel(name, server, limit_us, scale),
            "</g>",
        ]
    return "\n".join([*lines, "</svg>\n"])


def report(results, measured):
    """Prints and writes everything; returns the exit status, 1 if a goal is missed."""
    servers = measured["servers"]
    found = {name: summary(server) for name, server in servers.items()}
    judged = [(text, bool(met)) for text, met in judge(found, servers)]
    measured = {**measured, "summary": found, "met": dict(judged)}
    print(
        "\n".join(
            [
                *table(found),
                "",
                *(f"- {'met' if met else 'NOT met'}: {text}" for text, met in judged),
                *(f"- note: {note}" for note in notes(found, measured)),
            ]
        )
    )
    (results / "time_series.json").write_text(json.dumps(measured) + "\n")
    (results / "time_series.svg").write_text(picture(found, servers))
    print(f"written: {results}/time_series.json and .svg")
    return 0 if all(met for _, met in judged) else 1


if __name__ == "__main__":
    file = Path(sys.argv[1])
    sys.exit(report(file.parent, json.loads(file.read_text())))
