"""Concurrent clients that read and conditionally write a few registers, and record what they see.

The registers lie in rows, in rows and the static column of one partition, and in pairs of rows that
only batches write. All values that the clients write are different. `linearizable` checks the
history.
"""
import itertools
import random
import struct
import threading
import time

from linearizable import CAS, READ, Operation
from wire import BATCH, ERROR, EXECUTE, SERIAL, Closed, Wire

KEYSPACE = "registers"
SCHEMA = (
    f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    # Compactions may purge a deletion at once; the value that it hides must not come back.
    f"CREATE TABLE {KEYSPACE}.rows (k int PRIMARY KEY, v bigint) WITH gc_grace_seconds = 0",
    f"CREATE TABLE {KEYSPACE}.cells (k int, c int, v bigint, s bigint static, PRIMARY KEY (k, c))",
    f"CREATE TABLE {KEYSPACE}.pairs (k int, c int, v bigint, PRIMARY KEY (k, c))",
)
# Errors after which the write may have happened: timeouts, overload, unavailable, failures, and an
# unknown outcome.
UNCERTAIN = {0x1000, 0x1001, 0x1100, 0x1200, 0x1300, 0x1500, 0x1700}


def bigint(number):
    return None if number is None else struct.pack(">q", number)


def number_of(data):
    return None if data is None else struct.unpack(">q", data)[0]


class Row:
    """A register in column v of one row, found by its whole primary key."""

    column = "v"

    def __init__(self, table, **key):
        self.key = f"{table} {key}"
        where = " AND ".join(f"{name} = {number}" for name, number in key.items())
        table = f"{KEYSPACE}.{table}"
        names, numbers = ", ".join(key), ", ".join(map(str, key.values()))
        self.texts = {
            "read": f"SELECT v FROM {table} WHERE {where}",
            "insert": f"INSERT INTO {table} ({names}, v) VALUES ({numbers}, ?) IF NOT EXISTS",
            "update": f"UPDATE {table} SET v = ? WHERE {where} IF v = ?",
            "delete": f"DELETE FROM {table} WHERE {where} IF v = ?",
        }

    def request(self, kind, expected, new):
        """Returns the statements of a request: pairs of a name in `texts` and values."""
        values = {"read": [], "insert": [new], "update": [new, expected], "delete": [expected]}
        return [(kind, values[kind])]

    def value(self, rows):
        """Returns the value that rows of an answer show."""
        return number_of(rows[0].get(self.column)) if rows else None


class Static(Row):
    """A register in a static column; a condition on null takes the place of IF NOT EXISTS."""

    column = "s"

    def __init__(self, table, **key):
        super().__init__(table, **key)
        self.key += " static"
        where = " AND ".join(f"{name} = {number}" for name, number in key.items())
        table = f"{KEYSPACE}.{table}"
        self.texts = {
            "read": f"SELECT DISTINCT k, s FROM {table} WHERE {where}",
            "update": f"UPDATE {table} SET s = ? WHERE {where} IF s = ?",
            "delete": f"DELETE s FROM {table} WHERE {where} IF s = ?",
        }

    def request(self, kind, expected, new):
        values = {"read": [], "update": [new, expected], "delete": [expected]}
        kind = "update" if kind == "insert" else kind
        return [(kind, values[kind])]


class Pair:
    """A register in two rows of a partition: a value n is n in the first row and -n in the second.
    Batches write both, with conditions on both or on one."""

    def __init__(self, table, k):
        self.key = f"{table} {k}"
        self.texts, table = {}, f"{KEYSPACE}.{table}"
        self.texts["read"] = f"SELECT v FROM {table} WHERE k = {k}"
        for c in (0, 1):
            where = f"WHERE k = {k} AND c = {c}"
            insert = f"INSERT INTO {table} (k, c, v) VALUES ({k}, {c}, ?)"
            self.texts[f"insert {c}"] = f"{insert} IF NOT EXISTS"
            self.texts[f"update {c}"] = f"UPDATE {table} SET v = ? {where} IF v = ?"
            self.texts[f"delete {c}"] = f"DELETE FROM {table} {where} IF v = ?"
        self.texts["insert too"] = insert
        self.texts["update too"] = f"UPDATE {table} SET v = ? {where}"
        self.texts["delete too"] = f"DELETE FROM {table} {where}"

    def request(self, kind, expected, new):
        if kind == "read":
            return [(kind, [])]
        negative = [None if number is None else -number for number in (new, expected)]
        values = {"insert": ([new], [negative[0]]), "update": ([new, expected], negative),
                  "delete": ([expected], [negative[1]])}[kind]
        if (new or expected) % 2:
            return [(f"{kind} 0", values[0]), (f"{kind} 1", values[1])]
        unconditional = [negative[0]] if kind != "delete" else []
        return [(f"{kind} too", unconditional), (f"{kind} 0", values[0])]

    def value(self, rows):
        """Returns the pair's value, or a text if its rows differ."""
        found = [number_of(row.get("v")) for row in rows]
        # Where only the first row has a condition, an answer shows that row alone.
        if len(found) == 2 and found[0] == -found[1]:
            return found[0]
        if len(found) < 2 and "[applied]" in (rows[0] if rows else {}):
            return found[0]
        return None if not found else f"torn: {found}"


