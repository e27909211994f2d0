"""Turns the output of `oracle dump --live` into the rows of a SELECT: values as protocol bytes."""
import json
import struct
from dataclasses import dataclass, field


@dataclass
class Table:
    """The columns of a table by role; for columns of many cells also the kind: list, set, map, or
    the number of fields of a UDT."""

    partition_key: list
    clustering: list
    static: list
    regular: list
    cells: dict = field(default_factory=dict)

    @property
    def columns(self):
        """Returns all columns, in the order in which `Shape.select` names them."""
        return [*self.partition_key, *self.clustering, *self.static, *self.regular]


def _value(data):
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _assembled(kind, cells):
    """Returns the value of a column of many cells, in the protocol's serialisation."""
    if isinstance(kind, int):
        fields = [None] * kind
        for path, value in cells:
            fields[int.from_bytes(path, "big")] = value
        return b"".join(map(_value, fields))
    parts = {"list": lambda path, value: _value(value), "set": lambda path, value: _value(path),
             "map": lambda path, value: _value(path) + _value(value)}[kind]
    return struct.pack(">i", len(cells)) + b"".join(parts(path, value) for path, value in cells)


def _columns(table, names, cells):
    """Returns one value for each name, None if the column has no cell."""
    values = {}
    for cell in cells:
        name, value = cell["n"], bytes.fromhex(cell.get("v", ""))
        if name in table.cells:
            values.setdefault(name, []).append((bytes.fromhex(cell["p"]), value))
        else:
            values[name] = value
    return [
        (
            _assembled(table.cells[name], values[name])
            if name in table.cells and name in values
            else values.get(name)
        )
        for name in names
    ]


def _key(table, key):
    if len(table.partition_key) == 1:
        return [key]
    parts = []
    while key:
        (length,) = struct.unpack_from(">H", key)
        parts.append(key[2:2 + length])
        assert key[2 + length] == 0
        key = key[3 + length:]
    return parts


def rows(table, lines):
    """Returns the rows of the lines of `dump --live NOW --full`, in their order; each is a list of
    bytes or None."""
    key, static, pending = None, None, False
    no_rows = [None] * (len(table.clustering) + len(table.regular))

    def lone_static():
        # A partition with only static values is one row.
        split = len(table.clustering)
        return [*key, *no_rows[:split], *static, *no_rows[split:]]

    for line in lines:
        entry = json.loads(line)
        kind = entry["kind"]
        if kind == "partition":
            if pending:
                yield lone_static()
            key, static, pending = (
                _key(table, bytes.fromhex(entry["key"])),
                [None] * len(table.static),
                False,
            )
        elif kind == "static":
            static, pending = _columns(table, table.static, entry["cells"]), True
        elif kind == "row":
            pending = False
            clustering = [None if value is None else bytes.fromhex(value) for value in entry["ck"]]
            yield [*key, *clustering, *static, *_columns(table, table.regular, entry["cells"])]
        else:
            raise AssertionError(f"--live leaves no {kind}")
    if pending:
        yield lone_static()
