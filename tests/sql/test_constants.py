"""Rows that are written down: SELECT without FROM, VALUES, aggregates of nothing, facts of Datalog programs.

They are operators like any other (`everview.plan.nodes.Constant`): shared, freed with their last reader, on one of the
shards, and there again when a directory is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import everview as ev
from everview.session.local_shards import local_shards

VALUES = "SELECT * FROM (VALUES (1, 'one', NULL), (2, 'two', 1.5), (2, 'two', 1.5)) AS t(n, name, x)"
ROWS = [(1, "one", None), (2, "two", 1.5), (2, "two", 1.5)]


@pytest.fixture(params=["embedded", "three shards"])
def db(request: pytest.FixtureRequest) -> Iterator[ev.Session]:
    with ev.connect() if request.param == "embedded" else local_shards(shards=3) as session:
        yield session


def constants(db: ev.Session) -> list[str]:
    return [a["name"] for a in db.stats()["arrangements"] if a["name"] == "arrange constant"]


def test_constants_join_with_what_changes(db: ev.Session) -> None:
    db.sql("CREATE TABLE seen (n int)")
    text = f"SELECT v.name, count(*) AS c FROM ({VALUES}) v JOIN seen USING (n) GROUP BY 1"
    names = db.sql(f"CREATE VIEW names AS {text}")
    assert names.rows() == []
    db.sql("INSERT INTO seen VALUES (1), (2), (3)")
    assert sorted(names.rows()) == [("one", 1), ("two", 2)]
    db.sql("DELETE FROM seen WHERE n = 2")
    assert names.rows() == [("one", 1)]


def test_constants_are_shared_and_go_with_their_last_reader(db: ev.Session) -> None:
    db.sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1)")  # time goes on before the first constant
    first = db.sql(f"CREATE VIEW first AS {VALUES}")
    second = db.sql(f"CREATE VIEW second AS SELECT n FROM ({VALUES}) v")
    assert sorted(first.rows(), key=repr) == sorted(ROWS, key=repr) and sorted(second.rows()) == [(1,), (2,), (2,)]
    assert len(constants(db)) == 1
    first.drop()
    assert len(constants(db)) == 1 and sorted(second.rows()) == [(1,), (2,), (2,)]
    second.drop()
    assert constants(db) == [] and db.tables == ("t",)


def test_a_failed_view_leaves_no_constant(db: ev.Session) -> None:
    with pytest.raises(ev.LoopError):
        db.sql(
            "CREATE VIEW v AS WITH RECURSIVE (ERROR AT RECURSION LIMIT 5) r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r)"
            " SELECT n FROM r"
        )
    assert constants(db) == []
    assert db.sql("SELECT 1 AS one").rows() == [(1,)]


def test_facts_and_the_same_rows_in_sql_are_one_constant(db: ev.Session) -> None:
    rules = db.datalog("colour(1, red). colour(2, blue). warm(X) :- colour(X, red).")
    view = db.sql("CREATE VIEW v AS SELECT * FROM (VALUES (1, 'red'), (2, 'blue')) AS t(a, b)")
    assert sorted(rules.colour.rows()) == sorted(view.rows()) == [(1, "red"), (2, "blue")]
    assert rules.warm.rows() == [(1,)] and len(constants(db)) == 1


def test_values_of_one_kind_that_equal_others_of_another_stay_apart(db: ev.Session) -> None:
    text = "SELECT * FROM (VALUES ({}), ({})) AS t(x)"
    found = [db.sql(text.format(*pair)).rows() for pair in (("1", "0"), ("true", "false"), ("1.0", "0.0"))]
    assert [[repr(x) for (x,) in sorted(rows)] for rows in found] == [
        ["0", "1"],
        ["False", "True"],
        ["Decimal('0.0')", "Decimal('1.0')"],
    ]


@pytest.mark.parametrize("checkpoint", [True, False], ids=["files", "log"])
def test_a_directory_has_its_constants_again_once(tmp_path: Path, checkpoint: bool) -> None:
    with ev.connect(tmp_path) as db:
        db.sql(f"CREATE TABLE t (n int); INSERT INTO t VALUES (2); CREATE VIEW v AS {VALUES}")
        db.sql("CREATE VIEW n AS SELECT count(*) AS c FROM t WHERE n > 2; SELECT 'passing' AS word")
        if checkpoint:
            db.checkpoint()
    with ev.connect(tmp_path) as db:
        assert sorted(db["v"].rows(), key=repr) == sorted(ROWS, key=repr) and db["n"].rows() == [(0,)]
        db.sql(f"INSERT INTO t VALUES (3); CREATE VIEW w AS SELECT count(*) AS c FROM ({VALUES}) v")
        assert db["n"].rows() == [(1,)] and db["w"].rows() == [(3,)]
