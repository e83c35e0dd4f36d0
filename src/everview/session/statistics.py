"""Run-time statistics of operators: rows, changes and their rate, keys, fan-outs.

The kernels count what committed steps add to each trace, one word each (`everview.kernels.run.executor`), so they are
always on at no measurable cost. Everything else is derived on request from these counters and the traces: for the
relation `ev.statistics` and for the optimiser, which would have to guess otherwise.

    rows        it holds; before a trace is compacted, deleted rows count, too
    changes     added by committed steps since it was created, its initial contents included
    rate        recent changes per transaction: the mean of the rate since the last reading and the rate before
    keys        distinct values of the column it is indexed by, from a sample; `fan_out` is rows per key
    per_change  output changes per input change: selectivity of a filter, fan-out of a join

With shards in this process the counts are summed over them. On Spark only the changes of tables are known, as sent by
this process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from everview.dataflow.operators import Arrangement, Operator, Trace
from everview.expr.functions import conjuncts
from everview.expr.nodes import Call, ColumnRef, Expr
from everview.plan.nodes import Filter, Node, Project
from everview.plan.sizes import distinct_values, kept

if TYPE_CHECKING:
    from everview.session.core import Core

SAMPLE_ROWS = 1000
"""Rows sampled to estimate how common the values of a column are."""


class Statistic(NamedTuple):
    """The statistics of an operator; see the module."""

    operator: Operator
    rows: int
    changes: int
    rate: float
    keys: int
    fan_out: float
    per_change: float | None


class Statistics:
    """The statistics of a session's operators. Rates average the last two readings."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._looked: dict[Operator, tuple[int, int]] = {}
        self._rates: dict[Operator, float] = {}
        self._forms: dict[Node, Arrangement] = {}
        self._forms_of = (-1, -1)

    def held(self, node: Node) -> Arrangement | None:
        """An arrangement that holds the rows of a part of a plan: its own, or one without rows that a join cannot
        match (NULL keys), or without columns that nobody reads; None if there is none.
        """
        builder = self._core.runtime.builder
        if own := builder.arrangements.get((node, ())):
            return own[0]
        now = (builder.dataflow.made, len(builder.arrangements))
        if now != self._forms_of:
            outside = [(other, kept[0]) for (other, scope), kept in builder.arrangements.items() if kept and not scope]
            self._forms = {form: kept for other, kept in outside for form in whose_rows(other)}
            self._forms_of = now
        return self._forms.get(node)

    def look(self) -> None:
        """Update the rates."""
        runtime, now = self._core.runtime, self._core.runtime.dataflow.time
        counted = runtime.changes()
        looked: dict[Operator, tuple[int, int]] = {}
        rates: dict[Operator, float] = {}
        for operator in runtime.dataflow.operators():
            if operator.trace is None:
                continue
            changes = counted(operator)
            time, before = self._looked.get(operator, (now, changes))
            known = self._rates.get(operator)
            looked[operator] = (now, changes)
            if now > time:
                seen = (changes - before) / (now - time)
                rates[operator] = seen if known is None else (seen + known) / 2
            elif known is not None:
                rates[operator] = known
        self._looked, self._rates = looked, rates

    def rate(self, operator: Operator) -> float | None:
        """Recent changes per transaction; None before the first."""
        return self._rates.get(operator)

    def rate_of(self, node: Node) -> float | None:
        """The same for a part of a plan: of its own arrangement, or of its input times the estimated selectivity."""
        below, share = node, 1.0
        while (there := self.held(below)) is None:
            if not isinstance(below, (Filter, Project)):
                return None
            share *= kept(below.predicate) if isinstance(below, Filter) else 1.0
            below = below.child
        rate = self.rate(there.operator)
        return None if rate is None else rate * share

    def changes_of(self, node: Node) -> float | None:
        """The number of changes that committed steps made to a materialised part of a plan; None if it is not
        materialised."""
        there = self.held(node)
        return None if there is None else float(self._core.runtime.changes()(there.operator))

    def all(self) -> Iterator[Statistic]:
        """The statistics of every operator that holds rows."""
        self.look()
        runtime = self._core.runtime
        counted, measure = runtime.changes(), runtime.measure()
        for operator in runtime.dataflow.operators():
            trace = operator.trace
            if trace is None or trace.stateless or operator.errors_of is not None:
                continue
            rows, changes = measure(operator)[1], counted(operator)
            keys = _keys(trace, rows)
            below = sum(counted(source) for source in _sources(operator))
            per_change = changes / below if below else None
            yield Statistic(
                operator, rows, changes, self._rates.get(operator, 0.0), keys, rows / max(keys, 1), per_change
            )


def whose_rows(node: Node) -> Iterator[Node]:
    """The parts of a plan whose rows an arranged node holds, if rows that cannot be joined and columns that nobody
    reads do not count.

    >>> from everview.expr.functions import call
    >>> from everview.plan.nodes import Join, Table
    >>> from everview.types import INT
    >>> a, b = (Table(i, (INT.optional(), INT)) for i in range(2))
    >>> both = Join(a, b, (1,), (1,))
    >>> narrow = Project(both, (ColumnRef(INT.optional(), 0),))
    >>> [*whose_rows(Filter(narrow, call("is_not_null", ColumnRef(INT.optional(), 0))))] == [narrow, both]
    True
    """
    if isinstance(node, Filter) and all(_is_known(test) for test in conjuncts(node.predicate)):
        node = node.child
        yield node
    if isinstance(node, Project) and all(isinstance(e, ColumnRef) for e in node.exprs):
        yield node.child


def _is_known(test: Expr) -> bool:
    return isinstance(test, Call) and test.op == "is_not_null"


def _keys(trace: Trace, rows: int) -> int:
    """Distinct values of the first column, from a sample."""
    if not trace.cols or not rows:
        return min(rows, 1)
    return max(round(distinct_values(Counter(trace.sample(0, SAMPLE_ROWS)), rows)), 1)


def _sources(operator: Operator) -> set[Operator]:
    """The nearest upstream operators that hold rows."""
    found: set[Operator] = set()
    seen: set[Operator] = set()
    todo = list(operator.inputs)
    while todo:
        source = todo.pop()
        if source in seen:
            continue
        seen.add(source)
        if source.trace is not None and not source.trace.stateless:
            found.add(source)
        else:
            todo.extend(source.inputs)
    return found - {operator}
