#!/usr/bin/env python3
"""Reports the results of compare_cassandra.sh as a line, a table and a picture.

compare_report.py line RESULTS SYSTEM SYNC WORKLOAD     one line for the terminal
compare_report.py report RESULTS                        prints the table; writes report.md,
                                                        report.json and report.svg to RESULTS

The script reads latte's JSON reports, named SYSTEM-SYNC-WORKLOAD-{reads,writes}.json, and the files
that compare_cassandra.sh writes beside them. It needs no package but Python's own.
"""
import html
import json
import sys
from pathlib import Path

KINDS = ("reads", "writes")
SYSTEMS = ("espalier", "cassandra")
COLOURS = {"espalier": "#2f7d4f", "cassandra": "#8aa0b8"}
GOAL_RATIO = 6.0
GOAL_GROUP_COST = 0.15


def load(file):
    """Returns the figures of one report of latte."""
    report = json.loads(file.read_text())
    result = report["result"]
    latency = {f"p{percentile:g}": value for percentile, value in percentiles(report)}
    return {"per_s": result["cycle_throughput"]["value"], "errors": result["error_count"],
            "retries": result["request_retry_count"], "seconds": result["elapsed_time_s"],
            "client_cpu": result["cpu_util"], "latency_ms": latency}


def server_percent(file):
    """Returns the load of the server's core in percent, or None if it was not measured."""
    sample = file.with_name(f"{file.stem}-server-percent")
    return int(sample.read_text()) if sample.exists() else None


def percentiles(report):
    """Yields pairs (percentile, milliseconds) of the requests, as far as the report has them."""
    latency = report["result"].get("request_latency") or {}
    values = latency.get("percentiles") or []
    for percentile, value in zip(report.get("percentiles", []), values):
        value = value.get("value") if isinstance(value, dict) else value
        if round(percentile, 3) in (50, 99, 99.9) and value is not None:
            yield round(percentile, 3), value


def collect(results):
    """Returns all figures: {(sync, workload, kind): {system: figures}}."""
    found = {}
    for file in sorted(results.glob("*-*-*-*.json")):
        system, sync, workload, kind = file.stem.split("-")
        figures = load(file)
        figures["files"] = int((results / f"{system}-{sync}-{workload}-files").read_text())
        figures["server_percent"] = server_percent(file)
        found.setdefault((sync, workload, kind), {})[system] = figures
    return found


def cost_us(figures):
    """Returns the server's processor time for one request, in microseconds."""
    return figures["server_percent"] * 1e4 / figures["per_s"]


def line(results, system, sync, workload):
    """Prints the reads and writes of one workload on one system."""
    parts = []
    for kind in KINDS:
        figures = load(results / f"{system}-{sync}-{workload}-{kind}.json")
        busy = server_percent(results / f"{system}-{sync}-{workload}-{kind}.json")
        parts.append(
            f"{figures['per_s']:>9,.0f} {kind}/s ({figures['errors']} errors, server {busy} %, "
            f"latte {figures['client_cpu']:.0f} %)"
        )
    files = int((results / f"{system}-{sync}-{workload}-files").read_text())
    print(f"{system:10} {sync:9} {workload:9}", *parts, f"[{files} flushed files]" if files else "")


