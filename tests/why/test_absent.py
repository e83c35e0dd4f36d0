"""What is said not to be there: NULLs that are meant, conditions that no row meets, groups without rows; and steps
whose columns take pages to compute.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import everview as ev


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        session.sql("CREATE TABLE emp (id INT PRIMARY KEY, name TEXT, dept TEXT, pay INT)")
        session.sql("CREATE TABLE dept (name TEXT PRIMARY KEY, city TEXT)")
        session.sql("INSERT INTO dept VALUES ('it', 'Rome'), ('ops', NULL)")
        session.sql("INSERT INTO emp VALUES (1, 'Ann', 'it', 90), (4, 'Dan', NULL, 50)")
        yield session


def test_a_null_that_is_meant_is_not_any_value(db: ev.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT dept FROM emp EXCEPT SELECT city FROM dept WHERE city IS NOT NULL")
    (absent,) = [d for d in db["v"].why((None,)).walk() if d.kind == "absent"]
    assert "is NULL" in absent.how
    assert "is NULL" in str(db["v"].why((None,)))
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT dept FROM emp EXCEPT SELECT name FROM dept")
    assert str(db["w"].why((None,))).endswith("no row dept(_, _)  name is NULL")
    (other,) = [d for d in db["v"].why(("it",)).walk() if d.kind == "absent"]
    assert "is NULL" not in other.how


def test_a_count_of_nothing_names_what_no_row_meets(db: ev.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, max(pay) AS m FROM emp WHERE pay > 1000")
    assert str(db["v"].why((0, None))) == "v(0, NULL)\n└─ no row emp(_, _, _, _)  where pay > 1000"


def test_a_group_without_rows(db: ev.Session) -> None:
    db.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT d.name FROM dept d LEFT JOIN"
        " (SELECT dept, count(*) AS n FROM emp GROUP BY dept) c ON c.dept = d.name WHERE c.n IS NULL"
    )
    found = db["v"].why(("ops",))
    assert found.absences() == [("emp", (None, None, "ops", None))]


def test_what_takes_pages_to_compute_is_cut(db: ev.Session) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT dept, stddev(pay) AS sd, avg(pay) AS mean FROM emp GROUP BY dept")
    for row in db["v"].rows():
        assert max(map(len, str(db["v"].why(row)).splitlines())) < 600
