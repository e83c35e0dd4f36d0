"""Recognises monotone loops, which can be maintained as trees or histories instead of rounds.

A loop is monotone if its body is the least (or largest) value for each key, or the distinct rows, of a union of

    starts   what does not read the loop's variable; the loop's initial rows are one of them, or empty
    rules    the variable joined with edges (anything that does not read it) on its *node* column, which becomes a
             column of the edges; the *value* becomes itself, itself plus a weight, or the worse of itself and a
             weight; all other columns are unchanged: they are the *query*. One of them may be a *state*: a rule applies
             to one constant of it and produces another, like the transition of an automaton

Then every round's rows are no worse than the last's, and the loop converges to the least fixed point in any order of
evaluation, which is what a `Frontier` maintains. Why each condition is needed:

- *Initial rows.* A loop that begins with more than its starts may converge to something larger: nodes on a cycle that
  are initially reached keep each other reached.
- *Values never improve along an edge* (under "least": never get smaller). Weights are checked at run time: the
  operator is correct with negative ones, only slow. Constants are checked here.
- *Conditions* on a value must be such that a better value passes whenever a worse one does (`dist < 5` under "least").
  Conditions on edges alone become part of the edges.
- *Multiplicities are never negative* in starts and edges, or rows of different origins could cancel each other.
- *No NULL* among values: it is neither better nor worse (but see `everview.plan.null_starts`). NULL joins nothing, so
  edges from NULL are left out.
- *Nothing that can fail* is moved to where it is computed for edges that no path reaches.

Anything that is not recognised stays a loop: `recognised` returns the reason.

*Lean loops* (`plan.LeanLoop`) of this form are maintained as histories, the values after each round. Then rounds may be
limited, and values may be summed instead of taking the best: round by round this needs no proof. A join that looks up
vertices, by node and query, restricts the loop's output to those (`_asking`).

*Levels.* A lean search that counts up to 14 edges from each of its starts stores nothing but these counts.

*Pairs.* If such a join needs only the least sum of weights from one node to another, the search is maintained as two
halves, from both ends (`everview.kernels.frontier.pairs`), lean or not.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from everview.codes.scalars import float_code
from everview.expr.functions import conjunction
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.deep_recursion import Staged, settled
from everview.plan.frontier import Along, Frontier, Rule
from everview.plan.keys import unique_columns
from everview.plan.loop_ways import MOST_DEPTH, MOST_WAYS, NotMonotone, Reading, Way, never_negative
from everview.plan.null_starts import bare, parted, rejoined
from everview.plan.substitute import over_inputs
from everview.types import BOOL, INTERNED

ORDERED = frozenset({"int", "bool", "date", "timestamp", "decimal"})
"""Kinds of values whose codes are ordered like `greatest` and `least`."""

SELECTED = ("min", "max", "sum")

MOST_LEVELS = 14
"""The most edges that four bits can count, one code being "not reached"."""

TOTAL = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null", "is_not_null", "hash"})
"""Functions that never fail."""

_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True)
class LoopDecision:
    """How a loop is maintained, and why."""

    strategy: str
    why: str

    def __str__(self) -> str:
        return f"loop: {self.strategy}, because {self.why}"


def as_trees(
    node: plan.Node,
    arranged: Container[plan.Node] = (),
    refused: str | None = None,
    *,
    whole: bool = False,
    packs: bool = False,
) -> tuple[plan.Node, list[LoopDecision]]:
    """The same rows with monotone loops maintained as trees, and the decision for each loop. `refused`: why none should
    be; `whole`: no half searches for pairs; `packs`: operators need not keep their output as rows.

    >>> from everview.types import INT
    >>> edge, start = plan.Table(0, (INT, INT)), plan.Table(1, (INT,))
    >>> hop = plan.Project(plan.Join(plan.Variable(1, 0, (INT,)), edge, (0,), (0,)), (ColumnRef(INT, 2),))
    >>> body = plan.Threshold(plan.Union((hop, start)), "distinct")
    >>> found, why = as_trees(plan.LoopResult(plan.Loop(1, (None,), (body,)), 0))
    >>> type(found).__name__, str(why[0])
    ('Frontier', 'loop: trees, because it keeps what is reached along 1 kind(s) of edges, unchanged')
    """
    rewriting = _Rewriting(arranged, refused, whole, packs)
    return rewriting.node(node), rewriting.decisions


class _Rewriting:
    def __init__(self, arranged: Container[plan.Node], refused: str | None, whole: bool, packs: bool) -> None:
        self.arranged = arranged
        self.refused = refused
        self.whole = whole
        self.packs = packs
        self.done: dict[int, plan.Node] = {}
        self.kept: list[plan.Node] = []  # so that the ids in `done` stay theirs
        self.decisions: list[LoopDecision] = []
        self.rewritten = Staged(lambda n: settled(self._node(n)), lambda n: id(n) in self.done or n in self.arranged)

    def node(self, node: plan.Node) -> plan.Node:
        """Rewrite a node, once."""
        if id(node) not in self.done:
            self.kept.append(node)
            self.done[id(node)] = node if node in self.arranged else self.rewritten(node)
        return self.done[id(node)]

    def _node(self, node: plan.Node) -> plan.Node:
        if isinstance(node, plan.Join) and self.refused is None:
            asking = _asking(node, self.whole, self.arranged)
            if asking is not None:
                join, found = asking
                self._decide(LoopDecision("halves" if found.halves else "histories", f"it keeps {found.describe()}"))
                return over_inputs(join, self.node)
        if isinstance(node, plan.LoopResult):
            try:
                if self.refused is not None:
                    raise NotMonotone(self.refused)
                found, unknown = recognised_in_parts(node, self.arranged)
            except NotMonotone as reason:
                self._decide(LoopDecision("rounds", str(reason)))
            else:
                found = replace(found, levels=_levels(found)) if self.packs else found
                form = "trees" if not found.lean else "histories" if found.levels is None else "levels"
                self._decide(LoopDecision(form, f"it keeps {found.describe()}"))
                return over_inputs(rejoined(found, unknown), self.node)
        return over_inputs(node, self.node)

    def _decide(self, decision: LoopDecision) -> None:
        if decision not in self.decisions:
            self.decisions.append(decision)


def recognised(result: plan.LoopResult, arranged: Container[plan.Node] = (), *, inside: bool = False) -> Frontier:
    """A loop's result as a `Frontier`; raises NotMonotone with the reason if it is not one. A `LeanLoop` becomes one in
    lean form: histories of values after each round, so that rounds may be limited and values summed.
    """
    found, unknown = recognised_in_parts(result, arranged, inside=inside)
    if unknown:
        raise NotMonotone("what it starts with may be NULL")
    return found


def recognised_in_parts(
    result: plan.LoopResult, arranged: Container[plan.Node] = (), *, inside: bool = False
) -> tuple[Frontier, list[plan.Node]]:
    """The same, and its starts whose value is NULL, which are to be `rejoined` (`everview.plan.null_starts`)."""
    loop = result.loop
    lean = isinstance(loop, plan.LeanLoop)
    if len(loop.bodies) != 1:
        raise NotMonotone("several variables depend on each other in it")
    if loop.max_rounds is not None and not (lean and loop.at_limit == "stop"):
        raise NotMonotone("its rounds are counted")
    if free_variables(result) and not inside:
        raise NotMonotone("it runs inside another loop")
    selection = selection_of(loop.bodies[0])
    if selection.total and (not lean or loop.max_rounds is None):
        raise NotMonotone("its values are added up")
    parts = _parts(loop, selection, arranged)
    starts = [_ordered(s, selection.columns) for s in parts.starts]
    initial = _initial(loop, starts, selection, parts.keeps)
    if parts.keeps and loop.initials[0] is not None and loop.initials[0] not in starts:
        starts.append(loop.initials[0])  # what is passed on unchanged stays
    ways = parts.ways
    if not ways or not starts:
        raise NotMonotone("it has no start, or nothing that goes further")
    nodes = {way.node for way in ways}
    if len(nodes) != 1:
        raise NotMonotone("edges are joined on different columns of it")
    (node,) = nodes
    starts = starts if selection.total else _sets(starts, arranged)
    unknown: list[plan.Node] = []
    if selection.value is not None:
        starts, unknown = parted(starts, node, selection.value)
    if unknown and (lean or any(way.twice for way in ways)):
        raise NotMonotone("what it starts with may be NULL")
    start = starts[0] if len(starts) == 1 else plan.Union(tuple(starts))
    ways = [_once(way, start, ways, selection) if way.twice else way for way in ways]
    edges: list[plan.Node] = []
    rules = tuple(_rule(way, selection, node, edges) for way in ways)
    for part in (start, *edges, *(() if initial is None else (initial,))):
        if not never_negative(part):
            raise NotMonotone("rows that it reads may be taken away more often than they are there")
    types = result.types
    value = selection.value
    if value is not None and types[value].kind in INTERNED:
        raise NotMonotone("its values are ordered by Python")
    if initial is not None and not any(
        key <= frozenset(range(len(types))) - {value} for key in unique_columns(initial)
    ):
        raise NotMonotone("it begins with several values for a vertex")
    found = Frontier(start, tuple(edges), rules, node, value, selection.largest, types)
    if len({rule.states[0] for rule in rules if rule.states is not None}) > 1:
        raise NotMonotone("several columns that are neither the node nor the value change on the way")
    if found.state is not None and (types[found.state].kind != "int" or types[found.state].nullable):
        raise NotMonotone("a state is something else than an integer")
    if not isinstance(loop, plan.LeanLoop):
        return found, unknown
    if found.state is not None:
        raise NotMonotone("histories have no states")
    rounds = loop.max_rounds
    if rounds is not None and loop.initials[0] is None:
        rounds -= 1  # the first round of a loop without initial rows only yields its starts
    more = {"rounds": rounds, "initial": initial, "budget": loop.budget, "purse": loop.purse}
    return replace(found, lean=True, total=selection.total, **more), []  # type: ignore[arg-type]


def _asking(join: plan.Join, whole: bool, arranged: Container[plan.Node]) -> tuple[plan.Join, Frontier] | None:
    """A join that looks up vertices of a loop by node and query, with a `Frontier` that outputs only those; and the
    `Frontier`. None if it is not such a join: only lean loops can output a part, and those whose queries are pairs of
    nodes (unless their searches should be `whole`).
    """
    sides = (
        (join.left, join.left_keys, join.right, join.right_keys),
        (join.right, join.right_keys, join.left, join.left_keys),
    )
    for mine, my_keys, other, their_keys in sides:
        below, columns = mine, my_keys
        above: list[plan.Project] = []
        while isinstance(below, plan.Project) and all(isinstance(e, ColumnRef) for e in below.exprs):
            above.append(below)
            columns = tuple(below.exprs[c].index for c in columns)  # type: ignore[attr-defined]
            below = below.child
        if not isinstance(below, plan.LoopResult) or (whole and not isinstance(below.loop, plan.LeanLoop)):
            continue
        try:
            found = recognised(below, arranged)
        except NotMonotone:
            continue
        wanted = (found.node, *found.question)
        if sorted(columns) != sorted(wanted):
            continue
        at = dict(zip(columns, their_keys, strict=True))
        halves = not whole and _of_pairs(found) and _asks_from(found.start, other, at[found.question[0]])
        if not halves and not found.lean:
            continue
        keys = plan.Project(other, tuple(ColumnRef(other.types[at[c]], at[c]) for c in wanted))
        found = replace(found, asked=plan.Threshold(keys, "distinct"), halves=halves)
        made: plan.Node = found
        for project in reversed(above):
            made = plan.Project(made, project.exprs)
        return replace(join, left=made) if mine is join.left else replace(join, right=made), found
    return None


def _levels(found: Frontier) -> int | None:
    """The most edges that a lean search follows, if its queries count edges from where they start, and four bits can
    count them.
    """
    plain = found.lean and found.value is not None and not found.largest and not found.total and found.rounds is None
    if not plain or found.budget is not None or len(found.question) != 1 or len(found.rules) != 1:
        return None
    (rule,) = found.rules
    counts = rule.along == "add" and rule.weight is None and rule.constant == 1
    bounds = [b for b in (None if rule.most_in is None else rule.most_in + 1, rule.most_out) if b is not None]
    if not counts or not bounds or not 0 <= min(bounds) <= MOST_LEVELS or not _starts_with_nothing(found):
        return None
    return min(bounds)


def _starts_with_nothing(found: Frontier) -> bool:
    """Whether the value of every start is 0."""
    start = found.start
    while isinstance(start, plan.Threshold) and start.kind == "distinct":
        start = start.child
    value = start.exprs[found.value] if isinstance(start, plan.Project) and found.value is not None else None
    return isinstance(value, Literal) and value.value == 0 and value.type.kind == "int"


def _of_pairs(found: Frontier) -> bool:
    """Whether each query is a search from one node for the least sum of weights: then a query is a pair of nodes and
    can be searched from both ends.
    """
    plain = found.value is not None and not found.largest and not found.total and found.rounds is None
    if not plain or len(found.question) != 1 or len(found.rules) != 1:
        return False
    (rule,) = found.rules
    return rule.along == "add" and rule.most_in is None and rule.most_out is None


def _asks_from(start: plan.Node, asking: plan.Node, source: int) -> bool:
    """Whether a search starts, with nothing, from every node in a column of the requests, under its own name."""
    while isinstance(start, plan.Threshold) and start.kind == "distinct":
        start = start.child
    if not isinstance(start, plan.Project) or len(start.exprs) != 3:
        return False
    nodes = [e for e in start.exprs if isinstance(e, ColumnRef)]
    zeros = [e for e in start.exprs if isinstance(e, Literal) and e.value == 0 and e.type.kind == "int"]
    if len(nodes) != 2 or len(zeros) != 1 or nodes[0].index != nodes[1].index:
        return False
    below, column = start.child, nodes[0].index
    while True:
        if below == asking:
            return column == source
        if isinstance(below, plan.Threshold) and below.kind == "distinct":
            below = below.child
        elif isinstance(below, plan.Project) and isinstance(below.exprs[column], ColumnRef):
            column, below = below.exprs[column].index, below.child  # type: ignore[attr-defined]
        else:
            return False


@dataclass(frozen=True)
class Selection:
    """What a body selects from: column c of the variable is column `columns[c]` of `union`; `value` is the column of
    the variable that is minimised or maximised, if there is one.
    """

    union: plan.Node
    columns: tuple[int, ...]
    value: int | None
    largest: bool
    total: bool = False


def selection_of(body: plan.Node) -> Selection:
    """What the body of a loop selects, and from what."""
    order = list(range(len(body.types)))
    while isinstance(body, plan.Project):
        if not all(isinstance(e, ColumnRef) for e in body.exprs):
            raise NotMonotone("its body computes something of what it has selected")
        order = [body.exprs[c].index for c in order]  # type: ignore[attr-defined]
        body = body.child
    if isinstance(body, plan.Threshold) and body.kind == "distinct":
        _check_all_once(order, body)
        return Selection(body.child, tuple(order), None, False)
    if isinstance(body, plan.Reduce) and len(body.aggregates) == 1 and body.aggregates[0].kind in SELECTED:
        _check_all_once(order, body)
        aggregate = body.aggregates[0]
        assert aggregate.column is not None
        below = (*body.keys, aggregate.column)
        if len(set(below)) != len(below):
            raise NotMonotone("its body groups by what it selects")
        value = order.index(len(body.keys))
        largest, total = aggregate.kind == "max", aggregate.kind == "sum"
        if total and (body.child.types[aggregate.column].kind != "int" or body.child.types[aggregate.column].nullable):
            raise NotMonotone("what it adds up may be something else than an integer")
        return Selection(body.child, tuple(below[c] for c in order), value, largest, total)
    raise NotMonotone("its body is not the least or largest value for each key, nor distinct rows")


def _check_all_once(order: Sequence[int], body: plan.Node) -> None:
    if sorted(order) != list(range(len(body.types))):
        raise NotMonotone("its body drops or doubles columns")


@dataclass
class _Parts:
    """What a body selects from: the starts, the rules, and whether the variable itself is among it."""

    starts: list[plan.Node]
    ways: list[Way]
    keeps: bool = False


def _parts(loop: plan.Loop, selection: Selection, arranged: Container[plan.Node]) -> _Parts:
    found = _Parts([], [])
    reading = Reading(loop.depth, arranged, exact=selection.total)
    for part in reading.parts(selection.union):
        if not free_variables(part) & {(loop.depth, 0)}:
            found.starts.append(part)
            continue
        ways = reading.ways(part, selection.columns)
        if ways is None:
            found.keeps = True
        else:
            found.ways += ways
    if selection.total and found.keeps:
        raise NotMonotone("its values are added to themselves")
    if len(found.ways) > MOST_WAYS:
        raise NotMonotone(f"it has {len(found.ways)} ways round")
    return found


def _sets(starts: Sequence[plan.Node], arranged: Container[plan.Node]) -> list[plan.Node]:
    """The starts, without making unions distinct: the least is selected anyway."""

    def bare(node: plan.Node) -> plan.Node:
        if node in arranged or not _is_distinct(node):
            return node
        (child,) = node.children()
        below = child
        while isinstance(below, plan.Project) or _is_distinct(below):
            (below,) = below.children()
        return child if isinstance(below, plan.Union) and never_negative(child) else node

    def inside(node: plan.Node, level: int = 0) -> plan.Node:
        through = isinstance(node, plan.Project | plan.Filter | plan.Union | plan.Threshold)
        if node in arranged or not through or level > MOST_DEPTH:
            return node
        return over_inputs(node, lambda below: inside(bare(below), level + 1))

    return [inside(bare(start)) for start in starts]


def _is_distinct(node: plan.Node) -> bool:
    return isinstance(node, plan.Threshold) and node.kind == "distinct"


def _ordered(node: plan.Node, columns: tuple[int, ...]) -> plan.Node:
    if columns == tuple(range(len(node.types))):
        return node
    return plan.Project(node, tuple(ColumnRef(node.types[c], c) for c in columns))


def _initial(loop: plan.Loop, starts: Sequence[plan.Node], selection: Selection, keeps: bool) -> plan.Node | None:
    """The loop's initial rows, if they differ from its starts, which is allowed only where values are summed. They are
    always a start if the variable is passed on unchanged (`keeps`).
    """
    initial = loop.initials[0]
    if selection.total:
        if initial is None:
            raise NotMonotone("it begins with nothing")
        return initial
    if initial is None or (isinstance(initial, plan.Constant) and not initial.rows):
        if initial is not None and loop.max_rounds is not None:
            raise NotMonotone("its rounds are counted")
        return None
    if keeps and loop.max_rounds is None:
        return None
    among = [bare(initial) == bare(s) for s in starts]
    if not any(among) or (loop.max_rounds is not None and not all(among)):
        raise NotMonotone("it begins with rows that its body does not start from")
    return None


def _once(way: Way, start: plan.Node, ways: Sequence[Way], selection: Selection) -> Way:
    """A rule that joins the variable with itself, if joining it with what it starts from is equivalent.

    Composing paths that begin as S and grow by edges E yields all words S (E | S)*, and so does path o S. This requires
    both ends to be the variable's columns, and the operation on values to be associative, without conditions: a part of
    a path may pass where the whole does not.
    """
    reason = "it is joined with itself"
    tested = {c for each in ways for condition in each.conditions for c in condition.columns() if c < each.width}
    if selection.total or tested:
        raise NotMonotone(reason)
    width, value = way.width, selection.value
    ends = [c for c in range(width) if c != value]
    if len(ends) != 2 or way.node not in ends or not all(_is_joined(e, way) for e in way.conditions):
        raise NotMonotone(reason)
    (other,) = (c for c in ends if c != way.node)
    crossed = way.near == other and _is_column(way.outputs[other], other)
    if not crossed or not _is_column(way.outputs[way.node], width + way.node):
        raise NotMonotone(reason)
    if value is not None:
        makes = {_makes(each, value) for each in ways}
        allowed = {"same": {"same"}, "add": {"same", "add"}, "worst": {"same", "worst"}}
        own = _makes(way, value)
        if own is None or not makes <= allowed[own]:
            raise NotMonotone(reason)
        reads = {c for c in way.outputs[value].columns() if c >= width}
        if own != "same" and reads != {width + value}:
            raise NotMonotone(reason)
    return replace(way, edges=start, twice=False)


def _is_joined(condition: Expr, way: Way) -> bool:
    """Whether a condition is only that the join column of the edges is not NULL: paths keep it from their start, so
    it is the same to ask it of the start.
    """
    tested = condition.args[0] if isinstance(condition, Call) and condition.op == "is_not_null" else None
    return tested is not None and _is_column(tested, way.width + way.near)


def _makes(way: Way, value: int) -> str | None:
    """The operation of a rule on values, as far as composition is concerned."""
    output = way.outputs[value]
    if _is_column(output, value):
        return "same"
    ops = {"add": "add", "least": "worst", "greatest": "worst"}
    exact = output.type.kind != "float"  # sums of floats depend on their order
    return ops.get(output.op) if isinstance(output, Call) and exact else None


def _rule(way: Way, selection: Selection, node: int, edges: list[plan.Node]) -> Rule:
    """The rule for one way; its edges are added to `edges` if necessary."""
    states = _states(way, selection, node)
    far = _of_edges(way, way.outputs[node], "where an edge leads")
    value = selection.value
    along, weight = ("same", None) if value is None else _along(way, selection, value)
    share = _shares(way, way.outputs[value], value) if selection.total and value is not None else None
    conditions: list[Expr] = []
    most_in: list[int] = []
    most_out: list[int] = []
    for condition in way.conditions:
        if states is None or condition != _tests(way, states[0], states[1]):
            _sort_out(way, condition, selection, conditions, most_in, most_out)
    if weight is not None and weight.type.nullable and not _refuses_null(conditions, weight):
        raise NotMonotone("weights may be NULL")
    worst = max if selection.largest else min
    number, near, far_at, weight_at, constant = _place(way, far, weight, along, conditions, edges)
    return Rule(
        number,
        near,
        far_at,
        along,
        weight_at,
        constant,
        worst(most_in, default=None),
        worst(most_out, default=None),
        (0, 1) if share is None else share[1],
        states,
    )


def _states(way: Way, selection: Selection, node: int) -> tuple[int, int, int] | None:
    """(column, from, to) if a rule leads from one state to another: a column that is neither the node nor the value is
    one constant before, and another after. All other such columns are unchanged.
    """
    found: list[tuple[int, int, int]] = []
    for c, output in enumerate(way.outputs):
        if c in (node, selection.value):
            continue
        before = [
            e.args[1].value
            for e in way.conditions
            if isinstance(e, Call) and e.op == "eq" and _is_column(e.args[0], c) and isinstance(e.args[1], Literal)
        ]
        before = [b for b in before if isinstance(b, int) and not isinstance(b, bool)]
        own = isinstance(output, ColumnRef) and output.index == c
        if before and own:
            found.append((c, before[0], before[0]))
        elif before and isinstance(output, Literal) and isinstance(output.value, int):
            found.append((c, before[0], output.value))
        elif not own:
            raise NotMonotone("a column that is neither the node nor the value changes on the way")
    if len(found) > 1:
        raise NotMonotone("several columns that are neither the node nor the value change on the way")
    if found and (selection.total or any(not isinstance(x, int) or isinstance(x, bool) for x in found[0])):
        raise NotMonotone("a column that is neither the node nor the value changes on the way")
    return found[0] if found else None


def _tests(way: Way, column: int, value: int) -> Expr | None:
    """The condition of a rule that a column is a constant."""
    for e in way.conditions:
        tested = isinstance(e, Call) and e.op == "eq" and _is_column(e.args[0], column)
        if tested and isinstance(e.args[1], Literal) and e.args[1].value == value:  # type: ignore[attr-defined]
            return e
    return None


def _of_edges(way: Way, expr: Expr, what: str) -> Expr:
    """An expression over the edges' columns alone, which cannot fail."""
    if any(c < way.width for c in expr.columns()) or not expr.columns():
        raise NotMonotone(f"{what} does not depend on the edge alone")
    if any(not isinstance(e, ColumnRef | Literal) and not (isinstance(e, Call) and e.op in TOTAL) for e in expr.walk()):
        raise NotMonotone(f"{what} is computed by what may fail")
    return expr.remap({c: ColumnRef(way.edges.types[c - way.width], c - way.width) for c in expr.columns()})


