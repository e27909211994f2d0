"""Prepares the statements of testdata/cql/prepared_metadata.txt on a node and records the answers.

    python prepared_metadata.py PORT            records the answers of the Cassandra node on PORT
    python prepared_metadata.py PORT OTHER      compares two nodes, in protocol versions 4 and 5

The file begins with comments and `SETUP` lines. Each other line that is not indented is a
statement. The indented lines after it are the answer: `bind [KEYSPACE.TABLE] NAME TYPE`, `key
INDEX...` and `result [KEYSPACE.TABLE] NAME TYPE`, or `error CODE`.
"""
import pathlib
import struct
import sys
from types import SimpleNamespace

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import wire  # noqa: E402

FILE = HERE.parent.parent / "testdata/cql/prepared_metadata.txt"
SIMPLE = {
    1: "ascii",
    2: "bigint",
    3: "blob",
    4: "boolean",
    5: "counter",
    6: "decimal",
    7: "double",
    8: "float",
    9: "int",
    0xB: "timestamp",
    0xC: "uuid",
    0xD: "text",
    0xE: "varint",
    0xF: "timeuuid",
    0x10: "inet",
    0x11: "date",
    0x12: "time",
    0x13: "smallint",
    0x14: "tinyint",
    0x15: "duration",
}


class Reader:
    """Reads the parts of a response's body in order."""

    def __init__(self, body):
        self.body, self.at = body, 0

    def number(self, form):
        (number,) = struct.unpack_from(">" + form, self.body, self.at)
        self.at += struct.calcsize(">" + form)
        return number

    def string(self):
        length = self.number("H")
        self.at += length
        return self.body[self.at - length:self.at].decode()

    def type(self):
        """Returns the name of an [option]."""
        kind = self.number("H")
        if kind == 0:
            return "'" + self.string().replace(" ", "") + "'"
        if kind in (0x20, 0x22):
            return ("list" if kind == 0x20 else "set") + f"<{self.type()}>"
        if kind == 0x21:
            return f"map<{self.type()}, {self.type()}>"
        if kind == 0x30:
            _, name = self.string(), self.string()
            for _ in range(self.number("H")):
                self.string()
                self.type()
            return name
        if kind == 0x31:
            return "tuple<" + ", ".join(self.type() for _ in range(self.number("H"))) + ">"
        return SIMPLE[kind]

    def columns(self, keyed):
        """Returns the columns of a metadata, and the indices of the partition key's markers."""
        flags, count = self.number("i"), self.number("i")
        key = [self.number("H") for _ in range(self.number("i"))] if keyed else []
        if flags & 4:
            return [], key
        place = f"{self.string()}.{self.string()}" if flags & 1 else None
        lines = []
        for _ in range(count):
            own = place or f"{self.string()}.{self.string()}"
            lines.append(f"[{own}] {self.string()} {self.type()}")
        return lines, key


def prepared(connection, text):
    """Prepares a statement; returns the lines of the answer, and the message of an error."""
    body = wire.long_string(text) + (struct.pack(">I", 0) if connection.version >= 5 else b"")
    answer = connection.ask(wire.PREPARE, body)
    if answer.opcode == wire.ERROR:
        return [f"error {answer.code:04x}"], answer.message
    reader = Reader(answer.body)
    reader.at = 4
    for _ in range(2 if connection.version >= 5 else 1):
        length = reader.number("H")
        reader.at += length
    bound, key = reader.columns(True)
    results, _ = reader.columns(False)
    lines = [f"bind {line}" for line in bound] + ([f"key {' '.join(map(str, key))}"] if key else [])
    return lines + [f"result {line}" for line in results], ""


def connect(port, version, setup):
    """Opens a connection to a node, and creates the schema there."""
    connection = wire.Wire(SimpleNamespace(host="127.0.0.1", port=port), version)
    for statement in setup:
        answer = connection.query(statement)
        if answer.opcode == wire.ERROR and answer.code != 0x2400:
            sys.exit(f"{statement}: {answer.message}")
    return connection


def main():
    lines = FILE.read_text().splitlines()
    setup = [line[6:] for line in lines if line.startswith("SETUP ")]
    statements = [
        line for line in lines if line and line[0] not in " #" and not line.startswith("SETUP ")
    ]
    ports = [int(port) for port in sys.argv[1:]]
    if len(ports) == 1:
        connection = connect(ports[0], 5, setup)
        head = [line for line in lines if line.startswith(("#", "SETUP "))]
        blocks = ["\n".join(head)]
        for statement in statements:
            answer, message = prepared(connection, statement)
            print(statement, message, sep=": ") if message else None
            blocks.append("\n".join([statement] + ["  " + line for line in answer]))
        FILE.write_text("\n\n".join(blocks) + "\n")
        return
    different = 0
    for version in (4, 5):
        one, other = (connect(port, version, setup) for port in ports)
        for statement in statements:
            (expected, why), (found, reason) = prepared(one, statement), prepared(other, statement)
            if expected != found:
                different += 1
                print(f"v{version} {statement}\n  {expected} {why}\n  {found} {reason}")
    print(different, "differences")


if __name__ == "__main__":
    main()
