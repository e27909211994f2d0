"""Pages that end among tombstones (`query_tombstone_page_limit`) may be empty; no row is lost."""
import pytest

from driver import write_all
from gate import all_or_one
from test_row_cache import KEYSPACE

ROWS = 1000
TABLES = {
    "wide": (
        "k int, c int, v text, PRIMARY KEY (k, c)",
        "(k, c, v) VALUES (7, ?, 'x')",
        "k = 7 AND c = ?",
    ),
    "narrow": ("k int PRIMARY KEY, v text", "(k, v) VALUES (?, 'x')", "k = ?"),
}


def fill(session, name, ours, is_flushed):
    """Inserts a thousand rows, and deletes all but three."""
    definition, values, place = TABLES[name]
    session.execute(KEYSPACE)
    session.execute(f"CREATE TABLE ks.{name} ({definition})")
    insert, delete = session.prepare(f"INSERT INTO ks.{name} {values}"), session.prepare(
        f"DELETE FROM ks.{name} WHERE {place}"
    )
    write_all(session, insert, [(number,) for number in range(ROWS)])
    if is_flushed:
        ours.flush("ks", name)
    write_all(session, delete, [(number,) for number in range(ROWS - 3)])
    if is_flushed:
        ours.flush("ks", name)


def numbers(rows, name):
    return sorted(row.c if name == "wide" else row.k for row in rows)


@pytest.mark.parametrize("is_flushed", (False, True))
@pytest.mark.parametrize("name", all_or_one(TABLES))
def test_pages_end_and_nothing_is_lost(node, name, is_flushed):
    ours = node("ours", settings={"query_tombstone_page_limit": 100})
    session = ours.connect()
    fill(session, name, ours, is_flushed)
    result, pages, empty = session.execute(f"SELECT * FROM ks.{name} BYPASS CACHE"), 1, 0
    rows = list(result.current_rows)
    while result.has_more_pages:
        empty += not result.current_rows
        result.fetch_next_page()
        rows += result.current_rows
        pages += 1
    assert numbers(rows, name) == [ROWS - 3, ROWS - 2, ROWS - 1]
    # A read skips a memtable's tombstone run in one step.
    if is_flushed:
        assert pages > 5 and empty > 2, (pages, empty)
    # The driver fetches further pages by itself, and counts are not paged.
    assert len(list(session.execute(f"SELECT * FROM ks.{name} LIMIT 2"))) == 2
    assert session.execute(f"SELECT count(*) FROM ks.{name}").one()[0] == 3


def test_without_a_limit_the_first_page_has_a_row(node):
    ours = node("ours", settings={"query_tombstone_page_limit": 0})
    session = ours.connect()
    fill(session, "wide", ours, is_flushed=True)
    assert session.execute("SELECT * FROM ks.wide LIMIT 1 BYPASS CACHE").one().c == ROWS - 3


def test_unpaged_reads_among_tombstones_return_all_rows(node):
    """Statements without pages read chunks of ten dead rows, because a chunk pins its sources."""
    ours = node("ours", settings={"query_tombstone_page_limit": 1})
    session = ours.connect()
    session.execute(KEYSPACE)
    session.execute("CREATE TABLE ks.t (k int, c int, v int, s int static, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
    delete = session.prepare("DELETE FROM ks.t WHERE k = ? AND c = ?")
    alive = [(k, c) for k in range(5) for c in range(200) if c % (13 + 10 * k) == 7]
    rows = [(k, c) for k in range(5) for c in range(200)]
    write_all(session, insert, [(k, c, c % 3) for k, c in rows])
    ours.flush("ks", "t")
    write_all(session, delete, [row for row in rows if row not in alive])
    # Some partitions have nothing left, and two have only a static row.
    for k in range(100, 160):
        session.execute(insert, (k, 1, 1))
        session.execute(delete, (k, 1))
    for k in (200, 201):
        session.execute(f"INSERT INTO ks.t (k, s) VALUES ({k}, 1)")
    session.default_fetch_size = None
    for is_flushed in (False, True):
        if is_flushed:
            ours.flush("ks", "t")
        for bypass in ("", " BYPASS CACHE"):
            def rows(what, rest="", bypass=bypass):
                found = session.execute(f"SELECT {what} FROM ks.t {rest}{bypass}")
                assert not found.has_more_pages
                return [tuple(row) for row in found]

            with_statics = alive + [(200, None), (201, None)]
            assert sorted(rows("k, c"), key=str) == sorted(with_statics, key=str)
            assert rows("count(c)") == [(len(alive),)]
            assert sorted(rows("k, count(c)", "GROUP BY k")) == sorted(
                [(k, sum(of == k for of, _ in alive)) for k in range(5)] + [(200, 0), (201, 0)])
            assert sorted(rows("DISTINCT k")) == [(0,), (1,), (2,), (3,), (4,), (200,), (201,)]
            assert sorted(rows("k, c", "WHERE v = 1 ALLOW FILTERING")) == sorted(
                (k, c) for k, c in alive if c % 3 == 1
            )
            assert sorted(rows("k, c", "WHERE c >= 190 ALLOW FILTERING")) == sorted(
                (k, c) for k, c in alive if c >= 190
            )
            for k in range(5):
                of_partition = [c for of, c in alive if of == k]
                assert rows("c", f"WHERE k = {k}") == [(c,) for c in of_partition]
                assert rows("c", f"WHERE k = {k} ORDER BY c DESC") == [
                    (c,) for c in reversed(of_partition)
                ]
                assert rows("c", f"WHERE k = {k} LIMIT 2") == [(c,) for c in of_partition[:2]]
            assert rows("c", "WHERE k IN (0, 1) ORDER BY c") == [
                (c,) for c in sorted(c for k, c in alive if k < 2)
            ]
