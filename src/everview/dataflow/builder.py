"""From plan to dataflow: every plan node becomes a flow (rows on their way) or an arrangement (rows indexed and kept).

Building is memoised by plan node, so whatever two views have in common is built once; nodes that read loop variables
are memoised per loop. A node runs in the scope of the innermost variable it reads, so what does not change inside a
loop is computed outside it.

Linear nodes (project, filter, negate, union) make no operators: they only transform the branches of a flow. Joins and
reductions ask for arrangements, and any existing arrangement of the same node with the right columns in front is
shared: a table's own index, the output of a reduction, another query's index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from everview.dataflow import pythonic
from everview.dataflow.extend import Extend, Part, Pipeline, levels
from everview.dataflow.graph import Graph
from everview.dataflow.operators import Arrange, Arrangement, Join, Operator, PythonMap, Reduce, Wake, columns
from everview.dataflow.scopes import Scope, deeper
from everview.dataflow.streams import Branch, Flow, Route, last_in_queue, queue_shift
from everview.dataflow.windows import windows
from everview.errors import PlanError
from everview.expr.functions import conjunction
from everview.expr.lower import lower
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.kernels import reduction as reduction_k
from everview.kernels import stream as stream_k
from everview.plan import nodes as plan
from everview.plan.check import free_variables_below
from everview.plan.keys import starts_as_given
from everview.plan.multiway import Decision
from everview.plan.windows import Window
from everview.types import BOOL, INT, INTERNED, DataType

DEFAULT_ROUNDS = 1_000_000
"""Rounds after which a loop without max_rounds counts as diverging."""


class LoopBuild:
    """A loop under construction or built: its scope, and the operators of its variables."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.variables: list[Arrangement] = []
        self.entered: dict[plan.Node, Flow] = {}
        """collections that enter the loop by priority"""


Key = tuple[plan.Node, tuple[int, ...]]

Piece = tuple[str, plan.Node, tuple[int, ...]]
"""What was asked for: a table by an order of its columns, or an arrangement of a plan by keys."""


