"""The table flights through cassandra-driver, against pandas and plain Python on the same data.

One node passes through the stages of `flights.STAGES`, which differ in where the rows are when they
are read. At each stage most reads run with all protocols, or in the gate with one of them. Queries
are drawn from a seed that a failure prints (INTEROP_SEED sets it).
"""
import math
import random
from itertools import groupby, islice

import pytest
from cassandra.concurrent import execute_concurrent_with_args

import dumped
import flights
from driver import PROTOCOLS, connect, seed
from flights import COLUMNS, STAGES, Flights, clustering_order, key_of, token
from gate import part

SEED = seed()
# The gate takes a sixth of the rows: the two months that queries name.
MONTHS = part(range(1, 13), (4, 5))
WHERE_KEY = "carrier = ? AND origin = ? AND month = ?"


class Stage:
    """The node at one stage, a session for each protocol, and the expected rows."""

    def __init__(self, node, model):
        self.node, self.model, self.name = node, model, None
        self.sessions, self.bookmarks, self.broken = {}, {}, None

    def open(self):
        self.sessions = {
            name: connect(self.node, protocol=name, keyspace=flights.KEYSPACE) for name in PROTOCOLS
        }

    def close(self):
        for session in self.sessions.values():
            session.cluster.shutdown()
        self.sessions = {}

    def advance(self, name):
        """Brings the node to the next stage."""
        getattr(self, "to_" + name)()
        self.name = name

    def to_memtable(self):
        session = connect(self.node)
        session.execute(flights.CREATE_KEYSPACE)
        session.set_keyspace(flights.KEYSPACE)
        session.execute(flights.create_table("flights"))
        flights.load(session, self.model.rows)
        session.cluster.shutdown()
        self.open()

    def to_replayed(self):
        self.keep_places()
        self.close()
        self.node.restart(kill=True)
        self.open()

    def to_flushed(self):
        self.keep_places()
        self.node.flush(flights.KEYSPACE)
        assert self.node.table_files(flights.KEYSPACE, "flights"), "a flush must leave files"

    def to_changed(self):
        """Overwrites and deletes rows in the table and in the model alike, so that reads must merge
        the memtable and files."""
        self.bookmarks = {}
        session, model, draw = self.sessions["v5"], self.model, random.Random(SEED)
        gone, emptied, cut = draw.sample(
            [key for key in model.keys if len(model.partitions[key]) > 50], 3
        )
        days = range(8, 15)
        rows = [
            row
            for row in model.rows
            if key_of(row) not in (gone, emptied) and not (key_of(row) == cut and row[3] in days)
        ]
        session.execute(session.prepare(f"DELETE FROM flights WHERE {WHERE_KEY}"), gone)
        session.execute(session.prepare(f"DELETE FROM flights WHERE {WHERE_KEY}"), emptied)
        session.execute(
            session.prepare(f"DELETE FROM flights WHERE {WHERE_KEY} AND day >= ? AND day < ?"),
            (*cut, days.start, days.stop),
        )
        # One partition is deleted and then partly written again, because reads must return rows
        # that are newer than the deletion.
        back = model.partitions[emptied][::3]
        rows += back
        flights.load(session, back)
        # A tenth of the rows changes; some of them lose a column.
        tail, dest = COLUMNS.index("tailnum"), COLUMNS.index("dest")
        changed, removed = {}, []
        for index in draw.sample(range(len(rows)), len(rows) // 10):
            row = list(rows[index])
            row[tail], row[dest] = f"new {index % 97}", None if index % 5 == 0 else row[dest]
            changed[index] = tuple(row)
        execute_concurrent_with_args(
            session, session.prepare(f"UPDATE flights SET tailnum = ?, dest = ? WHERE {WHERE_KEY}"
                                     " AND day = ? AND time_hour = ? AND flight = ?"),
            [(row[tail], row[dest], *row[:6]) for row in changed.values()])
        for index in draw.sample(range(len(rows)), 500):
            removed.append(index)
        execute_concurrent_with_args(
            session,
            session.prepare(
                f"DELETE FROM flights WHERE {WHERE_KEY} AND day = ? AND time_hour = ? AND flight = "
                "?"
            ),
            [rows[index][:6] for index in removed],
        )
        removed = set(removed)
        model.replace(
            changed.get(index, row) for index, row in enumerate(rows) if index not in removed
        )

    def to_restarted(self):
        self.to_replayed()

    def keep_places(self):
        """Reads a page of the table and of a partition, to continue from there at the next stage.
        """
        self.bookmarks = {}
        for name, session in self.sessions.items():
            for what, fetch_size in (("table", 3000), ("partition", 71)):
                statement, values, expected = self.long_read(session, what)
                statement.fetch_size = fetch_size
                result = session.execute(statement, values)
                self.bookmarks[name, what] = result.paging_state, len(result.current_rows)
                assert result.current_rows == expected[:fetch_size]

    def long_read(self, session, what):
        if what == "table":
            return session.prepare("SELECT * FROM flights LIMIT 6000"), (), self.model.rows[:6000]
        key = max(self.model.keys, key=lambda key: len(self.model.partitions[key]))
        return (
            session.prepare(f"SELECT * FROM flights WHERE {WHERE_KEY}"),
            key,
            self.model.partitions[key],
        )


@pytest.fixture(scope="module")
def life(start_node):
    """Returns the node and its rows, before the first stage."""
    life = Stage(start_node(shards=2, memory="1G"), Flights(MONTHS))
    yield life
    life.close()


@pytest.fixture(scope="module", params=STAGES)
def stage(request, life):
    """Brings the node to a stage, through all stages before it."""
    passed = STAGES.index(life.name) + 1 if life.name else 0
    for name in STAGES[passed:STAGES.index(request.param) + 1]:
        if life.broken:
            pytest.fail(f"the node did not get to stage {life.broken}")
        life.broken = name
        life.advance(name)
        life.broken = None
    assert life.name == request.param, "the tests of an earlier stage must have run before"
    return life


@pytest.fixture(scope="module", params=PROTOCOLS)
def session(request, stage):
    """Returns a session with one protocol version, with or without compression."""
    return stage.sessions[request.param]


@pytest.fixture
def model(stage):
    """Returns the expected rows."""
    return stage.model


@pytest.fixture
def draw(request):
    """Returns random numbers that depend only on the seed and the test."""
    return random.Random(f"{SEED} {request.node.name}")


def rows(session, query, values=(), fetch_size=5000):
    """Returns all rows of a prepared query, through all of its pages."""
    statement = session.prepare(query)
    statement.fetch_size = fetch_size
    return list(session.execute(statement, values))


def some_key(model, draw, at_least=1):
    return draw.choice([key for key in model.keys if len(model.partitions[key]) >= at_least])


def test_the_whole_table_comes_in_order_of_tokens_and_clustering(stage, model):
    got = rows(stage.sessions[protocol_of(stage)], "SELECT * FROM flights")
    assert len(got) == len(model)
    assert got == model.rows


def test_point_reads(session, model, draw):
    query = session.prepare(
        f"SELECT * FROM flights WHERE {WHERE_KEY} AND day = ? AND time_hour = ? AND flight = ?"
    )
    wanted = draw.sample(model.rows, 400)
    answers = execute_concurrent_with_args(session, query, [row[:6] for row in wanted])
    assert [list(answer.result_or_exc) for answer in answers] == [[row] for row in wanted]


def test_point_reads_of_absent_keys(session, model, draw):
    query = session.prepare(
        f"SELECT * FROM flights WHERE {WHERE_KEY} AND day = ? AND time_hour = ? AND flight = ?"
    )
    present = {row[:6] for row in model.rows}
    absent = [(*row[:5], row[5] + 1) for row in draw.sample(model.rows, 200)]
    absent += [("ZZ", *row[1:6]) for row in draw.sample(model.rows, 20)]
    absent = [key for key in absent if key not in present]
    assert len(absent) > 100
    for answer in execute_concurrent_with_args(session, query, absent):
        assert list(answer.result_or_exc) == []


def test_whole_partitions_up_and_down(session, model, draw):
    for key in draw.sample(model.keys, 8):
        expected = model.partitions[key]
        assert rows(session, f"SELECT * FROM flights WHERE {WHERE_KEY}", key) == expected
        down = (
            f"SELECT * FROM flights WHERE {WHERE_KEY} ORDER BY day DESC, time_hour ASC, flight DESC"
        )
        assert rows(session, down, key, fetch_size=500) == expected[::-1]


@pytest.mark.parametrize("low, high", [(">", "<"), (">", "<="), (">=", "<"), (">=", "<=")])
def test_slices_up_and_down(session, model, draw, low, high):
    above = {">": lambda a, b: a > b, ">=": lambda a, b: a >= b}[low]
    below = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b}[high]
    for _ in range(4):
        key = some_key(model, draw, at_least=40)
        partition = model.partitions[key]
        first, last = sorted(draw.choices(range(1, 32), k=2))
        expected = [row for row in partition if above(row[3], first) and below(row[3], last)]
        query = f"SELECT * FROM flights WHERE {WHERE_KEY} AND day {low} ? AND day {high} ?"
        assert rows(session, query, (*key, first, last)) == expected
        assert (
            rows(session, query + " ORDER BY day DESC", (*key, first, last), fetch_size=200)
            == expected[::-1]
        )
        limit = draw.randint(1, 60)
        assert (
            rows(session, query + f" ORDER BY day DESC LIMIT {limit}", (*key, first, last))
            == expected[::-1][:limit]
        )
        # One level deeper the order is descending.
        day = draw.choice(partition)[3]
        times = sorted(draw.choices([row[4] for row in partition], k=2))
        times = [time.replace(day=min(day, 28)) for time in times]
        expected = [
            row
            for row in partition
            if row[3] == day and above(row[4], times[0]) and below(row[4], times[1])
        ]
        query = (
            f"SELECT * FROM flights WHERE {WHERE_KEY} AND day = ? AND time_hour {low} ? AND "
            f"time_hour {high} ?"
        )
        assert rows(session, query, (*key, day, *times)) == expected
        assert (
            rows(session, query + " ORDER BY day DESC, time_hour ASC", (*key, day, *times))
            == expected[::-1]
        )


