"""Aggregates, joins and NULLs of every type under random inserts and deletes; extremes of 64 bits and of floats."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest

import everview as ev
from everview.expr.language import col, count, lit
from everview.kernels.operators.stream import NULL
from everview.language.collection import Collection
from tests.oracle.harness import Runtime, Scenario, ViewPlan, random_steps, run

SEEDS = range(3)
WORDS = ["", "a", "ab", "Ab", "b", "é", "z\u0000", "𝄞", "zz"]
SCHEMA: dict[str, Any] = {"k": "int?", "i": "int?", "f": "float?", "s": "str?", "d": "date?"}
SCHEMA |= {"m": "decimal(2)?", "t": bool}


def row(source: random.Random) -> tuple[Any, ...]:
    """A row of SCHEMA with many NULLs and few different values."""

    def maybe(value: Any) -> Any:
        return None if source.random() < 0.2 else value

    return (
        maybe(source.randrange(3)),
        maybe(source.randrange(-3, 4)),
        maybe(source.choice([0.1, 0.2, -0.3, 1e9, -1e9, 0.5, 3.0])),
        maybe(source.choice(WORDS)),
        maybe(dt.date(2026, 1, 1) + dt.timedelta(days=source.randrange(4))),
        maybe(Decimal(source.randrange(-300, 300)).scaleb(-2)),
        source.random() < 0.5,
    )


def check(runtime: Runtime, seed: int, *builds: Callable[[Mapping[str, Any]], Collection], target: int = 20) -> None:
    steps = random_steps(seed, 8, {"x": row, "y": row}, first=target // 2, target=target)
    views = [ViewPlan(f"early{i}", build) for i, build in enumerate(builds)]
    views += [ViewPlan(f"late{i}", build, 3) for i, build in enumerate(builds)]
    run(Scenario({"x": SCHEMA, "y": SCHEMA}, views, steps), runtime)
    run(Scenario({"x": SCHEMA, "y": SCHEMA}, views[len(builds) :], steps), runtime)


AGGREGATES = ["count", "count_distinct", "min", "max", "sum", "avg"]
COLUMNS = dict.fromkeys("ifm", AGGREGATES) | dict.fromkeys("sdt", AGGREGATES[:4])


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("seed", SEEDS)
def test_aggregates_of_20_rows_with_null_keys_8_steps(runtime: Runtime, seed: int, column: str) -> None:
    def one(name: str) -> Callable[[Mapping[str, Any]], Collection]:
        return lambda t: t["x"].group_by("k").agg(result=getattr(col[column], name)())

    def all_at_once(t: Mapping[str, Any]) -> Collection:
        aggregates = {name: getattr(col[column], name)() for name in COLUMNS[column]}
        return t["x"].group_by("k", "t").agg(rows=count(), **aggregates)

    def whole(t: Mapping[str, Any]) -> Collection:
        return t["x"].agg(rows=count(), low=col[column].min(), n=col[column].count())

    check(runtime, seed, all_at_once, whole, *map(one, COLUMNS[column]))


@pytest.mark.parametrize("column", ["i", "f", "s", "d", "m", "t"])
@pytest.mark.parametrize("seed", SEEDS)
def test_first_rows_in_both_orders_of_20_rows_8_steps(runtime: Runtime, seed: int, column: str) -> None:
    def ascending(t: Mapping[str, Any]) -> Collection:
        return t["x"].select("k", column, n=col.i.coalesce(7)).group_by("k").top(2, [col[column], col.n])

    def descending(t: Mapping[str, Any]) -> Collection:
        return t["x"].select("k", column).top(3, col[column].desc(), offset=1)

    def edges(t: Mapping[str, Any]) -> Collection:
        ordered = [col[column], col.i, col.f]
        return t["x"].group_by("t").agg(lo=col.i.first(by=ordered), hi=col.i.last(by=ordered), n=count())

    check(runtime, seed, ascending, descending, edges)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("column", ["k", "f", "s"])
def test_joins_with_null_keys_15_rows_8_steps(runtime: Runtime, column: str, how: Any) -> None:
    def sides(t: Mapping[str, Any]) -> tuple[Collection, Collection]:
        return t["x"].select(column, "i").alias("x"), t["y"]

    def named(joined: Collection, x: Collection, y: Collection) -> Collection:
        return joined if how in ("semi", "anti") else joined.select(a=x[column], b=x.i, c=y[column], d=y.i)

    def plain(t: Mapping[str, Any]) -> Collection:
        x, y = sides(t)
        return named(x.join(y, x[column] == y[column], how=how), x, y)

    def with_residual(t: Mapping[str, Any]) -> Collection:
        x, y = sides(t)
        return named(x.join(y, (x[column] == y[column]) & (x.i < y.i), how=how), x, y)

    check(runtime, 1, plain, with_residual, target=15)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_joined_with_itself_twice_12_rows_8_steps(runtime: Runtime, seed: int) -> None:
    def triangles(t: Mapping[str, Any]) -> Collection:
        a, b, c = (t["x"].select("k", "i").alias(n) for n in "abc")
        two = a.join(b, a.i == b.k)
        return two.join(c, (b.i == c.k) & (c.i == a.k)).select(p=a.k, q=b.k, r=c.k)

    def pairs(t: Mapping[str, Any]) -> Collection:
        a, b = t["x"].alias("a"), t["x"].alias("b")
        return a.join(b, a.k == b.k).select(k=a.k, x=a.i, y=b.i)

    check(runtime, seed, triangles, pairs, target=12)


def test_everything_on_empty_tables(runtime: Runtime) -> None:
    with runtime.connect() as db:
        x = db.table("x", SCHEMA)
        y = x.alias("y")
        views = [
            db.view("all", x),
            db.view("totals", x.agg(n=count(), s=col.i.sum())),
            db.view("groups", x.group_by("k").agg(n=count(), lo=col.s.min())),
            db.view("joined", x.join(y, x.k == y.k, how="full").select(a=x.k, b=y.k)),
            db.view("top", x.top(3, col.i)),
            db.view("loop", x.select("k").iterate(lambda v: v.union_all(x.select("k")).distinct())),
            db.view("none", x.except_(x)),
        ]
        with db.transaction():
            pass
        assert db.time == 1
        assert [v.rows() for v in views] == [[]] * len(views)
        x.insert([])
        assert db.time == 2
        assert [v.rows() for v in views] == [[]] * len(views)


# ---- extremes


def test_sums_of_floats_come_back_to_exactly_zero(runtime: Runtime) -> None:
    source = random.Random(5)
    values = [source.choice([0.1, 1e15, -1e15, 1 / 3, 12345.678, 1e-9]) * source.choice([1, -1, 3]) for _ in range(200)]
    with runtime.connect() as db:
        t = db.table("t", {"k": int, "f": float})
        sums = db.view("sums", t.group_by("k").agg(s=col.f.sum()))
        t.insert([(1, 0.0)])
        for f in values:
            t.insert([(1, f)])
        source.shuffle(values)
        for f in values:
            t.delete([(1, f)])
        assert sums.rows() == [(1, 0.0)]


@pytest.mark.parametrize(
    "f",
    [
        *(0.1, -0.3, -0.0, 2.0**-60, 1e15, -1e15 - 0.125, math.inf, -math.inf),
        *(1e-6, 1e-22, 2.0**-128, 1e30, -1e30, 8e37),
    ],
)
def test_the_sum_of_one_float_is_that_float(runtime: Runtime, f: float) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"k": int, "f": float})
        sums = db.view("sums", t.group_by("k").agg(s=col.f.sum(), a=col.f.avg()))
        t.insert([(1, f)])
        assert sums.rows() == [(1, f, f)]


def test_floats_beyond_the_accumulators_are_errors_or_cut(runtime: Runtime) -> None:
    """Sums keep bits from 2**-128 to 2**126: smaller ones are cut off, larger values are errors of their group."""
    with runtime.connect() as db:
        t = db.table("t", {"f": float})
        sums = db.view("sums", t.agg(s=col.f.sum()))
        t.insert([(5e-324,), (1.0,)])
        assert sums.rows() == [(1.0,)]
        t.insert([(1.7e308,)])
        assert sums.errors() == [(OUT_OF_RANGE, 1)]
        with pytest.raises(ev.RowErrors):
            sums.rows()
        t.delete([(1.7e308,)])
        assert (sums.rows(), sums.errors()) == ([(1.0,)], [])
        t.delete([(1.0,)])
        assert sums.rows() == [(0.0,)]


def test_infinities_and_nan_leave_sums_again(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"f": float})
        sums = db.view("sums", t.agg(s=col.f.sum()))
        t.insert([(1.5,)])
        for special in (math.inf, -math.inf, math.nan):
            t.insert([(special,)])
            assert repr(sums.rows()) == repr([(special,)])
            t.delete([(special,)])
            assert sums.rows() == [(1.5,)]
        t.insert([(math.inf,), (-math.inf,)])
        assert math.isnan(sums.rows()[0][0])


BIG = 2**63 - 1


def test_sums_of_ints_reach_both_ends_of_64_bits(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"i": int})
        sums = db.view("sums", t.agg(s=col.i.sum(), lo=col.i.min(), hi=col.i.max()))
        t.insert([(BIG - 1,), (1,)])
        assert sums.rows() == [(BIG, 1, BIG - 1)]
        with db.transaction():
            t.delete([(BIG - 1,), (1,)])
            t.insert([(-BIG,), (-1,)])
        assert sums.rows() == [(-BIG - 1, -BIG, -1)]
        t.insert([(BIG,), (BIG,)])
        assert sums.rows() == [(BIG - 1, -BIG, BIG)]


OUT_OF_RANGE = "the result is out of range"


def test_a_sum_beyond_64_bits_is_an_error_of_its_group(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"k": int, "i": int})
        sums = db.view("sums", t.group_by("k").agg(s=col.i.sum(), n=count()))
        total = db.view("total", t.agg(s=col.i.sum()))
        counts = db.view("counts", t.group_by("k").agg(n=count(), mean=col.i.avg()))
        t.insert([(1, BIG), (2, 7)])
        t.insert([(1, 1)])
        t.insert([(3, -BIG), (3, -2)])
        for view, groups in ((sums, 2), (total, 0)):
            assert view.errors() == ([(OUT_OF_RANGE, groups)] if groups else [])
        with pytest.raises(ev.RowErrors, match="out of range"):
            sums.rows()
        assert total.rows() == [(6,)]
        assert sorted(counts.rows()) == [(1, 2, float(BIG + 1) / 2), (2, 1, 7.0), (3, 2, -float(BIG + 2) / 2)]
        t.delete([(3, -2)])
        assert sums.errors() == [(OUT_OF_RANGE, 1)]
        with db.transaction():
            t.insert([(1, 5)])
            t.delete([(1, BIG)])
        assert (sorted(sums.rows()), sums.errors()) == ([(1, 6, 2), (2, 7, 1), (3, -BIG, 1)], [])


def test_sums_that_come_and_go_within_a_step(runtime: Runtime) -> None:
    """Each transaction of a batch has its own time; what is out of range at one is no error at another."""
    with runtime.connect() as db:
        t = db.table("t", {"i": int})
        sums = db.view("sums", t.agg(s=col.i.sum()))
        t.insert([(BIG,)])
        before = db.time
        with db.batch():
            t.insert([(1,)])
            t.delete([(1,)])
            t.insert([(-1,)])
        assert (sums.rows(), sums.errors()) == ([(BIG - 1,)], [])
        with pytest.raises(ev.RowErrors):
            sums.as_of(before + 1).rows()
        assert [sums.as_of(before + k).rows() for k in (0, 2, 3)] == [[(BIG,)], [(BIG,)], [(BIG - 1,)]]


def test_a_sum_that_would_read_as_null_is_out_of_range(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"i": "int?"})
        sums = db.view("sums", t.agg(s=col.i.sum()))
        t.insert([(NULL - 1,)])
        assert sums.rows() == [(NULL - 1,)]
        t.insert([(1,)])
        assert sums.errors() == [(OUT_OF_RANGE, 1)]
        t.insert([(1,)])
        assert (sums.rows(), sums.errors()) == ([(NULL + 1,)], [])


def test_a_sum_in_a_loop_that_is_out_of_range(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"k": int, "i": int})

        def step(found: Collection) -> Collection:
            return t.union_all(found.group_by("k").agg(i=col.i.sum())).distinct()

        v = db.view("v", t.iterate(step))
        t.insert([(1, BIG), (2, -7)])
        assert (sorted(v.rows()), v.errors()) == ([(1, BIG), (2, -7)], [])
        t.insert([(1, 1)])
        assert v.errors() == [(OUT_OF_RANGE, 1)]
        t.delete([(1, 1)])
        assert (sorted(v.rows()), v.errors()) == ([(1, BIG), (2, -7)], [])


def test_a_view_of_sums_that_are_out_of_range_already(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"k": int, "i": int})
        t.insert([(k, BIG) for k in (1, 1, 2)])
        sums = db.view("sums", t.group_by("k").agg(s=col.i.sum()))
        above = db.view("above", sums.select(d=col.s - 1))
        assert sums.errors() == above.errors() == [(OUT_OF_RANGE, 1)]
        t.delete([(1, BIG)])
        assert (sorted(sums.rows()), sorted(above.rows())) == ([(1, BIG), (2, BIG)], [(BIG - 1,), (BIG - 1,)])


def test_a_sum_over_a_window_that_is_out_of_range(runtime: Runtime) -> None:
    """An error of the rows that see too much: of others not, nor for the transaction; averages have none."""
    with runtime.connect() as db:
        t = db.table("t", {"k": int, "at": int, "i": "int?"})
        running = "OVER (PARTITION BY k ORDER BY at)"
        sums = db.sql(f"CREATE VIEW sums AS SELECT at, sum(i) {running} AS s FROM t")
        means = db.sql(f"CREATE VIEW means AS SELECT at, avg(i) {running} AS m FROM t WHERE k = 1")
        t.insert([(1, 1, BIG), (2, 1, 7), (2, 2, None)])
        t.insert([(1, 2, 1), (1, 3, -1), (1, 4, BIG)])
        assert sums.errors() == [(OUT_OF_RANGE, 2)]
        with pytest.raises(ev.RowErrors, match="out of range"):
            sums.rows()
        assert sorted(means.rows()) == [(1, float(BIG)), (2, 2.0**62), (3, BIG / 3), (4, 2.0**62)]
        t.delete([(1, 4, BIG)])
        t.delete([(1, 2, 1)])
        assert (sorted(sums.rows()), sums.errors()) == ([(1, 7), (1, BIG), (2, 7), (3, BIG - 1)], [])
        t.insert([(3, 1, -BIG), (3, 2, -1), (3, 3, -1), (4, 1, NULL - 1), (4, 2, 1), (4, 3, 1)])
        assert sums.errors() == [(OUT_OF_RANGE, 2)]
        t.delete([(4, 2, 1), (3, 3, -1)])
        assert sums.errors() == [(OUT_OF_RANGE, 1)]
        t.delete([(4, 3, 1)])
        assert (1, NULL - 1) in sums.rows() and (2, -BIG - 1) in sums.rows()


def test_averages_of_large_ints_do_not_overflow(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"i": int})
        mean = db.view("mean", t.agg(a=col.i.avg()))
        t.insert([(BIG,), (BIG,), (BIG,)])
        assert mean.rows() == [(float(BIG),)]


def test_groups_of_only_nulls(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"k": "int?", "i": "int?"})
        v = db.view(
            "v",
            t.group_by("k").agg(
                n=count(), c=col.i.count(), d=col.i.count_distinct(), s=col.i.sum(), a=col.i.avg(), lo=col.i.min()
            ),
        )
        t.insert([(None, None), (None, None), (1, None), (1, 4)])
        assert sorted(v.rows(), key=repr) == [(1, 2, 1, 1, 4, 4.0, 4), (None, 2, 0, 0, None, None, None)]
        t.delete([(1, 4)])
        assert sorted(v.rows(), key=repr) == [(1, 1, 0, 0, None, None, None), (None, 2, 0, 0, None, None, None)]


def test_multiplicities_far_above_one(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"i": int})
        u = t.alias("u")
        v = db.view("v", t.join(u, t.i == u.i).agg(n=count(), s=t.i.sum()))
        t.insert([(3,)] * 1000)
        assert v.rows() == [(10**6, 3 * 10**6)]
        t.delete([(3,)] * 999)
        assert v.rows() == [(1, 3)]


# ---- tables with a key, views on views


@pytest.mark.parametrize("seed", SEEDS)
def test_upserts_and_deletes_by_key_40_transactions(runtime: Runtime, seed: int) -> None:
    """A dictionary says what a table with a key holds; a view on a view follows."""
    source = random.Random(seed)
    model: dict[tuple[Any, ...], int] = {}
    with runtime.connect() as db:
        t = db.table("t", {"v": int, "k": "int?", "s": str}, key=["s", "k"])
        sums = db.view("sums", t.group_by("s").agg(v=col.v.sum(), n=count()))
        big = db.view("big", sums.filter(col.n > 1).select("s"))
        for number in range(40):
            rows = [
                (source.randrange(9), source.choice([None, 0, 1]), source.choice("ab"))
                for _ in range(source.choice([1, 2, 5, 300]))
            ]
            with db.batch() if number % 3 else db.transaction():
                t.upsert(rows)
                model.update({(k, s): v for v, k, s in rows})
                if model and source.random() < 0.4:
                    k, s = source.choice(sorted(model, key=repr))
                    t.delete([(model.pop((k, s)), k, s)])
            assert sorted(t.rows(), key=repr) == sorted(((v, k, s) for (k, s), v in model.items()), key=repr)
            groups = {s: [v for (_, other), v in model.items() if other == s] for _, s in model}
            assert sorted(sums.rows()) == sorted((s, sum(vs), len(vs)) for s, vs in groups.items())
            assert sorted(big.rows()) == sorted((s,) for s, vs in groups.items() if len(vs) > 1)
            assert all(t.lookup((s, k)) == [(v, k, s)] for (k, s), v in model.items())


# ---- errors are data


def test_rows_that_fail_make_the_view_fail_until_they_go(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"a": int, "b": int})
        v = db.view("v", t.select(q=col.a // col.b))
        other = db.view("other", t.agg(n=count()))
        t.insert([(6, 2), (1, 0), (2, 0)])
        assert v.errors() == [("division by zero", 2)]
        with pytest.raises(ev.RowErrors) as caught:
            v.rows()
        assert caught.value.code == "E_ROWS"
        assert other.rows() == [(3,)]
        t.delete([(1, 0)])
        assert v.errors() == [("division by zero", 1)]
        t.delete([(2, 0)])
        assert (v.errors(), v.rows()) == ([], [(3,)])


def test_rows_that_fail_below_joins_reductions_and_loops(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"a": int, "b": int})
        q = t.select(a=col.a, q=col.a // col.b)
        p = q.alias("p")
        views = [
            db.view("filtered", t.filter(lit(10) // col.b > 2)),
            db.view("joined", q.join(p, q.a == p.a).select(x=q.q)),
            db.view("reduced", q.group_by("a").agg(s=col.q.sum())),
            db.view("text", t.select(n=col.a.cast(str).concat("x").substr(1, col.b).length())),
            db.view("looped", q.iterate(lambda x: x.select(a=col.a, q=col.q).union_all(q).distinct())),
        ]
        t.insert([(6, 2)])
        good = [v.rows() for v in views]
        t.insert([(6, 0)])
        for v in views[:3] + views[4:]:
            assert {text for text, n in v.errors() if n > 0} == {"division by zero"}
        t.delete([(6, 0)])
        assert [v.errors() for v in views] == [[]] * len(views)
        assert [v.rows() for v in views] == good


def test_an_error_that_is_never_asked_for_does_not_count(runtime: Runtime) -> None:
    with runtime.connect() as db:
        t = db.table("t", {"a": int, "b": int})
        guarded = ev.when(col.b != 0, col.a // col.b).otherwise(-1)
        v = db.view("v", t.filter(col.a > 0).select(q=guarded))
        t.insert([(6, 2), (1, 0), (-5, 0)])
        assert (sorted(v.rows()), v.errors()) == ([(-1,), (3,)], [])


def test_keys_all_over_the_64_bits_are_found_in_large_indexes(runtime: Runtime) -> None:
    """Differences of such keys overflow; string ids are like that. 3,000 rows: enough for an index."""
    random_keys = random.Random(5)
    keys = [random_keys.choice((-1, 1)) * random_keys.randrange(2**63) for _ in range(3000)] + [-(2**63), 2**63 - 1]
    with runtime.connect() as db:
        numbers = db.table("numbers", {"x": int, "n": int})
        texts = db.table("texts", {"x": str, "n": int})
        wanted = db.table("wanted", {"x": int, "t": str})
        found = db.view("found", numbers.join(wanted, numbers.x == wanted.x).select(n=numbers.n))
        named = db.view("named", texts.join(wanted, texts.x == wanted.t).select(n=texts.n))
        numbers.insert([(k, i) for i, k in enumerate(keys)])
        texts.insert([(str(k), i) for i, k in enumerate(keys)])
        for i, k in enumerate(keys):
            if i % 97 == 0 or i >= 3000:
                wanted.insert([(k, str(k))])
        expected = sorted((i,) for i in range(len(keys)) if i % 97 == 0 or i >= 3000)
        assert sorted(found.rows()) == sorted(named.rows()) == expected
        assert numbers.lookup(-(2**63)) == [(-(2**63), 3000)]
        numbers.delete([(k, i) for i, k in enumerate(keys)])
        assert found.rows() == [] and numbers.rows() == []


# ---- keys all over the 64 bits


@pytest.mark.parametrize("kind", ["int", "str"])
def test_large_indexes_of_keys_from_end_to_end_of_64_bits_6000_rows(runtime: Runtime, kind: str) -> None:
    """Large batches have an index over the range of their keys, which here does not fit into 64 bits."""
    source = random.Random(11)

    def key(n: int) -> Any:
        return f"key {n}" if kind == "str" else (n * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63

    rows = [(key(source.randrange(2_000)), i) for i in range(6_000)]
    with runtime.connect() as db:
        t = db.table("t", {"k": kind, "i": int})
        asked = db.table("asked", {"k": kind})
        sizes = db.view("sizes", t.group_by("k").agg(n=count(), low=col.i.min()))
        found = db.view("found", asked.join(t, asked.k == t.k).select(k=t.k, i=t.i))
        t.insert(rows)
        asked.insert([(key(n),) for n in range(0, 2_400, 7)])
        gone = source.sample(rows, 1_500)
        t.delete(gone)
        left = sorted(set(rows) - set(gone))
        groups: dict[Any, list[int]] = {}
        for k, i in left:
            groups.setdefault(k, []).append(i)
        assert sorted(sizes.rows()) == sorted((k, len(members), min(members)) for k, members in groups.items())
        wanted = {key(n) for n in range(0, 2_400, 7)}
        assert sorted(found.rows()) == [row for row in left if row[0] in wanted]
        assert all(sorted(t.lookup(k)) == [(k, i) for i in groups.get(k, [])] for k in sorted(wanted)[:50])
