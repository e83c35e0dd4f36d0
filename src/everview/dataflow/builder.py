"""Builds dataflows from plans: each plan node becomes a flow (rows in transit) or an arrangement (indexed rows).

Building is memoised by plan node, so common parts of views are built once; nodes that read loop variables are memoised
per loop. A node runs in the scope of the innermost variable it reads, so loop-invariant parts are computed outside the
loop.

This module decides what is shared and where it runs. How each kind of node is built is in the modules beside it:

    linear        project, filter, negate, union: only transform the branches of a flow
    joins         request arrangements of their inputs
    reductions    request an arrangement by their key, and produce one of their output
    loops         variables and feedback
    frontier      loops that the planner recognised as monotone, as one operator
    provenance    variables of base rows, disjunctions of expressions

Any existing arrangement of the same node with the right leading columns is shared: a table's own index, the output of a
reduction, another query's index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from everview.dataflow import frontier, joins, linear, loops, pre_aggregation, provenance, reductions
from everview.dataflow.dataflow import Dataflow
from everview.dataflow.extend import levels, serving
from everview.dataflow.identity import Purpose
from everview.dataflow.operators import Activate, Arrange, Arrangement, Operator, columns
from everview.dataflow.partitioning import HASH_BY_FIRST, SINGLE_SHARD, HotKeys, HyperCube
from everview.dataflow.scopes import Scope, deeper
from everview.dataflow.streams import Flow, reordered
from everview.expr.nodes import ColumnRef
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.deep_recursion import Staged
from everview.plan.frontier import Frontier, StrongLabels
from everview.plan.hot_keys import Hot, HotDecision, HotJoin, with_hot_keys
from everview.plan.monotone import LoopDecision, as_trees
from everview.plan.multiway import ASKED, Choice, Decision, planned
from everview.plan.ordered_loops import small_first
from everview.plan.pre_aggregation import Sent, pre_aggregated
from everview.plan.provenance import Disjunction, Labelled
from everview.plan.prune import prune
from everview.plan.rewrites import AFTER, BEFORE, OF_LOOPS, Simplification, simplified
from everview.plan.selection import selected
from everview.plan.strong import by_search
from everview.plan.windows import Window

Key = tuple[plan.Node, tuple[int, ...]]

Piece = tuple[str, plan.Node, tuple[int, ...]]
"""A requested piece of dataflow: a table by a column order, or an arrangement of a plan by keys."""

Decided = Decision | LoopDecision | Simplification | HotDecision
"""A decision about a part of a plan, and its reason."""


class Builder:
    """Turns plans into operators of a dataflow."""

    def __init__(self, dataflow: Dataflow) -> None:
        self.dataflow = dataflow
        self.tables: dict[int, Arrangement] = {}
        self.flows: dict[Key, Flow] = {}
        self.arrangements: dict[Key, list[Arrangement]] = {}
        self.in_cells: dict[tuple[Key, HyperCube | HotKeys], list[Arrangement]] = {}
        """what joins of many inputs, or of hot keys, read on shards: separate, because it contains copies"""
        self.loops: dict[Key, loops.LoopBuild] = {}
        self.retired_loops: list[loops.LoopBuild] = []
        """loops that continue for their existing readers but cannot replay their history to new ones"""
        self.enclosing: dict[int, loops.LoopBuild] = {}
        """the loops whose bodies are being built, by depth"""
        self._activations: set[tuple[Operator, Scope]] = set()
        self.installed: set[plan.Node] = set()
        self.decided: dict[plan.Node, list[Decided]] = {}
        """How the joins of what is installed are maintained, and why."""
        self.built: dict[plan.Node, plan.Node] = {}
        """The planned node that each installed node was built from."""
        self.narrowed: dict[plan.Node, tuple[plan.Node, ...]] = {}
        """What inner nodes of installed ones became that is arranged, with the same rows: `why` reads it."""
        self.chosen: dict[plan.Node, plan.Node] = {}
        """joins built by another plan than the one they are identified by (`everview.dataflow.plan_swap`)"""
        self._swapped_out: set[Operator] = set()
        self._build = Staged(self._made, self._built)
        self.early_outputs: dict[Key, Arrangement] = {}
        """outputs of reductions created before the reductions, for loop variables to read"""
        self.pieces: dict[Piece, list[Operator]] = {}
        """the operators created for each requested piece, latest last"""

    # entry points

    def add_table(self, node: plan.Table, order: tuple[int, ...], label: str) -> Arrangement:
        """The operator of a base table: its rows, arranged."""
        made = len(self.dataflow.numbered)
        with self.making(node):
            operator = Arrange(self.dataflow, self.dataflow.root, len(order), label=label)
        operator.check_deletes()
        arrangement = Arrangement(operator, order)
        self.tables[node.id] = arrangement
        self.arrangements[self.key(node)] = [arrangement]
        self.flows[self.key(node)] = columns(operator, node.types, order)
        self._note_piece(("table", node, order), made)
        return arrangement

    def planned(
        self,
        node: plan.Node,
        choice: Choice | None = None,
        whole: dict[plan.Node, plan.Node] | None = None,
        hot: Hot = (),
    ) -> tuple[plan.Node, list[Decided]]:
        """Plan a node for building, with the reasons. Existing parts are reused, loops keep only what is read of them,
        monotone loops become trees, and joins of many inputs are maintained as requested or as their shape suggests.
        `whole` receives what inner nodes have become (`prune`); `hot` are very frequent keys, for shards.
        """
        as_written = choice in ("rounds", "verbatim")
        refused = "it runs on several shards" if self.dataflow.sharded else ASKED if as_written else None
        simpler: list[Simplification] = []
        if choice != "verbatim":
            rewrites = [name for name in BEFORE if name not in OF_LOOPS or choice != "rounds"]
            node, simpler = simplified(node, self.installed, rewrites)
        strong: list[LoopDecision] = []
        if refused is None:
            node, strong = by_search(node, self.installed)
        pruned = prune(node, self.installed, self, whole)
        narrower: list[LoopDecision] = []
        if not as_written:
            pruned, narrower = selected(pruned, self.installed)
        pruned, loops = as_trees(pruned, self.installed, refused, whole=choice == "whole", packs=self.dataflow.packs)
        if not as_written:
            pruned, ordered = small_first(pruned, self.installed, sharded=self.dataflow.sharded)
            loops += ordered
        if choice != "verbatim":
            pruned, more = simplified(pruned, self.installed, AFTER)
            simpler += more
        found, joins = planned(pruned, choice, self.installed, self.indexed)
        if choice == "frugal" and self.dataflow.sharded:
            found = pre_aggregated(found)
        split: list[HotDecision] = []
        if hot and choice != "verbatim":
            found, split = with_hot_keys(found, hot, self.installed)
        return found, [*simpler, *narrower, *strong, *loops, *joins, *split]

    def install(
        self, node: plan.Node, keys: tuple[int, ...], choice: Choice | None = None, hot: Hot = ()
    ) -> Arrangement:
        """Plan and build an arrangement of a node; afterwards it exists but is not up to date (`Dataflow.installed`).
        On failure call `forget_new`.
        """
        whole: dict[plan.Node, plan.Node] = {}
        pruned, decided = self.planned(node, choice, whole, hot)
        arrangement = self.stored(node, pruned, keys)
        self.note_narrowed(whole)
        self.decided.setdefault(node, decided)
        return arrangement

    def forget_new(self) -> None:
        """Remove everything created by a failed installation."""
        gone = self.dataflow.unfinished()
        self.dataflow.forget_new()
        self.forget(gone)

    def stored(self, node: plan.Node, pruned: plan.Node, keys: tuple[int, ...]) -> Arrangement:
        """An arrangement outside all loops for a view of a node (and the same node, pruned, to build it from)."""
        self.built.setdefault(node, pruned)
        for known in (node, pruned):
            for arrangement in self.existing(known):
                if arrangement.serves(keys) and arrangement.operator.scope.is_root:
                    return arrangement
        made = len(self.dataflow.numbered)
        arrangement = self._renamed(pruned, keys) or self._arrange(pruned, keys, self.dataflow.root)
        self._note_piece(("view", pruned, keys), made)
        if node != pruned:  # views of this view look it up by the original node
            self.arrangements.setdefault(self.key(node), []).append(arrangement)
            self.flows[self.key(node)] = columns(arrangement.operator, node.types, arrangement.order)
        self.installed.add(node)
        return arrangement

    def _renamed(self, node: plan.Node, keys: tuple[int, ...]) -> Arrangement | None:
        """If the node has the columns of a recursion over edges, in any order, that one's own arrangement: another
        would store all of its rows again, and get every change of them.
        """
        below, places = _columns_below(node)
        if below is node or not isinstance(below, Frontier | StrongLabels):
            return None
        if sorted(places) != list(range(len(below.types))):
            return None
        self.flow(below)
        renamed = (Arrangement(a.operator, tuple(places.index(c) for c in a.order)) for a in self.existing(below))
        found = next((a for a in renamed if a.serves(keys)), None)
        if found is not None:
            self.arrangements.setdefault(self.key(node), []).append(found)
        return found

    def note_narrowed(self, whole: Mapping[plan.Node, plan.Node]) -> None:
        """Record which of these nodes are arranged under what they became."""
        for node, became in whole.items():
            if (became, ()) in self.arrangements and became not in self.narrowed.get(node, ()):
                self.narrowed[node] = (*self.narrowed.get(node, ()), became)

    def note_swapped(self, points: Sequence[Operator], new: list[Operator], old: set[Operator]) -> None:
        """Record operators that now feed on new ones as parts of the same piece."""
        self._swapped_out |= old
        for piece, made in self.pieces.items():
            places = [made.index(p) for p in points if p in made]
            if places:
                self.pieces[piece] = [*made[: min(places)], *new, *made[min(places) :]]
                return

    def _note_piece(self, piece: Piece, made: int) -> None:
        self.pieces.pop(piece, None)  # one that was dropped and created again is the latest
        self.pieces[piece] = [o for o in self.dataflow.numbered[made:] if o is not None]

    def forget(self, gone: set[Operator]) -> None:
        """Forget dropped operators and whatever led to them, including parts of loops that no longer exist."""
        self.flows = {k: f for k, f in self.flows.items() if not any(b.producer in gone for b in f)}
        kept = {k: [a for a in v if a.operator not in gone] for k, v in self.arrangements.items()}
        self.arrangements = {k: v for k, v in kept.items() if v}
        in_cells = {k: [a for a in v if a.operator not in gone] for k, v in self.in_cells.items()}
        self.in_cells = {k: v for k, v in in_cells.items() if v}
        self.loops = {k: b for k, b in self.loops.items() if not any(v.operator in gone for v in b.variables)}
        self.retired_loops = [b for b in self.retired_loops if not any(v.operator in gone for v in b.variables)]
        going_on = {b.number for b in (*self.loops.values(), *self.retired_loops, *self.enclosing.values())}
        self.flows = {k: f for k, f in self.flows.items() if going_on.issuperset(k[1])}
        self.arrangements = {k: v for k, v in self.arrangements.items() if going_on.issuperset(k[1])}
        self.installed = {n for n in self.installed if (n, ()) in self.arrangements}
        self.decided = {n: d for n, d in self.decided.items() if n in self.installed}
        self.tables = {k: a for k, a in self.tables.items() if a.operator not in gone}
        self._activations = {(o, s) for o, s in self._activations if o not in gone}
        self.early_outputs = {k: a for k, a in self.early_outputs.items() if a.operator not in gone}
        self.pieces = {p: made for p, made in self.pieces.items() if not all(o.freed for o in made)}
        left = gone & self._swapped_out
        if left:
            self.pieces = {p: [o for o in made if o not in left] for p, made in self.pieces.items()}
            self._swapped_out -= left
        self.built = {n: p for n, p in self.built.items() if n in self.installed}
        narrowed = {
            n: tuple(p for p in several if (p, ()) in self.arrangements) for n, several in self.narrowed.items()
        }
        self.narrowed = {n: several for n, several in narrowed.items() if several}

    def forget_plans_of(self, table: plan.Table) -> None:
        """Forget the joins of a dropped table, which will not be requested again."""
        self.chosen = {join: target for join, target in self.chosen.items() if table not in join.walk()}

    @contextmanager
    def making(self, node: plan.Node) -> Iterator[None]:
        """Attribute the operators created inside to this node (`everview.dataflow.identity`)."""
        before = self.dataflow.purpose
        self.dataflow.purpose = self.purpose(node)
        try:
            yield
        finally:
            self.dataflow.purpose = before

    def purpose(self, node: plan.Node) -> Purpose:
        """The node, and the loops whose variables it reads."""
        depths = sorted({depth for depth, _ in free_variables(node)})
        return Purpose(node, tuple(self.enclosing[d].purpose for d in depths))

    def forget_freed(self) -> None:
        """Forget whatever led to operators that an interrupted installation has freed."""
        self.enclosing = {}
        self.dataflow.purpose = None
        known = [o for made in self.pieces.values() for o in made]
        known += [a.operator for found in self.arrangements.values() for a in found]
        known += [b.producer for flow in self.flows.values() for b in flow]
        known += [a.operator for a in (*self.tables.values(), *self.early_outputs.values())]
        known += [v.operator for build in self.loops.values() for v in build.variables]
        gone = {o for o in known if o.freed}
        if gone:
            self.early_outputs = {k: a for k, a in self.early_outputs.items() if not a.operator.freed}
            self.forget(gone)

    # memo

    def key(self, node: plan.Node) -> Key:
        """The node and the loops whose variables it reads."""
        depths = sorted({depth for depth, _ in free_variables(node)})
        return node, tuple(self.enclosing[d].number for d in depths)

    def scope(self, node: plan.Node) -> Scope:
        """The scope of a node: the innermost loop whose variable it reads. Readers of a loop's result are outside that
        loop.
        """
        scope = self.dataflow.root
        for depth, _ in free_variables(node):
            scope = deeper(scope, self.enclosing[depth].scope)
        return scope

    def flow(self, node: plan.Node) -> Flow:
        """The node's rows in transit."""
        key = self.key(node)
        found = self.flows.get(key)
        if found is None or not self.sharable(found):
            found = self._build(node)
            self.flows[key] = found
        return found

    def _made(self, node: plan.Node) -> Flow:
        node = self.chosen.get(node, node)
        with self.making(node):
            return _BUILD[type(node)](self, node)

    def _built(self, node: plan.Node) -> bool:
        """Whether readers of a node need not build it."""
        found = self.flows.get(self.key(node))
        return bool(self.existing(node)) or (found is not None and self.sharable(found))

    @staticmethod
    def sharable(flow: Flow) -> bool:
        """Whether the flow's history can be replayed to a new reader."""
        return all(b.producer.replayable or not b.producer.old for b in flow)

    # arrangements

    def arrange(
        self, node: plan.Node, keys: tuple[int, ...], *, gather: bool = False, now: bool = False, plain: bool = False
    ) -> Arrangement:
        """An arrangement of the node with these leading key columns: an existing one if possible.

        `gather`: with several shards, all rows on one of them. `now`: not that of a loop variable read a round later,
        which joins can use and reductions cannot. `plain`: with all columns in the node's own order (the keys are its
        first ones), for readers that take rows as stored.
        """
        found = self._serving(node, keys, gather, now, plain)
        if found is None:
            self.flow(node)  # building the node may create an arrangement
            found = self._serving(node, keys, gather, now, plain)
        return found or self._arrange(node, keys, self.scope(node), gather=gather, now=now, plain=plain)

    def _serving(
        self, node: plan.Node, keys: tuple[int, ...], gather: bool, now: bool, plain: bool
    ) -> Arrangement | None:
        fits = (a for a in self.existing(node) if a.serves(keys, gather=gather) and not (now and a.delay))
        return next((a for a in fits if a.plain or not plain), None)

    def existing(self, node: plan.Node) -> list[Arrangement]:
        """All arrangements of the node."""
        return self.arrangements.get(self.key(node), [])

    def _arrange(
        self,
        node: plan.Node,
        keys: tuple[int, ...],
        scope: Scope,
        *,
        gather: bool = False,
        now: bool = False,
        plain: bool = False,
    ) -> Arrangement:
        order = plan.keys_first(keys, len(node.types))
        flow = self.flow(node)
        for arrangement in self.existing(node):
            late = (now and arrangement.delay) or (plain and not arrangement.plain)
            if arrangement.serves(keys, gather=gather) and arrangement.operator.scope is scope and not late:
                return arrangement
        label = f"by {list(keys)}" if keys else "rows"
        with self.making(node):
            operator = Arrange(
                self.dataflow, scope, len(order), label=label, partitioning=SINGLE_SHARD if gather else HASH_BY_FIRST
            )
        operator.fed = node, order
        operator.listen(reordered(flow, order))
        if isinstance(node, plan.Guard):
            operator.refuse_above(node.most, node.name)
            if operator.errors is not None:
                operator.errors.refuse_above(0, node.name)
        arrangement = Arrangement(operator, order)
        self.arrangements.setdefault(self.key(node), []).append(arrangement)
        if scope is self.scope(node) and not isinstance(node, plan.Table):
            # later readers take the rows from here: consolidated, and with a history to replay
            self.flows[self.key(node)] = columns(operator, node.types, order)
        return arrangement

    def arrange_in_cells(self, node: plan.Node, keys: tuple[int, ...], cells: HyperCube) -> Arrangement:
        """A further arrangement of the node for a join of many inputs on shards; `cells` refer to the node's
        columns."""
        order = plan.keys_first(keys, len(node.types))
        there = HyperCube(cells.inputs, tuple(cells.columns[c] for c in order))
        label = f"by {list(keys)} in cells"
        with self.making(node):
            operator = Arrange(self.dataflow, self.scope(node), len(order), label=label, partitioning=there)
        operator.fed = node, order
        operator.listen(reordered(self.flow(node), order))
        arrangement = Arrangement(operator, order)
        self.in_cells.setdefault((self.key(node), cells), []).append(arrangement)
        return arrangement

    def arrange_hot(self, node: plan.Node, keys: tuple[int, ...], partitioning: HotKeys) -> Arrangement:
        """An arrangement of the node for a join of hot keys, which are in the first column of `keys`."""
        flow = self.flow(node)
        there = self.in_cells.setdefault((self.key(node), partitioning), [])
        for arrangement in there:
            if arrangement.serves(keys):
                return arrangement
        order = plan.keys_first(keys, len(node.types))
        with self.making(node):
            operator = Arrange(
                self.dataflow,
                self.scope(node),
                len(order),
                label=f"by {list(keys)}, {partitioning}",
                partitioning=partitioning,
            )
        operator.fed = node, order
        operator.listen(reordered(flow, order))
        there.append(Arrangement(operator, order))
        return there[-1]

    # existing arrangements

    def served(self, node: plan.Node, keys: tuple[int, ...]) -> bool:
        """Whether there is an arrangement outside loops with these leading columns, in any order."""
        return any(set(a.order[: len(keys)]) == set(keys) for a in self.arrangements.get((node, ()), []))

    def narrow(self, table: plan.Table) -> list[plan.Project]:
        """Arranged nodes that are some columns of a table, narrowest first."""
        found = [
            node
            for node, inside in self.arrangements
            if not inside
            and isinstance(node, plan.Project)
            and node.child == table
            and all(isinstance(e, ColumnRef) for e in node.exprs)
        ]
        return sorted(found, key=lambda node: len(node.exprs))

    def indexed(self, node: plan.MultiJoin) -> bool:
        """Whether all arrangements that the join needs exist outside loops; never true on shards."""
        if self.dataflow.sharded:
            return False
        there = [self.arrangements.get((i, ()), []) for i in node.inputs]
        parts = [p for i in range(len(node.inputs)) for level in levels(node, i) for p in level.parts]
        return all(there) and all(serving(there[p.input], p) is not None for p in parts)

    # loops

    def activate(self, source: Arrangement, scope: Scope) -> None:
        """Let changes of an outer arrangement start the loop of a scope that reads it."""
        if source.operator.scope is not scope and (source.operator, scope) not in self._activations:
            self._activations.add((source.operator, scope))
            Activate(self.dataflow, source, scope)