def test_slices_with_one_end(session, model, draw):
    for operator, holds in (
        (">", int.__gt__),
        (">=", int.__ge__),
        ("<", int.__lt__),
        ("<=", int.__le__),
    ):
        key = some_key(model, draw, at_least=30)
        row = draw.choice(model.partitions[key])
        expected = [
            other
            for other in model.partitions[key]
            if other[3:5] == row[3:5] and holds(other[5], row[5])
        ]
        query = (
            f"SELECT * FROM flights WHERE {WHERE_KEY} AND day = ? AND time_hour = ? AND flight "
            f"{operator} ?"
        )
        assert rows(session, query, row[:6]) == expected


def test_in_on_partition_keys(session, model, draw):
    carriers, months = draw.sample(sorted({key[0] for key in model.keys}), 4), draw.sample(
        range(1, 13), 3
    )
    query = (
        "SELECT carrier, flight FROM flights WHERE carrier IN ? AND origin = ? AND month IN ? AND "
        "day IN ?"
    )
    days = draw.sample(range(1, 29), 5)
    got = rows(session, query, (carriers, "JFK", months, days), fetch_size=100)
    expected = [
        (row[0], row[5])
        for key in model.keys
        if key[0] in carriers and key[1] == "JFK" and key[2] in months
        for row in model.partitions[key]
        if row[3] in days
    ]
    # CQL does not define the order of partitions in the answer of an IN; the order of rows in a
    # partition is defined.
    assert sorted(got) == sorted(expected)
    markers = (
        "SELECT count(*) FROM flights WHERE carrier IN ('UA', 'AA', 'UA', ?) AND origin IN ('EWR', "
        "'JFK') AND month = 5"
    )
    count = sum(len(part) for key, part in model.partitions.items()
                if key[0] in ("UA", "AA", "B6") and key[1] in ("EWR", "JFK") and key[2] == 5)
    assert rows(session, markers, ("B6",)) == [(count,)]


