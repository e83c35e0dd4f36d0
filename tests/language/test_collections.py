"""Collections make the plans they should: golden explains, names and origins of columns, errors to the letter."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from everview.errors import PlanError
from everview.expr.language import col, count, lit
from everview.language.collection import Collection, RowFunction, check_names
from everview.language.relation import relation_of
from everview.types import FLOAT, INT, STR
from tests.language.interpreter import rows, table

EDGES = table(0, "edges", src=INT, dst=INT, weight=FLOAT)
NODES = table(1, "nodes", id=INT, name=STR.optional())


def plan(c: Collection) -> list[str]:
    return c.explain().splitlines()


def names(c: Collection) -> str:
    return ", ".join(column.name for column in relation_of(c).columns)


# -------------------------------------------------------------------------------------------- rows


def test_select_filter() -> None:
    c = EDGES.filter(col.src > 3, EDGES.weight < 1).select("src", EDGES.dst, double=col.weight * 2, one=lit(1))
    assert plan(c) == [
        "r0 := Table edges (src int, dst int, weight float)",
        "r1 := Filter[r0] (src > 3) and (weight < 1.0)",
        "r2 := Project[r1] src, dst, double: weight * 2.0, one: 1",
    ]


def test_columns_added_renamed_dropped() -> None:
    assert plan(EDGES.with_columns(weight=col.weight + 1, far=col.dst))[1:] == [
        "r1 := Project[r0] src, dst, weight: weight + 1.0, far: dst"
    ]
    renamed = EDGES.rename(a="src")
    assert names(renamed) == "a, dst, weight"
    assert relation_of(renamed).node is relation_of(EDGES).node
    assert plan(renamed.without("a"))[1:] == ["r1 := Project[r0] dst, weight"]


def test_select_of_everything_is_nothing() -> None:
    assert relation_of(EDGES.select("src", "dst", "weight")).node is relation_of(EDGES).node


def test_bound_columns_survive() -> None:
    later = EDGES.filter(col.src > 1).select(a=EDGES.src, b=EDGES.dst).distinct()
    assert plan(later.filter(EDGES.dst == 2))[-1] == "r4 := Filter[r3] b == 2"
    assert plan(EDGES.group_by("src").agg(n=count()).filter(EDGES.src > 1))[-1] == "r2 := Filter[r1] src > 1"
    twice = EDGES.select(a=EDGES.src, b=EDGES.src)
    assert plan(twice.filter(EDGES.src == 2))[-1] == "r2 := Filter[r1] a == 2"


def test_map_and_flat_map() -> None:
    pairs = EDGES.map(lambda s, d, w: (d, s), {"a": int, "b": int})
    assert plan(pairs)[1] == "r1 := FlatMap[r0] <lambda> (a int, b int)"
    data = {0: Counter([(1, 3, 0.5), (1, 3, 0.5)])}
    assert rows(pairs, data) == Counter({(3, 1): 2})
    below = EDGES.flat_map(lambda s, d, w: range(s, d), {"n": int})
    assert rows(below, data) == Counter({(1,): 2, (2,): 2})
    assert rows(EDGES.map(lambda s, d, w: (s, d), {"t": tuple[int, int]}), data) == Counter({((1, 3),): 2})

    def f(*values: Any) -> Any:
        return values

    assert relation_of(EDGES.map(f, {"a": int})).node == relation_of(EDGES.map(f, {"a": int})).node
    assert RowFunction(f, many=True, bare=False, tuples=False)((1, 2)) == [(1, 2)]


def test_equal_queries_are_equal_plans() -> None:
    one = EDGES.filter(col.src > 3).select(a=col.dst)
    two = EDGES.filter(EDGES.src > 3).select(b=EDGES.dst)
    assert relation_of(one).node == relation_of(two).node
    assert hash(relation_of(one).node) == hash(relation_of(two).node)


# ------------------------------------------------------------------------------------------- joins


def test_join_keys_and_residual() -> None:
    c = EDGES.join(NODES, (NODES.id == EDGES.dst + 1) & (EDGES.src < NODES.id) & EDGES.weight.is_not_null())
    assert plan(c) == [
        "r0 := Table edges (src int, dst int, weight float)",
        "r1 := Project[r0] src, dst, weight, c3: dst + 1",
        "r2 := Table nodes (id int, name str?)",
        "r3 := Join[r1, r2] r1.c3 == r2.id",
        "r4 := Project[r3] src, dst, weight, id, name",
        "r5 := Filter[r4] (src < id) and is_not_null(weight)",
    ]


def test_int_meets_float() -> None:
    c = EDGES.join(NODES, EDGES.weight == NODES.id)
    assert plan(c)[1:4] == [
        "r1 := Project[r0] src, dst, weight, c3: weight + 0.0",
        "r2 := Table nodes (id int, name str?)",
        "r3 := Project[r2] id, name, c2: cast_float(id) + 0.0",
    ]


def test_left_join() -> None:
    assert plan(EDGES.join(NODES, EDGES.src == NODES.id, "left")) == [
        "r0 := Table edges (src int, dst int, weight float)",
        "r1 := Table nodes (id int, name str?)",
        "r2 := Join[r0, r1] r0.src == r1.id",
        "r3 := Project[r1] id",
        "r4 := Distinct[r3]",
        "r5 := Join[r0, r4] r0.src == r4.id",
        "r6 := Project[r5] src, dst, weight",
        "r7 := Negate[r6]",
        "r8 := Union[r0, r7]",
        "r9 := Project[r8] src, dst, weight, c3: NULL, c4: NULL",
        "r10 := Union[r2, r9]",
    ]


def test_self_join_needs_an_alias() -> None:
    far = EDGES.alias("far")
    c = EDGES.join(far, EDGES.dst == far.src)
    assert names(c) == "src, dst, weight, src, dst, weight"
    assert plan(c.select(a=EDGES.src, b=far.dst)) == [
        "r0 := Table edges (src int, dst int, weight float)",
        "r1 := Join[r0, r0] r0.dst == r0.src",
        "r2 := Project[r1] a: src, b: dst",
    ]
    assert relation_of(c.select(a=EDGES.src, b=far.dst)).node.exprs[1].index == 4  # type: ignore[attr-defined]


def test_join_with_something_derived_from_itself() -> None:
    heavy = EDGES.filter(col.weight > 1)
    c = heavy.join(EDGES, heavy.dst == EDGES.src).select(a=heavy.src, b=EDGES.dst)
    assert [e.index for e in relation_of(c).node.exprs] == [0, 4]  # type: ignore[attr-defined]


def test_using() -> None:
    other = table(2, "other", src=INT, tag=STR)
    c = EDGES.join(other, "src")
    assert names(c) == "src, dst, weight, tag"
    assert plan(c.filter(other.src == EDGES.src))[-1] == "r4 := Filter[r3] src == src"
    assert names(EDGES.join(other, ["src"], "semi")) == "src, dst, weight"
    left = EDGES.join(other, "src", "left")
    with pytest.raises(PlanError, match=r"other\.src is not in"):
        left.filter(other.src == 1)


# ------------------------------------------------------------------------------------------ groups


def test_plain_aggregates_need_no_projection() -> None:
    c = EDGES.group_by("src").agg(n=count(), m=col.dst.count(), low=col.weight.min())
    assert plan(c)[1:] == [
        "r1 := Reduce[r0] by src: c1 = count(), c2 = min(weight)",
        "r2 := Project[r1] src, n: c1, m: c1, low: c2",
    ]
    assert plan(EDGES.group_by("src").agg(low=col.weight.min()))[1:] == ["r1 := Reduce[r0] by src: low = min(weight)"]


def test_arithmetic_around_and_inside_aggregates() -> None:
    c = EDGES.group_by(ten=col.src // 10).agg(mean=(col.weight * 2).sum() / count(), big=col.ten * 10)
    assert plan(c)[1:] == [
        "r1 := Project[r0] c0: src // 10, c1: weight * 2.0",
        "r2 := Reduce[r1] by c0: c1 = sum(c1), c2 = count()",
        "r3 := Project[r2] ten: c0, mean: c1 / cast_float(c2), big: c0 * 10",
    ]


def test_types_of_aggregates() -> None:
    maybe = table(3, "maybe", k=INT, x=INT.optional())
    c = maybe.group_by("k").agg(
        n=col.x.count(), s=col.x.sum(), a=col.x.avg(), d=col.x.count_distinct(), f=col.x.first(by="k")
    )
    assert repr(c) == "Collection(k int, n int, s int?, a float?, d int, f int?)"


def test_first_and_last() -> None:
    best = EDGES.group_by("src").agg(to=col.dst.first(by=col.weight), cost=col.weight.first(by=col.weight))
    assert plan(best)[1:] == ["r1 := TopK[r0] by src: 1 in order weight"]
    assert names(best) == "src, to, cost"
    maybe = table(3, "maybe", k=INT.optional(), x=INT, t=INT)
    both = maybe.group_by("k").agg(n=count(), old=col.x.first(by=col.t), new=col.x.last(by=col.t), top=col.x.max())
    data = {3: Counter([(None, 5, 1), (None, 4, 2), (1, 8, 0), (1, 7, 3), (1, 7, 3)])}
    assert rows(both, data) == Counter([(None, 2, 5, 4, 5), (1, 3, 8, 7, 8)])
    assert rows(maybe.agg(n=count(), old=col.x.first(by=col.t)), data) == Counter([(5, 8)])


def test_top() -> None:
    assert plan(EDGES.group_by("src").top(2, by=col.weight.desc(), offset=1))[1:] == [
        "r1 := TopK[r0] by src: 2 after 1 in order weight desc"
    ]
    assert plan(EDGES.top(3, by=[col.src % 2, "dst"]))[1:] == [
        "r1 := Project[r0] src, dst, weight, c3: src % 2",
        "r2 := TopK[r1]: 3 in order c3, dst",
        "r3 := Project[r2] src, dst, weight",
    ]


def test_reduce_in_python() -> None:
    def spread(key: Any, group: Any) -> Any:
        values = [row[1] for row, n in group]
        return [(max(values) - min(values),)]

    c = EDGES.group_by("src").reduce(spread, {"spread": int})
    assert plan(c)[1] == "r1 := PythonReduce[r0] by src: spread (src int, spread int)"
    assert rows(c, {0: Counter([(1, 2, 0.0), (1, 9, 0.0)])}) == Counter([(1, 7)])


def test_float_keys_lose_the_sign_of_zero() -> None:
    c = EDGES.group_by("weight").agg(n=count())
    assert plan(c)[1] == "r1 := Project[r0] c0: weight + 0.0"
    assert names(c) == "weight, n"


# ------------------------------------------------------------------------------------------ errors

OTHER_SESSION = table(9, "elsewhere", session=object(), a=INT)
HERE = table(9, "here", session=object(), a=INT)

ERRORS: dict[str, Any] = {
    "[E_COLUMN] Collection(src int, dst int, weight float) has no column 'wieght'\n"
    "  hint: did you mean 'weight'?": lambda: EDGES.wieght,
    "[E_COLUMN] Collection(src int, dst int, weight float) has no column 'qqq'\n"
    "  hint: available: 'src', 'dst', 'weight'": lambda: EDGES.select(a=col.qqq),
    "[E_COLUMN] edges.src is not in Collection(a int): it was dropped or replaced, or is another collection's\n"
    "  hint: available: 'a'": lambda: EDGES.select(a=col.src + 1).filter(EDGES.src > 1),
    "[E_COLUMN] edges.src is not in Collection(src int): it was dropped or replaced, or is another collection's\n"
    "  hint: use col.src for the column now called that": lambda: EDGES.select(src=lit(1)).filter(EDGES.src > 1),
    "[E_AMBIGUOUS] edges.src may be 2 columns of the join of Collection(src int, dst int, weight float) and "
    "Collection(src int, dst int, weight float): the collection was joined with itself\n"
    "  hint: give one side a name of its own before the join: other = edges.alias('other'), then other.src": (
        lambda: EDGES.join(EDGES, EDGES.src == EDGES.dst)
    ),
    "[E_AMBIGUOUS] Collection(id int, name str?, id int, name str?) has 2 columns called 'id'\n"
    "  hint: name the collection it came from (edges.id instead of col.id), or rename one before the join": (
        lambda: NODES.join(NODES.alias("m"), how="cross").filter(col.id > 1)
    ),
    "[E_TYPE] a condition must be true or false, but col.src is int\n"
    "  hint: compare it with something, or .cast(bool)": lambda: EDGES.filter(col.src),
    "[E_NAME] col.src + 1 needs a name\n  hint: write it as a keyword: total=...": lambda: EDGES.select(col.src + 1),
    "[E_DUPLICATE] select has two columns called 'src'\n  hint: rename one: src_2=...": (
        lambda: EDGES.select("src", "src")
    ),
    "[E_DUPLICATE] the view has two columns called 'id'\n  hint: rename one: id_2=...": (
        lambda: check_names(NODES.join(NODES.alias("m"), how="cross"))
    ),
    "[E_EMPTY] without would leave no columns\n  hint: keep at least one; lit(1) will do": (
        lambda: EDGES.without("src", "dst", "weight")
    ),
    "[E_WIDTH] union_all: Collection(src int, dst int, weight float) and Collection(id int, name str?) have 3 and 2 "
    "columns\n  hint: select the same number of columns on both sides": lambda: EDGES.union_all(NODES),
    "[E_TYPE] except_: column 2 is dst int here and name str? there\n  hint: cast one side, e.g. "
    "select(..., name=col.name.cast(int)); columns are matched by position": (
        lambda: EDGES.select("src", "dst").except_(NODES)
    ),
    "[E_TYPE] a collection is needed, not [1]\n  hint: make a table first: db.table(...)": (
        lambda: EDGES.union_all([1])  # type: ignore[arg-type]
    ),
    "[E_SESSION] these collections belong to different sessions\n"
    "  hint: copy the rows from one session to the other": lambda: HERE.union_all(OTHER_SESSION),
    "[E_JOIN] there is no 'outer' join\n  hint: available: 'inner', 'left', 'right', 'full', 'semi', 'anti', 'cross'": (
        lambda: EDGES.join(NODES, EDGES.src == NODES.id, "outer")  # type: ignore[arg-type]
    ),
    "[E_JOIN] the inner join needs a condition\n"
    '  hint: on=c.x == d.y, on="key", or how="cross" for every pair': lambda: EDGES.join(NODES),
    "[E_TYPE] the join's column 'id' is int on one side and str on the other\n  hint: cast one of them first": (
        lambda: NODES.join(table(5, "t", id=STR), "id")
    ),
    "[E_COLUMN] the result of agg() has no column 'dst'\n"
    "  hint: aggregate it, e.g. col.x.max(), or add it to group_by": (
        lambda: EDGES.group_by("src").agg(a=col.dst + count())
    ),
    "[E_AGGREGATE] agg() has no aggregate in it\n"
    "  hint: use .count(), .sum(), .min() ..., or select(...).distinct()": lambda: EDGES.group_by("src").agg(a=col.src),
    "[E_AGGREGATE] col.src.sum() is an aggregate and needs a group\n  hint: use it in .group_by(...).agg(...) or "
    ".agg(...); aggregates of aggregates need two steps": lambda: EDGES.agg(a=col.src.sum().max()),
    "[E_EMPTY] agg() has nothing to compute\n  hint: give it n=ev.count(), or use select(keys).distinct()": lambda: (
        EDGES.group_by("src").agg()
    ),
    "[E_TYPE] col.name.sum(): str? has no sum\n  hint: cast it to a number first: .cast(int)": (
        lambda: NODES.agg(a=col.name.sum())
    ),
    "[E_DUPLICATE] agg has two columns called 'src'\n  hint: rename one: src_2=...": (
        lambda: EDGES.group_by("src").agg(src=count())
    ),
    "[E_RANGE] top(-1, offset=0)\n  hint: both are whole numbers, 0 or more": lambda: EDGES.top(-1, by="src"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error_texts(text: str) -> None:
    with pytest.raises(PlanError) as error:
        ERRORS[text]()
    assert str(error.value) == text


def test_attributes() -> None:
    assert not hasattr(EDGES, "nothing")
    assert not hasattr(EDGES, "_repr_html_")
    odd = table(4, "odd", filter=INT)
    assert callable(odd.filter)
    assert plan(odd.filter(odd["filter"] > 1))[-1] == "r1 := Filter[r0] filter > 1"
    assert "weight" in dir(EDGES)
    assert repr(EDGES) == "Collection(src int, dst int, weight float)"
