"""Reports the results of long_test.py as a table, goals and a picture. Needs only Python.

    python3 bench/long_test_report.py bench/results/long_test.json    prints and draws them again
"""
import json
import math
import statistics
import sys
from pathlib import Path

COLOURS = ("#2f7d4f", "#b0762f", "#5b7a9d", "#8d4f8d", "#7a7a3a")
CASSANDRA = "cassandra"
TIMES_FASTER, MIN_SHARE, MAX_P99_TIMES, MAX_MEMORY_BYTES = 5, 0.5, 2, 2 << 30
CORE_STATES = {"work": "at work", "rest": "at rest", "stolen": "taken away"}
MAX_SLOW_TOLD = 30
LAST_S = 60  # the end of the writing, compared with as long without compactions
FANOUT = {"unified T4": 4, "unified L10": 10, "size-tiered": 4, "levelled": 10, "time-window": 4}
LEVELLED = ("levelled", "unified L10")


def percentile(values, percent):
    """Returns the lowest value that at least `percent` percent of the values do not exceed; None if
    there are no values."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1] if ordered else None


def full_seconds(server):
    """Returns the operations of each second, without the last one, which is seldom whole."""
    return server["per_second"][:-1] or server["per_second"]


def reads_by_compaction(server):
    """Returns latencies in µs: of reads beside compactions, and of all other reads."""
    compacting = {int(sample["at"]): sample["compacting"] > 0 for sample in server["samples"]}
    beside, alone = [], []
    for due, latency in server["reads"]:
        if int(due) in compacting:
            (beside if compacting[int(due)] else alone).append(latency)
    return beside, alone


def theory(name, server):
    """Returns the number of times that a byte is written, by commit log, flush and compactions, as
    computed from the strategy; None for a server whose strategy is not in FANOUT, or without
    flushes."""
    flushes = server["samples"][-1].get("flushes")
    if name not in FANOUT or not flushes:
        return None
    levels = math.log(flushes, FANOUT[name])
    # Tiered: a byte is written once in each level. Levelled: a byte is written about fanout / 2
    # times in each level.
    return 2 + levels * (FANOUT[name] / 2 if name in LEVELLED else 1)


def space_theory(name):
    """Returns the highest multiple of the data that is stored if rows are written once, because
    inputs and output exist while the largest files are compacted. None for a server whose strategy
    is not in FANOUT."""
    # Tiered: the whole table at once. Levelled: a file and the overlapping files of a level ten
    # times as large.
    return (1 + 1 / FANOUT[name] if name in LEVELLED else 2) if name in FANOUT else None


def summary(server):
    """Returns the figures of one server."""
    full = full_seconds(server)
    median = statistics.median(full)
    beside, alone = reads_by_compaction(server)
    since = server["seconds"] - LAST_S
    # With hardly any compactions there is nothing to compare.
    is_compacted = (
        statistics.mean(
            [sample["compacting"] > 0 for sample in server["samples"] if sample["at"] >= since]
            or [0]
        )
        > 0.9
    )
    last_reads = [latency for due, latency in server["reads"] if is_compacted and due >= since]
    two = {int(sample["at"]) for sample in server["samples"] if sample["compacting"] > 1}
    reads_beside_two = [latency for due, latency in server["reads"] if int(due) in two]
    payload, last = server["rows"] * server["row_bytes"], server["samples"][-1]
    # Rows are written once, so bytes stored beyond the final share are stored twice.
    shares = [
        sample["stored_bytes"] / (sample["rows"] * server["row_bytes"])
        for sample in server["samples"]
        if sample["stored_bytes"] and sample["rows"] > 1
    ]
    least = last["stored_bytes"] / payload
    return {
        "seconds": server["seconds"],
        "median": median,
        "least": min(full),
        "slow_seconds": sum(rate < MIN_SHARE * median for rate in full),
        "p99_beside": percentile(beside, 99),
        "p99_alone": percentile(alone, 99),
        "reads_beside": len(beside),
        "reads_alone": len(alone),
        "p999_beside_two": percentile(reads_beside_two, 99.9),
        "p99_last": percentile(last_reads, 99),
        "p99_quiet": percentile([latency for _, latency in server.get("quiet_reads", [])], 99),
        "write_amplification": last["written_bytes"] / payload,
        "space_most": max(shares, default=0) / least if least else 0,
        "space_end": least,
        "files_most": max(sample["files"] for sample in server["samples"]),
        "memory": max(sample["resident_bytes"] for sample in server["samples"]),
    }


def seconds_to(rows, server):
    """Returns the seconds after which a server had `rows` rows."""
    return next(
        (sample["at"] for sample in server["samples"] if sample["rows"] >= rows), server["seconds"]
    )


def rows_at(seconds, server):
    """Returns the number of rows that a server had after `seconds`, to one second."""
    return next(
        (sample["rows"] for sample in server["samples"] if sample["at"] >= seconds - 1),
        server["rows"],
    )


def faster(what, times):
    """Returns the text of the goal for a factor, and True if the goal is met."""
    return (
        f"{what} {times:.1f} times as fast as Cassandra (at least {TIMES_FASTER})",
        times >= TIMES_FASTER,
    )


def of_cores(first, last, tell):
    """Yields the time of the server's core and of the clients' between two samples, each part
    formatted by `tell`; nothing for runs without these samples."""
    for core in ("server", "client"):
        if f"{core}_core_work_s" in last:
            parts = (
                (what, last[f"{core}_core_{key}_s"] - first[f"{core}_core_{key}_s"])
                for key, what in CORE_STATES.items()
            )
            yield f"{core}'s core " + ", ".join(tell(what, seconds) for what, seconds in parts)


def core_shares(server):
    """Returns the shares of the time that each core was at work, at rest and stolen, as text."""
    first, last = server["samples"][0], server["samples"][-1]
    whole = max(last["at"] - first["at"], 1)
    return "; ".join(of_cores(first, last, lambda what, seconds: f"{seconds / whole:.0%} {what}"))


def judge(found, servers, is_bounded):
    """Yields the goals: (text, True if the goal is met)."""
    for name, server in servers.items():
        wrong = server["wrong"]
        yield f"{name}: all rows that were read are as written" + "".join(
            f"\n    {text}" for text in wrong
        ), not wrong
        yield (
            f"{name}: rows that were written in {server['seconds']:,.0f} s: {server['rows']:,}",
            server["is_done"] or is_bounded,
        )
    if "trie" in found and CASSANDRA in found:
        ours, peer = servers["trie"], servers[CASSANDRA]
        # A server that was stopped early is compared by the rows that it had then.
        rows = min(ours["rows"], peer["rows"])
        yield faster(f"the trie had {rows:,} rows", seconds_to(rows, peer) / seconds_to(rows, ours))
        # A small number of rows may be reached before the first flush, so the rows after the same
        # time count as well.
        seconds = min(ours["seconds"], peer["seconds"])
        yield faster(
            f"in {seconds:,.0f} s the trie had rows",
            rows_at(seconds, ours) / max(rows_at(seconds, peer), 1),
        )
    for name, of in found.items():
        yield (
            f"{name}: {of['memory'] / 2**20:,.0f} MiB of memory at most (2048)",
            of["memory"] <= MAX_MEMORY_BYTES,
        )
        if name == CASSANDRA:
            continue
        yield (
            f"{name}: no second with less than half of the median throughput: {of['slow_seconds']} "
            f"of {of['seconds']:.0f} had",
            of["slow_seconds"] == 0,
        )
        if of["p99_beside"] and of["p99_alone"]:
            times = of["p99_beside"] / of["p99_alone"]
            yield (
                f"{name}: p99 of reads beside compactions is {times:.2f} times that without (at "
                f"most {MAX_P99_TIMES})",
                times <= MAX_P99_TIMES,
            )
        if of["p99_last"] and of["p99_quiet"]:
            times = of["p99_last"] / of["p99_quiet"]
            yield (
                f"{name}: p99 of reads in the last minute, {of['p99_last'] / 1000:.1f} ms, is "
                f"{times:.2f} times that of the minute after it, which had"
                f" no compactions (at most {MAX_P99_TIMES})"
            ), times <= MAX_P99_TIMES


def slow_seconds(server):
    """Yields a line about each second with less than half of the median throughput. A sample is
    taken as each second begins, so two adjacent samples enclose a second."""
    full = full_seconds(server)
    median, samples = statistics.median(full), {
        int(sample["at"]): sample for sample in server["samples"]
    }
    for second, rate in enumerate(full):
        first, last = samples.get(second), samples.get(second + 1)
        if rate >= MIN_SHARE * median:
            continue
        if not first or not last:
            yield f"second {second:,}: {rate:,} operations; a sample was late"
            continue
        grown = {key: last[key] - first[key] for key in last.keys() & first.keys()}
        text = (
            f"second {second:,}: {rate:,} operations, {last['compacting']} compactions under way, "
            f"{grown['written_bytes'] / 1e6:.0f} MB written"
        )
        text += "".join(
            f"; {of}"
            for of in of_cores(first, last, lambda what, seconds: f"{what} {seconds:.2f} s")
        )
        if "slowed" in grown:
            text += (
                f"; {grown['slowed']:,} writes slowed, {grown['flushes']} flushes ended, "
                f"{grown['data_read_bytes'] / 1e6:.0f} MB read for the page cache"
            )
        yield text


def tell(document):
    """Prints the report; returns True if all goals are met."""
    found = {name: summary(server) for name, server in document["servers"].items()}
    print(f"\n{document['gigabytes']:g} GB in rows of 100 bytes, nine writes for each read\n")
    print(
        "server        seconds   ops/s median   least   p99 µs beside, without compactions   "
        "written   stored, most   files   MiB"
    )
    for name, of in found.items():
        expected = theory(name, document["servers"][name])
        print(
            f"{name:12} {of['seconds']:8.0f} {of['median']:14,.0f} {of['least']:7,.0f} "
            f"{of['p99_beside'] or 0:14,} ({of['reads_beside']:,})"
            f" {of['p99_alone'] or 0:10,} ({of['reads_alone']:,}) {of['write_amplification']:8.2f} "
            f"x {of['space_end']:6.2f} x {of['space_most']:4.2f} x"
            f" {of['files_most']:6} {of['memory'] / 2**20:6,.0f}"
            + (
                f"   theory: written {expected:.1f} x, stored {space_theory(name):.1f} x"
                if expected
                else ""
            )
        )
    print(
        "\nwritten: bytes to the disk, the commit log's among them, for each byte of keys and "
        "values; stored: bytes of files for each\n"
        "byte of keys and values at the end; most: the largest such ratio during the run, divided "
        "by the one at the end\n"
    )
    outcomes = list(judge(found, document["servers"], bool(document.get("most_minutes"))))
    for text, is_met in outcomes:
        print(("met:     " if is_met else "NOT met: ") + text)
    for name, server in document["servers"].items():
        print(f"\n{name}: {core_shares(server)}")
        if found[name]["p999_beside_two"]:
            print(
                f"{name}: p99.9 of reads beside two compactions "
                f"{found[name]['p999_beside_two'] / 1000:.1f} ms"
            )
        lines = list(slow_seconds(server)) if name != CASSANDRA else []
        print("".join(f"{name}, {text}\n" for text in lines[:MAX_SLOW_TOLD]), end="")
        if len(lines) > MAX_SLOW_TOLD:
            print(f"and {len(lines) - MAX_SLOW_TOLD} more")
    return all(is_met for _, is_met in outcomes)


def draw(document):
    """Returns the operations a second over time, as SVG."""
    servers = document["servers"]
    longest = max(server["seconds"] for server in servers.values())
    most = max(max(server["per_second"]) for server in servers.values()) or 1
    width, height, left, top = 1000, 420, 80, 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + left + 20}" '
        f'height="{height + top + 60}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for step in range(6):
        y = top + height - height * step / 5
        parts.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{most * step / 5:,.0f}</text>'
            f'<text x="{left + width * step / 5:.0f}" y="{top + height + 20}" '
            f'text-anchor="middle">{longest * step / 5:,.0f} s</text>'
        )
    for colour, (name, server), row in zip(COLOURS, servers.items(), range(9)):
        points = " ".join(
            f"{left + width * second / longest:.1f},{top + height - height * rate / most:.1f}"
            for second, rate in enumerate(server["per_second"])
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
            f'<text x="{left + 12 + 170 * row}" y="{top - 10}" fill="{colour}">{name}: '
            f'{server["seconds"]:,.0f} s</text>'
        )
    parts.append(
        f'<text x="{left}" y="{top + height + 45}">operations a second, of '
        f'{document["gigabytes"]:g} GB in rows of 100 bytes, nine writes for each read</text></svg>'
    )
    return "\n".join(parts)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    told = json.loads(path.read_text())
    path.with_suffix(".svg").write_text(draw(told))
    sys.exit(0 if tell(told) else 1)
