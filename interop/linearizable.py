"""Checks that the histories of registers are linearizable.

A register is one key. It holds a value, or None where its row is absent. All operations are reads
and compare-and-sets: INSERT IF NOT EXISTS expects None, DELETE IF writes None. An operation whose
answer got lost may have happened at any time after its begin, or never.

1. The registers are independent, so each key is checked by itself (P-compositionality, Herlihy and
   Wing).
2. If no two operations write equal values, each value occurs once. `_UniqueValues` then derives the
   order of the writes from the values and checks it against the clock, in O(n log n).
3. Otherwise `search` looks for an order: Wing and Gong's search, with Lowe's memory of visited
   configurations. Its time may grow exponentially with the operations that are under way at once.

`python3 linearizable.py FILE` checks a history that `write_history` has written.
"""
import dataclasses
import json
import math
import sys
from collections import defaultdict

READ, CAS = "read", "cas"
MAX_CONFIGURATIONS = 2_000_000  # arbitrary; about 1 GiB of memory


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a client: `begin` precedes its request, `end` follows its answer, both in
    ns. Without an answer, `end` and `applied` are None. `found` is the value that the answer shows:
    of a read its result, of a compare-and-set that was refused the value that it met."""

    key: object
    client: int
    kind: str
    begin: int
    end: int | None
    expected: object = None
    new: object = None
    applied: bool | None = None
    found: object = None

    @property
    def last_moment(self):
        """Returns `end`, infinity without an answer."""
        return math.inf if self.end is None else self.end

    @property
    def writes(self):
        """Returns True if the operation changed the value, or may have done so."""
        return self.kind == CAS and self.applied is not False

    def __str__(self):
        at = f"{self.begin / 1e6:.3f}…{self.last_moment / 1e6:.3f} ms, client {self.client}"
        if self.kind == READ:
            return f"[{at}: read {self.found}]"
        answer = "unknown" if self.end is None else "applied"
        answer = f"refused, met {self.found}" if self.applied is False else answer
        return f"[{at}: {self.expected} -> {self.new}, {answer}]"


class Violation(Exception):
    """No order of the operations explains a history; `operations` are those that prove it."""

    def __init__(self, key, reason, operations):
        self.key, self.reason, self.operations = key, reason, list(operations)
        super().__init__(f"key {key}: {reason}: " + " ".join(map(str, self.operations)))


class Undecided(Exception):
    """The search visited MAX_CONFIGURATIONS without a result."""


def check(operations, initial=None):
    """Raises Violation for the first key whose history is not linearizable, or Undecided if the
    search ends without a result. `initial` is the value of all registers before the history."""
    by_key = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    for key in sorted(by_key, key=repr):
        check_register(key, by_key[key], initial)


def check_register(key, operations, initial=None):
    """Raises Violation unless the history of one key is linearizable, or Undecided if the search
    ends without a result."""
    _refuse_contradictions(key, operations)
    if initial is not None:
        before = min((one.begin for one in operations), default=0) - 1
        operations = [Operation(key, -1, CAS, before, before, None, initial, True), *operations]
    if has_unique_values(operations):
        _UniqueValues(key, operations).check()
    else:
        search(key, operations)


def has_unique_values(operations):
    """Returns True if each value but None is written at most once, and None only over a value."""
    writes = [one for one in operations if one.writes]
    written = [one.new for one in writes if one.new is not None]
    changes = all(one.expected is not None or one.new is not None for one in writes)
    return changes and len(written) == len(set(written))


def _refuse_contradictions(key, operations):
    """Raises Violation for an answer that is wrong whatever the other operations are."""
    for one in operations:
        if one.kind == CAS and one.applied is False and one.found == one.expected:
            raise Violation(key, "refused although the condition held", [one])


@dataclasses.dataclass(slots=True)
class _Unit:
    """Operations between two moments at which the register is absent. No other operation can take
    effect among them.

    The unit's last operation takes effect after `begin`, its first one before `end`; `latest_begin`
    and `earliest_end` are the operations that prove this. A unit is final if no operation may make
    the register absent at its end."""

    latest_begin: Operation
    earliest_end: Operation
    is_final: bool = False
    closing: float = -math.inf  # an operation of unknown outcome may end the unit from this moment

    @property
    def begin(self):
        return max(self.latest_begin.begin, self.closing)

    @property
    def end(self):
        return self.earliest_end.last_moment


class _UniqueValues:
    """Check of one register in which each value is written at most once.

    A value is then created once and replaced at most once, and all operations that found it lie
    between. The values that follow one another from an insertion on, until a deletion or the end,
    are a chain, whose order is known. Chains and single operations that found no row are units,
    which do not interleave. Two units contradict each other if each has an operation that ended
    before an operation of the other unit began. Without such a pair an order of all units exists
    (Gibbons and Korach, Testing Shared Memories, 1997)."""

    def __init__(self, key, operations):
        self.key = key
        self.operations = sorted(operations, key=lambda one: one.begin)
        self.observers = defaultdict(list)
        for one in self.operations:
            if one.end is not None and not one.writes:
                self.observers[one.found].append(one)
        self.writes = [one for one in self.operations if one.writes]
        self.creators = {one.new: one for one in self.writes if one.new is not None}

    def check(self):
        self._find_applied()
        self._find_successors()
        units = [self._unit(values) for values in self._chains()]
        units += [_Unit(one, one) for one in self.observers[None]]
        self._check_order(units)

    def _find_applied(self):
        """Sets `applied`: the writes that must have happened. A write of unknown outcome is among
        them if an operation found its value, or if a write among them replaced its value."""
        self.applied = {id(one) for one in self.writes if one.end is not None}
        proofs = [(one.found, one) for found in self.observers.values() for one in found]
        proofs += [(one.expected, one) for one in self.writes if one.end is not None]
        while proofs:
            value, proof = proofs.pop()
            if value is None:
                continue
            creator = self.creators.get(value)
            if creator is None:
                raise Violation(self.key, f"no operation wrote {value}", [proof])
            if id(creator) not in self.applied:
                self.applied.add(id(creator))
                proofs.append((creator.expected, creator))

    def _find_successors(self):
        """Sets `successors`, the write that replaced each value, and `unproven`, the writes outside
        `applied`, by the value that they expect."""
        self.successors, self.unproven = {}, defaultdict(list)
        for one in self.writes:
            if id(one) not in self.applied:
                self.unproven[one.expected].append(one)
            elif one.expected is not None:
                other = self.successors.setdefault(one.expected, one)
                if other is not one:
                    raise Violation(self.key, "two writes replaced one value", [other, one])

    def _chains(self):
        """Returns the chains, each as the list of its values."""
        applied = [one for one in self.writes if id(one) in self.applied]
        firsts = [one.new for one in applied if one.expected is None]
        chains, reached = [], 0
        for value in firsts:
            chain = [value]
            while (leaving := self.successors.get(chain[-1])) and leaving.new is not None:
                chain.append(leaving.new)
            chains.append(chain)
            reached += len(chain) + (leaving is not None)
        if reached < len(self.applied):
            inside = {value for chain in chains for value in chain}
            rest = [one for value, one in self.successors.items() if value not in inside]
            raise Violation(self.key, "no insertion leads to these writes", rest[:9])
        return chains

    def _unit(self, values):
        """Returns the unit of a chain; raises Violation if its order contradicts the clock."""
        groups = []
        for value in values:
            groups += [[self.creators[value]]]
            groups += [self.observers[value]] if self.observers[value] else []
        leaving = self.successors.get(values[-1])
        groups += [[leaving]] if leaving else []
        first = None
        for group in reversed(groups):
            latest = max(group, key=lambda one: one.begin)
            if first and first.last_moment < latest.begin:
                raise Violation(self.key, "the later value was found earlier", [first, latest])
            first = min(group + [first] if first else group, key=lambda one: one.last_moment)
        latest = max((one for group in groups for one in group), key=lambda one: one.begin)
        if leaving:
            return _Unit(latest, first)
        closing = self._closing(values[-1])
        if closing is None:
            return _Unit(latest, first, is_final=True)
        return _Unit(latest, first, closing=closing)

    def _closing(self, value):
        """Returns the moment from which on writes of unknown outcome may have led from the value to
        None; returns None if they cannot."""
        moments = []
        for one in self.unproven[value]:
            after = one.begin if one.new is None else self._closing(one.new)
            moments += [max(one.begin, after)] if after is not None else []
        return min(moments, default=None)

    def _check_order(self, units):
        """Raises Violation unless the units can follow one another."""
        final = [unit for unit in units if unit.is_final]
        if len(final) > 1:
            reason = "two values were written, and no operation replaced either"
            raise Violation(self.key, reason, [unit.latest_begin for unit in final])
        forward = None
        for unit in sorted(units, key=lambda unit: unit.end):
            if final and unit is not final[0] and final[0].end < unit.begin:
                reason = "an operation follows the value that no operation replaced"
                raise Violation(self.key, reason, [final[0].earliest_end, unit.latest_begin])
            # The earlier units whose begin is after their end do not overlap one another, so a
            # comparison with the last of them is enough.
            if forward and forward.begin > unit.end and unit.begin > forward.end:
                pair = [forward.earliest_end, forward.latest_begin]
                pair += [unit.earliest_end, unit.latest_begin]
                raise Violation(self.key, "two chains of values overlap", pair)
            if unit.begin > unit.end:
                forward = unit


def search(key, operations):
    """Raises Violation unless an order of the operations exists; finds the order by trial. Raises
    Undecided after MAX_CONFIGURATIONS.

    A configuration is the value of the register and the operations that have taken effect. The
    answered ones are ordered by begin: all before `low` have taken effect, and the bits of `mask`
    mark those from `low` on. An operation that changes nothing takes effect as soon as the value is
    the one that it found, because it hinders no other operation."""
    ordered = sorted(operations, key=lambda one: one.begin)
    answered = [one for one in ordered if one.end is not None]
    unknown = [one for one in ordered if one.end is None and one.kind == CAS]
    start = (0, 0, 0, None)
    stack, visited, furthest = [start], {start}, (-1, [])
    while stack:
        low, mask, used, value = stack.pop()
        if low == len(answered):
            return
        candidates, horizon = _candidates(answered, low, mask)
        if low + mask.bit_count() > furthest[0]:
            furthest = (low + mask.bit_count(), [answered[index] for index in candidates])
        for following in _following(answered, unknown, candidates, horizon, used, value):
            index, used_next, value_next = following
            next_low, next_mask = low, mask
            if index is not None:
                next_mask |= 1 << index - low
                while next_mask & 1:
                    next_low, next_mask = next_low + 1, next_mask >> 1
            configuration = (next_low, next_mask, used_next, value_next)
            if configuration not in visited:
                visited.add(configuration)
                stack.append(configuration)
        if len(visited) > MAX_CONFIGURATIONS:
            raise Undecided(f"key {key}: {len(visited)} configurations without a result")
    raise Violation(key, "no order explains the answers; the search ended before", furthest[1])


def _candidates(answered, low, mask):
    """Returns the indices of the operations that may take effect next, and the earliest end of the
    operations that have not taken effect."""
    horizon, begun = math.inf, []
    for index in range(low, len(answered)):
        if answered[index].begin > horizon:
            break
        if not mask >> index - low & 1:
            begun.append(index)
            horizon = min(horizon, answered[index].end)
    return begun, horizon


def _following(answered, unknown, candidates, horizon, used, value):
    """Returns (index in `answered` or None, used operations of `unknown`, value) for each operation
    that may take effect in this configuration. The search tries the last one first, so the last one
    is the answered operation with the earliest end, if any fits."""
    following = []
    for index in sorted(candidates, key=lambda index: -answered[index].end):
        one = answered[index]
        if not one.writes and one.found == value:
            return [(index, used, value)]
        if one.writes and one.expected == value:
            following.append((index, used, one.new))
    lost = []
    for bit, one in enumerate(unknown):
        if one.begin > horizon:
            break
        if not used >> bit & 1 and one.expected == value:
            lost.append((None, used | 1 << bit, one.new))
    return lost + following


def write_history(path, operations):
    """Writes operations to a file, one JSON object a line, ordered by begin."""
    with open(path, "w") as file:
        for one in sorted(operations, key=lambda one: one.begin):
            file.write(json.dumps(dataclasses.asdict(one)) + "\n")


def read_history(path):
    """Returns the operations that `write_history` has written; keys and values must be numbers or
    strings."""
    with open(path) as file:
        return [Operation(**json.loads(line)) for line in file]


if __name__ == "__main__":
    HISTORY = read_history(sys.argv[1])
    try:
        check(HISTORY)
    except Violation as violation:
        sys.exit(str(violation))
    print(f"linearizable: {len(HISTORY)} operations")
