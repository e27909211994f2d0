"""Random conditional statements, side by side on Cassandra and on our node.

Both nodes get the same requests in the same order, on tables with random columns and few keys. All
answers must have the same bytes: the metadata of prepared statements, the rows and their types,
`[applied]`, and the codes and texts of errors. After every 60 requests and at the end, the content
of the table must be the same. A failure shows the seed, the table, and the requests in their order.

Successive requests are on different partitions, because Cassandra orders list elements by a clock
of milliseconds that plain and conditional statements do not share.
"""
import collections
import random
import re
import struct

import pytest

from answers import Reader, rows
from conditional_requests import COUNTERS, OTHER, Requests
from conditional_statements import Table
from conditional_values import UNSET, USER_TYPE
from gate import FIRST_SEED, part
from wire import (
    BATCH,
    ERROR,
    EXECUTE,
    INVALID,
    NO_METADATA,
    PREPARE,
    PREPARED,
    QUERY,
    RESULT,
    ROWS,
    SERVER_ERROR,
    SKIP_METADATA,
    Wire,
    long_string,
    string,
    value,
)

TABLES = part(100, 3)
STATEMENTS = part(1000, 200)
CHECK_EVERY = 60
MAX_SHOWN = 12
VALUES, SERIAL_CONSISTENCY, TIMESTAMP = 0x01, 0x10, 0x20
# Texts that differ on purpose: patterns of Cassandra's text and of ours.
KNOWN_TEXTS = [
    (
        r"(Not enough bytes|Unexpected extraneous bytes|Expected |The data cannot be deserialized|"
        r"String didn't validate|UUID should be|The duration months).*",
        r"Invalid value for .*",
    ),
    (
        r"Invalid amount of bind variables",
        r"Invalid amount of bind variables: expected \d+, got \d+",
    ),
    (r"Unknown function (\w+) called", r"Unknown function '\w+'"),
    (r"Unexpected receiver type .*; only list .* expected", r"Invalid list literal for .*"),
    (r"Invalid tuple type literal for .*", r"Invalid tuple literal for .*"),
    # For a user type, Cassandra compares the components, and has an internal error if they fit.
    (r"Invalid tuple literal for .*", r"Invalid tuple type literal for .*"),
    (r"Invalid tuple literal for .*: component .*", r"Invalid tuple literal for .* of type .*"),
    (r"Unable to (parse|make|coerce) .*", r"Invalid \w+ constant .*"),
    (r"Invalid (\w+) literal for .* is not of type .*", r"Invalid \w+ constant .* of type .*"),
]
# Our texts name the place of the fault, where it has one.
PLACE = re.compile(r"^line \d+:\d+ | \(line \d+:\d+\)$")


def bound(data):
    return struct.pack(">i", -2) if data == UNSET else value(data)


def options(version, statement, values):
    """Returns the consistency, the flags, and the fields that the flags announce."""
    flags, rest = 0, b""
    if values:
        flags |= VALUES
        rest += struct.pack(">H", len(values)) + b"".join(map(bound, values))
    if statement.skips_metadata:
        flags |= SKIP_METADATA
    if statement.serial is not None:
        flags |= SERIAL_CONSISTENCY
        rest += struct.pack(">H", statement.serial)
    if statement.timestamp is not None:
        flags |= TIMESTAMP
        rest += struct.pack(">q", statement.timestamp)
    form = ">HI" if version >= 5 else ">HB"
    return struct.pack(form, statement.consistency, flags) + rest


class Client:
    """A connection to one node that sends drawn statements."""

    def __init__(self, node, version):
        self.wire = Wire(node, version, timeout_s=60)
        self.version = version

    def prepare(self, text):
        flags = struct.pack(">I", 0) if self.version >= 5 else b""
        return self.wire.ask(PREPARE, long_string(text) + flags)

    def send(self, statement):
        """Returns all answers to a statement: those to PREPARE, then the one to its execution."""
        answers = []
        if statement.is_prepared:
            answers = [self.prepare(part.text) for part in statement.parts]
            if any(answer.opcode == ERROR for answer in answers):
                return answers
        if statement.batch is not None:
            return [*answers, self.wire.ask(BATCH, self.batch(statement, answers))]
        values = statement.parts[0].values
        if not statement.is_prepared:
            body = long_string(statement.parts[0].text)
            return [self.wire.ask(QUERY, body + options(self.version, statement, values))]
        name, result = answers[0].prepared_id
        body = string(name) + (string(result) if self.version >= 5 else b"")
        body += options(self.version, statement, values)
        return [*answers, self.wire.ask(EXECUTE, body)]

    def batch(self, statement, prepared):
        body = struct.pack(">BH", statement.batch, len(statement.parts))
        for at, part in enumerate(statement.parts):
            name = b"\1" + string(prepared[at].prepared_id[0]) if prepared else (
                b"\0" + long_string(part.text)
            )
            body += name + struct.pack(">H", len(part.values)) + b"".join(map(bound, part.values))
        return body + options(self.version, statement, [])

    def content(self, table, where=""):
        """Returns the rows of the table or of a partition as text, with rounded TTLs."""
        found = self.wire.query(f"SELECT * FROM {table.name}{where}")
        timed = [column.name for column in table.columns if column.type.is_frozen]
        if not timed:
            return shown(found)
        names = ", ".join(f"ttl({name})" for name in timed)
        ttls = self.wire.query(f"SELECT {names} FROM {table.name}{where}")
        # Time passes between the nodes' answers; TTLs differ by more.
        rounded = [[cell and round(int.from_bytes(cell, "big"), -7) for cell in row]
                   for row in ttls.rows()]
        return f"{shown(found)}\n    ttl of {', '.join(timed)}: {rounded}"


