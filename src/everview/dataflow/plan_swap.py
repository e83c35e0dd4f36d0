"""Replaces the plan of a live join: builds new operators beside the old ones, over the same arrangements, and drops the
old ones a step later.

What holds the join's rows stays: the arrangements that read it, with their history, readers and subscribers. Only their
inputs are exchanged. In the installing step, which adds no epoch, the new operators send all their rows to those
arrangements, and each of these also receives its own contents *negated*. The sum is the difference between the new plan
and the old. It must be empty, so every swap verifies itself before it is committed, and is undone otherwise. Nothing is
sent downstream.

    the choice      `Builder.chosen`: a join, by the node that identifies it, and the plan it is built by. Its identity
                    is unchanged, so everything above it (and its state in files) keeps its own
    points          operators that hold the join's output, outside loops: their inputs are replaced. Operators that only
                    forward it (Python functions, relays) are rebuilt. What takes it into a loop cannot retract it,
                    so such a join is not swapped
    order           an operator runs after its inputs: points and everything that depends on them move behind the new
                    operators in the program, in their old order

Hazard: errors are held beside rows, where they occur. A join whose own expressions fail somewhere, by the old plan or
the new, is not swapped: the visible errors must not change.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from everview.dataflow.operators import Operator, Trace
from everview.dataflow.scopes import Scope
from everview.dataflow.streams import Flow, Route, Sink, reordered
from everview.errors import PlanError
from everview.kernels import structures
from everview.kernels.trace import image as image_k
from everview.kernels.trace import trace as trace_k
from everview.plan import nodes as plan
from everview.plan.deep_recursion import drive

if TYPE_CHECKING:
    from everview.dataflow.builder import Builder

LINEAR = (plan.Project, plan.Filter, plan.Negate, plan.Union, plan.FlatMap)
"""Nodes without state: their readers read what is below them."""


def swap(builder: Builder, join: plan.Node, target: plan.Node) -> None:
    """Build a join by another plan; it is installed, verified and finished, or undone, with the current
    installation."""
    if target != join and reaches(builder, target, join):
        raise PlanError("E_PLAN", "another view builds the join by way of this one", "change that view's plan first")
    PlanSwap(builder, join, target).prepare()


def reaches(builder: Builder, start: plan.Node, goal: plan.Node) -> bool:
    """Whether building a node requests another, by the currently chosen plans."""
    seen: set[plan.Node] = set()
    todo = [start]
    while todo:
        node = todo.pop()
        if node == goal:
            return True
        if node not in seen:
            seen.add(node)
            todo.extend(node.children())
            if node in builder.chosen:
                todo.append(builder.chosen[node])
    return False


class PlanSwap:
    """A plan change in progress."""

    def __init__(self, builder: Builder, join: plan.Node, target: plan.Node) -> None:
        self._builder = builder
        self._dataflow = builder.dataflow
        self._join = join
        self._target = target
        self._before = builder.chosen.get(join)
        self._flows = dict(builder.flows)
        self._items = list(self._dataflow.root.items)
        self._read: dict[plan.Node, bool] = {}
        self._old = self._region(self._before or join)
        self.points, self._passing = self._listeners()
        self._heard = {point: (point.heard, point.inputs) for point in self.points}
        self._sinks = {point: list(_sinks(point)) for point in self.points}
        self._made = len(self._dataflow.numbered)

    # affected operators

    def _region(self, root: plan.Node) -> set[Operator]:
        """The operators created for the nodes between a join's root and its leaves."""
        inner: set[plan.Node] = set()
        todo = [root]
        while todo:
            node = todo.pop()
            if node not in inner and isinstance(node, (plan.Join, plan.MultiJoin, plan.Filter, plan.Project)):
                inner.add(node)
                todo.extend(node.children())
                if node in self._builder.chosen:  # a join inside this one has a plan of its own
                    todo.append(self._builder.chosen[node])
        made = ((o, o.purpose) for o in self._dataflow.operators() if o.purpose is not None and not o.purpose.loops)
        return {o for o, purpose in made if purpose.node in inner and not self._keeps(o)}

    def _keeps(self, operator: Operator) -> bool:
        """Whether it reads the join, or a linear function of it."""
        return operator.fed is not None and self._reads(operator.fed[0])

    def _reads(self, node: plan.Node) -> bool:
        """Whether a node is the join, with only linear nodes above it."""
        return drive(self._reading, node, self._read)

    def _reading(self, node: plan.Node) -> Generator[plan.Node, bool, bool]:
        found = node == self._join
        for child in node.children() if isinstance(node, LINEAR) and not found else ():
            found = found or (yield child)
        return found

    def _listeners(self) -> tuple[list[Operator], set[Operator]]:
        """The operators that hold the join's output, and those that forward it."""
        points: list[Operator] = []
        passing: set[Operator] = set()
        for operator in self._dataflow.operators():
            if not any(branch.producer in self._old or branch.producer in passing for branch, _ in operator.heard):
                continue
            if operator.fed is None:
                if operator.errors_of is None:
                    raise _unswappable()
            elif self._reads(operator.fed[0]):
                if not operator.scope.is_root:
                    raise _unswappable()
                assert operator.trace is not None
                if operator.trace.stateless:
                    passing.add(operator)
                else:
                    points.append(operator)
        return points, passing

    # switching

    def prepare(self) -> None:
        """Build the new operators and connect the points to them."""
        builder, dataflow = self._builder, self._dataflow
        dataflow.swaps.append(self)
        if self._target == self._join:
            builder.chosen.pop(self._join, None)
        else:
            builder.chosen[self._join] = self._target
        self._forget_flows()
        flows = [self._flow(point) for point in self.points]
        for point, (flow, route) in zip(self.points, flows, strict=True):
            point.heard, point.inputs = [], []
            point.listen(flow, route)
        self._restore_flows()
        self._reorder()
        self._keep_errors()
        self._forget_identities()

    def _flow(self, point: Operator) -> tuple[Flow, Route]:
        assert point.fed is not None
        node, order = point.fed
        return reordered(self._builder.flow(node), order), point.heard[0][1]

    def _forget_flows(self) -> None:
        """Forget the flows of linear functions of the join, which must be rebuilt; flows above the points stay."""
        for key in [k for k in self._builder.flows if not k[1] and self._reads(k[0])]:
            del self._builder.flows[key]

    def _restore_flows(self) -> None:
        """Let later readers take rows from where they are held, as before."""
        for key, flow in self._flows.items():
            if not any(branch.producer in self._old or branch.producer in self._passing for branch in flow):
                self._builder.flows[key] = flow

    def _reorder(self) -> None:
        """Move the points and their dependents behind the new operators."""
        dataflow = self._dataflow
        new = set(dataflow.numbered[self._made :])
        later: set[Operator] = set(self.points)
        moved: set[int] = set()
        growing = True
        while growing:
            growing = False
            for item in self._items:
                if id(item) in moved:
                    continue
                inside = list(_operators(item))
                if any(o in later or any(i in later for i in o.inputs) for o in inside):
                    moved.add(id(item))
                    later.update(inside)
                    growing = True
        items = dataflow.root.items
        assert not any(i in later for o in new if o is not None for i in o.inputs), "a new operator reads a later one"
        dataflow.root.items = [i for i in items if id(i) not in moved] + [i for i in items if id(i) in moved]

    def _keep_errors(self) -> None:
        """Keep the errors of new operators for as long as those of the old ones."""
        new = {o for o in self._dataflow.numbered[self._made :] if o is not None}
        epochs = max((p.trace.history for p in self._dataflow.operators() if p.trace is not None), default=0)
        for operator in new | set(self.points):
            if operator.errors is not None and operator.errors.trace is not None:
                operator.errors.trace.keep_history(epochs)

    def _forget_identities(self) -> None:
        """Reset identities, of which the inputs are a part."""
        for operator in self._kept():
            operator.__dict__.pop("_identity", None)
            operator.__dict__.pop("_sketch", None)

    # in the installing step

    def take_back(self, time: int) -> None:
        """Send the points their own contents, negated, at the current time."""
        for operator in self._kept():
            assert operator.trace is not None
            for rows in _contents(operator.trace):
                rows[:, operator.trace.cols] = time
                rows[:, operator.trace.cols + 1 :] *= -1
                structures.push_rows(operator.batcher, np.ascontiguousarray(rows).ravel(), len(rows))

    def _kept(self) -> Iterator[Operator]:
        for point in self.points:
            yield point
            if point.errors is not None:
                yield point.errors

    def check(self) -> None:
        """At the end of the step: refuse the new plan if its output differs from the old one's or has errors."""
        sharded = self._dataflow.sharded
        for operator in self._kept():
            lies_anywhere = sharded and operator.errors_of is not None  # what one shard loses another may gain
            if _said(operator) and not lies_anywhere:
                raise PlanError(
                    "E_PLAN",
                    f"by another plan {operator.describe()} would hold other rows: the plan stays as it was",
                    "this is a fault of Everview's: please report the view and its plan",
                )
        new = [o for o in self._dataflow.numbered[self._made :] if o is not None]
        failing = [o for o in new if o.errors_of is not None and o.errors_of not in self.points and _said(o)]
        old = (self._old | self._passing) - self._dataflow.needed(self.points)
        leaving = {o.errors for o in old if o.errors is not None}
        if failing or any(_holds(o.trace) for o in leaving if o.trace is not None):
            raise PlanError(
                "E_PLAN",
                "expressions of the join fail for some rows, and by another plan for others: the plan stays as it was",
                "ask view.errors() which they are, and mend or delete the rows",
            )

    def finish(self) -> None:
        """Disconnect the old operators: the new ones are up to date."""
        for sinks in self._sinks.values():
            for producer, sink in sinks:
                if producer.stream is not None:
                    producer.stream.drop(sink)
        made = [o for o in self._dataflow.numbered[self._made :] if o is not None]
        self._builder.note_swapped(self.points, made, self._old | self._passing)

    def undo(self) -> None:
        """After a failed installation: restore the old inputs; the new operators are removed with it."""
        for point in self.points:
            old = {id(sink) for _, sink in self._sinks[point]}
            for producer, sink in list(_sinks(point)):
                if id(sink) not in old:
                    assert producer.stream is not None
                    producer.stream.drop(sink)
            point.heard, point.inputs = self._heard[point]
        self._forget_identities()
        builder, known = self._builder, {id(i) for i in self._items}
        builder.flows = self._flows
        if self._before is None:
            builder.chosen.pop(self._join, None)
        else:
            builder.chosen[self._join] = self._before
        new = [i for i in self._dataflow.root.items if id(i) not in known]
        self._dataflow.root.items = [*self._items, *new]


