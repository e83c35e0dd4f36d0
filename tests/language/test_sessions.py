"""What sessions promise when several things happen at once: threads, nested transactions, errors that come and go.

Each of these was once false: see the changelog.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview import col, lit


@pytest.fixture
def db() -> Any:
    with ev.connect() as session:
        yield session


def code_of(action: Any) -> str:
    with pytest.raises(ev.EverviewError) as caught:
        action()
    assert caught.value.hint
    return caught.value.code


# transactions


def test_an_inner_transaction_that_fails_undoes_only_itself(db: Any) -> None:
    t = db.table("t", {"x": int})
    with db.transaction():
        t.insert([(1,)])
        with pytest.raises(ValueError), db.transaction():
            t.insert([(2,)])
            raise ValueError
        t.insert([(3,)])
    assert sorted(t.rows()) == [(1,), (3,)]
    assert db.time == 1


def test_a_transaction_made_early_joins_the_one_it_is_entered_in(db: Any) -> None:
    t = db.table("t", {"x": int})
    early = db.transaction()
    with db.transaction():
        t.insert([(1,)])
        with early:
            t.insert([(2,)])
    assert sorted(t.rows()) == [(1,), (2,)]
    assert db.time == 1


def test_what_another_thread_inserts_is_not_rolled_back_with_a_transaction(db: Any) -> None:
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    inside, seen = threading.Event(), []

    def other() -> None:
        inside.wait(5)
        seen.append(v.rows())  # reading does not wait
        t.insert([(2,)])

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(ValueError), db.transaction():
        t.insert([(1,)])
        inside.set()
        thread.join(0.2)
        assert thread.is_alive()  # its insert waits for this transaction to end
        raise ValueError
    thread.join(5)
    assert seen == [[]]
    assert (t.rows(), db.time) == ([(2,)], 1)


def test_the_present_can_be_read_while_another_thread_moves_it_on() -> None:
    with ev.connect(history=0) as db:
        t = db.table("t", {"x": int})
        v = db.view("v", t.distinct())
        done = threading.Event()

        def write() -> None:
            for x in range(3000):
                t.insert([(x,)])
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        while not done.is_set():
            assert len(t.rows()) <= len(v.rows())
        thread.join(20)
        assert len(v.rows()) == 3000


def test_a_subscriber_misses_nothing_that_another_thread_does_meanwhile(db: Any) -> None:
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    t.insert([(0,)])
    heard: list[Any] = []
    threads: list[threading.Thread] = []

    def hear(batch: ev.Batch) -> None:
        if not heard:  # this is the snapshot: somebody inserts before the subscription is made
            threads.append(threading.Thread(target=t.insert, args=([(1,)],)))
            threads[0].start()
            threads[0].join(0.1)
        heard.extend(batch.rows())

    v.subscribe(hear)
    threads[0].join(5)
    assert heard == [((0,), 1), ((1,), 1)]


def test_keys_stay_unique_when_two_threads_upsert(db: Any) -> None:
    t = db.table("t", {"k": int, "who": int}, key="k")

    def write(who: int) -> None:
        for k in range(50):
            with db.transaction():
                t.upsert([(k, who)])

    threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(k for k, _ in t.rows()) == list(range(50))


def test_a_table_that_the_transaction_changes_cannot_be_dropped(db: Any) -> None:
    t = db.table("t", {"x": int})
    with db.transaction():
        t.insert([(1,)])
        assert code_of(t.drop) == "E_IN_USE"
    assert t.rows() == [(1,)]
    t.drop()


def test_a_table_in_a_batch_reads_what_the_batch_has_accepted(db: Any) -> None:
    t = db.table("t", {"x": int})
    with db.batch():
        t.insert([(1,)])
        assert (t.rows(), t.lookup(1), len(t), db.time) == ([(1,)], [(1,)], 1, 1)


# functions that a step calls


@pytest.mark.parametrize("act", ["insert", "view", "table", "drop", "close"])
def test_a_function_that_a_step_calls_cannot_change_the_session(db: Any, act: str) -> None:
    t = db.table("t", {"x": int})
    other = db.view("other", t.distinct())
    t.insert([(1,)])
    actions = {
        "insert": lambda: t.insert([(2,)]),
        "view": lambda: db.view("more", t.distinct()),
        "table": lambda: db.table("more", {"x": int}),
        "drop": other.drop,
        "close": db.close,
    }
    meddle = ev.udf(lambda x: (actions[act](), x)[1], returns=int)
    with pytest.raises(ev.UdfError, match="E_REENTRANT"):
        db.view("v", t.select(x=meddle(col.x)))
    t.insert([(3,)])
    assert sorted(other.rows()) == [(1,), (3,)]


# errors in rows, at every time


def test_errors_belong_to_times(db: Any) -> None:
    t = db.table("t", {"x": int, "y": int})
    v = db.view("v", t.select(q=col.x // col.y))
    t.insert([(6, 3)])
    t.insert([(1, 0)])
    assert v.as_of(1).rows() == [(2,)]  # a later error does not hide it
    assert code_of(lambda: v.changes(since=0)) == "E_ROWS"  # nor are changes given that lack a row
    assert "division by zero" in v._repr_html_()
    t.delete([(1, 0)])
    assert (v.rows(), v.changes(since=0)) == ([(2,)], [((2,), 1, 1)])
    with pytest.raises(ev.RowErrors, match="at time 2: division by zero"):
        v.as_of(2)


@pytest.mark.parametrize("key", [None, "y"])
def test_a_refusal_names_a_row_that_failed(db: Any, key: str | None) -> None:
    t = db.table("t", {"x": int, "y": int}, key=key)
    views = [
        db.view("a", t.select(q=col.x // col.y)),
        db.view("b", t.filter(col.x // col.y > 1)),
        db.view("c", t.group_by("x").agg(s=(col.x // col.y).sum())),
        db.view("d", t.filter(col.x > 5).select(q=col.x // col.y).distinct()),
    ]
    t.insert([(6, 3), (7, 0), (8, 4)])
    for view in views:
        with pytest.raises(ev.RowErrors, match=r"for example for \(7, 0\) of table 't'"):
            view.rows()


# what cannot be


def test_a_loop_that_does_not_converge_is_named_with_its_limit(db: Any) -> None:
    t = db.table("t", {"x": int})

    def climb(c: ev.Collection) -> ev.Collection:
        return c.select(x=col.x + 1).union_all(c).distinct()

    v = db.view("ladder", t.iterate(climb, max_rounds=7))
    db.view("apart", t.distinct())
    with pytest.raises(ev.LoopError, match=r"view 'ladder': .* 7 rounds"):
        t.insert([(1,)])
    assert (v.rows(), db.time) == ([], 0)
    v.drop()
    t.insert([(1,)])
    with pytest.raises(ev.LoopError, match=r"view 'again': .* 7 rounds"):
        db.view("again", t.iterate(climb, max_rounds=7))


def test_rows_with_negative_multiplicity_are_never_passed_over(db: Any) -> None:
    t = db.table("t", {"x": int})
    v = db.view("v", t.negate())
    t.insert([(1,)])
    assert v.counts() == {(1,): -1}
    assert v.stats()["rows"] == -1
    for read in (v.rows, lambda: v.lookup(1), lambda: len(v)):
        assert code_of(read) == "E_NEGATIVE"


def test_options_and_arguments_that_make_no_sense_are_refused(db: Any) -> None:
    t = db.table("t", {"x": int})
    v = db.view("v", t.distinct())
    refused = {
        "E_RANGE": [
            lambda: ev.connect(history=-1),
            lambda: ev.connect(history="10"),
            lambda: ev.connect(merge_effort=0),
            lambda: db.view("w", t, history=-1),
        ],
        "E_NAME": [lambda: db.table("w", {"": int}), lambda: db.table("w", {5: int})],
        "E_KEY": [lambda: v.lookup((1, 2)), lambda: t.lookup(())],
        "E_TYPE": [
            lambda: v.as_of("1"),
            lambda: t.as_of(None),
            lambda: v.changes(since=None),
            lambda: v.subscribe(5),
            lambda: t.iterate(5),
            lambda: t.map(5, {"x": int}),
            lambda: ev.udf(5, returns=int),  # type: ignore[call-overload]
        ],
        "E_EMPTY": [lambda: t.flat_map(lambda x: [], {})],
        "E_FUNCTION": [lambda: col.x.absolute()],
    }
    for code, actions in refused.items():
        for action in actions:
            assert code_of(action) == code
    assert db.views == ("v",)
    assert not hasattr(lit(1), "absolute")


def test_a_notebook_shows_the_first_rows_and_how_many_there_are(db: Any) -> None:
    t = db.table("t", {"x": int, "s": str})
    t.insert([(i, "<b>") for i in range(100)] + [(0, "<b>")])
    page = t._repr_html_()
    assert page.count("<tr>") == 21
    assert page.count("<td>0</td>") == 2
    assert "&lt;b&gt;" in page and "101 rows at time 1" in page
    shown = db._repr_html_()
    assert "t</td>" in shown and "x int, s str</td>" in shown and "time 1" in shown


def test_looking_up_zero_finds_both_zeros() -> None:
    with ev.connect() as db:
        t = db.table("t", {"x": float, "n": int})
        groups = db.view("groups", t.group_by("x").agg(n=ev.count()))
        t.insert([(0.0, 1), (-0.0, 2), (1.0, 3)])
        assert groups.lookup(-0.0) == groups.lookup(0.0) == [(0.0, 2)]
        assert sorted(n for _, n in t.lookup(0.0)) == sorted(n for _, n in t.lookup(-0.0)) == [1, 2]


def test_columns_of_keys_and_indexes_are_there_once() -> None:
    db = ev.connect()
    for key, code in (("z", "E_COLUMN"), (["x", "x"], "E_DUPLICATE")):
        with pytest.raises(ev.InputError, match=f"{code}.*key of table 't'"):
            db.table("t", {"x": int}, key=key)
    t = db.table("t", {"x": int, "y": int})
    for index, code in (("z", "E_COLUMN"), (["y", "x", "y"], "E_DUPLICATE")):
        with pytest.raises(ev.InputError, match=f"{code}.*index_by"):
            db.view("v", t.distinct(), index_by=index)


@pytest.mark.parametrize("history", [-1, 2**63, 10**30])
def test_a_history_that_no_word_holds_is_refused(history: int, tmp_path: Path) -> None:
    for where in ((), (tmp_path / "state",)):
        with pytest.raises(ev.InputError) as refused:
            ev.connect(*where, history=history)
        assert refused.value.code == "E_RANGE"
    with ev.connect() as db, pytest.raises(ev.InputError) as refused:
        db.view("v", db.table("t", {"x": int}), history=history)
    assert refused.value.code == "E_RANGE"
