"""Transactions keep money: no reader sees a part of a transfer, and no restart loses one.

Clients move money between accounts, and the node is flushed, compacted, killed and started again
meanwhile. The entries of the transfers must explain each value that a client saw.
"""
import collections
import random
import time
import uuid

import pytest

from bank_load import GROUP, START, Bank, BankLoad, create_accounts
from driver import connect, seed
from espalier_node import wait_until
from gate import all_or_one, part
from register_load import bigint
from test_conditional_history import Flushes
from wire import QUERY, TRACING, Wire, long_string, parameters

SEED = seed()
ACCOUNTS = part(1000, 100)
KILLS = part(10, 1)
ROUND_S = part(8, 1)
# A run has some of each of these requests.
KINDS = (
    "read", "audit", "add applied", "exact applied", "exact refused", "exchange applied",
    "batch applied", "batch refused", "move applied", "move refused",
)
COLUMNS = "id, what, amount, a, a_value, a_version, b, b_value, b_version, c, c_value, c_version"
SETTINGS = {"commitlog_sync": "group", "commitlog_segment_size_in_mb": 1}


class Violation(AssertionError):
    """The accounts, the entries and the clients do not agree."""


def require(holds, message):
    if not holds:
        raise Violation(message)


def changes_of(entry):
    """Returns the changes of an entry: account, version before, value before, value after."""
    _, what, amount, *accounts = entry
    triples = [accounts[at:at + 3] for at in range(0, 9, 3) if accounts[at] is not None]
    values = [value for _, value, _ in triples]
    if what == "exchange":
        after = [*values[1:], values[0]]
    else:
        after = [value + amount for value in values]
        after[0] = values[0] - amount * (len(triples) - 1)
    return [
        (account, version, before, then)
        for (account, before, version), then in zip(triples, after)
    ]


class Snapshot:
    """All tables, read while no client writes."""

    def __init__(self, node):
        session = connect(node, timeout_s=120)
        self.entries = list(session.execute(f"SELECT {COLUMNS} FROM bank.ledger"))
        branches = list(session.execute(
            f"SELECT {COLUMNS}, branch, balance, version, pot, pot_version FROM bank.branches"
        ))
        self.entries += [row[:12] for row in branches if row[1] is not None]
        # Value, version and reserve by account.
        self.accounts, self.moves = {}, {}
        for row in branches:
            number, (branch, balance, version, pot, pot_version) = row[0], row[12:]
            if row[1] is None:
                self.accounts[branch * GROUP + number] = balance, version, 0
            self.accounts[branch * GROUP + 6] = pot, pot_version, 0
        plain = "SELECT id, balance, version, reserve, moves FROM bank.plain"
        for number, *account, moves in session.execute(plain):
            self.accounts[number] = tuple(account)
            self.moves |= {(number, version): amount for version, amount in (moves or {}).items()}
        for row in session.execute("SELECT id, version, amounts, parts FROM bank.wallets"):
            value = row[2]["main"] if row[0] % GROUP < 9 else row[3][1]
            self.accounts[row[0]] = value, row[1], 0
        self.audits = list(session.execute("SELECT id, account, value, version FROM bank.audits"))
        session.cluster.shutdown()

    def histories(self):
        """Returns, for each account, its changes by the version before: the value before, the value
        after, the amount moved to the reserve, and the entry."""
        histories = collections.defaultdict(dict)
        for entry in self.entries:
            for account, version, before, after in changes_of(entry):
                other = histories[account].get(version)
                require(other is None, f"two changes of account {account} at {version}: {entry}")
                histories[account][version] = before, after, 0, entry
        for (account, version), amount in self.moves.items():
            other = histories[account].get(version)
            require(other is None, f"a move and a change of {account} at {version}: {other}")
            histories[account][version] = None, None, amount, "move"
        return histories