def test_in_on_clustering_columns(session, model, draw):
    for _ in range(4):
        key = some_key(model, draw, at_least=100)
        partition = model.partitions[key]
        days = draw.sample(range(1, 32), 4)
        expected = [row for row in partition if row[3] in days]
        query = f"SELECT * FROM flights WHERE {WHERE_KEY} AND day IN ?"
        assert rows(session, query, (*key, days), fetch_size=37) == expected
        assert (
            rows(session, query + " ORDER BY day DESC", (*key, days + days), fetch_size=37)
            == expected[::-1]
        )
        picked = draw.sample(partition, 6)
        expected = [row for row in partition if row[3:6] in {other[3:6] for other in picked}]
        query = f"SELECT * FROM flights WHERE {WHERE_KEY} AND (day, time_hour, flight) IN ?"
        assert rows(session, query, (*key, [row[3:6] for row in picked])) == expected
        day, flight = picked[0][3], picked[0][5]
        moments = [row[4] for row in picked]
        query = (
            f"SELECT * FROM flights WHERE {WHERE_KEY} AND day = ? AND time_hour IN ? AND flight = ?"
        )
        expected = [
            row for row in partition if row[3] == day and row[4] in moments and row[5] == flight
        ]
        assert rows(session, query, (*key, day, moments, flight)) == expected


