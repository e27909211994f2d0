"""The checker of linearizable histories: it accepts correct histories and refuses wrong ones."""
import itertools
import random
import time

import pytest

from driver import seed
from gate import part
from linearizable import (
    CAS,
    READ,
    Operation,
    Violation,
    check,
    check_register,
    has_unique_values,
    read_history,
    search,
    write_history,
)

HISTORIES = part(60_000, 6_000)


def read(begin, end, found, client=0):
    return Operation("k", client, READ, begin, end, found=found)


def write(begin, end, expected, new, client=0):
    """Returns a compare-and-set that was applied, or has no answer if `end` is None."""
    return Operation("k", client, CAS, begin, end, expected, new, True if end is not None else None)


def refused(begin, end, expected, new, found):
    return Operation("k", 0, CAS, begin, end, expected, new, False, found)


CORRECT = {
    "nothing": [],
    "one after another": [
        read(0, 1, None),
        write(2, 3, None, "a"),
        refused(4, 5, None, "b", found="a"),
        write(6, 7, "a", "c"),
        read(8, 9, "c"),
        write(10, 11, "c", None),
        read(12, 13, None),
    ],
    "reads of both values beside a write": [
        write(0, 1, None, "a"),
        write(2, 9, "a", "b"),
        read(3, 4, "a"),
        read(5, 6, "b"),
        read(7, 8, "b"),
    ],
    "an unknown write that happened": [
        write(0, 1, None, "a"),
        write(2, None, "a", "b"),
        read(3, 4, "a"),
        read(5, 6, "b"),
    ],
    "an unknown write that never happened": [
        write(0, 1, None, "a"),
        write(2, None, "a", "b"),
        write(3, 4, "a", "c"),
        read(5, 6, "c"),
    ],
    "an unknown deletion between two insertions": [
        write(0, 1, None, "a"),
        write(2, None, "a", None),
        read(3, 4, "a"),
        write(5, 6, None, "b"),
        read(7, 8, "b"),
    ],
    "two unknown writes between two insertions": [
        write(0, 1, None, "a"),
        write(2, None, "a", "b"),
        write(3, None, "b", None),
        write(5, 6, None, "c"),
    ],
    "a chain inside a longer insertion": [
        write(0, 100, None, "a"),
        write(0, 20, None, "b"),
        write(5, 30, "b", None),
        write(50, 60, "a", None),
    ],
    "the value without a deletion is the last": [
        write(0, 9, None, "a"),
        write(0, 9, None, "b"),
        write(0, 9, "b", None),
        read(10, 11, "a"),
    ],
    "the earlier of two unknown deletions": [
        write(0, 1, None, "a"),
        write(2, None, "a", None),
        write(5, 6, None, "b"),
        write(8, None, "a", None),
    ],
}