def check_snapshot(bank, snapshot):
    """Fails unless the tables agree with each other and with what the clients have seen."""
    require(len(snapshot.accounts) == len(bank.accounts), "accounts are missing")
    ids = {entry[0] for entry in snapshot.entries}
    require(len(ids) == len(snapshot.entries), "an entry exists twice")
    require(bank.acknowledged <= ids, f"lost: {sorted(bank.acknowledged - ids)[:9]}")
    require(not bank.refused & ids, f"not applied, but there: {sorted(bank.refused & ids)[:9]}")
    require(ids <= bank.sent, f"never sent: {sorted(ids - bank.sent)[:9]}")
    for key, amount in bank.moved.items():
        require(snapshot.moves.get(key) == amount, f"lost: the move {key} {amount}")
    states = check_histories(snapshot)
    total = sum(value + reserve for value, _, reserve in snapshot.accounts.values())
    require(total == START * len(bank.accounts), f"the total is {total}")
    for key, found in bank.seen.items():
        require(states.get(key) == found, f"seen {key}: {found}, but it was {states.get(key)}")
    audits = {audit[0] for audit in snapshot.audits}
    require(bank.audited <= audits, f"lost audits: {sorted(bank.audited - audits)[:9]}")
    for audit, account, value, version in snapshot.audits:
        state = states.get((account, version), [None])
        require(state[0] == value, f"audit {audit} {account, version}: {value}, but it was {state}")


def check_histories(snapshot):
    """Checks that the changes of each account lead from its first value to its present one; returns
    value and reserve by account and version."""
    states, histories = {}, snapshot.histories()
    for number, (value, version, reserve) in snapshot.accounts.items():
        now, saved = START, 0
        states[number, 0] = now, saved
        for at in range(len(histories[number])):
            change = histories[number].get(at)
            require(change, f"account {number}, version {version}: the change at {at} is missing")
            before, after, moved, entry = change
            require(before in (None, now), f"account {number} at {at}: {now}, then {entry}")
            now = now - moved if before is None else after
            saved += moved
            states[number, at + 1] = now, saved
        require(
            (now, len(histories[number]), saved) == (value, version, reserve),
            f"account {number} has {value, version, reserve}, its entries say "
            f"{now, len(histories[number]), saved}",
        )
    return states


def check(bank, node):
    require(not bank.trouble, bank.trouble[:3])
    check_snapshot(bank, Snapshot(node))


def maintain(node, draw):
    """Returns a function that flushes a table, or compacts all of them."""

    def act():
        if draw.random() < 0.1:
            node.request("POST", "/storage_service/keyspace_compaction/bank")
        else:
            node.flush("bank", draw.choice(["plain", "branches", "wallets", "ledger", "audits"]))

    return act


def wait_for_counts(bank, names, least):
    """Waits until the clients have counted `least` of each name, or found trouble."""

    def is_done():
        return bank.trouble or all(bank.counts.get(name, 0) >= least for name in names)

    wait_until(is_done, 120, f"{least} of each of {names}")


FAULTS = ("without condition", "money lost", "entry lost")
# Shards, and the window of group commits in ms. With a long window, the logs of two shards become
# durable at different times.
RUNS = part([(2, 0), (2, 100), (1, 0)], [(2, 0), (1, 0)])


@pytest.mark.parametrize(("shards", "window_ms"), RUNS)
def test_transfers_keep_the_money(node, shards, window_ms):
    """The node is killed under load KILLS times, and stopped cleanly at the end."""
    draw, bank = random.Random(f"{SEED} {shards} {window_ms}"), Bank(ACCOUNTS)
    window = {"commitlog_sync_group_window_in_ms": window_ms}
    node = node(settings=SETTINGS | window, shards=shards)
    create_accounts(node, ACCOUNTS)
    for number in range(KILLS + 1):
        with BankLoad(node, bank, f"{SEED} {number}"), Flushes(maintain(node, draw), 0.05):
            time.sleep(draw.uniform(0.7, 1) * ROUND_S)
            if number < KILLS:
                node.kill()
            else:
                wait_for_counts(bank, KINDS, KILLS)
        if number == KILLS:
            assert node.stop() == 0
        node.start()
        check(bank, node)
    print(f"{shards} shards: {bank.counts}")


