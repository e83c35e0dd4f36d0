"""Prepared queries: for every value the answer is DuckDB's with the value written into the text, after every batch."""

from __future__ import annotations

import random
from typing import Any

import pytest

import everview as ev
from tests.inside import inside
from tests.sql import harness

QUERIES = [
    ("SELECT b, s FROM t WHERE a = $a", {"a": range(-2, 6)}),
    ("SELECT s, sum(b) AS n FROM t WHERE a = $a GROUP BY s", {"a": range(-2, 6)}),
    ("SELECT count(*) AS n, max(b) AS m FROM t WHERE a = $a AND b > $b", {"a": range(3), "b": range(4)}),
    ("SELECT a, b FROM t WHERE b BETWEEN $lo AND $hi", {"lo": range(5), "hi": range(3, 9)}),
    ("SELECT a + $k::int AS x FROM v WHERE c IN ($c, $c + 1)", {"k": [10, 20], "c": range(3)}),
    ("SELECT s FROM u WHERE s = $s OR c = $c", {"s": ["a", "fig", "none"], "c": range(4)}),
    ("SELECT t.b, u.c FROM t JOIN u ON t.a = u.a WHERE u.s = $s", {"s": ["a", "ab", "fig"]}),
    ("SELECT v.a, u.c FROM v LEFT JOIN u ON v.a = u.a AND u.c = $c", {"c": range(5)}),
    ("SELECT a FROM v WHERE EXISTS (SELECT 1 FROM u WHERE u.a = v.a AND u.c = $c)", {"c": range(5)}),
    ("SELECT a FROM v WHERE a NOT IN (SELECT a FROM u WHERE c = $c AND a IS NOT NULL)", {"c": range(5)}),
    ("SELECT a, (SELECT max(u.c) FROM u WHERE u.a = v.a AND u.c < $c) AS m FROM v", {"c": range(5)}),
    ("SELECT a, c FROM v WHERE c = $c ORDER BY a, c LIMIT 3", {"c": range(4)}),
    ("SELECT q.a, q.n FROM (SELECT a, count(*) AS n FROM u WHERE c = $c GROUP BY a) q WHERE q.n > 1", {"c": range(5)}),
    ("WITH q AS (SELECT a FROM u WHERE c = $c) SELECT v.a, v.c FROM v JOIN q ON v.a = q.a", {"c": range(5)}),
    ("WITH q AS (SELECT a FROM u WHERE c = $c) SELECT x.a FROM q x JOIN q y ON x.a = y.a", {"c": range(5)}),
    ("WITH q AS (SELECT a FROM u WHERE c = $c) SELECT v.a, q.a AS b FROM v LEFT JOIN q ON v.a = q.a", {"c": range(5)}),
    ("WITH q AS (SELECT a FROM u WHERE c = $c) SELECT a FROM v WHERE a IN (SELECT a FROM q)", {"c": range(5)}),
    ("SELECT a FROM v WHERE c = $c UNION SELECT a FROM u WHERE c = $c", {"c": range(5)}),
    ("SELECT a, c, row_number() OVER (PARTITION BY a ORDER BY c) AS n FROM v WHERE c <= $c", {"c": range(5)}),
    (
        "WITH RECURSIVE r(n) AS (SELECT $n::int UNION SELECT e.dst FROM r JOIN e ON e.src = r.n) SELECT n FROM r",
        {"n": range(8)},
    ),
    (
        "WITH RECURSIVE r(n, d) AS (SELECT $n::int, 0 UNION "
        "SELECT e.dst, r.d + 1 FROM e, r WHERE e.src = r.n AND r.d < $d) SELECT n, min(d) AS d FROM r GROUP BY n",
        {"n": range(8), "d": range(1, 4)},
    ),
]


def written(text: str, values: dict[str, Any]) -> str:
    for name, value in values.items():
        text = text.replace(f"${name}", repr(value))
    return text


def test_all_values_share_one_dataflow_and_are_right() -> None:
    db, oracle, rng = harness.session(), harness.Oracle(), random.Random(1)
    prepared = [db.prepare(f"q{i}", text) for i, (text, _) in enumerate(QUERIES)]
    changes = harness.Changes(7)
    for batch in changes.batches(5):
        harness.apply(db, batch)
        oracle.load(changes.rows)
        operators = db.stats()["operators"]
        for query, (text, choices) in zip(prepared, QUERIES, strict=True):
            for _ in range(3):
                values = {n: rng.choice(list(c)) for n, c in choices.items()}  # type: ignore[attr-defined]
                expected = oracle.rows(written(text, values))
                problem = harness.difference(query(**values).rows(), expected)
                assert not problem, f"{text} with {values}: {problem}"
        assert db.stats()["operators"] == operators


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.sql(
        "CREATE TABLE t (k text, x int, d date); INSERT INTO t VALUES ('a', 1, NULL), ('a', 2, NULL), ('b', 3, NULL)"
    )
    return session