WRONG = {
    "lost update": [
        write(0, 1, None, "a"),
        write(2, 3, "a", "b"),
        read(4, 5, "a"),
    ],
    "stale read": [
        write(0, 1, None, "a"),
        write(2, 9, "a", "b"),
        read(3, 4, "b"),
        read(5, 6, "a"),
    ],
    "two writes from one value": [
        write(0, 1, None, "a"),
        write(2, 5, "a", "b"),
        write(3, 6, "a", "c"),
    ],
    "two insertions without a deletion": [
        write(0, 5, None, "a"),
        write(0, 5, None, "b"),
    ],
    "a value from nowhere": [
        write(0, 1, None, "a"),
        read(2, 3, "b"),
    ],
    "a value before its write": [
        read(0, 1, "a"),
        write(2, 3, None, "a"),
    ],
    "a value before its unknown write": [
        read(0, 1, "a"),
        write(2, None, None, "a"),
    ],
    "an acknowledged write lost after a restart": [
        write(0, 1, None, "a"),
        write(2, 3, "a", "b"),
        write(4, None, "b", "c"),
        read(5, 6, None),
    ],
    "an acknowledged value replaced by the one before": [
        write(0, 1, None, "a"),
        write(2, 3, "a", "b"),
        write(4, None, "b", "c"),
        refused(5, 6, None, "d", found="a"),
    ],
    "an unknown write whose value disappears": [
        write(0, 1, None, "a"),
        write(2, None, "a", "b"),
        read(3, 4, "b"),
        read(5, 6, "a"),
    ],
    "refused although the condition held": [
        write(0, 1, None, "a"),
        refused(2, 3, "a", "b", found="a"),
    ],
    "a deletion too late for the second insertion": [
        write(0, 1, None, "a"),
        write(2, 3, None, "b"),
        write(4, None, "a", None),
    ],
    "the first of two unknown writes begins too late": [
        write(0, 1, None, "a"),
        write(8, None, "a", "b"),
        write(2, None, "b", None),
        write(5, 6, None, "c"),
    ],
    "the second of two unknown writes begins too late": [
        write(0, 1, None, "a"),
        write(2, None, "a", "b"),
        write(8, None, "b", None),
        write(5, 6, None, "c"),
    ],
    "absent inside a chain": [
        write(0, 1, None, "a"),
        read(2, 3, None),
        write(4, 5, "a", "b"),
        write(6, 7, "b", None),
    ],
    "two chains that overlap": [
        write(0, 1, None, "a"),
        write(2, 3, None, "b"),
        write(4, 5, "a", None),
        write(6, 7, "b", None),
    ],
    "an insertion after the value that stays": [
        write(0, 1, None, "a"),
        write(2, 3, None, "b"),
        write(4, 5, "b", None),
    ],
    "a circle of writes": [
        write(0, 9, "b", "a"),
        write(0, 9, "a", "b"),
    ],
}


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_history_is_accepted(name):
    check(CORRECT[name])
    search("k", CORRECT[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_refused(name):
    with pytest.raises(Violation):
        check(WRONG[name])
    if name != "refused although the condition held":
        with pytest.raises(Violation):
            search("k", WRONG[name])


def test_a_violation_names_the_operations():
    with pytest.raises(Violation, match="two writes replaced one value") as caught:
        check(WRONG["two writes from one value"])
    assert caught.value.operations == WRONG["two writes from one value"][1:]


def test_keys_are_checked_one_by_one():
    first, second = (
        [Operation(key, 0, READ, 2, 3, found=found), Operation(key, 0, CAS, 0, 1, None, "a", True)]
        for key, found in (("k", "a"), ("l", None))
    )
    check(first)
    with pytest.raises(Violation, match="key l"):
        check(first + second)


def test_the_initial_value_is_there_first():
    check([read(0, 1, "a"), write(2, 3, "a", None), read(4, 5, None)], initial="a")
    for history in (
        [read(0, 1, None), read(2, 3, "a")],
        [write(0, 1, None, "b"), write(2, 3, "b", None)],
        [write(0, 1, "a", "b"), write(2, 3, "a", "c")],
    ):
        with pytest.raises(Violation):
            check(history, initial="a")


def test_values_that_return_are_searched():
    history = [
        write(0, 1, None, 1),
        write(2, 3, 1, 2),
        write(4, 9, 2, 1),
        read(5, 6, 2),
        read(7, 8, 1),
        write(10, None, 1, 2),
    ]
    assert not has_unique_values(history)
    check(history + [read(11, 12, 1), read(13, 14, 2)])
    with pytest.raises(Violation):
        check(history + [read(11, 12, 2), read(13, 14, 1)])


def test_a_history_survives_its_file(tmp_path):
    history = CORRECT["one after another"] + WRONG["an acknowledged write lost after a restart"]
    write_history(tmp_path / "history", history)
    assert read_history(tmp_path / "history") == sorted(history, key=lambda one: one.begin)


def simulate(draw, clients, steps, values, unknown):
    """Returns a correct history of one register: each operation takes effect at a moment between
    its begin and its end. `values` returns the next new value. The share `unknown` of the
    operations has no answer, and half of the writes among them never happens."""
    value, history, seen = None, [], [None]
    for moment in range(steps):
        kind, known = draw.choice([READ, CAS, CAS]), draw.choice([value, value, seen[-1]])
        new = None if known is not None and draw.random() < 0.3 else values()
        begin, end = moment - draw.randrange(clients), moment + draw.randrange(clients)
        lost = draw.random() < unknown
        if kind == READ:
            history.append(Operation("k", 0, READ, begin, None if lost else end, found=value))
        elif lost:
            history.append(Operation("k", 0, CAS, begin, None, known, new))
            value = new if value == known and draw.random() < 0.5 else value
        elif value == known:
            history.append(Operation("k", 0, CAS, begin, end, known, new, True))
            value = new
        else:
            history.append(Operation("k", 0, CAS, begin, end, known, new, False, value))
        seen.append(value)
    return history


def damaged(draw, history):
    """Returns the history with one thing changed, which may make it wrong."""
    history = list(history)
    at = draw.randrange(len(history))
    one, other = history[at], draw.choice(history)
    fields = {name: getattr(one, name) for name in Operation.__slots__}
    what = draw.randrange(4)
    if what == 0 and one.end is not None and not one.writes:
        fields["found"] = draw.choice([other.new, other.found, other.expected])
    elif what == 1 and one.end is not None:
        fields["begin"], fields["end"] = other.begin, other.begin + draw.randrange(3)
    elif what == 2 and one.applied:
        fields["expected"] = draw.choice([other.new, other.found])
    elif one.applied:
        del history[at]
        return history
    history[at] = Operation(**fields)
    return history


def brute_force(history):
    """Returns True if an order of the answered and of some unknown operations explains the history.
    """
    answered = [one for one in history if one.end is not None]
    unknown = [one for one in history if one.end is None and one.kind == CAS]
    choices = itertools.chain.from_iterable(
        itertools.combinations(unknown, count) for count in range(len(unknown) + 1)
    )
    return any(
        explains(order)
        for chosen in choices
        for order in itertools.permutations([*answered, *chosen])
    )


def explains(order):
    value = None
    for at, one in enumerate(order):
        if any(later.last_moment < one.begin for later in order[at:]):
            return False
        if value != (one.expected if one.writes else one.found):
            return False
        value = one.new if one.writes else value
    return True


def verdict(checker, history):
    try:
        checker("k", history)
        return True
    except Violation:
        return False


def is_contradictory(history):
    return any(one.applied is False and one.found == one.expected for one in history)


@pytest.mark.parametrize("values", ["unique", "repeated"])
def test_the_checker_agrees_with_all_orders(values):
    """Short random histories, many of them damaged, against a trial of all orders."""
    draw, refusals, accepted = random.Random(f"{seed()} {values}"), 0, 0
    for _ in range(HISTORIES // 4):
        numbers = itertools.count(1)
        new = (lambda: next(numbers)) if values == "unique" else (lambda: draw.randint(1, 2))
        history = simulate(draw, draw.randint(2, 6), draw.randint(1, 6), new, unknown=0.3)
        assert verdict(check_register, history), history
        history = damaged(draw, history)
        if is_contradictory(history):
            continue
        wanted = brute_force(history)
        assert verdict(check_register, history) == wanted, history
        assert verdict(search, history) == wanted, history
        refusals, accepted = refusals + (not wanted), accepted + wanted
    assert min(refusals, accepted) > HISTORIES // 40


def test_both_checks_agree_on_longer_histories():
    draw, refusals = random.Random(seed()), 0
    for _ in range(HISTORIES // 4):
        numbers = itertools.count(1)
        history = simulate(
            draw, draw.randint(2, 8), draw.randint(10, 40), lambda: next(numbers), unknown=0.2
        )
        assert verdict(check_register, history), history
        history = damaged(draw, history)
        wanted = verdict(search, history)
        if has_unique_values(history) and not is_contradictory(history):
            assert verdict(check_register, history) == wanted, history
        refusals += not wanted
    assert refusals > HISTORIES // 40


@pytest.mark.parametrize(
    ("checker", "clients", "steps"), [(check_register, 64, 50_000), (search, 32, 20_000)]
)
def test_a_long_history_is_checked_fast(checker, clients, steps):
    """The check of one key of a long run, in which a hundred answers get lost, takes less than 2 s
    on an idle machine."""
    numbers = itertools.count(1)
    draw = random.Random(1)
    history = simulate(draw, clients, steps, lambda: next(numbers), unknown=100 / steps)
    began = time.monotonic()
    checker("k", history)
    assert time.monotonic() - began < 60
