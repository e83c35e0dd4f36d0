"""Loops: nesting, mutual recursion, NULLs that appear on the way, and variables that leak."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from everview.errors import PlanError
from everview.expr.language import col, lit, when
from everview.expr.nodes import ColumnRef
from everview.language.collection import Collection
from everview.language.loop import fixpoint
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.check import check_closed, free_variables
from everview.plan.nodes import Loop, LoopResult, Variable
from everview.types import FLOAT, INT, STR
from tests.language.interpreter import Tables, rows, table

EDGES = table(0, "edges", src=INT, dst=INT)
ROOTS = table(1, "roots", node=INT)
CYCLE = Counter([(1, 2), (2, 3), (3, 1), (3, 4), (5, 6)])


def loop_of(c: Collection) -> Loop:
    node = relation_of(c).node
    assert isinstance(node, LoopResult)
    return node.loop


def reach(roots: Collection, edges: Collection) -> Collection:
    def body(r: Collection) -> Collection:
        return r.join(edges, r.node == edges.src).select(node=edges.dst).union_all(roots).distinct()

    return roots.iterate(body)


def test_reach() -> None:
    c = reach(ROOTS, EDGES)
    assert c.explain().splitlines() == [
        "r0 := Table roots (node int)",
        "r1 := Table edges (src int, dst int)",
        "r2 := Loop from r0",
        "  r3 := Variable 1.0 (node int)",
        "  r4 := Join[r3, r1] r3.node == r1.src",
        "  r5 := Project[r4] node: dst",
        "  r6 := Union[r5, r0]",
        "  r7 := Distinct[r6]",
        "  again with r7",
        "r8 := LoopResult[r2] 0",
    ]
    assert rows(c, {0: CYCLE, 1: Counter([(2,)])}) == Counter([(1,), (2,), (3,), (4,)])


def trim(edges: Collection) -> Collection:
    """Edges that connect nodes of one strongly connected component, one direction of it: an inner loop per round."""

    def label(arcs: Collection) -> Collection:
        start = arcs.select(node=arcs.src, label=arcs.src).distinct()

        def spread(labels: Collection) -> Collection:
            moved = labels.join(arcs, labels.node == arcs.src).select(node=arcs.dst, label=labels.label)
            return moved.union_all(start).group_by("node").agg(label=col.label.min())

        return start.iterate(spread)

    def body(kept: Collection) -> Collection:
        labels = label(kept)
        other = labels.alias("other")
        both = edges.join(labels, edges.src == labels.node).join(other, edges.dst == other.node)
        same = both.filter(labels.label == other.label).select(src=edges.src, dst=edges.dst)
        return same.select(src=col.dst, dst=col.src)

    return edges.iterate(body, max_rounds=50, at_limit="stop")


def test_nested_loops() -> None:
    c = trim(EDGES)
    text = c.explain()
    assert "  r3 := Project[r2]" in text
    assert "    r" in text
    loops = [n for n in relation_of(c).node.walk() if isinstance(n, Loop)]
    assert sorted(loop.depth for loop in loops) == [1, 2]
    assert free_variables(relation_of(c).node) == frozenset()
    depths = {loop.depth: {v.depth for v in loop.walk() if isinstance(v, Variable)} for loop in loops}
    assert depths == {1: {1, 2}, 2: {1, 2}}


def test_a_loop_that_does_not_need_its_surroundings_is_the_same_loop() -> None:
    outside = reach(ROOTS, EDGES)
    inside: list[Any] = []

    def body(r: Collection) -> Collection:
        found = reach(ROOTS, EDGES)
        inside.append(relation_of(found).node)
        return r.union_all(found).distinct()

    c = ROOTS.iterate(body)
    assert inside[-1] == relation_of(outside).node
    lines = c.explain().splitlines()
    assert lines[2] == "r2 := Loop from r0"
    assert lines[8] == "  again with r7"
    assert lines[9:] == [
        "r8 := LoopResult[r2] 0",
        "r9 := Loop from r0",
        "  r10 := Variable 1.0 (node int)",
        "  r11 := Union[r10, r8]",
        "  r12 := Distinct[r11]",
        "  again with r12",
        "r13 := LoopResult[r9] 0",
    ]
    data: Tables = {0: CYCLE, 1: Counter([(5,)])}
    assert rows(c, data) == Counter([(5,), (6,)])


def test_depth_counts_only_loops_it_reads() -> None:
    depths: list[int] = []

    def outer(a: Collection) -> Collection:
        def middle(b: Collection) -> Collection:
            inner = reach(a, EDGES)  # reads the outer variable only
            node = relation_of(inner).node
            assert isinstance(node, LoopResult)
            depths.append(node.loop.depth)
            return b.union_all(inner).distinct()

        return a.iterate(middle)

    c = ROOTS.iterate(outer)
    assert set(depths) == {2}
    assert free_variables(relation_of(c).node) == frozenset()
    assert rows(c, {0: CYCLE, 1: Counter([(3,)])}) == Counter([(1,), (2,), (3,), (4,)])


def test_mutual_recursion() -> None:
    def body(even: Collection, odd: Collection) -> Any:
        def step(c: Collection) -> Collection:
            return c.join(EDGES, c.node == EDGES.src).select(node=EDGES.dst)

        return ROOTS.union_all(step(odd)).distinct(), step(even).distinct()

    even, odd = fixpoint(body, {"node": int}, {"node": int})
    data: Tables = {0: Counter([(1, 2), (2, 3), (3, 4)]), 1: Counter([(1,)])}
    assert rows(even, data) == Counter([(1,), (3,)])
    assert rows(odd, data) == Counter([(2,), (4,)])
    assert even.explain().splitlines()[2] == "r2 := Loop from nothing, nothing"
    assert loop_of(even) == loop_of(odd)


def test_one_variable_that_starts_empty() -> None:
    c = fixpoint(lambda r: r.union_all(ROOTS).distinct(), {"node": int})
    assert rows(c, {1: Counter([(7,)])}) == Counter([(7,)])


def test_nulls_widen_the_variable() -> None:
    calls: list[str] = []

    def body(r: Collection) -> Collection:
        calls.append(repr(r))
        return r.select(node=when(col.node > 3, col.node)).union_all(ROOTS).distinct()

    c = ROOTS.iterate(body)
    assert calls == ["Collection(node int)", "Collection(node int?)"]
    assert repr(c) == "Collection(node int?)"
    loop = loop_of(c)
    assert loop.initials[0] is not None
    assert loop.initials[0].types == loop.bodies[0].types == (INT.optional(),)
    assert rows(c, {1: Counter([(2,), (5,)])}) == Counter([(2,), (5,), (None,)])


def test_priority_is_an_int() -> None:
    costs = table(2, "costs", node=INT, cost=FLOAT.optional(), name=STR)
    line = costs.iterate(lambda c: c.distinct(), priority=col.cost).explain().splitlines()[1]
    assert line == "r1 := Loop from r0, priority if_null(cast_int(floor(cost)), 0)"
    priority = loop_of(costs.iterate(lambda c: c, priority=costs.node)).priority
    assert priority is not None and priority.type == INT


def test_queued_rows_say_so() -> None:
    costs = table(2, "costs", node=INT, cost=INT)
    loop = costs.iterate(lambda c: c.distinct(), priority=col.cost, queued=True)
    assert loop.explain().splitlines()[1] == "r1 := Loop from r0, queued by cost"
    assert loop_of(loop).queued


def leak() -> Collection:
    kept: list[Collection] = []

    def body(r: Collection) -> Collection:
        kept.append(r)
        return r.distinct()

    ROOTS.iterate(body)
    return kept[0]


LEAK = (
    "[E_LEAK] this collection reads the variable of a loop, but stands outside the loop's body\n"
    "  hint: use what iterate() or fixpoint() returns, and return everything the body computes"
)

ERRORS: dict[str, Any] = {
    LEAK: lambda: leak().distinct(),
    LEAK + " ": lambda: check_closed(relation_of(leak()).node),
    LEAK + "  ": lambda: ROOTS.iterate(lambda r: r.union_all(leak())),
    "[E_LOOP] the body of iterate must return 1 collection(s), not NoneType\n  hint: is a return missing?": (
        lambda: ROOTS.iterate(lambda r: None)  # type: ignore[arg-type,return-value]
    ),
    "[E_LOOP_TYPE] the body of iterate gives (node float) for variable 1, which is (node int)\n"
    "  hint: end the body with .select(node=...), in this order and with these types": (
        lambda: ROOTS.iterate(lambda r: r.select(node=col.node * 1.5))
    ),
    "[E_LOOP_TYPE] the body of iterate gives (dst int, src int) for variable 1, which is (src int, dst int)\n"
    "  hint: end the body with .select(src=..., dst=...), in this order and with these types": (
        lambda: EDGES.iterate(lambda r: r.select("dst", "src"))
    ),
    '[E_LOOP] fixpoint needs the columns of its variables\n  hint: fixpoint(body, {"x": int})': lambda: fixpoint(
        lambda r: r
    ),
    "[E_RANGE] iterate: max_rounds is 0\n  hint: give a whole number of rounds, 1 or more, or None": (
        lambda: ROOTS.iterate(lambda r: r, max_rounds=0)
    ),
    "[E_RANGE] iterate: at_limit is 'stopp'\n  hint: did you mean 'stop'?": (
        lambda: ROOTS.iterate(lambda r: r, at_limit="stopp")  # type: ignore[arg-type]
    ),
    "[E_LOOP] iterate: queued, but rows wait for a priority, and none is given\n"
    "  hint: say priority=..., and no max_rounds": lambda: ROOTS.iterate(lambda r: r, queued=True),
    "[E_LOOP] iterate: queued, but its rounds cannot be limited\n  hint: say priority=..., and no max_rounds": (
        lambda: ROOTS.iterate(lambda r: r, priority=col.node, max_rounds=3, queued=True)
    ),
    "[E_TYPE] the priority col.name is str\n  hint: a priority is a number, a date or a timestamp": (
        lambda: table(2, "t", name=STR).iterate(lambda r: r, priority=col.name)
    ),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error_texts(text: str) -> None:
    with pytest.raises(PlanError) as error:
        ERRORS[text]()
    assert str(error.value) == text.rstrip()


def test_an_error_in_a_body_leaves_no_loop_running() -> None:
    with pytest.raises(ZeroDivisionError):
        ROOTS.iterate(lambda r: 1 / 0)  # type: ignore[arg-type,return-value]
    assert loop_of(ROOTS.iterate(lambda r: r)).depth == 1


def test_deep_plans() -> None:
    c = ROOTS
    for i in range(3000):
        c = c.with_columns(node=col.node + lit(i))
    assert len(c.explain().splitlines()) == 3001
    assert free_variables(relation_of(c).node) == frozenset()


def test_shared_plans_cost_no_more_than_their_nodes() -> None:
    c = ROOTS
    for _ in range(60):
        c = c.union_all(c).filter(col.node > 0)
    assert len(c.explain().splitlines()) == 121
    for i in range(3000):
        c = c.filter(col.node > i)
    assert c.schema() == {"node": INT}


def test_plans_that_share_much_are_compared_quickly() -> None:
    """Two plans of 60 joins, each of the one before with itself, have 2**60 tables if sharing is not seen."""

    def doubled(times: int) -> plan.Node:
        node: plan.Node = plan.Table(0, (INT,))
        for _ in range(times):
            node = plan.Project(plan.Join(node, node, (0,), (0,)), (ColumnRef(INT, 1),))
        return node

    assert doubled(60) == doubled(60)
    assert doubled(60) != doubled(59)
    assert len({doubled(3), doubled(3), doubled(4)}) == 2
