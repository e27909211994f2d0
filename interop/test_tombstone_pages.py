"""Pages that end among tombstones (`query_tombstone_page_limit`), as a driver sees them: perhaps empty, and nothing is lost."""
import pytest

from test_row_cache import KEYSPACE

ROWS = 1000
TABLES = {
    "wide": ("k int, c int, v text, PRIMARY KEY (k, c)", "(k, c, v) VALUES (7, ?, 'x')", "k = 7 AND c = ?"),
    "narrow": ("k int PRIMARY KEY, v text", "(k, v) VALUES (?, 'x')", "k = ?"),
}


def fill(session, name, ours, is_flushed):
    """A thousand rows, all deleted but three."""
    definition, values, place = TABLES[name]
    session.execute(KEYSPACE)
    session.execute(f"CREATE TABLE ks.{name} ({definition})")
    insert, delete = session.prepare(f"INSERT INTO ks.{name} {values}"), session.prepare(f"DELETE FROM ks.{name} WHERE {place}")
    for number in range(ROWS):
        session.execute(insert, (number,))
    if is_flushed:
        ours.flush("ks", name)
    for number in range(ROWS - 3):
        session.execute(delete, (number,))
    if is_flushed:
        ours.flush("ks", name)


def numbers(rows, name):
    return sorted(row.c if name == "wide" else row.k for row in rows)


@pytest.mark.parametrize("is_flushed", (False, True))
@pytest.mark.parametrize("name", TABLES)
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
    # Dead rows of a memtable are passed in one leap.
    if is_flushed:
        assert pages > 5 and empty > 2, (pages, empty)
    # Iteration goes on by itself, and counts are not paged.
    assert len(list(session.execute(f"SELECT * FROM ks.{name} LIMIT 2"))) == 2
    assert session.execute(f"SELECT count(*) FROM ks.{name}").one()[0] == 3


def test_without_a_limit_the_first_page_has_a_row(node):
    ours = node("ours", settings={"query_tombstone_page_limit": 0})
    session = ours.connect()
    fill(session, "wide", ours, is_flushed=True)
    assert session.execute("SELECT * FROM ks.wide LIMIT 1 BYPASS CACHE").one().c == ROWS - 3