class Builder:
    """Turns plans into operators of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tables: dict[int, Arrangement] = {}
        self.flows: dict[Key, Flow] = {}
        self.arrangements: dict[Key, list[Arrangement]] = {}
        self.loops: dict[Key, LoopBuild] = {}
        self._outgrown: list[LoopBuild] = []
        self._env: dict[int, LoopBuild] = {}
        self._free: dict[int, frozenset[tuple[int, int]]] = {}
        self._roots: list[plan.Node] = []  # keeps the ids in _free alive
        self._wakes: set[tuple[Operator, Scope]] = set()
        self.installed: set[plan.Node] = set()
        self.decided: dict[plan.Node, list[Decision]] = {}
        """How the joins of what is installed are kept, and why."""
        self._ahead: dict[Key, Arrangement] = {}  # outputs of reductions made before the reductions
        self.pieces: dict[Piece, list[Operator]] = {}
        """the operators that were made for each thing asked for, the newest last"""

    # entry points

    def add_table(self, node: plan.Table, order: tuple[int, ...], label: str) -> Arrangement:
        """The operator of a base table: its rows, arranged."""
        made = len(self.graph.numbered)
        operator = Arrange(self.graph, self.graph.root, len(order), label=label)
        operator.check_deletes()
        arrangement = Arrangement(operator, order)
        self.tables[node.id] = arrangement
        self.arrangements[self._key(node)] = [arrangement]
        self.flows[self._key(node)] = columns(operator, node.types, order)
        self._note_piece(("table", node, order), made)
        return arrangement

    def stored(self, node: plan.Node, pruned: plan.Node, keys: tuple[int, ...]) -> Arrangement:
        """An arrangement outside all loops for a view of a node (and the same node, pruned, to build it from)."""
        for known in (node, pruned):
            for arrangement in self._existing(known):
                if arrangement.serves(keys) and arrangement.operator.scope.is_root:
                    return arrangement
        made = len(self.graph.numbered)
        arrangement = self._arrange(pruned, keys, self.graph.root)
        self._note_piece(("view", pruned, keys), made)
        if node != pruned:  # views of this view find it under the name they know
            self.arrangements.setdefault(self._key(node), []).append(arrangement)
            self.flows[self._key(node)] = columns(arrangement.operator, node.types, arrangement.order)
        self.installed.add(node)
        return arrangement

    def _note_piece(self, piece: Piece, made: int) -> None:
        self.pieces.pop(piece, None)  # one that was dropped and is made again is the newest
        self.pieces[piece] = [o for o in self.graph.numbered[made:] if o is not None]

    def forget(self, gone: set[Operator]) -> None:
        """Operators were dropped: forget whatever led to them."""
        self.flows = {k: f for k, f in self.flows.items() if not any(b.producer in gone for b in f)}
        kept = {k: [a for a in v if a.operator not in gone] for k, v in self.arrangements.items()}
        self.arrangements = {k: v for k, v in kept.items() if v}
        self.loops = {k: b for k, b in self.loops.items() if not any(v.operator in gone for v in b.variables)}
        self._outgrown = [b for b in self._outgrown if not any(v.operator in gone for v in b.variables)]
        self.installed = {n for n in self.installed if (n, ()) in self.arrangements}
        self.decided = {n: d for n, d in self.decided.items() if n in self.installed}
        self.tables = {k: a for k, a in self.tables.items() if a.operator not in gone}
        self._wakes = {(o, s) for o, s in self._wakes if o not in gone}
        self.pieces = {p: made for p, made in self.pieces.items() if not all(o.freed for o in made)}

    # memo

    def _key(self, node: plan.Node) -> Key:
        """The node and the loops whose variables it reads."""
        if id(node) not in self._free:
            self._free.update(free_variables_below(node))
            self._roots.append(node)
        depths = sorted({depth for depth, _ in self._free[id(node)]})
        return node, tuple(id(self._env[d]) for d in depths)

    def _scope(self, node: plan.Node) -> Scope:
        """Where the node runs: in the innermost loop whose variable it reads, so what reads a loop's result is outside
        that loop.
        """
        scope = self.graph.root
        for depth, _ in self._depths(node):
            scope = deeper(scope, self._env[depth].scope)
        return scope

    def flow(self, node: plan.Node) -> Flow:
        """The node's rows on their way."""
        key = self._key(node)
        found = self.flows.get(key)
        if found is None or not self._sharable(found):
            found = self._build(node)
            self.flows[key] = found
        return found

    @staticmethod
    def _sharable(flow: Flow) -> bool:
        """Whether a newcomer can get the flow's history."""
        return all(b.producer.replayable or not b.producer.old for b in flow)

    def _build(self, node: plan.Node) -> Flow:
        build: Callable[[Any], Flow] = getattr(self, f"_build_{type(node).__name__.lower()}")
        return build(node)

    # linear nodes

    def _build_table(self, node: plan.Table) -> Flow:
        raise PlanError(
            "E_DROPPED", "a table of this plan was dropped", "build the collection anew from existing tables"
        )

    def _build_constant(self, node: plan.Constant) -> Flow:
        """Rows that come with the operator; with several shards, on one."""
        cols = len(node.types)
        operator = Arrange(self.graph, self.graph.root, cols, label="constant", gather=True)
        rows = [
            [self.graph.encode_literal(t, value) for t, value in zip(node.types, row, strict=True)]
            for row in node.rows
        ]
        self.graph.begin_with(operator, np.array(rows, dtype=np.int64).reshape(len(rows), cols))
        self.arrangements[self._key(node)] = [Arrangement(operator, tuple(range(cols)))]
        return columns(operator, node.types, tuple(range(cols)))

    def _build_project(self, node: plan.Project) -> Flow:
        return self._linear(node.child, node.exprs, None)

    def _build_filter(self, node: plan.Filter) -> Flow:
        return self._linear(node.child, None, node.predicate)

    def _linear(self, child: plan.Node, exprs: tuple[Expr, ...] | None, predicate: Expr | None) -> Flow:
        flow = self.flow(child)
        wanted = exprs if exprs is not None else tuple(ColumnRef(t, i) for i, t in enumerate(child.types))
        if lower(wanted, predicate, len(child.types), self.graph.encode_literal) is None:
            run = pythonic.expressions(wanted, predicate, self.graph.interner)
            return self._python(child, tuple(e.type for e in wanted), run, "expressions")
        result = []
        for branch in flow:
            moved = branch if predicate is None else branch.filter(predicate)
            result.append(moved if exprs is None else moved.project(exprs))
        return tuple(result)

    def _python(self, child: plan.Node, types: tuple[DataType, ...], run: Callable[..., Any], label: str) -> Flow:
        flow = self.flow(child)  # first: operators run in the order in which they are made
        operator = PythonMap(self.graph, self._scope(child), len(child.types), len(types), run, label)
        operator.listen(flow)
        return columns(operator, types, tuple(range(len(types))))

    def _build_flatmap(self, node: plan.FlatMap) -> Flow:
        run = pythonic.flat_map(node.function, node.child.types, node.columns, self.graph.interner)
        label = getattr(node.function, "__name__", "flat_map")
        return self._python(node.child, node.columns, run, label)

    def _build_negate(self, node: plan.Negate) -> Flow:
        return tuple(b.negate() for b in self.flow(node.child))

    def _build_union(self, node: plan.Union) -> Flow:
        entered: dict[plan.Node, Flow] = {}
        for depth, _ in self._free[id(node)]:
            entered.update(self._env[depth].entered)
        return tuple(b for i in node.inputs for b in entered.get(i) or self.flow(i))

    # arrangements

    def arrange(
        self, node: plan.Node, keys: tuple[int, ...], *, gather: bool = False, now: bool = False
    ) -> Arrangement:
        """An arrangement of the node with these key columns in front: an existing one if there is one.

        `gather`: with several shards, all rows on one of them. `now`: not that of a loop variable that is read a round
        later, which joins can do and reductions cannot.
        """
        found = self._serving(node, keys, gather, now)
        if found is None:
            self.flow(node)  # building the node may bring an arrangement with it
            found = self._serving(node, keys, gather, now)
        return found or self._arrange(node, keys, self._scope(node), gather=gather, now=now)

    def _serving(self, node: plan.Node, keys: tuple[int, ...], gather: bool, now: bool) -> Arrangement | None:
        fits = (a for a in self._existing(node) if a.serves(keys, gather=gather) and not (now and a.delay))
        return next(fits, None)

    def _existing(self, node: plan.Node) -> list[Arrangement]:
        return self.arrangements.get(self._key(node), [])

    def _arrange(
        self, node: plan.Node, keys: tuple[int, ...], scope: Scope, *, gather: bool = False, now: bool = False
    ) -> Arrangement:
        order = (*keys, *(c for c in range(len(node.types)) if c not in keys))
        flow = self.flow(node)
        for arrangement in self._existing(node):
            late = now and arrangement.delay
            if arrangement.serves(keys, gather=gather) and arrangement.operator.scope is scope and not late:
                return arrangement
        label = f"by {list(keys)}" if keys else "rows"
        operator = Arrange(self.graph, scope, len(order), label=label, gather=gather)
        operator.listen(_reordered(flow, order))
        arrangement = Arrangement(operator, order)
        self.arrangements.setdefault(self._key(node), []).append(arrangement)
        if scope is self._scope(node) and not isinstance(node, plan.Table):
            # later readers take the rows from here: consolidated, and with a history to replay
            self.flows[self._key(node)] = columns(operator, node.types, order)
        return arrangement

    # joins

    def _build_join(self, node: plan.Join) -> Flow:
        left, right, residual = _null_safe(node), node.right, []
        pairs: list[tuple[int, int]] = []
        for l, r in zip(node.left_keys, node.right_keys, strict=True):
            if any(l == a or r == b for a, b in pairs):
                residual.append((l, r))
            else:
                pairs.append((l, r))
        flow = self.join(left, right, tuple(pairs))
        if residual:
            width = len(node.left.types)
            equal = [
                Call(BOOL, "eq", (ColumnRef(node.types[l], l), ColumnRef(node.types[width + r], width + r)))
                for l, r in residual
            ]
            flow = tuple(b.filter(conjunction(equal, "and")) for b in flow)
        return flow

    def join(self, left: plan.Node, right: plan.Node, pairs: tuple[tuple[int, int], ...]) -> Flow:
        """Inner join on pairs of columns; equal codes match, NULLs too."""
        pairs = self._best_order(left, right, pairs)
        l = self.arrange(left, tuple(a for a, _ in pairs), gather=not pairs)
        r = self.arrange(right, tuple(b for _, b in pairs), gather=not pairs)
        scope = deeper(l.operator.scope, r.operator.scope)
        for side in (l, r):
            self._wake(side, scope)
        operator = Join(self.graph, l, r, len(pairs), scope)
        exprs: list[Expr] = [ColumnRef(t, l.order.index(c)) for c, t in enumerate(left.types)]
        for c, t in enumerate(right.types):
            at = r.order.index(c)
            exprs.append(ColumnRef(t, at if at < len(pairs) else l.cols + at - len(pairs)))
        return (Branch(operator, scope, tuple(exprs)),)

    def _build_multijoin(self, node: plan.MultiJoin) -> Flow:
        for i in node.inputs:
            self.flow(i)
        plans = [levels(node, i) for i in range(len(node.inputs))]
        parts = [[tuple(self._part(node, p) for p in level.parts) for level in plan] for plan in plans]
        sources = [self._source(i) for i in node.inputs]
        pipelines = [
            Pipeline(source, tuple(zip(plan, arranged, strict=True)))
            for source, plan, arranged in zip(sources, plans, parts, strict=True)
        ]
        used = [*sources, *(a for arranged in parts for level in arranged for a in level)]
        scope = self.graph.root
        for arrangement in used:
            scope = deeper(scope, arrangement.operator.scope)
        for arrangement in used:
            self._wake(arrangement, scope)
        operator = Extend(self.graph, scope, node, pipelines)
        return columns(operator, node.types, tuple(range(len(node.types))))

    def _part(self, node: plan.MultiJoin, part: Part) -> Arrangement:
        """An arrangement with the part's bound columns in front, in any order, then its new ones."""
        child = node.inputs[part.input]
        return _serving(self._existing(child), part) or self.arrange(child, (*part.bound, *part.new))

    def served(self, node: plan.Node, keys: tuple[int, ...]) -> bool:
        """Whether there is an arrangement, outside loops, with these columns in front, in any order."""
        return any(set(a.order[: len(keys)]) == set(keys) for a in self.arrangements.get((node, ()), []))

    def narrow(self, table: plan.Table) -> list[plan.Project]:
        """Arranged nodes that are some columns of a table, those of few columns first."""
        found = [
            node
            for node, loops in self.arrangements
            if not loops
            and isinstance(node, plan.Project)
            and node.child == table
            and all(isinstance(e, ColumnRef) for e in node.exprs)
        ]
        return sorted(found, key=lambda node: len(node.exprs))

    def indexed(self, node: plan.MultiJoin) -> bool:
        """Whether all arrangements that the join needs, outside loops, are there already."""
        there = [self.arrangements.get((i, ()), []) for i in node.inputs]
        parts = [p for i in range(len(node.inputs)) for level in levels(node, i) for p in level.parts]
        return all(there) and all(_serving(there[p.input], p) is not None for p in parts)

    def _source(self, node: plan.Node) -> Arrangement:
        """An arrangement whose changes are the node's: an old one if there is one, because what an input says in the
        installing step must be new to all of its arrangements or counted as old by all.
        """
        existing = self._existing(node)
        return next((a for a in existing if a.operator.old), existing[0] if existing else self.arrange(node, ()))

    def _best_order(
        self, left: plan.Node, right: plan.Node, pairs: tuple[tuple[int, int], ...]
    ) -> tuple[tuple[int, int], ...]:
        """The order of key columns that existing arrangements serve best."""
        if not 1 < len(pairs) <= 4:
            return pairs

        def score(order: tuple[tuple[int, int], ...]) -> int:
            l = any(a.serves(tuple(x for x, _ in order)) for a in self._existing(left))
            r = any(a.serves(tuple(y for _, y in order)) for a in self._existing(right))
            return int(l) + int(r)

        self.flow(left)
        self.flow(right)
        return max(permutations(pairs), key=score)

    def _wake(self, source: Arrangement, scope: Scope) -> None:
        if source.operator.scope is not scope and (source.operator, scope) not in self._wakes:
            self._wakes.add((source.operator, scope))
            Wake(self.graph, source, scope)

    # reductions

    def _build_threshold(self, node: plan.Threshold) -> Flow:
        ahead = self._ahead.get(self._key(node))
        source = self.arrange(node.child, () if ahead is None else ahead.order, now=True)
        kind = reduction_k.DISTINCT if node.kind == "distinct" else reduction_k.POSITIVE
        return self._reduce(node, source, len(node.types), source.order, kind, label=node.kind)

    def _reduce(
        self,
        node: plan.Node,
        source: Arrangement,
        keys: int,
        order: tuple[int, ...],
        kind: int,
        spec: list[int] | None = None,
        *,
        label: str,
        run: Callable[..., Any] | None = None,
    ) -> Flow:
        """A reduction whose output columns are the node's in `order`; its output arrangement can be shared."""
        ahead = self._ahead.pop(self._key(node), None)
        if ahead is not None:
            operator = ahead.operator
            assert isinstance(operator, Reduce) and ahead.order == order
            operator.label = label
        else:
            operator = Reduce(self.graph, source.operator.scope, keys, len(order), label)
        operator.bind(source, kind, spec, run)
        self.arrangements.setdefault(self._key(node), []).append(Arrangement(operator, order))
        return columns(operator, node.types, order)

    def _build_reduce(self, node: plan.Reduce) -> Flow:
        parts = _parts(node)
        if len(parts) == 1:
            return self._build_part(node)
        keys = len(node.keys)
        pairs = tuple((i, i) for i in range(keys))
        joined: plan.Node = parts[0][0]
        flow = self.flow(joined)
        where = {aggregate: keys + i for i, aggregate in enumerate(parts[0][0].aggregates)}
        for part, _ in parts[1:]:
            flow = self.join(joined, part, pairs)
            joined = plan.Join(joined, part, tuple(range(keys)), tuple(range(keys)))
            self.flows[self._key(joined)] = flow
            start = len(joined.types) - len(part.aggregates)
            where.update({aggregate: start + i for i, aggregate in enumerate(part.aggregates)})
        exprs = [ColumnRef(t, i) for i, t in enumerate(node.types[:keys])]
        exprs += [ColumnRef(a.type, where[a]) for a in node.aggregates]
        return tuple(b.project(tuple(exprs)) for b in flow)

    def _build_part(self, node: plan.Reduce) -> Flow:
        kind = node.aggregates[0].kind
        if kind == "count_distinct":
            return self._count_distinct(node)
        if kind in ("min", "max"):
            return self._extreme(node)
        return self._accumulate(node)

    def _count_distinct(self, node: plan.Reduce) -> Flow:
        aggregate = node.aggregates[0]
        assert aggregate.column is not None
        narrow = _narrow(node.child, (*node.keys, aggregate.column))
        keys = tuple(range(len(node.keys)))
        count = plan.Aggregate("count", len(keys), aggregate.type)
        return self.flow(plan.Reduce(plan.Threshold(narrow, "distinct"), keys, (count,)))

    def _extreme(self, node: plan.Reduce) -> Flow:
        aggregate = node.aggregates[0]
        assert aggregate.column is not None
        keys = tuple(range(len(node.keys)))
        narrow = _narrow(node.child, (*node.keys, aggregate.column))
        source = self.arrange(narrow, keys, gather=not keys, now=True)
        label = f"{aggregate.kind} by {list(node.keys)}"
        if node.child.types[aggregate.column].kind in INTERNED:
            run = pythonic.extreme(aggregate.kind == "min", narrow.types, len(keys), self.graph.interner)
            kind = reduction_k.PYTHON
        else:
            run = None
            kind = reduction_k.MINIMUM if aggregate.kind == "min" else reduction_k.MAXIMUM
        return self._reduce(node, source, len(keys), tuple(range(len(node.types))), kind, label=label, run=run)

    def _accumulate(self, node: plan.Reduce) -> Flow:
        # a count of what is never NULL reads no value; only columns that accumulators read may follow the keys
        values = [a.column for a in node.aggregates if a.column is not None]
        values = [c for c in dict.fromkeys(values) if node.child.types[c].nullable or _summed(node, c)]
        keys = len(node.keys)
        accumulators: list[tuple[int, int]] = [(stream_k.ACC_ONE, -1)]
        spec: list[int] = []
        for aggregate in node.aggregates:
            column = keys + values.index(aggregate.column) if aggregate.column in values else -1
            declared = None if aggregate.column is None else node.child.types[aggregate.column]
            spec += _accumulators(aggregate, column, declared, accumulators)
        flow = self.flow(node.child)
        scope = self._scope(node.child)
        accumulator = Arrange(self.graph, scope, keys, diffs=len(accumulators), label=f"totals by {list(node.keys)}")
        accumulator.listen(_reordered(flow, (*node.keys, *values)), Route(accumulators=tuple(accumulators)))
        source = Arrangement(accumulator, tuple(range(keys)))
        label = f"{', '.join(a.kind for a in node.aggregates)} by {list(node.keys)}"
        order = tuple(range(len(node.types)))
        return self._reduce(node, source, keys, order, reduction_k.ACCUMULATE, spec, label=label)

    def _build_topk(self, node: plan.TopK) -> Flow:
        if any(node.child.types[c].kind in INTERNED for c, _ in node.order):
            run = pythonic.top(node, self.graph.interner)
            return self._python_reduction(node, run, len(node.types), f"top {node.limit}")
        sort_keys = tuple(_sort_key(ColumnRef(node.child.types[c], c), down) for c, down in node.order)
        rest = [c for c in range(len(node.types)) if c not in node.keys]
        exprs = [ColumnRef(node.child.types[c], c) for c in (*node.keys, *rest)]
        keys = len(node.keys)
        ordered = plan.Project(node.child, (*exprs[:keys], *sort_keys, *exprs[keys:]))
        source = self.arrange(ordered, tuple(range(keys + len(sort_keys))), gather=not keys, now=True)
        label = f"top {node.limit} by {list(node.keys)}"
        spec = [node.offset, node.limit]
        key = _TopOutput(ordered, keys, node.limit, node.offset)
        flow = self._reduce(key, source, keys, source.order, reduction_k.TOP, spec, label=label)
        place = {c: i for i, c in enumerate(node.keys)} | {c: keys + len(sort_keys) + i for i, c in enumerate(rest)}
        return tuple(b.project(tuple(ColumnRef(t, place[c]) for c, t in enumerate(node.types))) for b in flow)

    def _build_pythonreduce(self, node: plan.PythonReduce) -> Flow:
        run = pythonic.reduction(node, self.graph.interner)
        label = getattr(node.function, "__name__", "reduce")
        return self._python_reduction(node, run, len(node.types), label)

    def _build_window(self, node: Window) -> Flow:
        child = len(node.child.types)
        order = (*node.keys, *(c for c in range(child) if c not in node.keys))
        source = self.arrange(_narrow(node.child, order), tuple(range(len(node.keys))), gather=not node.keys, now=True)
        order = (*order, *range(child, len(node.types)))
        run = windows(node, self.graph.interner)
        label = f"window by {list(node.keys)}"
        return self._reduce(node, source, len(node.keys), order, reduction_k.PYTHON, label=label, run=run)

    def _python_reduction(
        self, node: plan.TopK | plan.PythonReduce, run: Callable[..., Any], cols: int, label: str
    ) -> Flow:
        """Group in key order with `run` telling the output; `run` expects and gives the key columns first."""
        keys = node.keys
        order = (*keys, *(c for c in range(len(node.child.types)) if c not in keys))
        narrow = _narrow(node.child, order)
        source = self.arrange(narrow, tuple(range(len(keys))), gather=not keys, now=True)
        if not isinstance(node, plan.TopK):
            order = tuple(range(cols))
        return self._reduce(node, source, len(keys), order, reduction_k.PYTHON, label=label, run=run)

    # loops

    def _build_variable(self, node: plan.Variable) -> Flow:
        arrangement = self._env[node.depth].variables[node.index]
        return columns(arrangement.operator, node.types, arrangement.order, arrangement.delay)

    def _build_loopresult(self, node: plan.LoopResult) -> Flow:
        key = self._key(node.loop)
        if key in self.loops and not self._can_tell(self.loops[key], node):
            self._outgrown.append(self.loops.pop(key))  # kept: keys hold its id
        self._loop(node.loop)
        build = self.loops[key]
        outside = build.scope.parent
        assert outside is not None
        with self._inside(build, node.loop.depth):
            flow = self.flow(node.loop.bodies[node.index])
        return tuple(replace(b, scope=outside) if build.scope.contains(b.scope) else b for b in flow)

    def _can_tell(self, build: LoopBuild, node: plan.LoopResult) -> bool:
        """Whether a loop that runs can tell a newcomer what its result was so far: what says it keeps its rows, or
        can be made again from variables that do."""
        with self._inside(build, node.loop.depth):
            found = self.flows.get(self._key(node.loop.bodies[node.index]))
        kept = all(v.operator.replayable or not v.operator.old for v in build.variables)
        return kept or (found is not None and self._sharable(found))

    @contextmanager
    def _inside(self, build: LoopBuild, depth: int) -> Iterator[None]:
        """With the loop's variables at hand."""
        outer, self._env = self._env, {**self._env, depth: build}
        try:
            yield
        finally:
            self._env = outer

    def _loop(self, loop: plan.Loop) -> None:
        key = self._key(loop)
        if key in self.loops:
            return
        parent = self.graph.root
        for depth, _ in self._free[id(loop)]:
            parent = deeper(parent, self._env[depth].scope)
        scope = Scope(parent, levels=_levels(loop) if parent.is_root else 0)
        build = LoopBuild(scope)
        initials = [None if i is None else self.flow(i) for i in loop.initials]
        if loop.priority is not None and loop.initials[0] is not None and initials[0] is not None:
            build.entered[loop.initials[0]] = self._enter(initials[0], loop, scope)
        if starts_as_given(loop):
            initials = [None]
        outer, self._env = self._env, {**self._env, loop.depth: build}
        try:
            for index, body in enumerate(loop.bodies):
                build.variables.append(self._variable(loop, index, body, scope, initials[index] is None))
            self.loops[key] = build
            bodies = [self.flow(body) for body in loop.bodies]
            self._close(loop, build, initials, bodies)
        except BaseException:
            self.loops.pop(key, None)
            raise
        finally:
            self._env = outer
        self.graph.add_loop(scope)

    def _enter(self, initial: Flow, loop: plan.Loop, scope: Scope) -> Flow:
        """Rows that enter a prioritized loop: each at the coordinate (its priority, 0)."""
        assert loop.initials[0] is not None
        types = loop.initials[0].types
        operator = Arrange(self.graph, scope, len(types), stateless=True, label="by priority")
        operator.listen(initial, Route(priority=loop.priority, queued=loop.queued))
        return columns(operator, types, tuple(range(len(types))))

    def _variable(self, loop: plan.Loop, index: int, body: plan.Node, scope: Scope, empty: bool) -> Arrangement:
        """The arrangement of a loop variable.

        A variable that starts empty and whose body is a reduction is that reduction's output, read a round later. Any
        other is an operator of its own: arranged for the first join that wants it, else only consolidated.
        """
        variable = plan.Variable(loop.depth, index, body.types)
        keys = _wanted_keys(loop.bodies, variable)
        order = tuple(range(len(body.types)))
        if keys is not None:
            order = (*keys, *(c for c in order if c not in keys))
        ahead = self._output_ahead(loop, body, scope, order, keys) if empty else None
        if ahead is not None:
            arrangement = ahead
        else:
            operator = Arrange(self.graph, scope, len(order), stateless=keys is None, label=f"variable {index}")
            arrangement = Arrangement(operator, order)
        if keys is not None:
            self.arrangements[self._key(variable)] = [arrangement]
        return arrangement

    def _output_ahead(
        self, loop: plan.Loop, body: plan.Node, scope: Scope, order: tuple[int, ...], keys: tuple[int, ...] | None
    ) -> Arrangement | None:
        """Make the output of the body's reduction before its input, for the variable to read."""
        reduces = isinstance(body, plan.Threshold) or (isinstance(body, plan.Reduce) and len(_parts(body)) == 1)
        if (
            not reduces
            or keys is None
            or loop.at_limit == "stop"
            or loop.queued
            or loop.depth not in {d for d, _ in self._depths(body)}
        ):
            return None
        if len(loop.bodies) > 1:  # another variable's join may run after this output's next delta replaced the last
            return None
        if isinstance(body, plan.Reduce):
            counts = body.aggregates[0].kind == "count_distinct"
            if counts or order != tuple(range(len(order))):
                return None
        count = len(body.keys) if isinstance(body, plan.Reduce) else len(order)
        operator = Reduce(self.graph, scope, count, len(order))
        self._ahead[self._key(body)] = Arrangement(operator, order)
        return Arrangement(operator, order, delay=scope.unit)

    def _depths(self, node: plan.Node) -> frozenset[tuple[int, int]]:
        self._key(node)
        return self._free[id(node)]

    def _close(
        self, loop: plan.Loop, build: LoopBuild, initials: Sequence[Flow | None], bodies: Sequence[Flow]
    ) -> None:
        """Feed the variables: what they start with, and what the bodies said a round ago."""
        scope = build.scope
        rounds = loop.max_rounds
        stop = loop.at_limit == "stop" and rounds is not None
        most = (1 << scope.bits) - 2
        limit = most if loop.priority is not None and rounds is None else min(rounds or DEFAULT_ROUNDS, most)
        scope.limit = limit
        if loop.queued:  # so many rounds after the last priority has begun
            scope.limit = limit = min(DEFAULT_ROUNDS + (last_in_queue(scope) << queue_shift(scope)), most)
        round_again = Route(add=scope.unit, rounds=limit, stop_at_limit=stop)
        for variable, initial, body in zip(build.variables, initials, bodies, strict=True):
            if variable.delay:
                Wake(self.graph, variable, scope, limit * scope.unit)
                continue
            order = variable.order
            operator = variable.operator
            if loop.queued and loop.priority is not None:
                wait = loop.priority.remap({c: ColumnRef(loop.bodies[0].types[c], i) for i, c in enumerate(order)})
                round_again = replace(round_again, priority=wait, queued=True)
            operator.listen(_reordered(body, order), round_again)
            if initial is not None:
                # one round later the body has taken over from the initial rows
                first = _reordered(next(iter(build.entered.values()), initial), order)
                operator.listen(first, Route(rounds=limit, stop_at_limit=stop, queued=loop.queued))
                operator.listen(tuple(b.negate() for b in first), round_again)