def test_relations_on_several_columns(session, model, draw):
    """The relation (a, b, c) < (x, y, z) compares values, whatever the clustering order."""
    for operator, holds in (
        (">", tuple.__gt__),
        (">=", tuple.__ge__),
        ("<", tuple.__lt__),
        ("<=", tuple.__le__),
    ):
        for columns in (1, 2, 3):
            key = some_key(model, draw, at_least=60)
            partition = model.partitions[key]
            named = ", ".join(flights.CLUSTERING[:columns])
            end = draw.choice(partition)[3:3 + columns]
            expected = [row for row in partition if holds(row[3:3 + columns], end)]
            query = (
                f"SELECT * FROM flights WHERE {WHERE_KEY} AND ({named}) {operator} "
                f"({', '.join('?' * columns)})"
            )
            assert rows(session, query, (*key, *end), fetch_size=300) == expected
            down = query + " ORDER BY day DESC, time_hour ASC, flight DESC"
            assert rows(session, down, (*key, *end), fetch_size=300) == expected[::-1]


def test_two_relations_on_several_columns(session, model, draw):
    for _ in range(4):
        key = some_key(model, draw, at_least=60)
        partition = model.partitions[key]
        low, high = sorted(row[3:6] for row in draw.sample(partition, 2))
        expected = [row for row in partition if low < row[3:6] and row[3:5] <= high[:2]]
        query = (
            f"SELECT * FROM flights WHERE {WHERE_KEY} AND (day, time_hour, flight) > ? AND (day, "
            "time_hour) <= ?"
        )
        assert rows(session, query, (*key, low, high[:2])) == expected


@pytest.mark.parametrize("fetch_size", [1, 2, 7, 100, 1000, 100_000])
def test_pages(session, model, draw, fetch_size):
    """Pages have the requested size, join without gap or overlap, and end."""
    few = [key for key in model.keys if 3 <= len(model.partitions[key]) <= 60 * fetch_size]
    key = draw.choice(few)
    expected = model.partitions[key]
    statement = session.prepare(f"SELECT * FROM flights WHERE {WHERE_KEY}")
    statement.fetch_size = fetch_size
    result, pages = session.execute(statement, key), []
    while True:
        pages.append(list(result.current_rows))
        if not result.has_more_pages:
            break
        # Each page is a new execution, so only the paging state says where the page begins.
        result = session.execute(statement, key, paging_state=result.paging_state)
    assert [row for page in pages for row in page] == expected
    assert all(len(page) == fetch_size for page in pages[:-2])
    assert all(len(page) <= fetch_size for page in pages)


