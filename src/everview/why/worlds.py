"""Smaller worlds: whether a row holds without some rows of tables, and its probability if rows may be missing.

`trust` supposes that rows are deleted, which is a step that is undone (`everview.session.reads.what_if`), and so works
for every view. Often that is unnecessary: if a view is monotone and its row has a derivation without any of them, it
holds. `probability` needs all derivations, so it only works if a smaller world never has more rows
(`everview.plan.worlds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from everview.codes.values import with_one_nan
from everview.errors import InputError, InternalError, did_you_mean
from everview.language.relation import relation_of
from everview.plan import worlds as monotone
from everview.session.changes.turns import reads
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.reads.what_if import WhatIf
from everview.why.column_blocks import Row
from everview.why.contents import OUTSIDE
from everview.why.equations import Equations, Writer
from everview.why.explanation import Question, asked, deep, present
from everview.why.likelihood import likelihood
from everview.why.loops import NoWay
from everview.why.probability import Probability
from everview.why.steps import Goal

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.session.view import View

MOST_ROWS = 20_000
"""Maximum number of rows behind a row that are examined."""


# without


def trust(view: View, row: Any, without: Any) -> bool:
    """Implements `View.trust`."""
    gone = _Gone(view, row, without)
    gone.look()
    if gone.holds is not None:
        return gone.holds
    with WhatIf(view._core, gone.rows) as supposed:
        return gone.count + supposed.change_of(view, gone.row) > 0


class _Gone:
    """What is supposed to be deleted, and whether that is enough for an answer."""

    def __init__(self, view: View, row: Any, without: Any) -> None:
        self._core = view._core
        self.view = view
        self.given = row
        self.without = _by_table(self._core, without)
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.holds: bool | None = None

    @reads
    def look(self) -> None:
        """The multiplicity of the row, which rows are deleted, and whether it has a derivation without them."""
        with deep():
            question = asked(self.view, None)
            self.row = question.row(self.given)
            self.count = present(question, self.row, self.given)
            for name, some in self.without.items():
                self._go(question, self._core.catalog.tables[name], some)
            if not any(self.rows.values()):
                self.holds = True
            elif not monotone.offence(question.node):
                gone = {(name, with_one_nan(row)) for name, rows in self.rows.items() for row in rows}
                if gone.isdisjoint(question.derivation(self.row).leaves()):
                    self.holds = True

    def _go(self, question: Question, table: Table, some: Any) -> None:
        if some is ... or callable(some):
            there = table._now().counts().items()
            found = [row for row, n in there for _ in range(n) if some is ... or some(row)]
        else:
            codes = relation_of(table).codec.encode_rows(
                [r if isinstance(r, tuple | list | dict) else (r,) for r in some]
            )
            rows = dict.fromkeys(tuple(code) for code in codes.T.tolist())
            decode, count = relation_of(table).codec.decode_row, question.contents.count
            found = [decode(code) for code in rows for _ in range(count(relation_of(table).node, OUTSIDE, code))]
        self.rows[relation_of(table).label] = found


def _by_table(core: Core, without: Any) -> dict[str, Any]:
    """The deletions from each table: all rows (...), some, or those selected by a function."""
    if isinstance(without, str):
        without = [without]
    if isinstance(without, list | tuple | set | frozenset) and all(isinstance(n, str) for n in without):
        without = dict.fromkeys(without, ...)
    if not isinstance(without, Mapping):
        what = f"trust(without={without!r}) names no tables"
        raise InputError("E_TYPE", what, 'give without="table", or {"table": rows or a function of a row}')
    for name, some in without.items():
        _table(core, "trust", name)
        if some is not ... and not callable(some) and (isinstance(some, str) or not isinstance(some, Iterable)):
            raise InputError("E_TYPE", f"trust: {some!r} of table {name!r} are not rows", "give rows or a function")
    return dict(without)


def _table(core: Core, call: str, name: Any) -> Table:
    """A user's table."""
    tables = {n: t for n, t in core.catalog.tables.items() if not n.startswith(RESERVED_PREFIX)}
    if isinstance(name, str):
        core.access.may_read(name)  # one that is hidden is told like one that is missing
    if not isinstance(name, str) or name not in tables:
        what = f"{name!r} is a view" if name in core.catalog.views else f"no table is called {name!r}"
        raise InputError("E_NAME", f"{call}: {what}", did_you_mean(name, tables))
    return tables[name]


# by chance


def probability(view: View, row: Any, chances: Any, nodes: int) -> Probability:
    """Implements `View.probability`; call it in a turn."""
    if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
        raise InputError("E_TYPE", f"probability: nodes={nodes!r} is not a number of nodes", "give 1 or more")
    with deep():
        question = asked(view, None)
        chance = _Chances(question, chances)
        codes = question.row(row)
        if monotone.offence(question.node):
            present(question, codes, row)  # it is unknown what a smaller world could have in such views
        elif not question.there(codes):
            return Probability(0.0, 0.0)
        equations, of = _written(question, codes, chance.of)
        return likelihood(equations, of, nodes)


def _written(question: Question, row: Row, chance: Callable[[str, Row], float]) -> tuple[Equations, dict[int, float]]:
    while True:
        writer = Writer(question.contents, question.histories, question.names(), chance, MOST_ROWS)
        try:
            return writer.write(Goal(question.node, OUTSIDE, row)), writer.chances
        except NoWay as failed:
            if not question.histories.failed(failed.loop):
                raise InternalError("E_INTERNAL", "a row of a loop has no explanation", "please report it") from None


class _Chances:
    """The probabilities of table rows: certain, unless specified for their table."""

    def __init__(self, question: Question, given: Any) -> None:
        if not isinstance(given, Mapping):
            what = f"probability: {given!r} names no tables"
            raise InputError("E_TYPE", what, 'give {"table": 0.9}, {"table": {row: 0.9}} or {"table": function}')
        self._given: dict[str, Callable[[Row], float]] = {}
        core = question.view._core
        for name, of in given.items():
            self._given[name] = self._function(question, _table(core, "probability", name), of)

    def of(self, table: str, row: Row) -> float:
        """The probability of a table row."""
        known = self._given.get(table)
        return 1.0 if known is None else known(row)

    def _function(self, question: Question, table: Table, of: Any) -> Callable[[Row], float]:
        relation = relation_of(table)
        name = relation.label
        if isinstance(of, Mapping):
            rows = {
                relation.codec.encode_row(r if isinstance(r, tuple) else (r,)): _chance(name, p) for r, p in of.items()
            }
            for code in rows:
                if question.contents.count(relation.node, OUTSIDE, code) <= 0:
                    row = relation.codec.decode_row(code)
                    what = f"probability: {row!r} is not in table {name!r}"
                    raise InputError("E_ABSENT", what, "give probabilities of rows that are there")
            return lambda row: rows.get(row, 1.0)
        if callable(of):
            decode = relation.codec.decode_row
            return lambda row: _chance(name, of(decode(row)))
        same = _chance(name, of)
        return lambda row: same


def _chance(table: str, p: Any) -> float:
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
        raise InputError("E_RANGE", f"probability: {p!r}, of table {table!r}, is not a probability", "give 0 to 1")
    return float(p)