def shown(answer):
    """Returns an answer as text."""
    if answer.opcode == ERROR:
        return f"error {answer.code:04x}: {answer.message}"
    if answer.opcode == RESULT and answer.kind == ROWS:
        reader = Reader(answer.body[4:])
        return "\n    ".join(rows(reader)) + f"\n    {answer.body[:16].hex()}"
    return f"opcode {answer.opcode}: {answer.body!r}"


def comparable(answer):
    """Returns the body without the parts that mean nothing to a client."""
    body = answer.body
    if answer.opcode != RESULT:
        return body
    if answer.kind == PREPARED:
        # The second id is of the result's metadata; each node makes an id of its own.
        name, result = answer.prepared_id
        has_result_id = body[6 + len(name):].startswith(b"\0\x10" + result)
        return name + body[6 + len(name) + (2 + len(result)) * has_result_id:]
    if answer.kind == ROWS and body[7] & NO_METADATA:
        # Without metadata, the flag that all columns are of one table has no meaning.
        return body[:7] + bytes([body[7] & ~1]) + body[8:]
    return body


def result_of(answer):
    """Returns the kind of an answer: error, done, rows, applied or not applied."""
    if answer.opcode == ERROR:
        return "error"
    if answer.kind != ROWS:
        return "done"
    _, columns = struct.unpack_from(">ii", answer.body, 4)
    if b"[applied]" not in answer.body:
        return "rows"
    return "applied" if columns == 1 and answer.body.endswith(b"\0\0\0\1\1") else "not applied"


def nameless(text):
    """Returns an answer's text without names of columns and tables."""
    return re.sub(r"\b[kcsv]\d\b", "COLUMN", re.sub(r"\bt\d+\b", "TABLE", text))


def difference(theirs, ours, is_batch):
    """Returns the kind of difference between two answers; None if there is none."""
    if theirs.code == SERVER_ERROR:
        # Cassandra fails inside; any answer that writes nothing will do.
        return None if result_of(ours) in ("error", "not applied") else "result"
    if result_of(theirs) in ("not applied", "rows") and result_of(ours) == "error":
        # Cassandra checks a value only when it writes the value; our node checks each bound value.
        return None if ours.message.startswith("Invalid value for ") else "result"
    if theirs.opcode != ERROR or ours.opcode != ERROR:
        same = theirs.opcode == ours.opcode and comparable(theirs) == comparable(ours)
        return None if same else "result"
    if theirs.code != ours.code:
        return "code"
    if theirs.code != INVALID:
        return None
    text = PLACE.sub("", ours.message)
    is_known = any(
        re.fullmatch(their_pattern, theirs.message) and re.fullmatch(our_pattern, text)
        for their_pattern, our_pattern in KNOWN_TEXTS
    )
    # Our text may add a hint to Cassandra's.
    begins_alike = text.startswith(theirs.message)
    if begins_alike or is_known:
        return None
    # In a batch with several faults, Cassandra checks statement by statement, and our node checks
    # all partition keys and bound values first.
    return None if is_batch else "text"


