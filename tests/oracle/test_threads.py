"""Two threads give what one gives: the oracle's tests run on both (see `conftest`); here is what they do not reach."""

from __future__ import annotations

import os
import traceback
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview import col
from tests.inside import inside


def loaded(threads: int, split: int | None, rows: np.ndarray) -> tuple[Any, ...]:
    """What views of all shared operators say after a bulk load and after half of it was deleted."""
    with ev.connect(threads=threads) as db:
        if split is not None:
            assert inside(db).runtime.dataflow.helper is not None
            inside(db).runtime.dataflow.helper.share_from(split)
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
def test_two_threads_say_what_one_says(rows: int, low: int, high: int) -> None:
    """Rows that pack into a word, that do not, and that are fewer than their words: 3,000 each."""
    rng = np.random.default_rng(5)
    choice = rng.integers(low, high, size=300 if high > 2**30 else high - low)
    pairs = rng.choice(choice, size=(2, rows))
    pairs = np.unique(pairs, axis=1)
    alone = loaded(1, None, pairs)
    for split in (1, 100):
        assert loaded(2, split, pairs) == alone


def test_other_numbers_of_threads_are_refused() -> None:
    with pytest.raises(ev.InputError, match="E_THREADS"):
        ev.connect(threads=0)


def test_the_helper_ends_with_its_session() -> None:
    import threading

    before = threading.active_count()
    db = ev.connect(threads=2)
    assert threading.active_count() == before + 1
    db.close()
    db.close()
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_goes_on_with_one_thread() -> None:
    """The child has no helper; waiting for one would be waiting for ever."""
    with ev.connect(threads=2) as db:
        assert inside(db).runtime.dataflow.helper is not None
        inside(db).runtime.dataflow.helper.share_from(1)
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
