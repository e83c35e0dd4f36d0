"""Random plans as plain data, so that a counter-example can be pasted into a test.

Every collection here has two int columns, a and b, possibly NULL, and every operator ends in that shape: anything can
be put on top of anything. Values are kept small (`% 5`) so that rows collide. A plan is a nested tuple,

    ("join", "left", "key+residual", "cross", ("table", "r"), ("distinct", ("table", "s")))

whose first item names the operator; `build(spec, tables, variables)` makes the collection. Inside loops ("var", i) is
the i-th enclosing variable, innermost first.

Loops must end: either they have `max_rounds=k, at_limit="stop"`, which is exact for any body however wild, or their
bodies converge (distinct unions over a finite domain, minimum propagation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
from hypothesis import strategies as st

from everview.expr.language import col, count, greatest, least, lit, tuple_, udf, when
from everview.language.collection import Collection
from everview.language.loop import fixpoint
from tests.oracle.harness import ViewPlan

Spec = tuple[Any, ...]

TABLES: dict[str, dict[str, Any]] = {
    "r": {"a": int, "b": int},
    "s": {"a": int, "b": int},
    "n": {"a": "int?", "b": "int?"},
}
"""The tables random plans read; n has NULLs."""


@udf(returns=int)
def twist(a: int | None, b: int | None) -> int:
    return ((a or 0) * 3 + (b or 0) + 1) % 5


@udf(returns=int, vectorized=True)
def swing(a: Any, b: Any) -> Any:
    return pc.fill_null(pc.bit_wise_xor(a, b), 2)


VALUES: dict[str, Callable[[], Any]] = {
    "a": lambda: col.a,
    "b": lambda: col.b,
    "zero": lambda: lit(0),
    "sum": lambda: (col.a + col.b) % 5,
    "twice": lambda: (col.a * 2 + 1) % 5,
    "less": lambda: (col.b - col.a) % 5,
    "known": lambda: col.a.coalesce(col.b, 3),
    "least": lambda: least(col.a, col.b),
    "greatest": lambda: greatest(col.a, col.b, 1),
    "case": lambda: when(col.a > col.b, col.b).when(col.a == 2, 4).otherwise(col.a),
    "null": lambda: col.a.nullif(col.b),
    "hash": lambda: col.a.hash() % 5,
    "tuple": lambda: tuple_(col.b, col.a)[1],
    "twist": lambda: twist(col.a, col.b),
    "swing": lambda: swing(col.a, col.b) % 5,
}

PREDICATES: dict[str, Callable[[], Any]] = {
    "a<b": lambda: col.a < col.b,
    "a!=2": lambda: col.a != 2,
    "a known": lambda: col.a.is_not_null(),
    "b null or even": lambda: col.b.is_null() | (col.b % 2 == 0),
    "never": lambda: lit(False),
    "b in": lambda: col.b.isin([0, 1, 3]),
    "udf": lambda: twist(col.b, col.a) > 1,
}

FLAT: dict[str, Callable[..., Any]] = {
    "both ways": lambda a, b: [(a, b), (b, a)],
    "maybe": lambda a, b: [] if a == 1 else [(a, b)],
    "upto": lambda a, b: [(i, b) for i in range((a or 0) % 3)],
    "twin": lambda a, b: [(a, b)] * 2,
}


def _swap(a: Any, b: Any) -> Any:
    return b, a


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "size": lambda key, rows: [(sum(n for _, n in rows) % 5,)],
    "each": lambda key, rows: [(row[1],) for row, _ in rows],
    "spread": lambda key, rows: [
        (x,)
        for values in [[row[1] for row, _ in rows if row[1] is not None]]
        if values
        for x in (min(values), max(values))
    ],
    "odd only": lambda key, rows: [(None,)] if sum(n for _, n in rows) % 2 else [],
}

AGGREGATES: dict[str, Callable[[Any], Any]] = {
    "rows": lambda c: count() % 5,
    "count": lambda c: c.count() % 5,
    "sum": lambda c: c.sum() % 5,
    "avg": lambda c: (c.avg() * 2.0).cast(int) % 5,
    "min": lambda c: c.min(),
    "max": lambda c: c.max(),
    "count_distinct": lambda c: c.count_distinct(),
    "first": lambda c: c.first(by=[col.b.desc(), col.a]),
    "last": lambda c: c.last(by=[col.b, col.a.desc()]),
    "mixed": lambda c: (c.max() - c.min() + count()) % 5,
}

ORDERS: dict[str, Callable[[], Any]] = {
    "a": lambda: [col.a, col.b],
    "b desc": lambda: [col.b.desc(), col.a],
    "a+b": lambda: [((col.a + col.b) % 5).desc(), col.a, col.b.desc()],
}

CONDITIONS: dict[str, Callable[[Collection, Collection], Any]] = {
    "b=a": lambda x, y: x.b == y.a,
    "a=a": lambda x, y: x.a == y.a,
    "both": lambda x, y: (x.a == y.a) & (x.b == y.b),
    "expression": lambda x, y: (x.a + 1) % 5 == y.b,
    "residual": lambda x, y: (x.a == y.a) & (x.b <= y.b),
    "only residual": lambda x, y: x.a < y.b,
    "one side": lambda x, y: (x.b == y.b) & (y.a > 1) & (x.a != 3),
}

PAIRS: dict[str, Callable[[Collection, Collection], dict[str, Any]]] = {
    "outer": lambda x, y: {"a": x.a, "b": y.b},
    "inner": lambda x, y: {"a": x.b, "b": y.a},
    "right": lambda x, y: {"a": y.a, "b": y.b},
    "mixed": lambda x, y: {"a": (x.a + y.a) % 5, "b": y.b.coalesce(x.b)},
}

HOWS = ("inner", "left", "right", "full", "semi", "anti", "cross")

ANY_INTS = {"a": "int?", "b": "int?"}


# ---- from data to collections


def build(spec: Spec, tables: Mapping[str, Collection], variables: tuple[Collection, ...] = ()) -> Collection:
    """The collection that a plan describes."""
    kind, *args = spec

    def of(part: Spec, *more: Collection) -> Collection:
        return build(part, tables, (*more, *variables))

    match kind, args:
        case "table", [name]:
            return tables[name].select(a=col.a, b=col.b)
        case "var", [i]:
            return variables[i % len(variables)] if variables else tables["r"].select(a=col.a, b=col.b)
        case "select", [child, a, b]:
            return of(child).select(a=VALUES[a](), b=VALUES[b]())
        case "filter", [child, condition]:
            return of(child).filter(PREDICATES[condition]())
        case "flat_map", [child, function]:
            return of(child).flat_map(FLAT[function], returns=ANY_INTS)
        case "map", [child]:
            return of(child).map(_swap, returns=ANY_INTS)
        case "union", children:
            first, *rest = map(of, children)
            return first.union_all(*rest)
        case "except", [x, y]:
            return of(x).except_(of(y))
        case "intersect", [x, y]:
            return of(x).intersect(of(y))
        case "minus", [x, y]:
            return of(x).union_all(of(y).negate()).threshold()
        case "minus_distinct", [x, y]:
            return of(x).union_all(of(y).negate()).distinct()
        case "distinct", [child]:
            return of(child).distinct()
        case "join", [how, condition, pair, x, y]:
            return _join(how, condition, pair, of(x).alias("x"), of(y).alias("y"))
        case "agg", [child, aggregate, column]:
            return of(child).group_by("a").agg(b_=AGGREGATES[aggregate](col[column])).select(a=col.a, b=col.b_)
        case "agg2", [child, one, two]:
            both = of(child).group_by(k=VALUES["sum"]()).agg(x=AGGREGATES[one](col.a), y=AGGREGATES[two](col.b))
            return both.select(a=col.k, b=(col.x + col.y) % 5)
        case "agg_all", [child, one, two]:
            return of(child).agg(a_=AGGREGATES[one](col.a), b_=AGGREGATES[two](col.b)).select(a=col.a_, b=col.b_)
        case "top", [child, order, k, offset]:
            return of(child).group_by("a").top(k, ORDERS[order](), offset)
        case "top_all", [child, order, k, offset]:
            return of(child).top(k, ORDERS[order](), offset)
        case "reduce", [child, function]:
            found = of(child).group_by("a").reduce(REDUCTIONS[function], returns={"b_": "int?"})
            return found.select(a=col.a, b=col.b_)
        case _:
            return _loop(spec, tables, variables)


def _join(how: Any, condition: str, pair: str, x: Collection, y: Collection) -> Collection:
    if how == "cross":
        return x.join(y, how="cross").select(**PAIRS[pair](x, y))
    joined = x.join(y, CONDITIONS[condition](x, y), how=how)
    return joined if how in ("semi", "anti") else joined.select(**PAIRS[pair](x, y))


def _loop(spec: Spec, tables: Mapping[str, Collection], variables: tuple[Collection, ...]) -> Collection:
    kind, *args = spec

    def of(part: Spec, *more: Collection) -> Collection:
        return build(part, tables, (*more, *variables))

    match kind, args:
        case "rounds", [start, body, rounds]:
            return of(start).iterate(lambda x: of(body, x), max_rounds=rounds, at_limit="stop")
        case "fixpoint", [one, two, rounds, which]:
            given = tables["s"].select(a=col.a, b=col.b)  # variables start empty: something must come from outside
            found = fixpoint(
                lambda x, y: (of(one, x, y).union_all(given), of(two, x, y)),
                ANY_INTS,
                ANY_INTS,
                max_rounds=rounds,
                at_limit="stop",
            )
            return found[which]
        case "mutual", [start, one, two, which]:
            given = of(start)
            found = fixpoint(
                lambda x, y: (given.union_all(of(one, x, y)).distinct(), of(two, x, y).distinct()), ANY_INTS, ANY_INTS
            )
            return found[which]
        case "closure", [start, step]:
            given = of(start)
            return given.iterate(lambda x: x.union_all(of(step, x), given).distinct())
        case "grow", [start, step]:
            edges = of(step).alias("e")

            def grow(x: Collection) -> Collection:
                return x.join(edges, x.b == edges.a).select(a=x.a, b=edges.b).union_all(given).distinct()

            given = of(start)
            return given.iterate(grow)
        case "least", [start, step, order]:
            edges = of(step).filter(col.a.is_not_null(), col.b.is_not_null()).alias("e")
            labels = of(start).select(a=col.a.coalesce(0), b=col.b.coalesce(0))

            def spread(x: Collection) -> Collection:
                moved = x.join(edges, x.a == edges.a).select(a=edges.b, b=x.b)
                return moved.select(a=col.a.coalesce(0), b=col.b).union_all(labels).group_by("a").agg(b=col.b.min())

            return labels.iterate(spread, priority=None if order == "plain" else col.b, queued=order == "queued")
    raise ValueError(kind)


# ---- random data

small = st.integers(0, 3)
LOOP_ORDERS = ("plain", "prioritized", "queued")


def names(table: Mapping[str, Any]) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(table))


_leaves = st.one_of(
    st.tuples(st.just("table"), names(TABLES)), st.tuples(st.just("var"), st.integers(0, 3)), st.just(("var", 0))
)


def _flat(inner: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    """One operator on top of smaller plans."""

    def op(name: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Spec]:
        return st.tuples(st.just(name), *parts)

    return st.one_of(
        op("select", inner, names(VALUES), names(VALUES)),
        op("filter", inner, names(PREDICATES)),
        op("flat_map", inner, names(FLAT)),
        op("map", inner),
        op("union", inner, inner),
        op("union", inner, inner, inner),
        op("except", inner, inner),
        op("intersect", inner, inner),
        op("minus", inner, inner),
        op("minus_distinct", inner, inner),
        op("distinct", inner),
        op("join", st.sampled_from(HOWS), names(CONDITIONS), names(PAIRS), inner, inner),
        op("join", st.just("inner"), names(CONDITIONS), names(PAIRS), inner, inner),
        op("agg", inner, names(AGGREGATES), st.sampled_from(["a", "b"])),
        op("agg2", inner, names(AGGREGATES), names(AGGREGATES)),
        op("agg_all", inner, names(AGGREGATES), names(AGGREGATES)),
        op("top", inner, names(ORDERS), small, small),
        op("top_all", inner, names(ORDERS), small, small),
        op("reduce", inner, names(REDUCTIONS)),
    )


def _looping(inner: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    def op(name: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Spec]:
        return st.tuples(st.just(name), *parts)

    rounds = st.integers(1, 5)
    limited = op("rounds", inner, inner, rounds)
    return st.one_of(
        limited,
        limited,
        op("fixpoint", inner, inner, rounds, st.integers(0, 1)),
        op("mutual", inner, inner.filter(_monotone), inner.filter(_monotone), st.integers(0, 1)),
        op("closure", inner, inner.filter(_monotone)),
        op("grow", inner.filter(_monotone), inner.filter(_monotone)),
        op("least", inner.filter(_monotone), inner.filter(_monotone), st.sampled_from(LOOP_ORDERS)),
    )


_MONOTONE = {"table", "var", "select", "filter", "flat_map", "map", "union", "distinct", "join"}
_MONOTONE |= {"closure", "grow", "mutual"}


def _monotone(spec: Spec) -> bool:
    """More rows in, more rows out: such bodies converge."""
    if spec[0] == "join" and spec[1] not in ("inner", "semi", "cross"):
        return False
    return spec[0] in _MONOTONE and all(_monotone(part) for part in spec if isinstance(part, tuple))


def _nested(inner: st.SearchStrategy[Spec], leaves: int) -> st.SearchStrategy[Spec]:
    return st.recursive(inner, _flat, max_leaves=leaves)


flat_plans = _nested(_leaves, 6)
"""Plans without loops."""

# deferred: Hypothesis prints strategies, and these are long
bodies = st.deferred(lambda: _nested(_leaves, 4))
loops_1 = st.deferred(lambda: _looping(bodies))
loops_2 = st.deferred(lambda: _looping(_nested(st.one_of(_leaves, loops_1), 3)))
loops_3 = st.deferred(lambda: _looping(_nested(st.one_of(_leaves, loops_2), 2)))


def with_loops(depth: int) -> st.SearchStrategy[Spec]:
    """Plans around loops nested so deep."""
    loops = {1: loops_1, 2: loops_2, 3: loops_3}[depth]
    return st.one_of(loops, _nested(st.one_of(loops, _leaves), 2))


_value = st.integers(0, 4)
_nullable = st.one_of(st.none(), _value)
_op = st.one_of(
    st.tuples(st.sampled_from(["r", "s"]), st.tuples(_value, _value), st.sampled_from([1, 1, 2, 3, -1, -1, -2])),
    st.tuples(st.just("n"), st.tuples(_nullable, _nullable), st.sampled_from([1, 1, 2, -1, -2])),
)
_step = st.lists(st.lists(_op, max_size=6), min_size=1, max_size=5)
steps = st.tuples(st.lists(_op, min_size=4, max_size=25), st.lists(_step, min_size=1, max_size=4)).map(
    lambda parts: [[parts[0]], *parts[1]]
)
"""Steps of transactions of (table, row, how often); deletes of what is not there are cut by `valid`."""


def views(specs: Sequence[Spec], moments: Sequence[tuple[int, int]], steps: int) -> list[ViewPlan]:
    """A view of each spec, from one of the steps to another or to the end."""
    found = []
    for i, (spec, (at, length)) in enumerate(zip(specs, moments, strict=False)):
        start = at % (steps + 1)
        until = start + length if length < 3 else None
        found.append(ViewPlan(f"v{i}", lambda tables, spec=spec: build(spec, tables), start, until))  # type: ignore[misc]
    return found


def valid(given: list[list[list[tuple[str, Any, int]]]]) -> list[list[dict[str, dict[Any, int]]]]:
    """The same steps, with deletes limited to what is there at the start of their transaction."""
    now: dict[tuple[str, Any], int] = {}
    result = []
    for step in given:
        transactions = []
        for ops in step:
            change: dict[str, dict[Any, int]] = {}
            for table, row, n in ops:
                possible = max(n, -now.get((table, row), 0)) if n < 0 else n
                bag = change.setdefault(table, {})
                bag[row] = bag.get(row, 0) + possible
                now[table, row] = now.get((table, row), 0) + possible
            transactions.append({t: {r: n for r, n in bag.items() if n} for t, bag in change.items()})
        result.append(transactions)
    return result
