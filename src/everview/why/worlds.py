"""Smaller worlds: does a row hold without some rows of tables, and how likely is it if rows may be missing?

`trust` supposes that rows are gone, which is a step that is undone (`everview.session.reads.what_if`), and so an answer
for every view. Often it need not: if a view is monotone and its row has a derivation without any of them, it holds.
`probability` has to know all derivations, so it answers only where a smaller world never has more rows
(`everview.why.monotone`).
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
from everview.why.ask import Question, asked, deep, present
from everview.why.block import Row
from everview.why.contents import OUTSIDE
from everview.why.equations import Equations, Writer
from everview.why.likelihood import likelihood
from everview.why.loops import NoWay
from everview.why.probability import Probability
from everview.why.steps import Goal

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.table import Table
    from everview.session.view import View

MOST_ROWS = 20_000
"""Rows behind a row that are looked at."""


# without


def trust(view: View, row: Any, without: Any) -> bool:
    """See `View.trust`."""
    gone = _Gone(view, row, without)
    gone.look()
    if gone.holds is not None:
        return gone.holds
    with WhatIf(view._core, gone.rows) as supposed:
        return gone.count + supposed.change_of(view, gone.row) > 0


class _Gone:
    """What is supposed to be gone, and whether that is all there is to say."""

    def __init__(self, view: View, row: Any, without: Any) -> None:
        self._core = view._core
        self.view = view
        self.given = row
        self.without = _by_table(self._core, without)
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.holds: bool | None = None

    @reads
    def look(self) -> None:
        """How often the row is there, which rows go, and whether it has a derivation without them."""
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
    """What goes of each table: all rows (...), some, or those of which a function says so."""
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
    """A table that people made."""
    tables = {n: t for n, t in core.catalog.tables.items() if not n.startswith(RESERVED_PREFIX)}
    if not isinstance(name, str) or name not in tables:
        what = f"{name!r} is a view" if name in core.catalog.views else f"no table is called {name!r}"
        raise InputError("E_NAME", f"{call}: {what}", did_you_mean(name, tables))
    return tables[name]


# by chance


def probability(view: View, row: Any, chances: Any, nodes: int) -> Probability:
    """See `View.probability`; in a turn."""
    if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
        raise InputError("E_TYPE", f"probability: nodes={nodes!r} is not a number of nodes", "give 1 or more")
    with deep():
        question = asked(view, None)
        chance = _Chances(question, chances)
        codes = question.row(row)
        if monotone.offence(question.node):
            present(question, codes, row)  # what could be there in a smaller world is not known of such views
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
    """How likely rows of tables are there: certain, unless something was said of their table."""

    def __init__(self, question: Question, given: Any) -> None:
        if not isinstance(given, Mapping):
            what = f"probability: {given!r} names no tables"
            raise InputError("E_TYPE", what, 'give {"table": 0.9}, {"table": {row: 0.9}} or {"table": function}')
        self._given: dict[str, Callable[[Row], float]] = {}
        core = question.view._core
        for name, of in given.items():
            self._given[name] = self._function(question, _table(core, "probability", name), of)

    def of(self, table: str, row: Row) -> float:
        """How likely a row of a table is there."""
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