def _columns_below(node: plan.Node) -> tuple[plan.Node, list[int]]:
    """What is below projections that only select and order columns, and which of its columns the node has.

    >>> from everview.types import INT
    >>> table = plan.Table(0, (INT, INT))
    >>> swapped = plan.Project(table, (ColumnRef(INT, 1), ColumnRef(INT, 0)))
    >>> _columns_below(plan.Project(swapped, (ColumnRef(INT, 0),))) == (table, [1])
    True
    """
    places = list(range(len(node.types)))
    while isinstance(node, plan.Project):
        read = [node.exprs[i] for i in places]
        found = [e.index for e in read if isinstance(e, ColumnRef)]
        if len(found) < len(read):
            break
        node, places = node.child, found
    return node, places


def _projected(builder: Builder, node: plan.Project) -> Flow:
    return reductions.enough(builder, node) or linear.project(builder, node)


_BUILD: dict[type[plan.Node], Callable[[Builder, Any], Flow]] = {
    plan.Table: linear.table,
    plan.Constant: linear.constant,
    plan.Project: _projected,
    plan.Filter: linear.filtered,
    plan.FlatMap: linear.flat_map,
    plan.Negate: linear.negate,
    plan.Guard: linear.guarded,
    plan.Union: linear.union,
    plan.Join: joins.join,
    plan.MultiJoin: joins.multiway,
    plan.Threshold: reductions.threshold,
    plan.Reduce: reductions.reduce,
    plan.TopK: reductions.top,
    plan.PythonReduce: reductions.python,
    Window: reductions.window,
    plan.Variable: loops.variable,
    plan.LoopResult: loops.result,
    Frontier: frontier.frontier,
    StrongLabels: frontier.strong_labels,
    Labelled: provenance.labelled,
    Sent: pre_aggregation.sent,
    HotJoin: joins.join,
    Disjunction: provenance.disjunction,
}
"""How each kind of plan node is built."""
