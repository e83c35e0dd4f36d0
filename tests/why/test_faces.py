"""WHY in SQL, `everview why` on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import everview as ev
from everview.cli import app


@pytest.fixture
def db() -> Iterator[ev.Session]:
    with ev.connect() as session:
        yield session


def shops(db: ev.Session) -> None:
    db.sql("CREATE TABLE sales (shop text, amount double precision, day date)")
    best = "SELECT shop, max(amount) AS most, min(day) AS day FROM sales GROUP BY shop"
    db.sql(f"CREATE MATERIALIZED VIEW best AS {best}")
    db.sql("INSERT INTO sales VALUES ('north', 1.5, '2026-01-02'), ('north', 3, '2026-01-01')")


def lines(db: ev.Session, text: str) -> list[str]:
    return [line for (line,) in db.sql(text).rows()]


def test_why_in_sql(db: ev.Session) -> None:
    shops(db)
    found = lines(db, "WHY best ('north', 3, '2026-01-01')")
    assert found[0].startswith("best('north', 3.0, datetime.date(2026, 1, 1))")
    assert found[1:] == ["└─ sales('north', 3.0, datetime.date(2026, 1, 1))"]
    assert lines(db, "why not BEST ('south', NULL, NULL)")[1] == "- there is no row sales('south', _, _)"


def test_explain_why_a_query(db: ev.Session) -> None:
    shops(db)
    found = lines(db, "EXPLAIN WHY SELECT shop, amount FROM sales WHERE amount > 2 ORDER BY day")
    assert found == ["query('north', 3.0)", "└─ sales('north', 3.0, datetime.date(2026, 1, 1))"]
    db.sql("INSERT INTO sales SELECT 'many', n, '2026-01-01' FROM generate_series(1, 30) AS s(n)")
    assert lines(db, "EXPLAIN WHY SELECT amount FROM sales")[-1] == "... and 21 more rows"
    assert db.views == ("best",)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("WHY nothing (1)", "E_TABLE"),
        ("WHY best", "E_SYNTAX"),
        ("WHY best ('north')", "E_WIDTH"),
        ("WHY best ('east', 1, '2026-01-01')", "E_ABSENT"),
        ("WHY NOT best ('north', 3, '2026-01-01')", "E_PRESENT"),
        ("EXPLAIN WHY DROP TABLE sales", "E_UNSUPPORTED"),
    ],
)
def test_mistakes(db: ev.Session, text: str, code: str) -> None:
    shops(db)
    with pytest.raises(ev.EverviewError) as error:
        db.sql(text)
    assert error.value.code == code


def test_why_on_the_command_line(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with ev.connect(state) as db:
        edge = db.table("edge", {"src": str, "dst": str})
        db.datalog('reach("a"). reach(Y) :- reach(X), edge(X, Y).')
        edge.insert([("a", "b"), ("b", "c"), ("a", "d"), ("d", "c")])
    run = CliRunner().invoke
    for row in ("c", "'c'", "('c',)"):
        answer = run(app, ["why", state, "reach", row])
        assert answer.exit_code == 0, answer.output
        assert answer.output.splitlines()[0].startswith("reach('c')")
    assert "edge('a', 'z')" in run(app, ["why", state, "reach", "z", "--not"]).output
    found = json.loads(run(app, ["why", state, "reach", "c", "--json", "--all", "5"]).output)
    assert len(found["witnesses"]) == 2 and not found["truncated"]
    assert run(app, ["why", state, "reach", "z"]).exit_code == 1
    assert run(app, ["why", state, "rich", "z"]).exit_code == 1


def test_sql_asks_about_earlier_times() -> None:
    with ev.connect(history=10) as db:
        t = db.table("t", {"k": int, "v": str}, key="k")
        db.sql("CREATE VIEW v AS SELECT DISTINCT v FROM t")
        t.insert([(1, "a"), (3, "b")])
        db.sql("UPDATE t SET v = 'z' WHERE k = 3")
        assert db.sql("WHY v ('b') AS OF 1").rows() == [("v('b')",), ("└─ t(3, 'b')",)]
        assert db.sql("WHY NOT v ('z') AS OF 1").rows()[0] == ("v('z') is not there:",)
        assert db.sql("EXPLAIN WHY SELECT v FROM t WHERE k = 3 AS OF 1").rows() == [("query('b')",), ("└─ t(3, 'b')",)]
        for asked in ("WHY v ('b')", "WHY v ('z') AS OF 1"):
            with pytest.raises(ev.InputError) as caught:
                db.sql(asked)
            assert caught.value.code == "E_ABSENT"
        with pytest.raises(ev.InputError) as caught:
            db.sql("WHY v ('b') AS OF 9")
        assert caught.value.code == "E_FUTURE"


@pytest.mark.parametrize("text", ["COPY t TO 'out.csv' AS OF 1", "SUBSCRIBE TO t AS OF 1"])
def test_what_has_no_earlier_time_is_refused(text: str) -> None:
    with ev.connect(history=10) as db:
        db.table("t", {"k": int}).insert([(1,)])
        with pytest.raises(ev.EverviewError) as caught:
            db.sql(text)
        assert caught.value.code == "E_UNSUPPORTED"