REGISTERS = (
    Row("rows", k=1),
    Row("rows", k=2),
    Row("rows", k=3),
    Row("cells", k=10, c=1),
    Row("cells", k=10, c=2),
    Static("cells", k=10),
    Pair("pairs", 21),
    Pair("pairs", 22),
)


class Load:
    """The history of all clients, with what they share. `trouble` has unexpected errors. The
    connections go to `node` and `others` in turn."""

    def __init__(self, node, random_seed, connections=4, clients=64, others=()):
        self.node, self.history, self.trouble, self.stopping = node, [], [], threading.Event()
        self.values = itertools.count(1)
        # The last value that a client saw of each register; it may be old.
        self.latest = [None] * len(REGISTERS)
        self.connections = [
            Connection(self, index, clients // connections, random.Random(f"{random_seed} {index}"))
            for index in range(connections)
        ]
        for connection, of_connection in zip(self.connections, itertools.cycle([node, *others])):
            connection.node = of_connection

    def __enter__(self):
        for connection in self.connections:
            connection.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for connection in self.connections:
            connection.join()

    def read_all(self):
        """Reads all registers with a connection of its own and adds the reads to the history."""
        with Wire(self.node, 5) as wire:
            for register in REGISTERS:
                prepared = wire.prepare(register.texts["read"])
                begin = time.monotonic_ns()
                answer = wire.ask(EXECUTE, wire.execute_body(prepared, (), SERIAL))
                end, found = time.monotonic_ns(), register.value(answer.named_rows())
                self.history.append(Operation(register.key, -1, READ, begin, end, found=found))


class Connection(threading.Thread):
    """A connection with several clients, each with one request under way at a time."""

    def __init__(self, load, index, clients, draw):
        super().__init__(name=f"connection {index}")
        self.load, self.clients, self.draw, self.version = load, clients, draw, 4 + index % 2
        self.first_client, self.pending = index * clients, {}
        self.node = load.node

    def run(self):
        while not self.load.stopping.is_set() and not self.load.trouble:
            try:
                with Wire(self.node, self.version) as wire:
                    self._serve(wire)
            except (Closed, OSError):
                self._lose_pending()
                time.sleep(0.005)  # the node is down
            except Exception as error:
                self.load.trouble.append(repr(error))
                raise

    def _serve(self, wire):
        """Keeps one request of each client under way until the load stops."""
        texts = sorted({text for register in REGISTERS for text in register.texts.values()})
        prepared = {text: wire.prepare(text) for text in texts}
        for stream in range(self.clients):
            self._send(wire, prepared, stream)
        while self.pending:
            answer = wire.receive()
            self._finish(answer, time.monotonic_ns())
            if not self.load.stopping.is_set() and not self.load.trouble:
                self._send(wire, prepared, answer.stream)

    def _send(self, wire, prepared, stream):
        """Sends a request that suits the latest value of a random register."""
        index = self.draw.randrange(len(REGISTERS))
        register, expected = REGISTERS[index], self.load.latest[index]
        kinds = ["read"] * 3 + (["insert"] if expected is None else ["update"] * 4 + ["delete"])
        kind = self.draw.choice(kinds + ["insert"])
        new = next(self.load.values) if kind in ("insert", "update") else None
        expected = None if kind == "insert" else expected
        statements = [
            (prepared[register.texts[name]], tuple(map(bigint, values)))
            for name, values in register.request(kind, expected, new)
        ]
        if len(statements) > 1:
            opcode, body = BATCH, wire.batch_body(statements)
        else:
            consistency = {"consistency": SERIAL} if kind == "read" else {}
            opcode, body = EXECUTE, wire.execute_body(*statements[0], **consistency)
        envelope = wire.envelope(opcode, body, stream)
        begin = time.monotonic_ns()
        self.pending[stream] = index, kind, expected, new, begin
        wire.send(envelope)

    def _finish(self, answer, end):
        """Records the operation that the answer belongs to."""
        index, kind, expected, new, begin = self.pending.pop(answer.stream)
        register, client = REGISTERS[index], self.first_client + answer.stream
        if answer.opcode == ERROR:
            if answer.code not in UNCERTAIN:
                self.load.trouble.append(f"{register.key}, {kind}: {answer.message}")
            return self._record(register, client, kind, begin, None, expected, new)
        rows = answer.named_rows()
        if kind == "read":
            found = register.value(rows)
            self._record(register, client, kind, begin, end, found=found)
        elif rows[0]["[applied]"] == b"\1":
            found = new
            self._record(register, client, kind, begin, end, expected, new, True)
        else:
            found = register.value(rows)
            self._record(register, client, kind, begin, end, expected, new, False, found)
        if not isinstance(found, str):  # the check reports a torn pair
            self.load.latest[index] = found

    def _record(self, register, client, kind, begin, end, *outcome, **found):
        kind = READ if kind == "read" else CAS
        operation = Operation(register.key, client, kind, begin, end, *outcome, **found)
        self.load.history.append(operation)

    def _lose_pending(self):
        """Records the requests whose answers are lost with the connection."""
        for stream, (index, kind, expected, new, begin) in self.pending.items():
            client = self.first_client + stream
            self._record(REGISTERS[index], client, kind, begin, None, expected, new)
        self.pending.clear()