def _along(way: Way, selection: Selection, value: int) -> tuple[Along, Expr | None]:
    """The operation of an edge on a value, and its operand."""
    output = way.outputs[value]
    if _is_column(output, value):
        return "same", None
    if selection.total:
        found = _shares(way, output, value)
        if found is None:
            raise NotMonotone("what is added up is neither a value nor a share of one")
        return "share", found[0]
    kinds: dict[str, Along] = {"add": "add", "least" if selection.largest else "greatest": "worst"}
    if not isinstance(output, Call) or output.op not in kinds or len(output.args) != 2:
        raise NotMonotone("what an edge makes of a value is not known to be monotone")
    own = [a for a in output.args if _is_column(a, value)]
    others = [a for a in output.args if not _is_column(a, value)]
    if len(own) != 1:
        raise NotMonotone("what an edge makes of a value is not known to be monotone")
    along = kinds[output.op]
    if along == "add":
        if selection.largest or output.type.kind != others[0].type.kind or output.type.kind not in ("int", "float"):
            raise NotMonotone("only sums of integers or floats, of which the least is wanted, are known to be monotone")
        if output.type.kind == "float":
            along = "add float"
    if along == "worst" and (own[0].type.kind not in ORDERED or own[0].type.kind != others[0].type.kind):
        raise NotMonotone("what an edge makes of a value is not known to be monotone")
    if isinstance(others[0], Literal):
        if along == "worst" or others[0].value is None or others[0].value < 0:
            raise NotMonotone("what an edge makes of a value may be better than the value")
        if along == "add float" and not math.isfinite(others[0].value):
            raise NotMonotone("an edge makes an infinite value of every other")
        return along, others[0]
    return along, _of_edges(way, others[0], "an edge's weight")


