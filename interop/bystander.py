"""Clients on connections of their own that other clients must not disturb."""
import threading

from wire import ROWS, VOID, Closed, Wire

KEYSPACE = "bystander"


class Bystander:
    """A context whose clients work while its body runs. The exit fails if a client got a wrong
    answer or none."""

    def __init__(self, node):
        self.node, self.trouble, self.rounds, self.stopping = (
            node,
            [],
            {3: 0, 4: 0, 5: 0},
            threading.Event(),
        )
        with Wire(node) as wire:
            wire.query(f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
                       "{'class': 'SimpleStrategy', 'replication_factor': 1}")
            answer = wire.query(
                f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.notes (k int PRIMARY KEY, v text)"
            )
            assert answer.code is None, answer.message

    def __enter__(self):
        self.threads = [
            threading.Thread(target=self._work, args=(version,)) for version in self.rounds
        ]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        before = dict(self.rounds)
        if kind is None:
            # Waits for two more rounds of each client, because the node must still serve all.
            for _ in range(1000):
                if self.trouble or all(
                    self.rounds[version] > before[version] + 1 for version in before
                ):
                    break
                threading.Event().wait(0.02)
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        if kind is None:
            assert not self.trouble, self.trouble
            assert all(
                self.rounds[version] > before[version] for version in before
            ), "the bystanders were not served"

    def _work(self, version):
        try:
            with Wire(self.node, version) as wire:
                write = wire.prepare(f"INSERT INTO {KEYSPACE}.notes (k, v) VALUES (?, ?)")
                read = wire.prepare(f"SELECT v FROM {KEYSPACE}.notes WHERE k = ?")
                while not self.stopping.is_set():
                    number = self.rounds[version]
                    key, text = (number % 100 + 1000 * version).to_bytes(
                        4, "big"
                    ), f"note {number}".encode()
                    answer = wire.execute(write, (key, text))
                    assert answer.kind == VOID
                    answer = wire.execute(read, (key,))
                    assert answer.kind == ROWS and answer.body.endswith(
                        len(text).to_bytes(4, "big") + text
                    )
                    self.rounds[version] += 1
                    self.stopping.wait(0.001)
        except (AssertionError, Closed, OSError) as error:
            self.trouble.append(f"v{version}, round {self.rounds[version]}: {error!r}")
