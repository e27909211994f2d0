"""What time_series.py has measured, as a table, a judgement and a picture. Needs nothing but Python.

    python3 bench/time_series_report.py bench/results/time_series.json        prints it once more, and draws again
"""
import html
import json
import math
import sys
from pathlib import Path

COLOURS = {"espalier": "#2f7d4f", "cassandra": "#5b7a9d"}
PERCENTILES = (50, 99, 99.9, 100)
PARTITIONS = 10
GOAL = 2.0


def percentile(values, percent):
    """The least value that so many percent are not above; None of nothing."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1] if ordered else None


def parts(server):
    """Its reads by what was going on: {name: [(at, latency_us, service_us)]}."""
    idle, load = server["phases"]["idle"], server["phases"]["load"]
    event, reads = load["invalidated"], load["reads"]
    behind = [read for read in reads if read[0] >= event["to"]][:PARTITIONS]
    first = [read for read in reads if event["from"] <= read[0] < event["to"]] + behind
    return {"idle": idle["reads"], "load": [read for read in reads if read not in first], "invalidated": first}


def grown(before, after):
    """What counters grew by."""
    return {name: after[name] - before[name] for name in after if name in before}


def summary(server):
    """Percentiles in µs by part, and what was counted in the load before and after the invalidation."""
    load = server["phases"]["load"]
    event = load["invalidated"]
    latencies = {name: {"reads": len(reads), "us": {f"{percent:g}": percentile([read[1] for read in reads], percent)
                                                   for percent in PERCENTILES}} for name, reads in parts(server).items()}
    return {"latency": latencies, "rows_per_s": load["rows"] / (load["to"] - load["from"]),
            "full": grown(load["before"], event["before"]), "invalidated": grown(event["before"], load["after"]),
            "idle": grown(server["phases"]["idle"]["before"], server["phases"]["idle"]["after"]),
            "flushes_seen": sum(load["from"] <= at <= load["to"] for at in server["flushes"])}


def judge(found, servers):
    """What issue 6 asks for: (text, whether it is met)."""
    if "espalier" in found:
        ours = found["espalier"]
        full, after = ours["full"], ours["invalidated"]
        yield f"after the invalidation one read of each partition misses: {after['misses']} of {PARTITIONS}", after["misses"] == PARTITIONS
        evicted = full["rows_evicted"]
        yield (f"while memory is full no read misses: {full['misses']} of {full['reads']}, while {evicted:,} rows were evicted"
               + ("" if evicted else " (it was not full: more --seconds or a higher --rate)"), full["misses"] == 0 and evicted > 0)
        partitions = full["partitions_evicted"] + after["partitions_evicted"]
        yield f"only rows are evicted: {evicted + after['rows_evicted']:,} rows, {partitions} partitions", partitions == 0 and evicted > 0
        idle, load = (ours["latency"][part]["us"]["99.9"] for part in ("idle", "load"))
        yield (f"reads' p99.9 with {ours['flushes_seen']} flushes and evictions at most {GOAL:g} times the idle one: {load / idle:.2f} times",
               load <= GOAL * idle and ours["flushes_seen"] > 0)
    for name, server in servers.items():
        yield f"{name}: each head was what had been acknowledged: {len(server['wrong'])} were not", not server["wrong"]


def table(found):
    """Lines of Markdown."""
    lines = ["| server | reads | number | p50, µs | p99 | p99.9 | longest |", "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, figures in found.items():
        for part, latency in figures["latency"].items():
            lines.append(f"| {name} | {part} | {latency['reads']} | " + " | ".join(f"{us:,}" for us in latency["us"].values()) + " |")
    lines += ["", "| server | in the load | reads | with misses | rows evicted | partitions evicted | flushes | compactions |",
              "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, figures in found.items():
        for part, text in (("full", "before the invalidation"), ("invalidated", "from it on")):
            counted = [figures[part].get(key) for key in
                       ("reads", "misses", "rows_evicted", "partitions_evicted", "flushes", "compactions")]
            lines.append(f"| {name} | {text} | " + " | ".join("–" if count is None else f"{count:,}" for count in counted) + " |")
    return lines


def notes(found, measured):
    """What a reader of the figures must know."""
    wanted = measured["arguments"]["rate"] * PARTITIONS
    for name, figures in found.items():
        yield f"{name}: {figures['rows_per_s']:,.0f} rows/s of {wanted:,} that were due"
        if figures["rows_per_s"] < wanted * 0.95:
            yield f"{name}: the writers did not keep up; look at who has the cores"
        if figures["latency"]["load"]["reads"] < 1000:
            yield f"{name}: of fewer than 1000 reads p99.9 is the longest"
    if refused := found.get("espalier", {}).get("full", {}).get("refused", 0) + found.get("espalier", {}).get("invalidated", {}).get("refused", 0):
        yield f"espalier: {refused:,} rows found no room in the cache"
    for name, server in measured["servers"].items():
        yield from (f"{name}: {text[:300]}" for text in server["wrong"][:5])


def picture(found, servers):
    """Reads' latency over time as SVG: a panel for each server, of the same scales."""
    width, panel, left, right, top = 960, 260, 60, 20, 40
    drawn = {name: server["phases"]["idle"]["reads"] + server["phases"]["load"]["reads"] for name, server in servers.items()}
    all_us = [read[1] for reads in drawn.values() for read in reads]
    low, high = math.floor(math.log10(min(all_us))), math.ceil(math.log10(max(all_us)))
    shown = max(server["phases"]["load"]["to"] - server["phases"]["idle"]["from"] for server in servers.values())
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(drawn) * (panel + top) + 40}" '
             'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>']
    for number, (name, reads) in enumerate(drawn.items()):
        above, phases = top + number * (panel + top), servers[name]["phases"]
        begin = phases["idle"]["from"]

        def x(at, begin=begin):
            return left + (width - left - right) * (at - begin) / shown

        def y(us, above=above):
            return above + panel * (1 - (math.log10(us) - low) / max(high - low, 1))

        def upright(at, colour, text="", above=above, dashes=""):
            return (f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{above}" y2="{above + panel}" stroke="{colour}" {dashes}/>'
                    f'<text x="{x(at) + 3:.1f}" y="{above + 11}" fill="{colour}">{html.escape(text)}</text>')

        lines.append(f'<text x="{left}" y="{above - 8}" font-size="13">{name}: µs of a read from when it was due, over seconds; '
                     'orange: flushes</text>')
        for power in range(low, high + 1):
            lines.append(f'<line x1="{left}" x2="{width - right}" y1="{y(10 ** power):.1f}" y2="{y(10 ** power):.1f}" stroke="#ddd"/>'
                         f'<text x="{left - 6}" y="{y(10 ** power) + 4:.1f}" text-anchor="end">{10 ** power:,}</text>')
        for second in range(0, int(shown) + 1, max(10, int(shown) // 120 * 10)):
            lines.append(f'<text x="{x(begin + second):.1f}" y="{above + panel + 14}" text-anchor="middle">{second}</text>')
        for at in servers[name]["flushes"]:
            if begin <= at <= phases["load"]["to"]:
                lines.append(f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{above + panel - 14}" y2="{above + panel}" stroke="#e08a1e"/>')
        lines.append(upright(phases["load"]["from"], "#888", "writers begin"))
        lines.append(upright(phases["load"]["invalidated"]["from"], "#b03030", "cache forgotten", dashes='stroke-dasharray="4 3"'))
        limit = GOAL * found[name]["latency"]["idle"]["us"]["99.9"]
        if limit < 10 ** high:
            lines.append(f'<line x1="{left}" x2="{width - right}" y1="{y(limit):.1f}" y2="{y(limit):.1f}" stroke="#888" '
                         f'stroke-dasharray="2 3"/><text x="{width - right}" y="{y(limit) - 3:.1f}" text-anchor="end" fill="#666">'
                         f'{GOAL:g} × p99.9 of the idle node</text>')
        lines += [f'<circle cx="{x(at):.1f}" cy="{y(us):.1f}" r="1.6" fill="{COLOURS[name]}"/>' for at, us, _ in reads]
    return "\n".join([*lines, "</svg>\n"])


def report(results, measured):
    """Prints and writes everything; the exit status says whether all is met."""
    servers = measured["servers"]
    found = {name: summary(server) for name, server in servers.items()}
    judged = [(text, bool(met)) for text, met in judge(found, servers)]
    measured = {**measured, "summary": found, "met": dict(judged)}
    print("\n".join([*table(found), "", *(f"- {'met' if met else 'NOT met'}: {text}" for text, met in judged),
                     *(f"- note: {note}" for note in notes(found, measured))]))
    (results / "time_series.json").write_text(json.dumps(measured) + "\n")
    (results / "time_series.svg").write_text(picture(found, servers))
    print(f"written: {results}/time_series.json and .svg")
    return 0 if all(met for _, met in judged) else 1


if __name__ == "__main__":
    file = Path(sys.argv[1])
    sys.exit(report(file.parent, json.loads(file.read_text())))