@pytest.mark.parametrize("fetch_size", [13, 997])
def test_pages_of_a_scan_end_inside_of_partitions(session, model, fetch_size):
    wanted = 60 * fetch_size
    got = rows(session, f"SELECT * FROM flights LIMIT {wanted}", fetch_size=fetch_size)
    assert got == model.rows[:wanted]


def test_pages_with_a_limit_per_partition(session, model):
    expected = [row for part in model.partitions.values() for row in part[:3]]
    assert rows(session, "SELECT * FROM flights PER PARTITION LIMIT 3", fetch_size=10) == expected
    expected = expected[:100]
    assert (
        rows(session, "SELECT * FROM flights PER PARTITION LIMIT 3 LIMIT 100", fetch_size=7)
        == expected
    )


def test_distinct_partition_keys(session, model):
    got = rows(session, "SELECT DISTINCT carrier, origin, month FROM flights", fetch_size=50)
    assert got == model.keys


def test_pages_go_on_where_the_stage_before_stopped(stage):
    """A paging state remains valid after a flush, after kill -9 and after a restart."""
    if stage.name in ("memtable", "changed"):
        pytest.skip("no stage before has the same rows")
    assert len(stage.bookmarks) == 2 * len(PROTOCOLS)
    for (protocol, what), (state, seen) in stage.bookmarks.items():
        session = stage.sessions[protocol]
        statement, values, expected = stage.long_read(session, what)
        statement.fetch_size = 1000
        assert list(session.execute(statement, values, paging_state=state)) == expected[seen:]


def test_token_ranges(session, model, draw):
    ends = sorted(draw.randint(-2**63, 2**63 - 1) for _ in range(7))
    ends = [-2**63, *ends, token(model.keys[5]), 2**63 - 1]
    ends.sort()
    query = (
        "SELECT carrier, origin, month, flight, token(carrier, origin, month) FROM flights"
        " WHERE token(carrier, origin, month) > ? AND token(carrier, origin, month) <= ? AND day = "
        "17 ALLOW FILTERING"
    )
    for low, high in zip(ends, ends[1:]):
        expected = [(*key, row[5], token(key)) for key in model.keys if low < token(key) <= high
                    for row in model.partitions[key] if row[3] == 17]
        assert rows(session, query, (low, high), fetch_size=700) == expected


def test_token_of_a_key_as_a_bound(session, model, draw):
    key = draw.choice(model.keys[:20])
    query = (
        "SELECT DISTINCT carrier, origin, month FROM flights WHERE token(carrier, origin, month) "
        "{} token(?, ?, ?)"
    )
    at = model.keys.index(key)
    assert rows(session, query.format(">="), key) == model.keys[at:]
    assert rows(session, query.format(">"), key) == model.keys[at + 1:]
    assert rows(session, query.format("<"), key) == model.keys[:at]
    assert rows(session, query.format("="), key) == [key]


def protocol_of(stage):
    """Returns one protocol for slow reads, the next one at each stage."""
    return list(PROTOCOLS)[STAGES.index(stage.name) % len(PROTOCOLS)]


def is_at_least(value, bound):
    return value is not None and value >= bound


