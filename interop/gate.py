"""Chooses the cases that a test runs: all of them in `make nightly`, a part of them in the gate.

Environment variables: `NIGHTLY`, if it is not empty, runs all; `TEST_SEED` chooses the part for the
gate (interop/scripts/test.sh computes it from the day of the last commit)."""
import os

RUNS_ALL = bool(os.environ.get("NIGHTLY"))
FIRST_SEED = int(os.environ.get("TEST_SEED") or 0)


def part(of_all, of_gate):
    """Returns the first value in a full run, the second in the gate."""
    return of_all if RUNS_ALL else of_gate


def one_of(choices):
    """Returns the choice that the gate takes with this seed."""
    return choices[FIRST_SEED % len(choices)]


def all_or_one(choices):
    """Returns a list: all choices in a full run, in the gate the one that this seed selects."""
    choices = list(choices)
    return part(choices, [one_of(choices)])