def _shares(way: Way, output: Expr, value: int) -> tuple[Expr, tuple[int, int]] | None:
    """(weight, fraction) if an expression is the fraction of a value divided by a weight, rounded to the nearest:
    (value * 2n + weight * d) // (weight * 2d) for n / d.
    """
    above, below = _factors(output, "floordiv"), None
    if above is None or not isinstance(above[0], Call) or above[0].op != "add":
        return None
    parts = [_factors(a, "mul") for a in above[0].args]
    below = _factors(above[1], "mul")
    if below is None or len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    (own, times), (weight, once), (again, twice) = parts[0], parts[1], below
    numbers = [e.value for e in (times, once, twice) if isinstance(e, Literal) and isinstance(e.value, int)]
    if len(numbers) != 3 or not _is_column(own, value) or weight != again or numbers[2] != 2 * numbers[1]:
        return None
    if numbers[0] < 0 or numbers[1] <= 0 or weight.type.kind != "int":
        return None
    return _of_edges(way, weight, "an edge's weight"), (numbers[0], numbers[1])


def _factors(expr: Expr, op: str) -> tuple[Expr, Expr] | None:
    """The two arguments of a call."""
    return (expr.args[0], expr.args[1]) if isinstance(expr, Call) and expr.op == op and len(expr.args) == 2 else None


