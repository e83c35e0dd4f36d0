"""varchar(n): a column takes n letters, cuts blanks behind them, and refuses anything longer, as in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import EverviewError

SETUP = "CREATE TABLE v (id int PRIMARY KEY, s varchar(3), t text); INSERT INTO v VALUES (1, 'abc', 'long text')"

GOOD = {
    "INSERT INTO v VALUES (2, 'ab    ', 'x')": "ab ",
    "INSERT INTO v VALUES (2, 'é日本', 'x')": "é日本",
    "INSERT INTO v VALUES (2, NULL, 'x')": None,
    "INSERT INTO v SELECT 2, CAST(t AS varchar(3)), t FROM v": "lon",
    "INSERT INTO v VALUES (2, 'a', 'x'); UPDATE v SET s = s || 'bc' WHERE id = 2": "abc",
}

BAD = (
    "INSERT INTO v VALUES (2, 'abcd', 'x')",
    "INSERT INTO v VALUES (2, 'abc d', 'x')",
    "INSERT INTO v SELECT 2, t, t FROM v",
    "UPDATE v SET s = t",
    "UPDATE v SET s = s || 'd'",
    "INSERT INTO v VALUES (1, 'x', 'x') ON CONFLICT (id) DO UPDATE SET s = v.t",
    "MERGE INTO v USING (SELECT 1 AS id) AS n ON v.id = n.id WHEN MATCHED THEN UPDATE SET s = t",
    "ALTER TABLE v ALTER COLUMN t TYPE varchar(4)",
)


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.sql(SETUP)
    return session


@pytest.mark.parametrize("text", GOOD)
def test_fits(db: ev.Session, text: str) -> None:
    db.sql(text)
    assert db.sql("SELECT s FROM v WHERE id = 2").rows() == [(GOOD[text],)]


@pytest.mark.parametrize("text", BAD)
def test_is_refused_and_nothing_changes(db: ev.Session, text: str) -> None:
    with pytest.raises(EverviewError, match=r"varchar\((3|4)\) has room for") as caught:
        db.sql(text)
    assert caught.value.code == "E_RANGE"
    assert db.sql("SELECT * FROM v").rows() == [(1, "abc", "long text")]


def test_rows_and_arrow_tables_of_python(db: ev.Session) -> None:
    table = db["v"]
    table.insert([(2, "xyz  ", "t")])
    table.insert(pa.table({"id": [3, 4], "s": ["q   ", None], "t": ["t", "t"]}))
    assert sorted(db.sql("SELECT id, s FROM v").rows()) == [(1, "abc"), (2, "xyz"), (3, "q  "), (4, None)]
    many = [(i, "abc", "t") for i in range(10, 3000)]
    for bad in ([(5, "wxyz", "t")], pa.table({"id": [5], "s": ["wxyz"], "t": ["t"]}), [*many, (5, "wxyz", "t")]):
        with pytest.raises(EverviewError, match="has room for 3"):
            table.insert(bad)
    assert len(table.rows()) == 4


def test_a_view_and_the_catalogue_know_texts(db: ev.Session) -> None:
    view = db.sql(
        "CREATE VIEW w AS SELECT s, max(s || t) AS m, count(*) AS n FROM v GROUP BY s UNION ALL SELECT t, s, 0 FROM v"
    )
    db.sql("INSERT INTO v VALUES (2, 'abc', 'x')")
    assert sorted(view.rows()) == [("abc", "abcx", 2), ("long text", "abc", 0), ("x", "abc", 0)]
    assert db.sql("DESCRIBE v").rows()[1][:2] == ("s", "varchar(3)")
    assert db.sql("DESCRIBE w").rows()[0][:2] == ("s", "text")


def test_it_is_kept_and_can_be_changed(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "d") as first:
        first.sql(SETUP)
    with ev.connect(tmp_path / "d") as again:
        with pytest.raises(EverviewError, match="has room for 3"):
            again.sql(BAD[0])
        again.sql("ALTER TABLE v ALTER COLUMN s TYPE varchar(5); INSERT INTO v VALUES (2, 'abcde', 'x')")
        again.sql("ALTER TABLE v ADD COLUMN u varchar(2); ALTER TABLE v RENAME COLUMN t TO tt")
    with ev.connect(tmp_path / "d") as third:
        for text in ("UPDATE v SET s = 'abcdef'", "UPDATE v SET u = 'abc'"):
            with pytest.raises(EverviewError, match="has room for"):
                third.sql(text)
        third.sql("ALTER TABLE v ALTER COLUMN s TYPE text; UPDATE v SET s = 'abcdef', u = 'ab'")
        assert third.sql("SELECT DISTINCT s, u FROM v").rows() == [("abcdef", "ab")]
