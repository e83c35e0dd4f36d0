"""Introspection: session statistics, and what a view's plan stores and shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everview.dataflow.dataflow import Dataflow
from everview.dataflow.extend import Extend
from everview.dataflow.operators import Arrange, Operator, Reduce
from everview.dataflow.scopes import OUTSIDE
from everview.expr.evaluate import evaluate
from everview.language.relation import relation_of
from everview.session.reads.rendering import Stats
from everview.session.reads.snapshot import read_codes

if TYPE_CHECKING:
    from everview.runtime.backing import StepLog
    from everview.session.core import Core
    from everview.session.view import View

MOST_SEARCHED = 1_000_000
"""Maximum number of updates of a table that are searched for a failed row."""


def upstream(dataflow: Dataflow, operator: Operator) -> list[Operator]:
    """Everything an operator depends on, itself included, in program order."""
    seen = dataflow.needed([operator], errors=False)
    return [o for o in dataflow.operators() if o in seen]


def error_operators(dataflow: Dataflow, operator: Operator) -> list[Operator]:
    """The operators that hold the errors of everything an operator depends on."""
    return [o.errors for o in upstream(dataflow, operator) if o.errors is not None]


def failed_row(core: Core, errors: Operator, time: int) -> tuple[str, tuple[Any, ...]] | None:
    """A table's name and a row that causes one of these errors, if it can be found. The rows are evaluated again,
    because errors do not carry them.
    """
    for table in core.catalog.tables.values():
        stream, arrangement = relation_of(table).arrangement.operator.stream, relation_of(table).arrangement
        for sink in stream.sinks if stream is not None else ():
            if sink.branch is None or sink.target.errors is not errors or time < arrangement.trace.since:
                continue
            if arrangement.trace.measure()[1] > MOST_SEARCHED:
                continue
            columns, _ = read_codes(core.runtime, arrangement, (), time)
            held = np.ascontiguousarray(columns[list(arrangement.order)])
            failed = evaluate(sink.branch.exprs, sink.branch.predicate, held, core.interner).errors
            if failed.any():
                return relation_of(table).label, relation_of(table).codec.decode_row(
                    tuple(columns[:, int(failed.argmax())].tolist())
                )
    return None


def arrangements(core: Core, operator: Operator | None = None) -> list[dict[str, Any]]:
    """Statistics of every arrangement (or of those that an operator depends on)."""
    dataflow, views = core.runtime.dataflow, core.catalog.views.values()
    readers: dict[Operator, int] = {}
    for other in dataflow.operators():
        for source in set(() if other.finds_errors else other.inputs):
            readers[source] = readers.get(source, 0) + 1
    serves: dict[Operator, list[str]] = {}
    for view in views:
        source = relation_of(view).arrangement.operator
        readers[source] = readers.get(source, 0) + 1
        for o in upstream(dataflow, source):
            serves.setdefault(o, []).append(relation_of(view).label)
    found = []
    measured = core.runtime.measure()
    for o in dataflow.operators() if operator is None else upstream(dataflow, operator):
        if o.trace is not None and not o.trace.stateless:
            batches, updates, size = measured(o)
            kind = "reduce" if isinstance(o, Reduce) else "arrange" if isinstance(o, Arrange) else o.kind
            found.append(
                {
                    "name": o.describe(),
                    "kind": kind,
                    "scope": o.scope.label,
                    "updates": updates,
                    "bytes": size,
                    "batches": batches,
                    "readers": readers.get(o, 0),
                    "views": serves.get(o, []),
                }
            )
    return found


def stats(core: Core) -> dict[str, Any]:
    """Implements `Session.stats`."""
    core.alive()
    core.transactions.catch_up()
    held = arrangements(core)
    operators = core.runtime.dataflow.operators()
    log: StepLog | None = getattr(core.runtime, "log", None)  # embedded sessions in a directory have one
    return Stats(
        {
            "time": core.time,
            "tables": len(core.catalog.tables),
            "views": len(core.catalog.views),
            "operators": len(operators),
            "steps": core.runtime.where(),
            "bytes": sum(a["bytes"] for a in held) + core.interner.nbytes,
            **({} if log is None else log.costs()),
            "arrangements": held,
        }
    )


def explain(core: Core, view: View) -> str:
    """How a view's joins are maintained and why, and the arrangements it uses."""
    dataflow, operator = core.runtime.dataflow, relation_of(view).arrangement.operator
    lines = [str(view._said(d)) for d in core.runtime.builder.decided.get(relation_of(view).node, [])]
    lines += core.plans.lines(core, view)
    for joined in upstream(dataflow, operator):
        if isinstance(joined, Extend):
            lines += [*joined.explain(), *core.runtime.describe(joined)]
    lines.append("arrangements:")
    mine = [
        relation_of(v).label for v in core.catalog.views.values() if relation_of(v).arrangement.operator is operator
    ]
    for a in arrangements(core, operator):
        others = [name for name in a["views"] if name not in mine]
        shared = f", shared by {a['readers']} readers" if a["readers"] > 1 else ""
        shared += f", also for {', '.join(others)}" if others else ""
        where = "" if a["scope"] == OUTSIDE else f" ({a['scope']})"
        lines.append(f"  {a['name']}{where}: {a['updates']} updates, {a['bytes']} bytes{shared}")
    return "\n".join(lines)
