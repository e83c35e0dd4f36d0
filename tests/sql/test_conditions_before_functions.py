"""Conditions on the rows that a table function is applied to are tested before it, as PostgreSQL does."""

from __future__ import annotations

import pytest

import everview as ev

ROWS = """INSERT INTO doc VALUES (1, '{"k": 1, "n": 2}'), (2, '[1, 2]'), (3, '[]'), (4, '7'), (5, NULL)"""


@pytest.fixture
def db() -> ev.Session:
    found = ev.connect()
    found.sql("CREATE TABLE doc (id int, j jsonb)")
    found.sql("CREATE TABLE who (id int, name text)")
    found.sql("INSERT INTO who VALUES (1, 'ann'), (2, 'bob')")
    return found


QUERIES = {
    "SELECT id, e FROM doc, jsonb_array_elements(j) AS e WHERE jsonb_typeof(j) = 'array'": [(2, 1), (2, 2)],
    "SELECT id, key FROM doc, jsonb_each(j) WHERE jsonb_typeof(j) = 'object' AND key <> 'n'": [(1, "k")],
    "SELECT id, e FROM doc LEFT JOIN LATERAL jsonb_array_elements(j) AS e ON true WHERE jsonb_typeof(j) = 'array'": [
        (2, 1), (2, 2), (3, None),
    ],
    "SELECT name, e FROM who JOIN doc USING (id), jsonb_array_elements(j) e WHERE jsonb_typeof(j) = 'array'": [
        ("bob", 1), ("bob", 2),
    ],
    "SELECT id, e, g FROM doc, jsonb_array_elements(j) AS e, generate_series(1, e::int) AS g "
    "WHERE jsonb_typeof(j) = 'array' AND e::int > 1 AND g < 5": [(2, 2, 1), (2, 2, 2)],
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_rows_that_do_not_pass_cannot_fail(db: ev.Session, query: str) -> None:
    db.sql(ROWS)
    assert sorted(db.sql(query).rows(), key=str) == QUERIES[query]


@pytest.mark.parametrize("query", QUERIES)
def test_so_it_is_in_views(db: ev.Session, query: str) -> None:
    view = db.sql(f"CREATE VIEW v AS {query}")
    db.sql(ROWS)
    assert sorted(view.rows(), key=str) == QUERIES[query]
    db.sql("UPDATE doc SET j = '[5]' WHERE id = 4")
    db.sql("DELETE FROM doc WHERE id = 2")
    assert sorted(view.rows(), key=str) == sorted(db.sql(query).rows(), key=str)


def test_rows_that_pass_still_fail(db: ev.Session) -> None:
    db.sql(ROWS)
    with pytest.raises(ev.RowErrors):
        db.sql("SELECT e FROM doc, jsonb_array_elements(j) AS e WHERE id < 3").rows()
