"""Multiplicities beyond 2**62: E_OVERFLOW wherever products and sums of them are made, never a wrong number."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import everview as ev
from everview import col, count
from tests.inside import inside
from tests.oracle.harness import Runtime


def doubled(db: ev.Session, times: int) -> ev.Collection:
    """The rows of a new table "two", each 2**times times: joined with tables that have one row up to 1024 times."""
    found: ev.Collection = db.table("two", {"x": int})
    for k in range(0, times, 10):
        other = db.table(f"often{k}", {f"y{k}": int})
        other.insert([(1,)] * 2 ** min(10, times - k))
        found = found.join(other, how="cross").select("x")
    return found


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(ev.InputError) as caught:
        act()
    assert caught.value.code == "E_OVERFLOW"
    return caught.value.message


def test_a_count_over_five_tables_of_ten_thousand_rows() -> None:
    """10**20 does not fit; 10**16 does."""
    with ev.connect() as db:
        for k in range(5):
            db.table(f"t{k}", {f"x{k}": int}).insert([(i,) for i in range(100 if k == 4 else 10_000)])
        db.sql("CREATE VIEW n AS SELECT count(*) AS n FROM t0, t1, t2, t3")
        assert db["n"].rows() == [(10**16,)]
        refused(lambda: db.sql("CREATE VIEW m AS SELECT count(*) AS n FROM t0, t1, t2, t3, t0 AS t5"))
        db.sql("CREATE VIEW k AS SELECT count(*) AS n FROM t0, t1, t2, t3, t4")
        assert db["k"].rows() == [(10**18,)]
        table = inside(db).catalog.tables["t4"]
        before = db.time
        message = refused(lambda: table.insert([(i,) for i in range(10_000)]))
        assert "'k'" in message
        assert (db.time, len(table.rows()), db["k"].rows()) == (before, 100, [(10**18,)])
        table.delete([(1,)])
        assert db["k"].rows() == [(99 * 10**16,)]


@pytest.mark.parametrize("times", [60, 61, 80])
def test_a_row_that_is_there_two_to_the_n_times(runtime: Runtime, times: int) -> None:
    with runtime.connect() as db:
        db.view("v", doubled(db, times))
        two = inside(db).catalog.tables["two"]
        if times == 80:
            refused(lambda: two.insert([(7,)]))
            assert two.rows() == [] and db["v"].rows() == []
        else:
            two.insert([(7,)])
            assert db["v"].counts() == {(7,): 2**times}
            two.delete([(7,)])
            assert db["v"].counts() == {}


def test_sums_of_multiplicities(runtime: Runtime) -> None:
    """2**61 twice is 2**62, which is one too many, whoever adds it up: a union, a count, a distinct."""
    with runtime.connect() as db:
        rows = doubled(db, 61)
        db.view("both", rows.union_all(rows.select(x=col.x + 0)))
        refused(lambda: inside(db).catalog.tables["two"].insert([(7,)]))
        db["both"].drop()
        db.view("count", rows.agg(n=count()))
        db.view("distinct", rows.distinct())
        two = inside(db).catalog.tables["two"]
        two.insert([(7,)])
        assert db["count"].rows() == [(2**61,)]
        assert "count" in refused(lambda: two.insert([(8,)]))
        assert db["count"].rows() == [(2**61,)] and db["distinct"].rows() == [(7,)]
        two.delete([(7,)])
        two.insert([(8,)])
        assert db["count"].rows() == [(2**61,)] and db["distinct"].rows() == [(8,)]


def test_values_times_multiplicities(runtime: Runtime) -> None:
    """A sum whose parts, multiplied, leave 62 bits is refused, not wrapped round."""
    with runtime.connect() as db:
        rows = doubled(db, 40)
        db.view("sum", rows.agg(s=col.x.sum(), m=col.x.avg()))
        two = inside(db).catalog.tables["two"]
        two.insert([(5,)])
        assert db["sum"].rows() == [(5 * 2**40, 5.0)]
        refused(lambda: two.insert([(2**31,)]))
        assert db["sum"].rows() == [(5 * 2**40, 5.0)]


def test_steps_that_add_up(runtime: Runtime) -> None:
    """What is there 2**61 times and comes again is refused where it is read, not lost; other views go on."""
    with runtime.connect() as db:
        rows = doubled(db, 61)
        db.view("v", rows)
        two = inside(db).catalog.tables["two"]
        two.insert([(7,)])
        two.insert([(7,)])
        refused(lambda: db["v"].counts())
        assert two.rows() == [(7,), (7,)]
        two.insert([(8,)])
        db["v"].drop()
        assert sorted(two.rows()) == [(7,), (7,), (8,)]
