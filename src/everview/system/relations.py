"""Computes the relations of the schema `ev` from a session's current state. Call it in a turn."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everview.dataflow.operators import Operator
from everview.kernels import structures
from everview.kernels.trace.merge import MERGE_AT_NEWER, MERGE_AT_OLDER, MERGE_END_NEWER, MERGE_END_OLDER
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_MERGES
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.inspect import upstream

if TYPE_CHECKING:
    from everview.io.pipeline import Pipeline
    from everview.session.core import Core
    from everview.session.view import View

Rows = Iterable[tuple[Any, ...]]


@dataclass(frozen=True)
class Relation:
    """A relation: its columns, and its rows in a session."""

    name: str
    columns: dict[str, Any]
    rows: Callable[[Core], Rows]


def _operators(core: Core) -> Rows:
    for operator in core.runtime.dataflow.operators():
        yield operator.number, operator.kind, operator.describe(), operator.scope.label


def _edges(core: Core) -> Rows:
    for operator in core.runtime.dataflow.operators():
        for source in operator.inputs:
            yield source.number, operator.number


def _stateful(core: Core) -> list[Operator]:
    operators = core.runtime.dataflow.operators()
    return [o for o in operators if o.trace is not None and not o.trace.stateless]


def _arrangements(core: Core) -> Rows:
    measure, readers = core.runtime.measure(), _readers(core)
    for operator in _stateful(core):
        batches, updates, size = measure(operator)
        yield operator.number, operator.describe(), updates, size, batches, len(readers.get(operator.number, ()))


def _merges(core: Core) -> Rows:
    """Merges in progress: large ones are done in pieces, some with each step."""
    if not isinstance(core.runtime, EmbeddedRuntime):
        return
    for operator in _stateful(core):
        assert operator.trace is not None
        trace = operator.trace.block
        merges = structures.peek(trace, TRACE_MERGES)
        for i in range(structures.peek(trace, TRACE_COUNT) - 1):
            if merge := structures.peek(merges, i):
                rows = structures.peek(merge, MERGE_END_OLDER) + structures.peek(merge, MERGE_END_NEWER)
                done = structures.peek(merge, MERGE_AT_OLDER) + structures.peek(merge, MERGE_AT_NEWER)
                yield operator.number, operator.describe(), i, rows, done


def _readers(core: Core) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for operator in core.runtime.dataflow.operators():
        for source in operator.inputs:
            found.setdefault(source.number, set()).add(operator.number)
    return found


def _called(view: View) -> str:
    """The name of a view; one that enforces a constraint, by that."""
    rule = relation_of(view).rule
    return relation_of(view).label if rule is None else f"{rule.table} (constraint {rule.name})"


def _statistics(core: Core) -> Rows:
    for of, rows, changes, rate, keys, fan_out, per_change in core.statistics.all():
        yield of.number, of.describe(), rows, changes, rate, keys, fan_out, per_change


def _plans(core: Core) -> Rows:
    for view in core.catalog.views.values():
        for change, shape in core.plans.changes(core, view):
            yield _called(view), change.time, shape, change.why


def _work(core: Core) -> Rows:
    """The time that each operator took; nothing unless operators are timed."""
    found: dict[int, list[int]] = {}
    running, _ = core.runtime.dataflows()
    for dataflow in running:
        if (timing := dataflow.timing) is not None:
            timing.collect()
            for o in dataflow.operators():
                sums = found.setdefault(o.number, [0, 0, 0])
                for place, ns in enumerate((o.own_ns, o.merge_ns, o.python_ns)):
                    sums[place] += round(ns)
    names = {o.number: o.describe() for o in core.runtime.dataflow.operators()}
    for number, sums in found.items():
        yield number, names.get(number, ""), *sums


def _arrangement_views(core: Core) -> Rows:
    for view in core.catalog.views.values():
        for operator in upstream(core.runtime.dataflow, relation_of(view).arrangement.operator):
            if operator.trace is not None and not operator.trace.stateless:
                yield operator.number, _called(view)


def _tables(core: Core) -> Rows:
    measure = core.runtime.measure()
    for name, table in core.catalog.tables.items():
        _, updates, size = measure(relation_of(table).arrangement.operator)
        yield name, updates, size, relation_of(table).arrangement.operator.number


def _views(core: Core) -> Rows:
    measure = core.runtime.measure()
    for view in core.catalog.views.values():
        operator = relation_of(view).arrangement.operator
        _, updates, size = measure(operator)
        yield _called(view), updates, size, operator.number, relation_of(view).installed_at


def _dependencies(core: Core) -> Rows:
    tables = {relation_of(table).node: name for name, table in core.catalog.tables.items()}
    views = {relation_of(view).node: _called(view) for view in core.catalog.views.values()}
    for view in core.catalog.views.values():
        name = _called(view)
        for node in relation_of(view).node.walk():
            if node in views and views[node] != name:
                yield name, views[node]
            elif isinstance(node, plan.Table) and node in tables:
                yield name, tables[node]


def _errors(core: Core) -> Rows:
    for view in core.catalog.views.values():
        name = _called(view)
        for what, count in view._errors_at(core.runtime.dataflow.time) if relation_of(view).fallible else ():
            yield name, what, count


def _subscriptions(core: Core) -> Rows:
    for what in (*core.catalog.tables.values(), *core.catalog.views.values()):
        if relation_of(what).subscribers:
            yield relation_of(what).label, len(relation_of(what).subscribers)


def _offsets(core: Core) -> Rows:
    yield from core.runtime.offsets.items()


def _sources(core: Core) -> Rows:
    pipeline: Pipeline | None = core.attached.get("pipeline")
    for name, feed in [] if pipeline is None else list(pipeline.feeds.items()):
        yield name, feed.source.describe(), feed.rows, feed.rejected, feed.late, feed.missing, feed.caught_up


def _sinks(core: Core) -> Rows:
    pipeline: Pipeline | None = core.attached.get("pipeline")
    for outlet in [] if pipeline is None else list(pipeline.outlets):
        yield relation_of(outlet.view).label, outlet.sink.describe(), outlet.position


def _memory(core: Core) -> Rows:
    measure = core.runtime.measure()
    yield "arrangements", sum(measure(o)[2] for o in _stateful(core))
    yield "dictionary", core.interner.nbytes


def _session(core: Core) -> Rows:
    catalog = core.catalog
    yield core.time, len(catalog.tables), len(catalog.views), len(core.runtime.dataflow.operators())


PRESENT = (
    Relation("session", {"time": int, "tables": int, "views": int, "operators": int}, _session),
    Relation("tables", {"name": str, "updates": int, "bytes": int, "operator": int}, _tables),
    Relation("views", {"name": str, "updates": int, "bytes": int, "operator": int, "installed_at": int}, _views),
    Relation("dependencies", {"view": str, "reads": str}, _dependencies),
    Relation("operators", {"id": int, "kind": str, "name": str, "loop": str}, _operators),
    Relation("edges", {"source": int, "target": int}, _edges),
    Relation(
        "arrangements",
        {"operator": int, "name": str, "updates": int, "bytes": int, "batches": int, "readers": int},
        _arrangements,
    ),
    Relation("merges", {"operator": int, "name": str, "batch": int, "rows": int, "done": int}, _merges),
    Relation("arrangement_views", {"operator": int, "view": str}, _arrangement_views),
    Relation(
        "statistics",
        {
            "operator": int,
            "name": str,
            "rows": int,
            "changes": int,
            "rate": float,
            "keys": int,
            "fan_out": float,
            "per_change": float | None,
        },
        _statistics,
    ),
    Relation("work", {"operator": int, "name": str, "ns": int, "merge_ns": int, "python_ns": int}, _work),
    Relation("plans", {"view": str, "time": int, "plan": str, "why": str}, _plans),
    Relation("memory", {"what": str, "bytes": int}, _memory),
    Relation("errors", {"view": str, "error": str, "rows": int}, _errors),
    Relation("subscriptions", {"relation": str, "subscribers": int}, _subscriptions),
    Relation(
        "sources",
        {
            "name": str,
            "source": str,
            "rows": int,
            "rejected": int,
            "late": int,
            "missing": int,
            "caught_up": bool,
        },
        _sources,
    ),
    Relation("sinks", {"view": str, "sink": str, "position": int | None}, _sinks),
    Relation("positions", {"name": str, "position": str}, _offsets),
)
"""The relations that are always available. `positions`: progress of sources and sinks."""


def _not_yet(core: Core) -> Rows:
    return ()


LOGGED = (
    Relation(
        "steps",
        {
            "time": int,
            "at": dt.datetime,
            "ms": float,
            "transactions": int,
            "rows": int,
            "committed": bool,
            "error": str,
        },
        _not_yet,
    ),
    Relation(
        "statements",
        {"id": int, "at": dt.datetime, "text": str, "ms": float, "rows": int | None, "error": str},
        _not_yet,
    ),
)
"""Those that are empty until a log fills them (`everview.system.log`)."""