def _is_column(expr: Expr, column: int) -> bool:
    return isinstance(expr, ColumnRef) and expr.index == column


def _sort_out(
    way: Way,
    condition: Expr,
    selection: Selection,
    conditions: list[Expr],
    most_in: list[int],
    most_out: list[int],
) -> None:
    """Assign a condition to the edges, or to the bounds of values that are propagated or accepted."""
    if condition.columns() and all(c >= way.width for c in condition.columns()):
        conditions.append(_of_edges(way, condition, "a condition"))
        return
    value = selection.value
    if value is not None and isinstance(condition, Call):
        if condition.op == "is_not_null":
            tested = condition.args[0]
            if _is_column(tested, value):
                return
            if tested == way.outputs[value] and isinstance(tested, Call) and tested.op == "add":
                others = [a for a in tested.args if not _is_column(a, value)]
                conditions += [
                    Call(BOOL, "is_not_null", (_of_edges(way, a, "an edge's weight"),))
                    for a in others
                    if a.type.nullable
                ]
                return
        bound = _bound(condition, selection.largest)
        if bound is not None and _is_column(bound[0], value):
            most_in.append(bound[1])
            return
        if bound is not None and bound[0] == way.outputs[value]:
            most_out.append(bound[1])
            return
    raise NotMonotone("a condition may let a worse value pass and a better one not")


