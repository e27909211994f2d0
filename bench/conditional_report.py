"""Prints the figures of conditional_writes.py, and makes the rows for docs/benchmarks.md."""
import os
import statistics
import subprocess
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOAL_RATIO, GOAL_P99 = 20, 1.2
ALONE, RESIDENT, COLD = MODES = ("alone", "beside resident rows", "beside rows on the disk")


def run():
    """Returns machine, date and commit of this run, as docs/benchmarks.md has them."""
    done = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, text=True,
                          capture_output=True)
    return f"{os.environ.get('MACHINE', 'unknown')} {date.today()} {done.stdout.strip()}"


def row(measure, current, goal="", met=""):
    return f"| {measure} | {current} | {goal} | {met} | u | {run()} |"


def word(met):
    """Returns the text for a goal that is met, missed, or not measured (None)."""
    return {True: "yes", False: "no", None: ""}[met]


def rates(measured):
    """Prints the best rates of `measured`. It has, for each kind of load and server, a pair for
    each round: answers a second by the clock, and answers a second of the server's core. Returns
    True if the goal is met (None if it was not measured), and rows for docs/benchmarks.md."""
    met, texts = None, {}
    for kind, by_server in measured.items():
        best = {name: [max(each) for each in zip(*rounds)] for name, rounds in by_server.items()}
        line = ", ".join(f"{name} {clock:,.0f} /s ({core:,.0f} a second of its core)"
                         for name, (clock, core) in best.items())
        ours = best.get("Espalier", [0, 0])
        texts[kind] = f"{ours[0]:,.0f} /s"
        if len(best) == 2:
            ratios = [a / max(b, 0.01) for a, b in zip(ours, best["Cassandra"])]
            line += f": {ratios[0]:.1f} times by the clock, {ratios[1]:.1f} by the core"
            texts[kind] += f", {ratios[0]:.1f} × (by core seconds {ratios[1]:.1f} ×)"
            if kind == "conditional updates":
                line += f" (goal {GOAL_RATIO})"
                met = ratios[0] >= GOAL_RATIO
        print(f"best of {kind}: {line}")
    rows = []
    if "conditional updates" in texts:
        rows = [row("`UPDATE … IF v = ?`, applied, rows in a memtable",
                    texts["conditional updates"], f"≥ {GOAL_RATIO} ×", word(met)),
                row("the same without IF", texts["plain updates"])]
    if "contended, applied" in texts:
        rows += [row("64 clients on 8 rows: applied", texts["contended, applied"]),
                 row("64 clients on 8 rows: all answers", texts["contended, answers"])]
    return met, rows


def latencies(measured):
    """Prints the medians of the rounds of `measured`, a list of (p50, p99) in µs for each mode and
    kind of update. Returns True if the goal is met, and rows for docs/benchmarks.md."""
    medians = {}
    for mode, kinds in measured.items():
        for kind, rounds in kinds.items():
            if rounds:
                p50, p99 = (statistics.median(each) for each in zip(*rounds))
                medians[mode, kind] = p99
                print(f"{kind} updates, {mode}: p50 {p50:.0f} µs, p99 {p99:.0f} µs (medians of "
                      f"{len(rounds)} rounds)")
    alone = medians[ALONE, "plain"]
    times = {mode: medians[mode, "plain"] / alone for mode in MODES[1:]}
    met, texts = times[COLD] <= GOAL_P99, {}
    for mode, share in times.items():
        goal = f" (goal {GOAL_P99})" if mode == COLD else ""
        print(f"p99 of plain updates, {mode} to alone: {share:.2f} times{goal}")
        texts[mode] = f"{share:.2f} times ({medians[mode, 'plain']:,.0f} : {alone:,.0f} µs)"
    return met, [
        row("p99 of plain updates beside conditional updates of rows on the disk, to alone",
            texts[COLD], f"≤ {GOAL_P99} times", word(met)),
        row("the same beside conditional updates of rows in a memtable", texts[RESIDENT]),
    ]


def print_rows(rows):
    print("\n| Conditional updates | current | goal | met | by | run |")
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows), flush=True)
