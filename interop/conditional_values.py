"""Types and values for the differential test of conditional statements.

Each value is known as a literal and in the protocol's bytes. A type has few values, in its own
order, so that conditions on random values hold often.
"""
import struct
import uuid
from dataclasses import dataclass, field

UNSET = "unset"
# An empty value is refused for some types and is a value of its own for others.
EMPTY = b""


@dataclass(frozen=True)
class Value:
    """One value: its literal, its bytes (None for null), and its JSON if the tests use that."""

    literal: str
    data: bytes | None
    json: str | None = None


NULL = Value("null", None, "null")


def _framed(data):
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _numbers(form):
    return [Value(str(n), struct.pack(form, n), str(n)) for n in (-1, 0, 1, 2)]


def _floats(form):
    values = {"-1.5": -1.5, "-0.0": -0.0, "0.0": 0.0, "1.5": 1.5}
    pool = [Value(text, struct.pack(form, number)) for text, number in values.items()]
    return [*pool, Value("NaN", struct.pack(form, float("nan")))]


def _decimal(text, scale, digits):
    return Value(text, struct.pack(">i", scale) + struct.pack(">b", digits))


def _texts(*texts):
    return [Value(f"'{text}'", text.encode(), f'"{text}"') for text in texts]


def _uuids(version):
    # `n` is in the last part and in the first, the time of a time UUID, so both kinds are in order.
    ids = [uuid.UUID(f"0000000{n}-0000-{version}000-8000-00000000000{n}") for n in (1, 2, 3)]
    return [Value(str(id), id.bytes) for id in ids]


POOLS = {
    "int": _numbers(">i"),
    "bigint": _numbers(">q"),
    "smallint": _numbers(">h"),
    "tinyint": _numbers(">b"),
    "varint": _numbers(">b"),
    "text": _texts("", "a", "b", "é"),
    "ascii": _texts("", "a", "b"),
    "blob": [Value("0x" + hex, bytes.fromhex(hex)) for hex in ("", "00", "01", "ff")],
    "boolean": [Value("false", b"\0", "false"), Value("true", b"\1", "true")],
    "decimal": [_decimal("-1.5", 1, -15), _decimal("0", 0, 0), _decimal("1.0", 1, 10)],
    "double": _floats(">d"),
    "float": _floats(">f"),
    "timestamp": [Value(str(n), struct.pack(">q", n)) for n in (-1000, 0, 1000)],
    "uuid": _uuids(4),
    "timeuuid": _uuids(1),
    "date": [Value(f"'1970-01-0{n + 1}'", struct.pack(">I", 2**31 + n)) for n in (0, 1, 2)],
    "time": [Value(f"'00:00:00.00000000{n}'", struct.pack(">q", n)) for n in (0, 1, 2)],
    "inet": [Value("'::1'", b"\0" * 15 + b"\1"), Value("'127.0.0.1'", b"\x7f\0\0\1")],
    "duration": [Value("1d", b"\0\2\0"), Value("2d", b"\0\4\0"), Value("1mo", b"\2\0\0")],
}
# Values that equal one of the pool and have other bytes; keys do not use them.
TWINS = {"decimal": [_decimal("1.00", 2, 100), _decimal("0.0", 1, 0)]}
KEYS = [name for name in POOLS if name != "duration"]


@dataclass
class Type:
    """A type. Its `kind` is scalar, list, set, map, tuple or udt; `parts` are the types inside."""

    name: str
    kind: str = "scalar"
    parts: list = field(default_factory=list)
    names: list = field(default_factory=list)
    is_frozen: bool = True

    @property
    def is_multi_cell(self):
        return not self.is_frozen

    def draw(self, chance, may_be_empty=True):
        """Draws a value that is not null."""
        if self.kind == "scalar":
            return chance.choice([*POOLS[self.name], *TWINS.get(self.name, [])])
        if self.kind in ("tuple", "udt"):
            return self._draw_fields(chance)
        least = 0 if may_be_empty and chance.random() < 0.15 else 1
        pool = POOLS[self.parts[0].name]
        count = least and chance.randint(1, min(3, len(pool)))
        if self.kind == "list":
            items = [chance.choice(pool) for _ in range(count)]
            return self.make([[item] for item in items])
        keys = sorted(chance.sample(range(len(pool)), count))
        if self.kind == "set":
            return self.make([[pool[key]] for key in keys])
        return self.make([[pool[key], chance.choice(POOLS[self.parts[1].name])] for key in keys])

    def make(self, items):
        """Returns the collection of these elements, which are in order."""
        count = struct.pack(">i", len(items))
        data = count + b"".join(_framed(value.data) for item in items for value in item)
        left, right = "[]" if self.kind == "list" else "{}"
        literals = [": ".join(value.literal for value in item) for item in items]
        json = None
        if all(value.json for item in items for value in item):
            quoted = [": ".join(_key(value.json, at) for at, value in enumerate(item))
                      if self.kind == "map" else item[0].json for item in items]
            json = ("{%s}" if self.kind == "map" else "[%s]") % ", ".join(quoted)
        return Value(left + ", ".join(literals) + right, data, json)

    def _draw_fields(self, chance):
        fields = [NULL if chance.random() < 0.2 else part.draw(chance) for part in self.parts]
        # A value may end before its last fields.
        if self.kind == "udt" and chance.random() < 0.1:
            fields = fields[:-1]
        data = b"".join(_framed(value.data) for value in fields)
        if self.kind == "tuple":
            return Value("(" + ", ".join(value.literal for value in fields) + ")", data)
        pairs = [f"{name}: {value.literal}" for name, value in zip(self.names, fields)]
        return Value("{" + ", ".join(pairs) + "}", data)


def _key(json, at):
    return json if at or json.startswith('"') else f'"{json}"'


def scalar(name):
    return Type(name)


def collection(kind, parts, is_frozen):
    name = f"{kind}<{', '.join(part.name for part in parts)}>"
    return Type(f"frozen<{name}>" if is_frozen else name, kind, parts, is_frozen=is_frozen)


def user_type(keyspace, is_frozen):
    """Returns the type that `USER_TYPE` creates."""
    parts = [scalar("int"), scalar("text"), collection("list", [scalar("int")], True)]
    name = f"{keyspace}.u"
    return Type(f"frozen<{name}>" if is_frozen else name, "udt", parts, list("abc"), is_frozen)


USER_TYPE = "CREATE TYPE {}.u (a int, b text, c frozen<list<int>>)"


def draw_type(chance, keyspace):
    """Draws the type of a column that is no key."""
    if chance.random() < 0.45:
        return scalar(chance.choice([*POOLS, "int", "text", "int"]))
    is_frozen = chance.random() < 0.35
    kind = chance.choice(["list", "list", "set", "map", "map", "udt", "tuple"])
    if kind == "udt":
        return user_type(keyspace, is_frozen)
    if kind == "tuple":
        parts = [scalar(chance.choice(KEYS)), scalar("int")]
        return Type(f"tuple<{parts[0].name}, int>", "tuple", parts)
    first = scalar(chance.choice(KEYS if chance.random() < 0.4 else ["int", "text"]))
    second = scalar(chance.choice([*POOLS] if chance.random() < 0.4 else ["int", "text"]))
    return collection(kind, [first, second] if kind == "map" else [first], is_frozen)