def _bound(condition: Call, largest: bool) -> tuple[Expr, int] | None:
    """The expression that is bounded on its worse side by an integer, and the worst value that passes."""
    if condition.op not in _TURNED or len(condition.args) != 2:
        return None
    a, b = condition.args
    op = condition.op
    if isinstance(a, Literal):
        a, b, op = b, a, _TURNED[op]
    if not isinstance(b, Literal) or a.type.kind != "int" or b.type.kind != "int" or b.value is None:
        return None
    if op not in (("gt", "ge") if largest else ("lt", "le")):
        return None
    strict = {"lt": -1, "gt": 1}.get(op, 0)
    return a, b.value + strict


def _refuses_null(conditions: Sequence[Expr], weight: Expr) -> bool:
    wanted = Call(BOOL, "is_not_null", (weight,))
    return any(c == wanted for c in conditions)


def _place(
    way: Way, far: Expr, weight: Expr | None, along: Along, conditions: list[Expr], edges: list[plan.Node]
) -> tuple[int, int, int, int | None, int]:
    """(number of the edges' input, near, far, weight, constant): the edges as they are, or the columns needed of
    them."""
    constant = 0
    if isinstance(weight, Literal):
        constant = float_code(weight.value) if along == "add float" else weight.value
        weight = None
    source = way.edges
    plain = isinstance(far, ColumnRef) and (weight is None or isinstance(weight, ColumnRef))
    if plain and not conditions:
        near_at, far_at = way.near, far.index  # type: ignore[attr-defined]
        weight_at = None if weight is None else weight.index  # type: ignore[attr-defined]
    else:
        if conditions:
            source = plan.Filter(source, conjunction(conditions, "and"))
        wanted = [ColumnRef(way.edges.types[way.near], way.near), far, *([] if weight is None else [weight])]
        source = plan.Project(source, tuple(wanted))
        near_at, far_at, weight_at = 0, 1, None if weight is None else 2
    if near_at == far_at:
        raise NotMonotone("its edges lead from a node to itself only")
    if source not in edges:
        edges.append(source)
    return edges.index(source), near_at, far_at, weight_at, constant
