"""Transactions keep money: no reader sees a part of a transfer, and no restart loses one.

Clients move money between accounts, and the node is flushed, compacted, killed and started again
meanwhile. The entries of the transfers must explain each value that a client saw.
"""
import collections
import random
import time

import pytest

from bank_load import GROUP, START, Bank, BankLoad, create_accounts
from driver import connect, seed
from gate import part
from test_conditional_history import Flushes

SEED = seed()
ACCOUNTS = part(1000, 100)
KILLS = part(10, 1)
ROUND_S = part(8, 2)
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
        columns = "id, what, amount, a, a_value, a_version, b, b_value, b_version, c, c_value, c_version"
        self.entries = list(session.execute(f"SELECT {columns} FROM bank.ledger"))
        branches = list(session.execute(
            f"SELECT {columns}, branch, balance, version, pot, pot_version FROM bank.branches"
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
        """Returns, for each account, its changes by the version before: before, after, moved."""
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
    """Fails unless the tables agree with each other and with what the clients know."""
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


@pytest.mark.parametrize("shards", [2, 1])
def test_transfers_keep_the_money(node, shards):
    """kill -9 under load, again and again, and a clean stop at the end."""
    draw, bank = random.Random(f"{SEED} {shards}"), Bank(ACCOUNTS)
    node = node(settings=SETTINGS, shards=shards)
    create_accounts(node, ACCOUNTS)
    for number in range(KILLS + 1):
        began = time.monotonic()
        with BankLoad(node, bank, f"{SEED} {number}"), Flushes(maintain(node, draw), 0.05):
            time.sleep(draw.uniform(0.7, 1) * ROUND_S)
            if number < KILLS:
                node.kill()
        if number == KILLS:
            node.stop()
        node.start()
        check(bank, node)
        print(f"round {number}: {time.monotonic() - began:.1f} s, {bank.counts}")
    for name in ("read", "add applied", "exact applied", "exchange applied", "batch applied",
                 "move applied", "exact refused", "batch refused", "audit"):
        assert bank.counts.get(name, 0) > ROUND_S * KILLS, f"too few of these: {name}"


@pytest.mark.parametrize("fault", ["without condition", "money lost", "entry lost"])
def test_the_check_finds_wrong_clients(start_node, fault):
    node = start_node(fault.replace(" ", "-"), settings=SETTINGS, shards=2)
    bank = Bank(2 * GROUP)
    create_accounts(node, 2 * GROUP)
    with BankLoad(node, bank, SEED, fault=fault):
        time.sleep(0.5)
    with pytest.raises(Violation):
        check(bank, node)


@pytest.mark.parametrize("lost", ["entry", "audit", "state"])
def test_the_check_finds_lost_writes(start_node, lost):
    """A client that saw more than the node has must make the check fail."""
    node = start_node(f"lost-{lost}", settings=SETTINGS)
    bank = Bank(GROUP)
    create_accounts(node, GROUP)
    check(bank, node)
    {
        "entry": lambda: bank.acknowledged.add(1),
        "audit": lambda: bank.audited.add(1),
        "state": lambda: bank.see(bank.accounts[0], [START - 1, 1, 0]),
    }[lost]()
    with pytest.raises(Violation):
        check(bank, node)
