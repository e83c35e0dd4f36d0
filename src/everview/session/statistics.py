"""What was seen of every operator while it ran: rows, changes and how fast they come, keys, fan-outs.

The kernels count what committed steps add to each trace, a word for each (`everview.kernels.run.executor`), so being
always on costs nothing that could be measured. All else is told from that and from what traces hold, when somebody
asks: the relation `ev.statistics`, and the optimiser, which has to guess without it.

    rows        that it holds; before a trace is compacted, rows that came and went count, too
    changes     that committed steps added to it since it was made, its first contents included
    rate        changes in each transaction, of late: half of what was seen since the last look, half of what was known
    keys        different values of the column it is kept by, from a sample; `fan_out` are its rows for each
    per_change  changes of it for each change of what it is made of: selectivity of a filter, fan-out of a join

On shards in this process the counts are sums over them. On Spark only changes of tables are known, those that this
process has sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from everview.dataflow.operators import Operator, Trace
from everview.plan.nodes import Filter, Node, Project
from everview.plan.sizes import distinct_values, kept

if TYPE_CHECKING:
    from everview.session.core import Core

SAMPLE_ROWS = 1000
"""Rows that are looked at to tell how common the values of a column are."""


class Statistic(NamedTuple):
    """What was seen of an operator; see the module."""

    operator: Operator
    rows: int
    changes: int
    rate: float
    keys: int
    fan_out: float
    per_change: float | None


class Statistics:
    """What was seen of a session's operators. Rates are those between the last two looks and before."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._looked: dict[Operator, tuple[int, int]] = {}
        self._rates: dict[Operator, float] = {}

    def look(self) -> None:
        """Bring the rates up to date."""
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
        """Changes in each transaction of late; None before anything was seen."""
        return self._rates.get(operator)

    def rate_of(self, node: Node) -> float | None:
        """The same for a part of a plan: of its own arrangement, or of what it is filtered from, as far as that is
        guessed to pass.
        """
        below, share = node, 1.0
        while not (there := self._core.runtime.builder.arrangements.get((below, ()), [])):
            if not isinstance(below, (Filter, Project)):
                return None
            share *= kept(below.predicate) if isinstance(below, Filter) else 1.0
            below = below.child
        rate = self.rate(there[0].operator)
        return None if rate is None else rate * share

    def changes_of(self, node: Node) -> float | None:
        """How many changes committed steps have made to a part of a plan that is kept; None if it is not."""
        kept = self._core.runtime.builder.arrangements.get((node, ()), [])
        return float(self._core.runtime.changes()(kept[0].operator)) if kept else None

    def all(self) -> Iterator[Statistic]:
        """What is known of every operator that keeps rows."""
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


def _keys(trace: Trace, rows: int) -> int:
    """Different values of the first column, from a sample."""
    if not trace.cols or not rows:
        return min(rows, 1)
    return max(round(distinct_values(Counter(trace.sample(0, SAMPLE_ROWS)), rows)), 1)


def _sources(operator: Operator) -> set[Operator]:
    """The nearest operators below that keep something."""
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