@dataclass(frozen=True, eq=True)
class _TopOutput(plan.Node):
    """What a top-k reduction says, in the order of its arrangement: only a name for sharing it."""

    child: plan.Node
    keys: int
    limit: int
    offset: int
    __hash__ = plan.Node.__hash__

    @property
    def types(self) -> plan.Types:
        return self.child.types


def _serving(arrangements: Sequence[Arrangement], part: Part) -> Arrangement | None:
    """The one that has the part's bound columns in front, in any order, then its new ones."""
    orders = [(*bound, *part.new) for bound in permutations(part.bound)]
    return next((a for a in arrangements if any(a.serves(order) for order in orders)), None)


def _reordered(flow: Flow, order: tuple[int, ...]) -> Flow:
    return tuple(replace(b, exprs=tuple(b.exprs[c] for c in order)) for b in flow)


def _narrow(node: plan.Node, wanted: tuple[int, ...]) -> plan.Node:
    """The node with only these columns, in this order; itself if that is what it has."""
    if wanted == tuple(range(len(node.types))):
        return node
    return plan.Project(node, tuple(ColumnRef(node.types[c], c) for c in wanted))


def _null_safe(node: plan.Join) -> plan.Node:
    """The left side without rows that have a NULL key, where both sides could have one: NULL equals nothing."""
    tests: list[Expr] = []
    for l, r in zip(node.left_keys, node.right_keys, strict=True):
        if node.left.types[l].nullable and node.right.types[r].nullable:
            tests.append(Call(BOOL, "is_not_null", (ColumnRef(node.left.types[l], l),)))
    return plan.Filter(node.left, conjunction(tests, "and")) if tests else node.left


