"""Prepared key look-ups: SELECT columns FROM a table or view WHERE its key = $1.

Most requests of an application have this form, and the rows are in an index. When such a statement is prepared, its
plan is examined: a filter that only equates columns with parameters, over a table or view with an index on those
columns. Executing it then means reading the index; nothing is parsed or bound again.

It runs on the event loop: in a turn if that is free, or beside the current step. If neither is possible, it takes the
general path. Excluded are open transactions with changes, altered tables, views with failed rows, and sessions on
Spark.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everview.codes.codec import Codec
from everview.codes.multiplicity import repeated
from everview.codes.values import encoder
from everview.expr.functions import conjuncts
from everview.expr.nodes import Call, ColumnRef
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.runtime.embedded import EmbeddedRuntime
from everview.session.core import Core, core_of
from everview.session.reads import concurrent_reads
from everview.session.reads.keyed import Room, arrangement_by
from everview.session.reads.snapshot import read_codes
from everview.session.rights.principal import WHO, Principal
from everview.session.view import View
from everview.sql.answers.parameter_values import Given
from everview.sql.answers.result import Result
from everview.sql.text import consumed_parts, statement_reader

if TYPE_CHECKING:
    from everview.dataflow.operators import Arrangement
    from everview.session.reads.subscribable import Subscribable
    from everview.session.session import Session
    from everview.sql.select.query import Query
    from everview.sql.statements import Statements

_SAMPLES: dict[str, Any] = {"int": 1, "str": "", "date": dt.date(2000, 1, 1)}
"""Kinds of parameters that are taken, with a value to look at the plan with."""


@dataclass(frozen=True)
class Quick:
    """A prepared look-up."""

    core: Core
    of: Subscribable
    codec: object
    """the table's, when it was prepared: another one means that it was altered"""
    arrangement: Arrangement
    encoders: tuple[tuple[str, Any], ...]
    """the parameters in the index's order, and how their values become codes"""
    outputs: tuple[int, ...]
    result: Codec
    bound_for: tuple[int, int, Principal | None, str]
    """which rights and definitions there were, for whom it was bound, and on which search path: after any change of
    those it may read another table, so it is bound again"""
    room: Room
    """where the kernel puts rows"""

    def answer(self, given: Given, who: Principal | None, path: str) -> Result | None:
        """The rows, for whoever asks; None if this is not the way, or not now: a step is under way."""
        values = given.values or {}
        codes = self.found([values.get(name) for name, _ in self.encoders], who, path)
        return None if codes is None else Result(self.result, codes)

    def found(self, values: Sequence[Any], who: Principal | None, path: str) -> np.ndarray | None:
        """The same as codes, by values in the order of the encoders."""
        core = self.core
        if any(v is None for v in values):
            return None
        if not core.lock.acquire(blocking=False):
            found: np.ndarray | None = concurrent_reads.visited(core, lambda: self._beside(values, who, path))
            return found
        try:
            if core.unsettled or core.stop is not None or core.transactions.queued:
                return None
            return self._read(values) if self._fit(who, path) else None
        finally:
            core.lock.release()

    def is_stale(self, who: Principal | None, path: str) -> bool:
        """Whether it must be bound again, or is for somebody whose token has expired."""
        return (who is not None and who.is_over) or (
            self.core.access.version,
            self.core.catalog.meaning,
            who,
            path,
        ) != self.bound_for

    def _fit(self, who: Principal | None, path: str) -> bool:
        core, relation = self.core, relation_of(self.of)
        if core.closed or self.is_stale(who, path):
            return False
        if relation.dropped or relation.codec is not self.codec:
            return False
        if isinstance(self.of, View) and relation_of(self.of).fallible:
            return False
        return relation.arrangement is self.arrangement or any(
            i.arrangement is self.arrangement for i in relation.extra_indexes
        )

    def _read(self, values: Sequence[Any]) -> np.ndarray:
        start = self._start(values)
        return self._wanted(*read_codes(self.core.runtime, self.arrangement, start, self.core.runtime.dataflow.time))

    def few(self, start: Sequence[int], who: Principal | None, path: str) -> list[int] | None:
        """A few rows by the codes of the key, one after the other: their codes in the index's order, and how often each
        is there. None if this is not the way, or not now, or there are more rows.
        """
        core = self.core
        if not core.lock.acquire(blocking=False):
            return None
        try:
            if core.unsettled or core.stop is not None or core.transactions.queued or not self._fit(who, path):
                return None
            return self.room.find(start, core.runtime.dataflow.time)
        finally:
            core.lock.release()

    def _beside(self, values: Sequence[Any], who: Principal | None, path: str) -> np.ndarray | None:
        """The same as a guest of the step under way."""
        if not self._fit(who, path):
            return None
        return self._wanted(*concurrent_reads.keyed(self.core, self.arrangement, self._start(values)))

    def _start(self, values: Sequence[Any]) -> tuple[int, ...]:
        return tuple(encode(value) for (_, encode), value in zip(self.encoders, values, strict=True))

    def _wanted(self, columns: np.ndarray, counts: np.ndarray) -> np.ndarray:
        codes = columns[list(self.outputs)]
        return np.ascontiguousarray(repeated(codes, counts))


