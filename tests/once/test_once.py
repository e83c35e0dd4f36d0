"""Questions at once: which way they go, what they read, what they leave behind, and how they fail."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import everview as ev
from everview.errors import out_of_memory
from everview.once import evaluation, hash_joins, leaves, row_groups, row_order
from everview.once.rows import Column, Rows
from everview.session.local_shards import local_shards


def way(db: ev.Session, text: str) -> str:
    """What EXPLAIN says about the way."""
    lines = [row[0] for row in db.sql(f"EXPLAIN {text}").rows()]
    (found,) = [line for line in lines if line.startswith("answered ")]
    return str(found)


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.sql("CREATE TABLE t (a int, b text, x float, m decimal(9,2))")
    session.sql("INSERT INTO t VALUES (1, 'one', 0.5, 1.10), (2, 'two', NULL, 2.20), (2, 'deux', 1e300, NULL)")
    return session


def test_explain_says_which_way_and_why(db: ev.Session) -> None:
    assert way(db, "SELECT a, count(*) FROM t GROUP BY a") == "answered directly, from columns that are already kept"
    assert "Window" in way(db, "SELECT a, row_number() OVER (ORDER BY a) FROM t")
    db.sql("SET ask = 'view'")
    assert "SET ask says so" in way(db, "SELECT a FROM t")


def test_what_needs_a_view_is_refused_if_views_are() -> None:
    with ev.connect() as db:
        db.sql("CREATE TABLE e (x int, y int); SET ask = 'once'")
        with pytest.raises(ev.EverviewError, match="cannot be answered at once"):
            db.sql("WITH RECURSIVE r AS (SELECT x, y FROM e UNION SELECT r.x, e.y FROM r, e WHERE r.y = e.x) TABLE r")
        with pytest.raises(ev.EverviewError, match="there is no way 'twice'"):
            db.sql("SET ask = 'twice'")
        db.sql("SET ask = default")
        assert db.sql("SELECT row_number() OVER () FROM e").rows() == []


def test_sessions_in_shards_ask_by_views() -> None:
    with local_shards(shards=2) as db:
        db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (1)")
        assert way(db, "SELECT a FROM t").endswith("rows are in shards")
        assert db.sql("SELECT a, count(*) FROM t GROUP BY a").rows() == [(1, 2)]


def test_a_row_that_fails_is_told_as_by_a_view(db: ev.Session) -> None:
    messages = []
    for setting in ("default", "'view'"):
        db.sql(f"SET ask = {setting}")
        with pytest.raises(ev.RowErrors) as error:
            db.sql("SELECT 1 / (a - 1) FROM t")
        messages.append(str(error.value))
    assert messages[0] == messages[1] and "division by zero" in messages[0]
    assert db.sql("SELECT 1 / (a - 1) FROM t WHERE a > 1").rows() == [(1,), (1,)]


def test_a_row_that_has_left_does_not_fail(db: ev.Session) -> None:
    """It is still in a batch, together with its deletion."""
    db.sql("DELETE FROM t WHERE a = 1")
    assert db.sql("SELECT 1 / (a - 1) FROM t").rows() == [(1,), (1,)]


def test_what_is_kept_is_read_and_failures_of_views_count(db: ev.Session) -> None:
    db.sql("CREATE VIEW inverse AS SELECT b, 1 / (a - 1) AS i FROM t")
    with pytest.raises(ev.RowErrors):
        db.sql("SELECT b FROM inverse")  # though the column that fails is not read
    db.sql("DELETE FROM t WHERE a = 1")
    assert db.sql("SELECT b FROM inverse ORDER BY b").rows() == [("deux",), ("two",)]


def test_no_time_passes_and_nothing_is_kept(db: ev.Session) -> None:
    time, size = db.time, db.stats()["bytes"]
    operators = len(db._core.runtime.dataflow.numbered)
    db.sql("SELECT t.a, count(*) FROM t, t AS u WHERE t.a = u.a GROUP BY t.a")
    assert (db.time, db.stats()["bytes"]) == (time, size)
    assert len(db._core.runtime.dataflow.numbered) == operators


def test_a_transaction_sees_its_own_changes(db: ev.Session) -> None:
    db.sql("BEGIN; INSERT INTO t VALUES (3, 'three', NULL, NULL); DELETE FROM t WHERE a = 1")
    assert db.sql("SELECT a FROM t ORDER BY a").rows() == [(2,), (2,), (3,)]
    db.sql("ROLLBACK")
    assert db.sql("SELECT count(*) FROM t").rows() == [(3,)]


def test_a_limit_of_memory_counts(db: ev.Session) -> None:
    db.table("n", {"x": int}).insert(pa.table({"x": range(2000)}))
    with db.limits(memory="1 MB"), pytest.raises(ev.MemoryLimitError):
        db.sql("SELECT a.x + b.x FROM n AS a, n AS b")
    assert db.sql("SELECT count(*) FROM n AS a, n AS b").rows() == [(4_000_000,)]


def test_a_lack_of_memory_that_is_not_its_own(db: ev.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session of the process is being stopped: the question is answered in the other way."""

    def pressed(*arguments: Any) -> Any:
        raise out_of_memory()

    monkeypatch.setattr(evaluation.Question, "answer", pressed)
    assert db.sql("SELECT a, count(*) FROM t GROUP BY a").rows() == [(1, 1), (2, 2)]
    with db.limits(memory="1 GB"), pytest.raises(ev.MemoryLimitError):
        db.sql("SELECT a, count(*) FROM t GROUP BY a")


