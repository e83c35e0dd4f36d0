"""Rows that were taken back are added up where they lie: in one batch, in several, at a time of the past."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import everview as ev
from everview.codes.interner import Interner
from everview.kernels.once import consolidation
from everview.language.relation import relation_of


@pytest.mark.parametrize("seed", range(6))
def test_deleted_and_inserted_again(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    kernel = consolidation.merged

    def merged(*given: Any) -> int:
        calls.append(given[1])
        return kernel(*given)

    monkeypatch.setattr(consolidation, "merged", merged)
    random = Random(seed)
    db = ev.connect()
    db.sql("CREATE TABLE t (a bigint, b text, c double precision)")
    rows: Counter[tuple[Any, ...]] = Counter()
    past: dict[int, Counter[tuple[Any, ...]]] = {}
    for _ in range(40):
        kind = random.random()
        if kind < 0.5 or not rows:
            some = [
                (random.choice([None, -1, *range(5)]), random.choice(["x", "y", None]), random.choice([0.5, -0.5]))
                for _ in range(random.choice([1, 3, 200]))
            ]
            db["t"].insert(some)
            rows.update(some)
        elif kind < 0.9:
            chosen = random.choice(list(rows.elements()))
            some = [chosen] * random.randint(1, rows[chosen])
            db["t"].delete(some)
            rows.subtract(some)
        else:
            answer = db.sql("DELETE FROM t WHERE a < 3")
            assert answer is None
            rows = Counter({row: n for row, n in rows.items() if row[0] is None or row[0] >= 3})
        rows += Counter()
        past[db.time] = Counter(rows)
        assert Counter(db.sql("SELECT a, b, c FROM t").rows()) == rows
        assert Counter(db.sql("SELECT c, a FROM t").rows()) == _kept(rows, 2, 0)
        assert db.sql("SELECT count(*), min(c) FROM t").rows() == [
            (rows.total(), min((r[2] for r in rows), default=None))
        ]
        time = random.choice(list(past))
        assert Counter(db.sql(f"SELECT a, b, c FROM t AS OF {time}").rows()) == past[time]
    assert calls and max(calls) > 1, "several batches were never merged"


def _kept(rows: Counter[tuple[Any, ...]], *columns: int) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row, n in rows.items():
        found[tuple(row[c] for c in columns)] += n
    return found


def test_delete_reads_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """DELETE of many rows stays with their codes."""
    db = ev.connect()
    db.sql("CREATE TABLE t (a int, b text); CREATE TABLE u (a int PRIMARY KEY)")
    db["t"].insert([(i, f"text {i}") for i in range(2_000)])
    interner: Interner = relation_of(db["t"]).codec.interner
    read: list[int] = []
    monkeypatch.setattr(interner.values, "_read", lambda wanted: read.append(wanted))
    monkeypatch.setattr(interner, "decode", lambda *_: pytest.fail("values were decoded"))
    db.sql("DELETE FROM t WHERE a % 2 = 0")
    assert not read and db.sql("SELECT count(*), min(a) FROM t").rows() == [(1_000, 1)]


@pytest.mark.parametrize("seed", range(4))
def test_runs_of_rows_that_one_batch_has_alone(seed: int) -> None:
    """Most rows are never touched; some are taken back, some of them come again, some come twice."""
    random = Random(seed)
    with ev.connect() as db:
        db.sql("CREATE TABLE t (a bigint, b bigint)")
        rows: Counter[tuple[int, int]] = Counter({(i // 3, i % 3): 1 for i in range(random.choice([10, 3000]))})
        db["t"].insert(list(rows))
        past = {db.time: Counter(rows)}
        for _ in range(25):
            gone = random.sample(sorted(rows), min(random.choice([1, 2, 200]), len(rows) // 2))
            back = [*random.sample(gone, len(gone) // 2), (random.randrange(-5, 1005), 1)]
            db["t"].delete(gone)
            rows.subtract(gone)
            db["t"].insert(back)
            rows.update(back)
            rows = +rows
            past[db.time] = Counter(rows)
            assert Counter(db.sql("SELECT b, a FROM t").rows()) == _kept(rows, 1, 0)
            time = random.choice(list(past))
            assert Counter(db.sql(f"SELECT a, b FROM t AS OF {time}").rows()) == past[time]