def quick(sql: Statements, session: Session, text: str, given: Given, path: str) -> Quick | None:
    """A statement as a look-up, if it is one; on the engine's thread, nothing is done."""
    core = core_of(session)
    bound_for = core.access.version, core.catalog.meaning, WHO.get(), path
    samples = {name: _SAMPLES.get(t.kind) for name, t in given.known.items()}
    if not samples or any(v is None for v in samples.values()) or not isinstance(core.runtime, EmbeddedRuntime):
        return None
    if (who := core.access.acting()) is not None and core.access.limits(who.role):
        return None  # what somebody may have so much of is counted on the long way
    statement = next(statement_reader.statements(text, lambda: sql.dialect), None)
    if statement is None or statement.first != "SELECT" or statement.notes.as_of is not None:
        return None
    marked = sql.parameters = Marked(given.known, samples)
    source = sql.placed(statement.source())
    node = statement_reader.parsed(source)
    if not isinstance(node, statement_reader.QUERIES):
        return None
    query, _ = consumed_parts.whole(node, source, lambda: sql.bound(node, source))
    return _recognised(core, query, marked, bound_for)


class Marked(Given):
    """Parameters that can be found again in the plan."""

    def __init__(self, types: Any, values: Any) -> None:
        super().__init__(types, values)
        self.made: dict[int, str] = {}
        self._kept: list[Any] = []

    def constant(self, node: Any) -> Any:
        """The parameter's value, remembered."""
        found = super().constant(node)
        self.made[id(found)] = node.name
        self._kept.append(found)
        return found


def _recognised(
    core: Core, query: Query, marked: Marked, bound_for: tuple[int, int, Principal | None, str]
) -> Quick | None:
    node = query.node
    if query.order or query.context or query.width != len(node.types):
        return None
    outputs: Sequence[int] = range(len(node.types))
    if isinstance(node, plan.Project):
        if not all(isinstance(e, ColumnRef) for e in node.exprs):
            return None
        outputs, node = [e.index for e in node.exprs if isinstance(e, ColumnRef)], node.child
    if not isinstance(node, plan.Filter) or isinstance(node.child, plan.Filter):
        return None
    of = _contents(core).get(node.child)
    given = _parameters(node, marked)
    if of is None or given is None:
        return None
    relation = relation_of(of)
    arrangement = arrangement_by(relation, given)
    if arrangement is None:
        return None
    types = relation.codec.types
    encoders = tuple((given[c], encoder(types[c], core.interner)) for c in arrangement.order[: len(given)])
    result = Codec(tuple(types[c] for c in outputs), tuple(query.names), core.interner)
    return Quick(core, of, relation.codec, arrangement, encoders, tuple(outputs), result, bound_for, Room(arrangement))


def _contents(core: Core) -> dict[plan.Node, Subscribable]:
    found: dict[plan.Node, Subscribable] = {
        relation_of(v).node: v for v in core.catalog.views.values() if not relation_of(v).fallible
    }
    found.update({relation_of(t).node: t for t in core.catalog.tables.values()})
    return found


def _parameters(node: plan.Filter, marked: Marked) -> dict[int, str] | None:
    """Which parameter each column equals; None if the filter asks for anything else."""
    given: dict[int, str] = {}
    for condition in conjuncts(node.predicate):
        if not isinstance(condition, Call) or condition.op != "eq":
            return None
        pair = [(a, b) for a, b in (condition.args, condition.args[::-1]) if isinstance(a, ColumnRef)]
        if len(pair) != 1:
            return None
        column, value = pair[0]
        declared = node.child.types[column.index]
        name = marked.made.get(id(value))
        if name is None or column.index in given or declared.optional() != value.type.optional():
            return None
        given[column.index] = name
    return given or None