@pytest.mark.parametrize("fault", all_or_one(FAULTS))
def test_the_check_finds_wrong_clients(node, fault):
    """Clients without conditions, or that lose money or entries, make the check fail."""
    bank = Bank(5 * GROUP)
    node = node(settings=SETTINGS, shards=2)
    create_accounts(node, 5 * GROUP)
    with BankLoad(node, bank, SEED, fault=fault):
        wait_for_counts(bank, ["exact applied", "exchange applied"], 8)
    with pytest.raises(Violation):
        check(bank, node)


def test_the_check_finds_lost_writes(node):
    """A client that has seen more than the node stores makes the check fail."""
    node = node(settings=SETTINGS)
    create_accounts(node, GROUP)
    snapshot = Snapshot(node)
    check_snapshot(Bank(GROUP), snapshot)
    knowledge = {
        "lost: ": lambda bank: bank.acknowledged.add(1),
        "lost audits": lambda bank: bank.audited.add(1),
        "lost: the move": lambda bank: bank.moved.update({(0, 0): 5}),
        "seen": lambda bank: bank.see(bank.accounts[0], [START - 1, 1, 0]),
    }
    for message, learn in knowledge.items():
        bank = Bank(GROUP)
        learn(bank)
        with pytest.raises(Violation, match=f"^{message}"):
            check_snapshot(bank, snapshot)


def shard_of(wire, key):
    """Returns the name of the shard that owns a row of bank.plain, from the trace of a read."""
    text = f"SELECT balance FROM bank.plain WHERE id = {key}"
    answer = wire.ask(QUERY, long_string(text) + parameters(wire.version), flags=TRACING)
    events = "SELECT activity, thread FROM system_traces.events WHERE session_id = "
    found = []

    def is_traced():
        for row in wire.query(events + str(uuid.UUID(bytes=answer.trace_id))).named_rows():
            if row["activity"].startswith(b"Executing single-partition query on plain"):
                found.append(row["thread"])
        return found

    wait_until(is_traced, what=f"a trace of row {key}")
    return found[0]


def test_a_transaction_and_the_value_it_read_survive_a_kill_together(node):
    """A transaction copies a value to another shard, whose log becomes durable before the log of
    the value's own shard. The node is killed as soon as the transaction is acknowledged."""
    window_s = 0.8
    window = {"commitlog_sync_group_window_in_ms": int(window_s * 1000)}
    node = node(settings=SETTINGS, shards=2)
    create_accounts(node, 4 * GROUP)
    with Wire(node) as wire:
        original, *others = [number for number in range(4 * GROUP) if number % GROUP < 3]
        own = shard_of(wire, original)
        copy = next(number for number in others if shard_of(wire, number) != own)
    node.settings |= window
    node.restart()
    texts = (
        # The window of the copy's shard begins first.
        f"UPDATE bank.plain SET reserve = 1 WHERE id = {copy}",
        f"UPDATE bank.plain SET balance = 5 WHERE id = {original} IF balance = {START}",
        f"BEGIN TRANSACTION LET a = (SELECT balance FROM bank.plain WHERE id = {original}); "
        f"UPDATE bank.plain SET balance = a.balance WHERE id = {copy}; COMMIT TRANSACTION",
    )
    wires, reader = [Wire(node) for _ in texts], Wire(node)
    read = f"SELECT balance FROM bank.plain WHERE id = {original}"
    for wire, text in zip(wires, texts):
        if wire is wires[-1]:
            # The node may be slow to begin the earlier statement, whose value this one copies.
            wait_until(lambda: reader.query(read).rows() == [[bigint(5)]], what="the new balance")
        wire.send(wire.envelope(QUERY, long_string(text) + parameters(wire.version)))
        time.sleep(0.3 * window_s)
    answer = wires[-1].receive()
    assert answer.code is None, answer.message
    node.restart(kill=True)
    with Wire(node) as wire:
        rows = {
            number: wire.query(f"SELECT balance FROM bank.plain WHERE id = {number}").rows()
            for number in (original, copy)
        }
    assert rows[original] == rows[copy] == [[bigint(5)]], "the copy is there, the original is lost"