@pytest.mark.parametrize(
    "condition, values, holds",
    [
        ("dest = ?", ("SEA",), lambda row: row["dest"] == "SEA"),
        (
            "tailnum = ? AND distance > ?",
            ("N725MQ", 500.0),
            lambda row: row["tailnum"] == "N725MQ" and row["distance"] > 500,
        ),
        (
            "dep_delay >= ? AND air_time < ?",
            (200, 60.0),
            lambda row: is_at_least(row["dep_delay"], 200)
            and row["air_time"] is not None
            and row["air_time"] < 60,
        ),
        (
            "arr_delay > ?",
            (500,),
            lambda row: row["arr_delay"] is not None and row["arr_delay"] > 500,
        ),
        ("flight = ? AND day = ?", (1, 9), lambda row: row["flight"] == 1 and row["day"] == 9),
        (
            "origin = ? AND month = ? AND minute IN (58, 59)",
            ("LGA", 4),
            lambda row: row["origin"] == "LGA" and row["month"] == 4 and row["minute"] in (58, 59),
        ),
        ("dest IN ?", (["ALB", "BQN", "CAK"],), lambda row: row["dest"] in ("ALB", "BQN", "CAK")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_filtering(stage, model, condition, values, holds):
    session = stage.sessions[protocol_of(stage)]
    expected = [row for row in model.rows if holds(dict(zip(COLUMNS, row)))]
    assert expected
    assert (
        rows(
            session,
            f"SELECT * FROM flights WHERE {condition} ALLOW FILTERING",
            values,
            fetch_size=50,
        )
        == expected
    )


def test_filtering_inside_of_a_partition(session, model, draw):
    for _ in range(5):
        key = some_key(model, draw, at_least=100)
        minute = draw.choice(model.partitions[key])[COLUMNS.index("minute")]
        expected = [row for row in model.partitions[key] if row[COLUMNS.index("minute")] == minute]
        query = f"SELECT * FROM flights WHERE {WHERE_KEY} AND minute = ?"
        assert rows(session, query + " ALLOW FILTERING", (*key, minute), fetch_size=10) == expected
        assert (
            rows(session, query + " LIMIT 3 ALLOW FILTERING", (*key, minute), fetch_size=2)
            == expected[:3]
        )


def whole(value):
    """Rounds an average of integers towards zero, as CQL does."""
    return math.trunc(value)


AGGREGATES = (
    "count(*), count(dep_time), min(dep_delay), max(dep_delay), sum(dep_delay), avg(dep_delay), "
    "min(tailnum),"
    " max(time_hour), sum(distance), avg(distance), sum(arr_delay), avg(sched_dep_time), "
    "max(air_time)"
)


def aggregated(frame):
    """Returns the results of AGGREGATES for these rows, by pandas, as Python's own numbers."""
    number = lambda value: value if value is None else int(value)
    some = lambda column: None if frame[column].isna().all() else column
    delays = frame["dep_delay"].dropna()
    return (
        len(frame),
        int(frame["dep_time"].notna().sum()),
        number(delays.min()) if some("dep_delay") else None,
        number(delays.max()) if some("dep_delay") else None,
        int(delays.sum()),
        whole(int(delays.sum()) / len(delays)) if len(delays) else 0,
        frame["tailnum"].dropna().min() if some("tailnum") else None,
        frame["time_hour"].max().to_pydatetime(),
        float(frame["distance"].sum()),
        pytest.approx(float(frame["distance"].mean()), rel=1e-12),
        int(frame["arr_delay"].dropna().astype(object).sum()),
        whole(int(frame["sched_dep_time"].sum()) / len(frame)),
        float(frame["air_time"].max()) if some("air_time") else None,
    )


def test_aggregates_of_a_partition(session, model, draw):
    for key in draw.sample(model.keys, 6):
        frame = model.frame.loc[(model.frame[list(flights.PARTITION_KEY)] == list(key)).all(axis=1)]
        assert rows(
            session, f"SELECT {AGGREGATES} FROM flights WHERE {WHERE_KEY}", key, fetch_size=100
        ) == [aggregated(frame)]


def test_aggregates_of_the_table(stage, model):
    session = stage.sessions["v5"]
    assert rows(session, f"SELECT {AGGREGATES} FROM flights") == [aggregated(model.frame)]
    assert rows(
        stage.sessions["v4"], "SELECT count(*) FROM flights WHERE dest = 'LAX' ALLOW FILTERING"
    ) == [(int((model.frame["dest"] == "LAX").sum()),)]


def test_aggregates_of_nothing(session):
    nothing = (0, 0, None, None, 0, 0, None, None, 0.0, 0.0, 0, 0, None)
    assert rows(
        session, f"SELECT {AGGREGATES} FROM flights WHERE {WHERE_KEY}", ("ZZ", "JFK", 1)
    ) == [nothing]


def test_group_by_partition(stage, model):
    session = stage.sessions["v5-lz4"]
    groups = model.frame.groupby(list(flights.PARTITION_KEY))
    expected = [(*key, *aggregated(groups.get_group(key))) for key in model.keys]
    query = (
        f"SELECT carrier, origin, month, {AGGREGATES} FROM flights GROUP BY carrier, origin, month"
    )
    assert rows(session, query, fetch_size=25) == expected


def test_group_by_clustering(session, model, draw):
    for key in draw.sample(model.keys, 4):
        partition = model.partitions[key]
        expected = [
            (day, len(group), max(row[5] for row in group))
            for day, group in (
                (day, list(group)) for day, group in groupby(partition, key=lambda row: row[3])
            )
        ]
        query = (
            f"SELECT day, count(*), max(flight) FROM flights WHERE {WHERE_KEY} GROUP BY carrier, "
            "origin, month, day"
        )
        assert rows(session, query, key, fetch_size=4) == expected
        assert rows(session, query + " LIMIT 3", key) == expected[:3]
    day = draw.randint(2, 28)
    expected = []
    for key in islice(model.keys, 40):
        for (day, hour), group in groupby(model.partitions[key], key=lambda row: (row[3], row[4])):
            expected.append((*key, day, hour, len(list(group))))
    query = ("SELECT carrier, origin, month, day, time_hour, count(*) FROM flights"
             f" GROUP BY carrier, origin, month, day, time_hour LIMIT {len(expected)}")
    assert rows(session, query, fetch_size=500) == expected


def test_cassandra_reads_the_files(stage, model, oracle, tmp_path):
    """Cassandra's own code finds no fault in the files, and reads the rows that our SELECT
    returns."""
    if stage.name != "restarted":
        pytest.skip("the files of the last stage are those of all stages")
    stage.node.flush(flights.KEYSPACE)
    files = stage.node.table_files(flights.KEYSPACE, "flights")
    assert len(files) >= 2
    done = oracle("verify", "--strict", "--look-ups", "16", files[0].parent)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    out = tmp_path / "dump.jsonl"
    done = oracle(
        "dump", "--live", 2_000_000_000, "--no-j", "--no-token", "-o", out, files[0].parent
    )
    assert done.returncode == 0, done.stderr[-2000:]
    others = [name for name in COLUMNS if name not in flights.PARTITION_KEY + flights.CLUSTERING]
    table = dumped.Table(list(flights.PARTITION_KEY), list(flights.CLUSTERING), [], others)
    decoders = [flights.DECODERS[flights.TYPES[name]] for name in table.columns]
    with open(out) as lines:
        got = [tuple(None if data is None else decode(data) for decode, data in zip(decoders, row))
               for row in dumped.rows(table, lines)]
    assert len(got) == len(model)
    assert got == model.rows


def test_simple_statements_with_values(stage, model, draw):
    """Statements that are not prepared: the driver inserts the values into the text."""
    for session in stage.sessions.values():
        row = draw.choice(model.rows)
        query = (
            "SELECT * FROM flights WHERE carrier = %s AND origin = %s AND month = %s AND day = %s "
            "AND time_hour = %s"
            " AND flight = %s"
        )
        assert list(session.execute(query, row[:6])) == [row]


def test_selected_columns_and_write_times(session, model, draw):
    row = draw.choice([row for row in model.rows if row[COLUMNS.index("dest")] is not None])
    query = (
        f"SELECT flight, writetime(dest), ttl(dest), dest AS to_ FROM flights WHERE {WHERE_KEY} "
        "AND day = ? AND time_hour = ? AND flight = ?"
    )
    [(flight, written, ttl, dest)] = rows(session, query, row[:6])
    assert (flight, ttl, dest) == (row[5], None, row[COLUMNS.index("dest")])
    assert 1_600_000_000_000_000 < written < 4_000_000_000_000_000