def test_memory_comes_back(db: ev.Session) -> None:
    db.table("n", {"x": int, "y": int}).insert(pa.table({"x": range(200_000), "y": [i % 7 for i in range(200_000)]}))
    question = "SELECT a.y, count(*), sum(b.x) FROM n AS a, n AS b WHERE a.x = b.x GROUP BY a.y"
    first = db.sql(question).rows()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        assert db.sql(question).rows() == first
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < peak * 1.2


@pytest.mark.parametrize("seed", range(4))
def test_a_limit_stops_early_with_the_same_answer(seed: int) -> None:
    """Of tables of several batches, with deletions, filters that keep few, and limits that are not reached."""
    rng = np.random.default_rng(seed)
    with ev.connect() as db:
        t = db.table("t", {"a": int, "b": int, "c": ev.types.INT.optional()})
        for _ in range(4):
            rows = rng.integers(0, 300, (900, 2)).tolist()
            t.insert([(a, b, None if b % 5 == 0 else b) for a, b in rows])
            t.delete([(a, b, None if b % 5 == 0 else b) for a, b in rows[::3]])
        for text in (
            "SELECT * FROM t LIMIT 7",
            "SELECT a, c FROM t WHERE b > 290 LIMIT 20 OFFSET 3",
            "SELECT a, b FROM t WHERE b = 12345 LIMIT 5",
            "SELECT b, a FROM t ORDER BY a LIMIT 9",
            "SELECT a AS x, b FROM t WHERE a > 250 ORDER BY x, b DESC LIMIT 9",
            "SELECT a, b FROM t LIMIT 100000",
        ):
            answers = []
            for setting in ("default", "'view'"):
                db.sql(f"SET ask = {setting}")
                answers.append(db.sql(text).rows())
            assert answers[0] == answers[1], text
        db.sql("SET ask = default")
        assert way(db, "SELECT * FROM t LIMIT 7").endswith("as far as the LIMIT needs")
        assert not way(db, "SELECT b, a FROM t LIMIT 7").endswith("needs")  # another order than the index has
        assert not way(db, "SELECT a, 1 / b FROM t LIMIT 7").endswith("needs")  # any row may fail


def test_a_limit_reads_a_small_part(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    scanned = leaves.scanned

    def counting(listed: Any, *arguments: Any) -> Rows:
        read.append(sum(batch.rows for batch in listed))
        return scanned(listed, *arguments)

    monkeypatch.setattr(evaluation, "scanned", counting)
    with ev.connect() as db:
        db.table("n", {"x": int, "y": int}).insert(pa.table({"x": range(50_000), "y": range(50_000)}))
        assert db.sql("SELECT x FROM n WHERE y > 5 LIMIT 3").rows() == [(6,), (7,), (8,)]
        assert sum(read) < 1000


# ---- the parts


def test_groups_of_many_values_need_a_larger_table() -> None:
    rng = np.random.default_rng(5)
    columns = [rng.integers(-(2**62), 2**62, 50_000), rng.integers(0, 3, 50_000)]
    columns = [np.concatenate([c, c]) for c in columns]
    ids, firsts = row_groups.numbered(columns)
    assert len(firsts) == 50_000
    for column in columns:
        assert (column[firsts][ids] == column).all()


@pytest.mark.parametrize("spread", [10, 2**60])
@pytest.mark.parametrize("keys", [1, 2])
def test_joins_are_those_of_python(spread: int, keys: int) -> None:
    rng = np.random.default_rng(spread + keys)
    sides = [[rng.integers(0, 12, n) * (spread // 10) for _ in range(keys)] for n in (70, 40)]
    for side in sides:
        side[0][rng.random(len(side[0])) < 0.2] = -(2**63) + 0x5EED_4E55_4C4C
    left, right = (Rows(len(s[0]), {10 * p + i: Column(c) for i, c in enumerate(s)}) for p, s in enumerate(sides))
    mine, others = range(keys), range(10, 10 + keys)
    null = [True] * keys
    found = hash_joins.joined(left, right, mine, others, null)
    pairs = sorted(zip(*(found.words(c).tolist() for c in [*mine, *others]), strict=True))
    rows = [list(zip(*(c.tolist() for c in s), strict=True)) for s in sides]
    nothing = -(2**63) + 0x5EED_4E55_4C4C
    assert pairs == sorted((*a, *b) for a in rows[0] for b in rows[1] if a == b and nothing not in a)
    there = hash_joins.matched(left, right, mine, others, null, there=True)
    absent = hash_joins.matched(left, right, mine, others, null, there=False)
    assert there.count + absent.count == 70
    assert there.count == sum(a in rows[1] and nothing not in a for a in rows[0])


def test_the_first_rows_of_groups_count_multiplicities() -> None:
    shown = row_order._shown(np.array([0, 0, 0, 1]), np.array([2, 3, 1, 5]), offset=1, limit=3)
    assert shown.tolist() == [1, 2, 0, 3]


def test_floats_are_added_as_in_views() -> None:
    """Sums that depend on the order of additions, values that digits do not hold, zeros with signs."""
    texts: list[Any] = [1e16, 1.0, -1e16, 0.1, 0.2, -0.0, 1e-300, float("inf"), float("nan"), 2.0**127]
    for count in range(1, len(texts) + 1):
        with ev.connect() as db:
            t = db.table("t", {"x": float})
            t.insert([(x,) for x in texts[:count]])
            answers = []
            for setting in ("default", "'view'"):
                db.sql(f"SET ask = {setting}")
                try:
                    answers.append(repr(db.sql("SELECT sum(x), avg(x), min(x), max(x), count(x) FROM t").rows()))
                except ev.RowErrors as error:
                    answers.append(str(error))
            assert answers[0] == answers[1], texts[:count]