def test_a_known_value_costs_no_transaction_and_follows_changes(db: ev.Session) -> None:
    q = db.prepare("q", "SELECT x FROM t WHERE k = $k ORDER BY x DESC")
    assert q(k="a").rows() == [(2,), (1,)]
    time = db.time
    assert (q("a").rows(), q.parameters, db.time) == ([(2,), (1,)], {"k": ev.types.STR}, time)
    db.sql("INSERT INTO t VALUES ('a', 5, NULL)")
    assert (q("a").rows(), q("a").columns, q("none").rows()) == ([(5,), (2,), (1,)], ["x"], [])


def test_only_so_many_values_are_kept(db: ev.Session) -> None:
    q = db.prepare("q", "SELECT x FROM t WHERE k = $k", keep=2)
    for k in ("a", "b", "a", "c"):
        q(k)
    assert {row[0] for row in db["q"].rows()} == {"a"}  # b was not asked for the longest, c has no rows
    q.forget("a")
    assert db["q"].rows() == []
    assert sorted(q("a").rows()) == [(1,), (2,)]
    q.drop()
    assert (db.views, db.tables) == ((), ("t",))
    db.prepare("q", "SELECT x FROM t WHERE k = $k")


def test_clock_and_parameters(db: ev.Session) -> None:
    q = db.prepare("q", "SELECT x FROM t WHERE d >= current_date AND k = $k")
    db.sql("INSERT INTO t VALUES ('a', 7, current_date)")
    assert q("a").rows() == [(7,)]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("SELECT x FROM t", "E_UNSUPPORTED", "the query has no parameters"),
        ("SELECT $p AS x FROM t", "E_PARAMETER", "the type of $p is not known"),
        ("SELECT x FROM t WHERE k = $p AND x = $p", "E_TYPE", ""),
        ("DELETE FROM t WHERE x = $p", "E_UNSUPPORTED", "only queries"),
        ("SELECT 1; SELECT 2", "E_SYNTAX", "one query is prepared"),
    ],
)
def test_what_cannot_be_prepared(db: ev.Session, text: str, code: str, says: str) -> None:
    with pytest.raises(ev.PlanError) as caught:
        db.prepare("q", text)
    assert caught.value.code == code
    assert says in str(caught.value)
    assert (db.views, len(inside(db).catalog.tables)) == ((), 1)


def test_values_are_checked(db: ev.Session) -> None:
    q = db.prepare("q", "SELECT x FROM t WHERE k = $k AND x > $x")
    for args, named in (
        (("a",), {}),
        ((), {"k": "a", "y": 1}),
        (("a", 1), {"x": 2}),
        (("a", "b"), {}),
        (("a", None), {}),
    ):
        with pytest.raises(ev.InputError):
            q(*args, **named)
    with pytest.raises(ev.InputError, match="E_TRANSACTION"), db.transaction():
        q("a", 1)
    with pytest.raises(ev.PlanError, match=r"\$k has no value here"):
        db.sql("SELECT x FROM t WHERE k = $k")


def test_a_bad_row_is_an_error_for_its_own_values_only() -> None:
    """One tenant's rows never take the answer from another."""
    with ev.connect() as db:
        doc = db.table("doc", {"tenant": str, "v": str})
        nums = db.prepare("nums", "SELECT v::int AS n FROM doc WHERE tenant = $t")
        doc.insert([("a", "1"), ("a", "2"), ("b", "secret")])
        assert nums("a").rows() == [(1,), (2,)]
        for _ in range(2):
            with pytest.raises(ev.RowErrors, match="nums holds rows that could not be computed") as caught:
                nums("b")
            assert "secret" not in str(caught.value)
            assert nums("a").rows() == [(1,), (2,)] and nums("c").rows() == []
        doc.insert([("a", "3")])
        assert nums("a").rows() == [(1,), (2,), (3,)]
        doc.delete([("b", "secret")])
        assert nums("b").rows() == []


def test_random_bad_rows_of_random_values() -> None:
    rng = random.Random(3)
    with ev.connect() as db:
        doc = db.table("doc", {"tenant": int, "v": int})
        shares = db.prepare("shares", "SELECT sum(100 / v) AS s, count(*) AS n FROM doc WHERE tenant = $t")
        held: list[tuple[int, int]] = []
        for _ in range(30):
            row = (rng.randrange(4), rng.randrange(4))
            if held and rng.random() < 0.4:
                doc.delete([held.pop(rng.randrange(len(held)))])
            else:
                doc.insert([row])
                held.append(row)
            for tenant in range(4):
                mine = [v for t, v in held if t == tenant]
                if 0 in mine:
                    with pytest.raises(ev.RowErrors):
                        shares(tenant)
                else:
                    expected = (sum(100 // v for v in mine) if mine else None, len(mine))
                    assert shares(tenant).rows() == [expected]
