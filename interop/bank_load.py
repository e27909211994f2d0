"""Clients that move money between accounts, by transactions and by conditional statements.

An account is a value with a version, and each change of the value adds 1 to the version. Accounts
are columns of rows, static columns, and elements of maps and lists. Money moves only inside a group
of accounts. The transaction or batch that moves money between accounts also writes an entry: the
accounts, with their values and versions before the move. A move between the balance and the reserve
of one row adds an element to the column `moves` instead. Entries and moves together are therefore
the whole history of each account.
"""
import itertools
import random
import struct
import threading
import time
from dataclasses import dataclass, field

from register_load import UNCERTAIN, Connection, Load, number_of
from wire import ERROR, EXECUTE, PREPARE, PREPARED, QUERY, ROWS, Wire, long_string, parameters

START = 1000  # the money on each account at the beginning
GROUP = 10  # accounts in a group
NAMES = "abcdefghij"
ENTRY_TYPES = "what text, amount bigint, " + ", ".join(
    f"{name} int, {name}_value bigint, {name}_version bigint" for name in "abc"
)
SCHEMA = (
    "CREATE KEYSPACE bank WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    # `moves` has the movements between `balance` and `reserve`, by the version before.
    "CREATE TABLE bank.plain (id int PRIMARY KEY, balance bigint, reserve bigint, version bigint, "
    "moves map<bigint, bigint>)",
    # Rows with a large id are entries of conditional batches.
    "CREATE TABLE bank.branches (branch int, id bigint, balance bigint, version bigint, "
    f"pot bigint static, pot_version bigint static, {ENTRY_TYPES}, PRIMARY KEY (branch, id))",
    "CREATE TABLE bank.wallets (id int PRIMARY KEY, version bigint, amounts map<text, bigint>, "
    "parts list<bigint>)",
    f"CREATE TABLE bank.ledger (id bigint PRIMARY KEY, {ENTRY_TYPES})",
    "CREATE TABLE bank.audits (id bigint PRIMARY KEY, account int, value bigint, version bigint)",
)


class Text:
    """A statement whose values are literals or markers, as `style` says: `literal`, `?` or `:`."""

    def __init__(self, style):
        self.style, self.values = style, []

    def put(self, number, form=">q"):
        """Returns a literal or the next marker."""
        if self.style == "literal":
            return str(number)
        self.values.append(struct.pack(form, number))
        return "?" if self.style == "?" else f":v{len(self.values)}"


@dataclass(frozen=True)
class Account:
    """A place for money. If the money is in an element of a collection, `element` selects it."""

    number: int
    table: str
    key: dict
    column: str = "balance"
    element: str = ""
    version: str = "version"

    @property
    def columns(self):
        """Returns the columns that a client reads: the value, the version, and in `plain` the
        reserve."""
        more = ["reserve"] if self.table == "plain" else []
        return [f"{self.column}{self.element}", self.version, *more]

    def where(self, text):
        forms = [(name, number, ">i" if name == "branch" or self.table != "branches" else ">q")
                 for name, number in self.key.items()]
        return " AND ".join(f"{name} = {text.put(number, form)}" for name, number, form in forms)

    def let(self, name, text, draw):
        """Returns the LET of the row; a static column is read from the first row or from row 3."""
        # A SELECT of static columns alone may not restrict the clustering.
        key = "id, " if self.column == "pot" else ""
        columns = f"{key}{self.column}, {', '.join(self.columns[1:])}"
        select = f"LET {name} = (SELECT {columns} FROM bank.{self.table} WHERE {self.where(text)}"
        if self.column != "pot":
            return f"{select}); "
        return select + (" LIMIT 1); " if draw.random() < 0.2 else " AND id = 3); ")

    def set(self, change, text):
        """Returns the UPDATE; `change` is what follows the value's name, such as `+= 5`."""
        change = f"{self.column}{self.element} {change}, {self.version} += 1"
        return f"UPDATE bank.{self.table} SET {change} WHERE {self.where(text)}; "

    def references(self, name):
        return [f"{name}.{column}" for column in self.columns]


def account_of(number):
    """Returns the account of a number. The last digit decides what kind of account it is."""
    group, kind = divmod(number, GROUP)
    if kind < 3:
        return Account(number, "plain", {"id": number})
    if kind < 6:
        return Account(number, "branches", {"branch": group, "id": kind})
    if kind == 6:
        return Account(number, "branches", {"branch": group}, "pot", version="pot_version")
    column, element = ("amounts", "['main']") if kind < 9 else ("parts", "[1]")
    return Account(number, "wallets", {"id": number}, column, element)