def _parts(node: plan.Reduce) -> list[tuple[plan.Reduce, str]]:
    """The reduction split by how its aggregates are kept: totals together, each extreme and distinct count alone."""
    totals = tuple(a for a in node.aggregates if a.kind in ("count", "sum", "avg"))
    singles = [a for a in dict.fromkeys(node.aggregates) if a.kind not in ("count", "sum", "avg")]
    parts = [(plan.Reduce(node.child, node.keys, totals), "totals")] if totals else []
    return parts + [(plan.Reduce(node.child, node.keys, (a,)), a.kind) for a in singles]


def _summed(node: plan.Reduce, column: int) -> bool:
    """Whether an aggregate other than a count reads the column."""
    return any(a.column == column and a.kind != "count" for a in node.aggregates)


def _accumulators(
    aggregate: plan.Aggregate, column: int, declared: DataType | None, accumulators: list[tuple[int, int]]
) -> list[int]:
    """Specification of one aggregate for the kernel; appends the accumulators it needs."""
    if aggregate.kind == "count":
        if declared is None or not declared.nullable:
            return [reduction_k.COUNT_OF, 0, 0]
        accumulators.append((stream_k.ACC_NOT_NULL, column))
        return [reduction_k.COUNT_OF, len(accumulators) - 1, 0]
    assert declared is not None
    first = len(accumulators)
    accumulators.append((stream_k.ACC_NOT_NULL, column))
    if declared.kind == "float":
        accumulators.extend((stream_k.ACC_FLOAT + k, column) for k in range(stream_k.FLOAT_WORDS))
        return [reduction_k.SUM_FLOAT if aggregate.kind == "sum" else reduction_k.AVG_FLOAT, first, 0]
    accumulators.extend(((stream_k.ACC_LOW, column), (stream_k.ACC_HIGH, column)))
    return [reduction_k.SUM_INT if aggregate.kind == "sum" else reduction_k.AVG_INT, first, declared.scale]


def _sort_key(column: ColumnRef, descending: bool) -> Expr:
    """A code that sorts as the column should, NULLs last."""
    raw: Expr = ColumnRef(INT.optional(column.type.nullable), column.index)
    if descending:
        raw = Call(raw.type, "sub", (Literal(INT, -1), raw))
    if column.type.nullable:
        raw = Call(INT, "coalesce", (raw, Literal(INT, 2**63 - 1)))
    return raw


def _wanted_keys(bodies: Sequence[plan.Node], variable: plan.Variable) -> tuple[int, ...] | None:
    """Key columns of a join that reads the variable directly, if any does."""
    for body in bodies:
        for node in body.walk():
            if isinstance(node, plan.MultiJoin) and variable in node.inputs:
                return tuple(range(len(variable.types)))
            if isinstance(node, plan.Join):
                for side, keys in ((node.left, node.left_keys), (node.right, node.right_keys)):
                    if side == variable:
                        return tuple(dict.fromkeys(keys))
    return None


def _levels(loop: plan.Loop) -> int:
    """Loops on the deepest path from this one inwards."""
    below = 0
    for body in loop.bodies:
        for node in body.walk():
            if isinstance(node, plan.Loop):
                below = max(below, _levels(node))
    return 1 + below