def table(found):
    """Returns the rows of the report and its notes."""
    order = ("periodic", "group")
    keys = sorted(
        found, key=lambda key: (order.index(key[0]) if key[0] in order else 9, key[1], key[2])
    )
    lines = [
        "| commitlog_sync | workload | what | Espalier /s | Cassandra /s | ratio | errors | p50 / "
        "p99 ms ours | theirs"
        " | server, latte busy % ours | theirs | server µs each ours | theirs |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    notes = []
    for sync, workload, kind in keys:
        ours, theirs = (found[sync, workload, kind].get(system) for system in SYSTEMS)
        number = lambda figures: f"{figures['per_s']:,.0f}" if figures else "–"
        latency = lambda figures: (
            " / ".join(
                f"{figures['latency_ms'][p]:.2f}"
                for p in ("p50", "p99")
                if p in figures["latency_ms"]
            )
            if figures
            else "–"
        )
        busy = lambda figures: (
            f"{figures['server_percent']}, {figures['client_cpu']:.0f}" if figures else "–"
        )
        cost = lambda figures: (
            f"{cost_us(figures):.2f}" if figures and figures["server_percent"] is not None else "–"
        )
        ratio = f"{ours['per_s'] / theirs['per_s']:.2f}" if ours and theirs else "–"
        errors = " + ".join(str(figures["errors"]) for figures in (ours, theirs) if figures)
        lines.append(
            f"| {sync} | {workload} | {kind} | {number(ours)} | {number(theirs)} | {ratio} | "
            f"{errors} |"
            f" {latency(ours)} | {latency(theirs)} | {busy(ours)} | {busy(theirs)} | {cost(ours)} "
            f"| {cost(theirs)} |"
        )
        if ours and ours["client_cpu"] > 90 and (ours["server_percent"] or 100) < 80:
            notes.append(
                f"{workload}, {sync}, {kind}: latte was the limit ({ours['client_cpu']:.0f} % of "
                "its core), not Espalier"
                f" ({ours['server_percent']} % of its core)"
            )
        for system, figures in found[sync, workload, kind].items():
            if figures["files"] and kind == "writes":
                notes.append(
                    f"{system} had flushed {figures['files']} files with {workload}, {sync}: not "
                    "all rows were in the memtable"
                )
            if figures["errors"] or figures["retries"]:
                notes.append(
                    f"{system}, {sync}, {workload}, {kind}: {figures['errors']} errors, "
                    f"{figures['retries']} retries"
                )
    return lines, notes


def goals(found):
    """Yields the project's goals that the results cover: (text, True if it is met)."""
    both = lambda sync, kind: found.get((sync, "keyvalue", kind), {})
    for kind in KINDS:
        pair = both("periodic", kind)
        if len(pair) == 2:
            ratio = pair["espalier"]["per_s"] / pair["cassandra"]["per_s"]
            clean = pair["espalier"]["errors"] == 0
            yield (
                f"keyvalue {kind}, periodic: {ratio:.2f} times Cassandra (goal {GOAL_RATIO:g}), "
                f"{'no' if clean else 'with'} errors",
                ratio >= GOAL_RATIO and clean,
            )
    periodic, group = both("periodic", "writes").get("espalier"), both("group", "writes").get(
        "espalier"
    )
    if periodic and group:
        cost = 1 - group["per_s"] / periodic["per_s"]
        yield (
            f"keyvalue writes: group commit costs {cost:.1%} of throughput (goal: under "
            f"{GOAL_GROUP_COST:.0%})",
            cost < GOAL_GROUP_COST,
        )


def picture(found):
    """Returns the bars, as SVG."""
    keys = list(found)
    most = max(
        (figures["per_s"] for pair in found.values() for figures in pair.values()), default=1
    )
    width, bar, gap, left = 760, 14, 12, 230
    height = 30 + len(keys) * (2 * bar + gap)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">'
    ]
    for at, (system, colour) in enumerate(COLOURS.items()):
        parts.append(f'<rect x="{left + at * 110}" y="6" width="10" height="10" fill="{colour}"/>'
                     f'<text x="{left + 14 + at * 110}" y="15">{system}</text>')
    for at, key in enumerate(keys):
        top = 28 + at * (2 * bar + gap)
        parts.append(
            f'<text x="{left - 8}" y="{top + bar + 4}" '
            f'text-anchor="end">{html.escape(", ".join(key))}</text>'
        )
        for offset, system in enumerate(SYSTEMS):
            figures = found[key].get(system)
            if figures:
                length = (width - left - 80) * figures["per_s"] / most
                parts.append(
                    f'<rect x="{left}" y="{top + offset * bar}" width="{length:.1f}" '
                    f'height="{bar - 1}" fill="{COLOURS[system]}"/>'
                    f'<text x="{left + length + 4:.1f}" '
                    f'y="{top + offset * bar + 10}">{figures["per_s"]:,.0f}/s</text>'
                )
    return "\n".join([*parts, "</svg>"])


def report(results):
    """Prints and writes everything; returns the exit status, 1 if a goal was missed."""
    found = collect(results)
    lines, notes = table(found)
    judged = list(goals(found))
    share = int((results / "share").read_text())
    if share < 100:
        notes.insert(
            0,
            f"while it was measured, each server had {share} % of its core, so that latte was not "
            "the limit",
        )
    text = "\n".join(
        [
            *lines,
            "",
            *(f"- {'met' if met else 'MISSED'}: {goal}" for goal, met in judged),
            *(f"- note: {note}" for note in notes),
        ]
    )
    print(text)
    (results / "report.md").write_text(
        f"# Espalier and Cassandra 5.0.9\n\n{text}\n\n![](report.svg)\n"
    )
    (results / "report.json").write_text(
        json.dumps({"-".join(key): pair for key, pair in found.items()}, indent=1)
    )
    (results / "report.svg").write_text(picture(found))
    return 0 if all(met for _, met in judged) else 1


def main():
    command, results, *rest = sys.argv[1:]
    if command == "line":
        line(Path(results), *rest)
        return 0
    return report(Path(results))


if __name__ == "__main__":
    sys.exit(main())