class Comparison:
    """Runs statements on both nodes and collects differences."""

    def __init__(self, seed):
        self.seed, self.results, self.texts = seed, collections.Counter(), collections.Counter()
        # The first example of each pair of answers without names, and the count of each pair.
        self.examples, self.counts = {}, collections.Counter()

    def report(self, kind, table, statements, theirs, ours):
        history = "\n".join(f"  {statement}" for statement in statements)
        pair = kind, nameless(theirs), nameless(ours)
        self.counts[pair] += 1
        self.examples.setdefault(
            pair,
            f"{kind} differs, seed {self.seed}\n  {table.create()}\n{history}\n"
            f"  Cassandra: {theirs}\n  ours:      {ours}",
        )

    def __str__(self):
        shown = list(self.examples.items())[:MAX_SHOWN]
        examples = [f"{self.counts[pair]} times: {example}" for pair, example in shown]
        return f"{len(self.examples)} kinds of differences:\n" + "\n\n".join(examples)

    def compare(self, table, statements, theirs, ours):
        """Compares the answers to the last of the statements; returns True if both nodes still have
        the same content."""
        goes_on = True
        for at in range(max(len(theirs), len(ours))):
            pair = [answers[at] if at < len(answers) else None for answers in (theirs, ours)]
            is_batch = statements[-1].batch is not None
            kind = difference(*pair, is_batch) if None not in pair else "number of answers"
            if kind is None:
                continue
            texts = ["no answer" if answer is None else shown(answer) for answer in pair]
            self.report(kind, table, statements if kind == "result" else statements[-1:], *texts)
            # Answers that wrote nothing leave the same contents.
            wrote = [answer is None or result_of(answer) in ("applied", "done") for answer in pair]
            goes_on = goes_on and not any(wrote)
        last = theirs[-1]
        self.results[statements[-1].kind, result_of(last)] += 1
        if last.opcode == ERROR:
            self.texts[nameless(last.message)] += 1
        return goes_on

    def compare_content(self, table, done, place, theirs, ours):
        """Returns True if all rows are equal; otherwise reports the partitions that differ."""
        if theirs.content(table) == ours.content(table):
            return True
        for partition, statements in zip(table.partitions, done.values()):
            where = " AND ".join(
                f"{column.name} = {value.literal}"
                for column, value in zip(table.partition_key, partition)
            )
            contents = [client.content(table, f" WHERE {where}") for client in (theirs, ours)]
            if contents[0] != contents[1]:
                self.report(f"content {place}", table, statements, *contents)
        return False


def run_table(comparison, table, theirs, ours, flush):
    """Runs statements on a table; returns True if the contents are the same."""
    for client in (theirs, ours):
        created = client.wire.query(table.create())
        assert created.opcode != ERROR, f"{table.create()}: {created.message}"
    requests, done = Requests(table), {at: [] for at in range(len(table.partitions))}
    for number in range(STATEMENTS):
        at = number % len(done)
        statement = requests.next(table.partitions[at])
        done[at].append(statement)
        answers = theirs.send(statement), ours.send(statement)
        if not comparison.compare(table, done[at], *answers):
            return False
        if result_of(answers[0][-1]) in ("applied", "done"):
            requests.applied(statement)
        if number % CHECK_EVERY == CHECK_EVERY - 1:
            flush() if table.chance.random() < 0.5 else None
            if not comparison.compare_content(table, done, f"at {number}", theirs, ours):
                return False
    flush()
    return comparison.compare_content(table, done, "in files", theirs, ours)


def run(comparison, keyspace, their_node, our_node, flush):
    """Runs all tables; returns the last one, which stays."""
    chance = random.Random(comparison.seed)
    clients = {version: (Client(their_node, version), Client(our_node, version))
               for version in (4, 5)}
    for statement in (
        f"CREATE KEYSPACE {keyspace} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}",
        USER_TYPE.format(keyspace),
        OTHER.format(keyspace),
        COUNTERS.format(keyspace),
    ):
        for client in clients[5]:
            created = client.wire.query(statement)
            assert created.opcode != ERROR, f"{statement}: {created.message}"
    for number in range(TABLES):
        table = Table(random.Random(chance.getrandbits(32)), keyspace, f"t{number}")
        theirs, ours = clients[chance.choice([4, 5])]
        run_table(comparison, table, theirs, ours, flush)
        if number < TABLES - 1:
            for client in (theirs, ours):
                client.wire.query(f"DROP TABLE {table.name}")
    return table


@pytest.mark.parametrize("seed", [part(1, FIRST_SEED)])
def test_conditional_statements_end_as_in_cassandra(node, cassandra, seed):
    ours, keyspace = node(), "conditional"
    comparison = Comparison(seed)
    table = run(comparison, keyspace, cassandra, ours, lambda: ours.flush(keyspace))
    if not comparison.examples:
        ours.restart()
        done = {at: [] for at in range(len(table.partitions))}
        clients = Client(cassandra, 5), Client(ours, 5)
        comparison.compare_content(table, done, "after a restart", *clients)
    print(dict(comparison.results))
    if comparison.examples:
        pytest.fail(str(comparison), pytrace=False)
