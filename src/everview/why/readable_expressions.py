"""Reads provenance expressions from a session.

A view created with `provenance=` has a column of codes; equal codes are equal expressions. `View.provenance` makes an
`Expression` of one: its diagram's nodes are copied out of the session, and its variables are looked up by their labels,
so it is independent of the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from everview.codes.values import with_one_nan
from everview.dataflow.operators import Arrangement
from everview.dataflow.provenance import Nodes
from everview.errors import InputError, InternalError
from everview.language.relation import relation_of
from everview.plan.provenance import COLUMN, TOO_LARGE, Labelled, kept_in, table_of
from everview.session.reads.snapshot import read_codes
from everview.why.bdd import FALSE, TRUE, Diagrams
from everview.why.expression import BaseRow, Expression

if TYPE_CHECKING:
    from everview.session.view import View

# from a session


def provenance(view: View, row: Any) -> Expression:
    """See `View.provenance`."""
    _check(view)
    given = row if isinstance(row, tuple) else (row,)
    width = len(relation_of(view).columns) - 1
    if len(given) not in (width, width + 1):
        what = f"view {relation_of(view).label!r} has {width} columns before its provenance: {row!r}"
        raise InputError("E_WIDTH", what, "give a row, with or without its provenance")
    own = relation_of(view).codec.encode_row((*given[:width], 0))[:width]
    found = [code for each, code in _rows_of(view, own) if each == own]
    if not found:
        raise InputError(
            "E_ABSENT", f"view {relation_of(view).label!r} has no row {row!r}", "view.why_not(row) says why"
        )
    return Reader(view).expression(found[0])


def provenances(view: View) -> Iterator[tuple[tuple[Any, ...], Expression]]:
    """All rows of a view with their expressions; shared parts are read once."""
    _check(view)
    reader = Reader(view)
    for row in view._now().rows():
        yield row[:-1], reader.expression(row[-1])


def _check(view: View) -> None:
    if not kept_in(relation_of(view).node) or relation_of(view).columns[-1].name != COLUMN:
        raise InputError(
            "E_PROVENANCE",
            f"view {relation_of(view).label!r} keeps no provenance",
            'make it with db.view(name, collection, provenance="lazy"), or ask view.why(row)',
        )


def _rows_of(view: View, row: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Rows of a view including this one, as codes."""
    start = tuple(row[c] for c in takewhile(lambda c: c < len(row), relation_of(view).arrangement.order))
    columns, counts = read_codes(view._core.runtime, relation_of(view).arrangement, start, view._core.time)
    for *own, code in columns.T[counts > 0].tolist():
        yield tuple(own), code


class Reader:
    """The nodes and variables of a session, read on demand."""

    def __init__(self, view: View) -> None:
        self._core = view._core
        runtime = self._core.runtime
        table = runtime.dataflow.provenance
        if table is None:
            raise InternalError("E_INTERNAL", "there is no table of nodes")
        self._table: Nodes = table
        wanted = {(table_of(n), n.edges) for n in relation_of(view).node.walk() if isinstance(n, Labelled)}
        self._labels = [
            (table_of(node), arrangements[0])
            for (node, _), arrangements in runtime.builder.arrangements.items()
            if isinstance(node, Labelled) and (table_of(node), node.edges) in wanted
        ]
        self._nodes: dict[int, tuple[int, int, int]] = {}
        self._rows: dict[int, BaseRow] = {}

    def expression(self, code: int) -> Expression:
        """The expression with a code."""
        if code == TOO_LARGE:
            raise InternalError("E_INTERNAL", "an expression that is too large has no nodes")
        self._fetch(code)
        inside = self._below(code)
        labels = sorted({self._nodes[c][0] for c in inside})
        rows = [self._row(label) for label in labels]
        level = {label: i for i, label in enumerate(labels)}
        diagrams = Diagrams(len(inside) + 3)
        made = {0: FALSE, 1: TRUE}
        for each in sorted(inside, key=lambda c: -self._nodes[c][0]):
            label, low, high = self._nodes[each]
            made[each] = diagrams.node(level[label], made[low], made[high])
        return Expression(diagrams, made[code], labels, rows)

    def _below(self, code: int) -> list[int]:
        found: dict[int, None] = {}
        todo = [code]
        while todo:
            each = todo.pop()
            if each > 1 and each not in found:
                found[each] = None
                todo += self._nodes[each][1:]
        return list(found)

    def _fetch(self, code: int) -> None:
        """Fetch the nodes of an expression: all at once if they are in this process, else one by one."""
        if code in self._nodes or code <= 1:
            return
        if not self._core.runtime.dataflow.sharded:
            rows = self._table.rows(code)
            if rows is not None:
                self._nodes.update({each: (label, low, high) for each, label, low, high in rows.tolist()})
                return
        todo = [code]
        while todo:
            each = todo.pop()
            if each > 1 and each not in self._nodes:
                columns, _ = read_codes(self._core.runtime, self._kept, (each,), self._core.time)
                if not columns.shape[1]:
                    raise InternalError("E_INTERNAL", "a row refers to an unknown provenance expression")
                _, label, low, high = columns[:, 0].tolist()
                self._nodes[each] = label, low, high
                todo += [low, high]

    @property
    def _kept(self) -> Any:
        return Arrangement(self._table, (0, 1, 2, 3))

    def _row(self, label: int) -> BaseRow:
        if label not in self._rows:
            self._rows[label] = self._looked_up(label)
        return self._rows[label]

    def _looked_up(self, label: int) -> BaseRow:
        for node, arrangement in self._labels:
            columns, counts = read_codes(self._core.runtime, arrangement, (label,), self._core.time)
            for *own, _ in columns.T[counts > 0].tolist():
                table = self._core.catalog.table_of(node)
                if table is not None:
                    relation = relation_of(table)
                    return BaseRow(relation.label, with_one_nan(relation.codec.decode_row(tuple(own))))
        raise InternalError("E_INTERNAL", f"no row has the label {label}")