def create_accounts(node, count):
    """Creates the tables and the accounts, in several tables and on all shards."""
    texts = []
    for number in range(count):
        group, kind = divmod(number, GROUP)
        if kind == 6:  # the static column, written with the rows
            continue
        texts.append((
            "INSERT INTO bank.plain (id, balance, reserve, version, moves) "
            f"VALUES ({number}, {START}, 0, 0, {{}})" if kind < 3 else
            "INSERT INTO bank.branches (branch, id, balance, version, pot, pot_version) "
            f"VALUES ({group}, {kind}, {START}, 0, {START}, 0)" if kind < 6 else
            "INSERT INTO bank.wallets (id, version, amounts, parts) VALUES "
            f"({number}, 0, {{'main': {START}, 'other': 1}}, [0, {START}])"
        ))
    with Wire(node) as wire:
        for text in ("DROP KEYSPACE IF EXISTS bank", *SCHEMA):
            answer = wire.query(text)
            assert answer.code is None, answer.message
        for stream, text in enumerate(texts):
            wire.send(wire.envelope(QUERY, long_string(text) + parameters(wire.version), stream))
        for answer in [wire.receive() for _ in texts]:
            assert answer.code is None, answer.message


class Bank:
    """The accounts, with everything that the clients learned about them over all restarts."""

    def __init__(self, count):
        self.accounts = [account_of(number) for number in range(count)]
        self.ids = itertools.count(1000)
        # The columns of each account as a client last saw them; they may be old.
        self.latest = [(START, 0, 0)] * count
        # Ids of entries: those sent, those that must exist, and those that must not; and ids of
        # audits that must exist.
        self.sent, self.acknowledged, self.refused, self.audited = set(), set(), set(), set()
        # Value and reserve by account and version, and acknowledged moves to the reserve.
        self.seen, self.moved = {}, {}
        self.trouble, self.counts = [], {}

    def see(self, account, found):
        """Records what a client saw of an account."""
        value, version, reserve = [*found, 0][:3]
        self.latest[account.number] = value, version, reserve
        key = account.number, version
        if self.seen.setdefault(key, (value, reserve)) != (value, reserve):
            self.trouble.append(f"account and version {key}: {self.seen[key]}, then {found}")

    def count(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1


@dataclass
class Request:
    """A request of a client; `finish` receives the rows of the answer, or None if it has none."""

    text: Text
    statement: str
    finish: object = lambda rows: None
    prepared: bool = field(init=False)

    def __post_init__(self):
        self.prepared = self.text.style != "literal"


class Requests:
    """Builds random requests. `fault` makes them wrong on purpose, to test the check."""

    def __init__(self, bank, draw, fault=None):
        self.bank, self.draw, self.fault = bank, draw, fault

    def reorder(self, items, text):
        """Puts parts of a statement in another order. Prepared statements have few orders, so that
        their texts occur again."""
        if text.style == "literal":
            self.draw.shuffle(items)
        elif self.draw.random() < 0.5:
            items.reverse()

    def next(self):
        draw, bank = self.draw, self.bank
        # The first groups are hot.
        group = int(len(bank.accounts) // GROUP * draw.random() ** 3) * GROUP
        accounts = bank.accounts[group:group + GROUP]
        text = Text(draw.choice(["?", "?", ":", "literal"]))
        build = draw.choices(
            [self.read, self.transfer, self.batch, self.move, self.audit], [16, 58, 10, 8, 8]
        )[0]
        return build(accounts, text)

    def read(self, accounts, text):
        """Reads a group in one transaction, and checks its sum, which no request changes."""
        order = list(zip(NAMES, accounts))
        self.reorder(order, text)
        lets = "".join(account.let(name, text, self.draw) for name, account in order)
        columns = [ref for name, account in order for ref in account.references(name)]

        def finish(rows):
            (row,) = rows
            total = 0
            for name, account in order:
                found = [number_of(row[column]) for column in account.references(name)]
                self.bank.see(account, found)
                total += found[0] + sum(found[2:])
            if total != START * GROUP:
                self.bank.trouble.append(f"the sum of a group is {total}: {row}")
            self.bank.count("read")

        statement = f"BEGIN TRANSACTION {lets}SELECT {', '.join(columns)}; COMMIT TRANSACTION"
        return Request(text, statement, finish)

    def transfer(self, accounts, text):
        """Moves money between two or three accounts, or exchanges their values."""
        draw = self.draw
        chosen = list(zip("abc", draw.sample(accounts, draw.choice([2, 2, 3]))))
        whats = ["exact", "exchange"]
        if all(not account.element for _, account in chosen):
            whats += ["add"] * 4
        what, amount = draw.choice(whats), draw.randint(1, 200)
        latest = {name: self.bank.latest[account.number][0] for name, account in chosen}
        if what == "exact":
            amount = min(amount, latest["a"] // 2)
        entry = next(self.bank.ids)
        self.bank.sent.add(entry)
        lets = [(account, name) for name, account in chosen]
        self.reorder(lets, text)
        statement = "BEGIN TRANSACTION "
        statement += "".join(account.let(name, text, draw) for account, name in lets)
        shows = what == "exact" or draw.random() < 0.8
        if shows:
            columns = [column for name, account in chosen for column in account.references(name)]
            statement += f"SELECT {', '.join(columns)}; "
        condition = self.condition(what, amount, latest, chosen, text)
        updates = self.updates(what, amount, latest, chosen, text)
        updates += self.entry(entry, what, amount, chosen, text)
        statement += f"IF {condition} THEN {updates}END IF " if condition else updates
        statement += "COMMIT TRANSACTION"

        def finish(rows):
            self.finish_transfer(entry, what, amount, latest, chosen, rows if shows else None)

        return Request(text, statement, finish)

    def condition(self, what, amount, latest, chosen, text):
        """Returns the condition of a transfer, empty if it has none."""
        value = {name: account.references(name)[0] for name, account in chosen}
        if what == "exchange":
            return self.draw.choice(["", "a IS NOT NULL", "0 <= a." + chosen[0][1].version])
        if self.fault == "without condition":
            return ""
        if what == "add":
            return f"{value['a']} >= {text.put(amount * (len(chosen) - 1))}"
        return " AND ".join(f"{value[name]} = {text.put(latest[name])}" for name in value)

    def updates(self, what, amount, latest, chosen, text):
        """Returns the updates of a transfer, in a random order."""
        value = {name: account.references(name)[0] for name, account in chosen}
        paid = amount * (len(chosen) - 1)
        following = dict(zip(value, [*list(value)[1:], "a"]))
        order, updates = list(chosen), ""
        self.reorder(order, text)
        if self.fault == "money lost":
            order = order[1:]
        for name, account in order:
            if what == "exchange":
                change = f"= {value[following[name]]}"
            elif what == "add":
                change = f"-= {text.put(paid)}" if name == "a" else f"+= {text.put(amount)}"
            else:
                change = f"= {text.put(latest[name] + (-paid if name == 'a' else amount))}"
            updates += account.set(change, text)
        return updates

    def entry(self, entry, what, amount, chosen, text):
        """Returns the INSERT of the entry; references copy the values from before the transfer."""
        if self.fault == "entry lost" and self.draw.random() < 0.1:
            return ""
        columns = ["id", "what", "amount"]
        terms = [text.put(entry), f"'{what}'", text.put(amount)]
        for name, account in chosen:
            columns += [name, f"{name}_value", f"{name}_version"]
            terms += [text.put(account.number, ">i"), *account.references(name)[:2]]
        return f"INSERT INTO bank.ledger ({', '.join(columns)}) VALUES ({', '.join(terms)}); "

    def finish_transfer(self, entry, what, amount, latest, chosen, rows):
        bank = self.bank
        if rows is None:
            if what == "exchange":
                bank.acknowledged.add(entry)
            return bank.count("transfer without an answer")
        found = {
            name: [number_of(rows[0][column]) for column in account.references(name)]
            for name, account in chosen
        }
        for name, account in chosen:
            bank.see(account, found[name])
        applies = (
            what == "exchange"
            or (what == "add" and found["a"][0] >= amount * (len(chosen) - 1))
            or (what == "exact" and all(found[name][0] == latest[name] for name in found))
        )
        (bank.acknowledged if applies else bank.refused).add(entry)
        bank.count(f"{what} {'applied' if applies else 'refused'}")

    def batch(self, accounts, text):
        """Moves money between two accounts of a branch, by a conditional batch."""
        first, second = self.draw.sample(accounts[3:7], 2)
        (a, a_version, _), (b, b_version, _) = (
            self.bank.latest[account.number] for account in (first, second)
        )
        entry, amount = next(self.bank.ids), self.draw.randint(0, a // 2)
        self.bank.sent.add(entry)

        def update(account, value, version):
            return (
                f"UPDATE bank.branches SET {account.column} = {text.put(value)}, "
                f"{account.version} = {text.put(version + 1)} WHERE {account.where(text)} "
                f"IF {account.version} = {text.put(version)}; "
            )

        statement = "BEGIN BATCH " + update(first, a - amount, a_version)
        statement += update(second, b + amount, b_version)
        statement += (
            "INSERT INTO bank.branches (branch, id, what, amount, a, a_value, a_version, "
            f"b, b_value, b_version) VALUES ({text.put(first.number // GROUP, '>i')}, "
            f"{text.put(entry)}, 'exact', {text.put(amount)}, {text.put(first.number, '>i')}, "
            f"{text.put(a)}, {text.put(a_version)}, {text.put(second.number, '>i')}, "
            f"{text.put(b)}, {text.put(b_version)}); APPLY BATCH"
        )

        def finish(rows):
            applies = rows[0]["[applied]"] == b"\1"
            (self.bank.acknowledged if applies else self.bank.refused).add(entry)
            self.bank.count(f"batch {'applied' if applies else 'refused'}")

        return Request(text, statement, finish)

    def move(self, accounts, text):
        """Moves money between balance and reserve of one row, by a conditional update."""
        account = self.draw.choice(accounts[:3])
        value, version, reserve = self.bank.latest[account.number]
        amount = self.draw.randint(-reserve // 2, value // 2)
        key = account.number, version
        statement = (
            f"UPDATE bank.plain SET balance = {text.put(value - amount)}, "
            f"reserve = {text.put(reserve + amount)}, version = {text.put(version + 1)}, "
            f"moves[{text.put(version)}] = {text.put(amount)} WHERE {account.where(text)} "
            f"IF version = {text.put(version)}"
        )

        def finish(rows):
            applies = rows[0]["[applied]"] == b"\1"
            if applies and self.bank.moved.setdefault(key, amount) != amount:
                self.bank.trouble.append(f"two moves at version {key}")
            self.bank.count(f"move {'applied' if applies else 'refused'}")

        return Request(text, statement, finish)

    def audit(self, accounts, text):
        """Copies an account's value and version to a row of another partition."""
        account, audit = self.draw.choice(accounts), next(self.bank.ids)
        statement = "BEGIN TRANSACTION " + account.let("a", text, self.draw)
        values = ", ".join(account.references("a")[:2])
        statement += "INSERT INTO bank.audits (id, account, value, version) VALUES "
        statement += f"({text.put(audit)}, {text.put(account.number, '>i')}, {values}); "

        def finish(rows):
            self.bank.audited.add(audit)
            self.bank.count("audit")

        return Request(text, statement + "COMMIT TRANSACTION", finish)


class BankLoad(Load):
    """The load between two restarts. Its connections connect again until the context ends."""

    def __init__(self, node, bank, random_seed, connections=4, clients=64, fault=None):
        self.node, self.bank, self.trouble = node, bank, bank.trouble
        self.stopping = threading.Event()
        self.connections = []
        for index in range(connections):
            draw = random.Random(f"{random_seed} {index}")
            connection = BankConnection(self, index, clients // connections, draw)
            connection.requests = Requests(bank, draw, fault)
            self.connections.append(connection)


class BankConnection(Connection):
    """A connection with several clients, each with one request under way at a time. After 50 to
    1000 answers the connection hangs up, while requests are under way."""

    def _serve(self, wire):
        self.prepared, self.version = {}, self.draw.choice([3, 4, 5])
        remaining = self.draw.randint(50, 1000)
        for stream in range(self.clients):
            self._send(wire, stream)
        while self.pending:
            answer = wire.receive()
            self._finish(wire, answer)
            remaining -= 1
            if remaining == 0 and not self.load.stopping.is_set():
                self.load.bank.count("hung up")
                self.pending.clear()

    def _send(self, wire, stream, request=None):
        request = request or self.requests.next()
        self.pending[stream] = request
        if not request.prepared:
            body = long_string(request.statement) + parameters(wire.version)
            return wire.send(wire.envelope(QUERY, body, stream))
        prepared = self.prepared.get(request.statement)
        if prepared is None:
            flags = struct.pack(">I", 0) if wire.version >= 5 else b""
            body = long_string(request.statement) + flags
            return wire.send(wire.envelope(PREPARE, body, stream))
        body = wire.execute_body(prepared, tuple(request.text.values))
        wire.send(wire.envelope(EXECUTE, body, stream))

    def _finish(self, wire, answer):
        request = self.pending.pop(answer.stream)
        if answer.opcode == ERROR:
            self.load.bank.count("error")
            if answer.code not in UNCERTAIN:
                self.load.trouble.append(f"{request.statement}: {answer.message}")
        elif answer.kind == PREPARED:
            self.prepared[request.statement] = answer.prepared_id
            return self._send(wire, answer.stream, request)
        else:
            request.finish(answer.named_rows() if answer.kind == ROWS else None)
        if not self.load.stopping.is_set() and not self.load.trouble:
            self._send(wire, answer.stream)

    def _lose_pending(self):
        self.pending.clear()
