"""Several threads give what one gives: the oracle's tests run on both (see `conftest`); the rest is here."""

from __future__ import annotations

import os
import threading
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import col
from everview.dataflow.thread_pool import available_cores
from tests.inside import inside


def loaded(threads: int, split: int | None, rows: np.ndarray) -> tuple[Any, ...]:
    """What views of all shared operators say after a bulk load and after half of it was deleted."""
    with ev.connect(threads=threads) as db:
        if split is not None:
            assert inside(db).runtime.dataflow.threads is not None
            inside(db).runtime.dataflow.threads.share_from(split)
        t = db.table("t", {"a": int, "b": int})
        u = t.alias("u")
        views = [
            db.view("pairs", t.join(u, t.b == u.a).select(a=t.a, b=u.b).distinct()),
            db.view("sums", t.group_by("a").agg(n=ev.count(), total=col.b.sum(), low=col.b.min(), high=col.b.max())),
            db.view("reached", t.select(node=col.a).filter(col.node < 3).distinct().iterate(lambda x: _hop(x, t))),
        ]
        t.insert({"a": rows[0], "b": rows[1]})
        first = [sorted(v.rows()) for v in views]
        half = rows[:, ::2]
        t.delete(list(zip(*half.tolist(), strict=True)))
        return first, [sorted(v.rows()) for v in views]


def _hop(x: Any, edge: Any) -> Any:
    start = edge.select(node=col.a).filter(col.node < 3)
    return x.join(edge, x.node == edge.a).select(node=edge.b).union_all(start).distinct()


@pytest.mark.parametrize(
    ("rows", "low", "high"),
    [(3_000, 0, 700), (3_000, -(2**40), 2**40), (3_000, 0, 40)],
    ids=["packed", "wide", "dense"],
)
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_several_threads_say_what_one_says(threads: int, rows: int, low: int, high: int) -> None:
    """Rows that pack into a word, that do not, and that are fewer than their words: 3,000 each."""
    rng = np.random.default_rng(5)
    choice = rng.integers(low, high, size=300 if high > 2**30 else high - low)
    pairs = rng.choice(choice, size=(2, rows))
    pairs = np.unique(pairs, axis=1)
    alone = loaded(1, None, pairs)
    for split in (1, 100):
        assert loaded(threads, split, pairs) == alone


def test_other_numbers_of_threads_are_refused() -> None:
    with pytest.raises(ev.InputError, match="E_THREADS"):
        ev.connect(threads=0)


def helpers() -> set[threading.Thread]:
    """The helpers there are, those of other sessions included."""
    return {thread for thread in threading.enumerate() if thread.name == "everview helper"}


def test_helpers_end_with_their_session() -> None:
    before = helpers()
    db = ev.connect(threads=3)
    mine = helpers() - before
    assert len(mine) == 2
    db.close()
    db.close()
    assert not mine & helpers()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_goes_on_with_one_thread() -> None:
    """The child has no helper; waiting for one would be waiting for ever."""
    with ev.connect(threads=2) as db:
        assert inside(db).runtime.dataflow.threads is not None
        inside(db).runtime.dataflow.threads.share_from(1)
        t = db.table("t", {"a": int})
        v = db.view("v", t.distinct())
        t.insert([(i,) for i in range(100)])
        child = os.fork()
        if child == 0:  # whatever happens, the child must not go on as a second pytest
            try:
                t.insert([(i,) for i in range(100, 500)])
                right = len(v.rows()) == 500
            except BaseException:
                traceback.print_exc()
                right = False
            finally:
                os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        t.insert([(500,)])
        assert len(v.rows()) == 101


@pytest.mark.skipif(available_cores() < 2, reason="needs two cores")
def test_there_are_helpers_for_large_steps_alone_unless_told() -> None:
    before = helpers()
    with ev.connect() as db:
        t = db.table("t", {"a": int})
        v = db.view("v", t.distinct())
        t.insert([(i,) for i in range(100)])
        assert not helpers() - before
        t.insert({"a": np.arange(100, 50_000)})
        assert len(helpers() - before) == available_cores() - 1
        assert len(v.rows()) == 50_000
    with ev.connect(threads=1) as db:
        t = db.table("t", {"a": int})
        t.insert({"a": np.arange(50_000)})
        assert not helpers() - before


@pytest.mark.skipif(available_cores() < 2, reason="needs two cores")
def test_a_view_of_a_large_table_that_came_in_small_steps_has_helpers(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "d", threads=1) as db:
        db.table("t", {"a": int}).insert({"a": np.arange(50_000)})
        db.checkpoint()
    before = helpers()
    with ev.connect(tmp_path / "d") as db:
        assert not helpers() - before
        v = db.view("v", db["t"].select(b=col.a % 7).distinct())
        assert len(helpers() - before) == available_cores() - 1
        assert len(v.rows()) == 7