def _unswappable() -> PlanError:
    return PlanError(
        "E_PLAN",
        "a loop reads the join's rows as they come, so its plan cannot be changed while it lives",
        "make the join a view of its own and let the loop read that, or drop the view and make it with plan=",
    )


def _sinks(operator: Operator) -> Iterator[tuple[Operator, Sink]]:
    """The sinks into an operator."""
    for producer in dict.fromkeys(operator.inputs):
        if producer.stream is not None:
            yield from ((producer, sink) for sink in producer.stream.sinks if sink.target is operator)


def _operators(item: Operator | Scope) -> Iterable[Operator]:
    if isinstance(item, Operator):
        return (item,)
    return (o for each in item.items for o in _operators(each))


def _said(operator: Operator) -> int:
    """Rows that an operator has output in the current step."""
    assert operator.trace is not None
    delta = structures.peek(operator.trace.address, trace_k.TRACE_DELTA)
    return int(structures.batch_rows(delta)) if delta else 0


def _holds(trace: Trace) -> bool:
    """Whether a trace is currently nonempty."""
    rows = [rows for rows in _contents(trace) if len(rows)]
    if not rows:
        return False
    together = np.concatenate(rows)
    _, group = np.unique(together[:, : trace.cols], axis=0, return_inverse=True)
    totals = np.zeros(int(group.max()) + 1, dtype=np.int64)
    np.add.at(totals, group.ravel(), together[:, trace.cols + 1])
    return bool(totals.any())


def _contents(trace: Trace) -> Iterator[np.ndarray]:
    """The contents of a trace's batches: rows of columns, time and diffs."""
    number = 0
    while words := image_k.stored_words(trace.address, number):
        out = np.empty(words, dtype=np.int64)
        image_k.write_stored(trace.address, number, out)
        count, cols, diffs, timed, time, weighed, diff = out[: image_k.IMAGE_HEADER_WORDS].tolist()
        body = out[image_k.IMAGE_HEADER_WORDS :]
        rows = np.empty((count, cols + 1 + diffs), dtype=np.int64)
        rows[:, :cols] = body[: cols * count].reshape(cols, count).T
        at = cols * count
        rows[:, cols] = time if timed else body[at : at + count]
        at += 0 if timed else count
        rows[:, cols + 1 :] = diff if weighed else body[at:].reshape(diffs, count).T
        yield rows
        number += 1
