"""Prepared queries: one dataflow for all values of their parameters."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from everview.codes.codec import Codec
from everview.codes.multiplicity import repeated
from everview.errors import InputError, RowErrors, did_you_mean
from everview.expr.resolve import Column
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.substitute import substituted
from everview.session.changes.turns import writes
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.core import core_of
from everview.session.reads.snapshot import present_codes
from everview.sql.answers import one_off
from everview.sql.answers.parameters import Learned, Parameters
from everview.sql.answers.result import Result, in_order
from everview.sql.select import join_plans
from everview.sql.select.compiler import Compiler
from everview.sql.select.query import Query
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.dialects import DEFAULT
from everview.sql.text.error_positions import Source, SqlError
from everview.types import INT, DataType

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.session import Session
    from everview.session.table import Table
    from everview.session.view import View


class Prepared:
    """A query with parameters, to be called with their values; created by `db.prepare`.

    A new value is one transaction; from then on its result is maintained, and a call is a look-up. At most `keep`
    values are kept, evicting the least recently used. The view of the same name has the results of all of them, with
    the parameters as its first columns. A row that cannot be computed is an error only for the values whose result it
    belongs to.

    >>> import everview as ev
    >>> db = ev.connect()
    >>> orders = db.table("orders", {"customer": str, "sku": str, "price": int})
    >>> bill = db.prepare("bill", "SELECT sku, sum(price) AS total FROM orders WHERE customer = $customer GROUP BY sku")
    >>> orders.insert([("Ann", "pear", 3), ("Bob", "fig", 2), ("Ann", "pear", 4)])
    >>> bill(customer="Ann").rows(), bill("Bob").rows()
    ([('pear', 7)], [('fig', 2)])
    >>> sorted(db["bill"].rows())
    [('Ann', 'pear', 7), ('Bob', 'fig', 2)]
    """

    def __init__(self, session: Session, name: str, text: str, keep: int = 1000) -> None:
        self.name = name
        self._session = session
        self._core = core = core_of(session)
        self._keep = keep
        self._asked: OrderedDict[tuple[int, ...], None] = OrderedDict()
        if not core.access.redeclares(name):
            core.catalog.check_new(name)
        spoken = getattr(core_of(session).attached.get("sql"), "dialect", DEFAULT)
        source, node = _one_query(core, text, spoken)
        self._types = consumed_parts.whole(node, source, lambda: _types(session, source, node))
        there = {*core.catalog.tables}
        self._values = self._table()
        try:
            self._query, self._view = self._install(source, node)
        except BaseException:  # what existed before, or is read by another view, stays
            if name not in core.catalog.views and not {*core.catalog.tables} <= there:
                self._values.drop()
            raise
        self._codec = Codec(tuple(self._types.values()), tuple(self._types), core.interner)
        types, first = self._query.node.types, len(self._types)
        self._result = Codec(types[first : self._query.width], self._query.names, core.interner)
        self._whole = Codec(types[first:], ("",) * len(types[first:]), core.interner)
        self._asked.update((row, None) for row in core.transactions.present(self._values, None))

    @property
    def parameters(self) -> dict[str, DataType]:
        """Names and types of the parameters, in order of appearance."""
        return dict(self._types)

    def __call__(self, *values: Any, **named: Any) -> Result:
        """The result for values of the parameters, in order or by name."""
        row = self._codec.encode_row(self._row(values, named))
        columns, counts = self._kept(row)
        codes = repeated(columns[len(row) :], counts)
        query, width = self._query, len(self._query.names)
        if query.order:
            rows = self._whole.decode_rows(codes)
            order = [(c - len(row), down) for c, down in query.order]
            codes = codes[:, in_order(rows, order, query.node.types[len(row) :])]
        return Result(self._result, np.ascontiguousarray(codes[:width]))

    @writes
    def forget(self, *values: Any, **named: Any) -> None:
        """Stop maintaining the result for these values."""
        row = self._codec.encode_row(self._row(values, named))
        if row in self._asked:
            self._core.transactions.stage(self._values, [row], -1)
            del self._asked[row]

    @writes
    def drop(self) -> None:
        """Drop all results and free the name."""
        self._view.drop()
        self._values.drop()

    def __repr__(self) -> str:
        wanted = ", ".join(f"{n}: {t!r}" for n, t in self._types.items())
        return f"Prepared({self.name}({wanted}), {len(self._asked)} values)"

    # ----------------------------------------------------------------------------------------- inside

    def _row(self, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        names = list(self._types)
        given = dict(zip(names, values, strict=False)) | named
        for name in given:
            if name not in self._types:
                raise InputError("E_PARAMETER", f"{self.name} has no parameter ${name}", did_you_mean(name, names))
        if len(values) + len(named) != len(names) or len(given) != len(names):
            wanted = ", ".join(f"${n}" for n in names)
            raise InputError("E_PARAMETER", f"{self.name} needs one value for each of {wanted}")
        return tuple(given[n] for n in names)

    @writes
    def _kept(self, row: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The codes of the result for values, with multiplicities."""
        self._view._alive()
        self._ask(row)
        if relation_of(self._view).fallible and self._view._errors_now():
            return self._alone(row)
        arrangement = relation_of(self._view).arrangement
        start = tuple(row[c] for c in arrangement.order[: len(row)])
        return present_codes(self._core, arrangement, start)

    def _alone(self, row: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The same, computed for these values alone: some rows have failed, and whether they matter for these values
        does not follow from the shared result. If they do, it is an error, which reveals no rows of others.
        """
        given = plan.Constant((self._codec.decode_row(row),), tuple(self._types.values()))
        node = substituted(self._query.node, {relation_of(self._values).node: given})
        columns = [Column(f"c{i}", t) for i, t in enumerate(node.types)]
        parents = [t for t in self._core.catalog.tables.values() if relation_of(t).node in set(node.walk())]
        try:
            codes = one_off.rows(
                self._session, node, lambda: Collection(node, columns, self._core, parents=parents), None
            )
        except RowErrors as error:
            error.message = error.message.partition(", for example for ")[0].replace("the query", self.name)
            raise
        return codes, np.ones(codes.shape[1], dtype=np.int64)

    def _ask(self, row: tuple[int, ...]) -> None:
        """Make sure that the values are among those maintained."""
        self._core.transactions.catch_up()
        if row in self._asked:
            self._asked.move_to_end(row)
            return
        if self._core.transactions.staged is not None:
            raise InputError("E_TRANSACTION", "new values cannot be asked for inside a transaction", "ask before it")
        with self._session.transaction():
            if self._asked and len(self._asked) >= self._keep:
                oldest, _ = self._asked.popitem(last=False)
                self._core.transactions.stage(self._values, [oldest], -1)
            self._core.transactions.stage(self._values, [row], 1)
        self._asked[row] = None
        self._core.transactions.catch_up()

    def _table(self) -> Table:
        columns = [Column(f"${n}", t) for n, t in self._types.items()]
        return self._core.definitions.tables.system(f"{RESERVED_PREFIX}{self.name} parameters", columns)

    def _install(self, source: Source, node: exp.Expr) -> tuple[Query, View]:
        compiler = Compiler(self._session, source, standing=True)
        written = node.copy()
        query = self._compiled(compiler, source, node)
        parents = [self._values, *(self._session[n] for n in compiler.used)]
        names = [*(f"${n}" for n in self._types), *query.names]
        names += [f"order{i}" for i in range(len(query.node.types) - len(names))]
        columns = [Column(n, t) for n, t in zip(names, query.node.types, strict=True)]
        collection = Collection(query.node, columns, self._core, parents=parents)
        if compiler.by_size:
            compiler = Compiler(self._session, source, standing=True)
            compiler.by_text = True
            relation_of(collection).meaning = self._compiled(compiler, source, written).node
        relation_of(collection).bound = dict(compiler.claims)
        index = [c.name for c in columns[: len(self._types)]]
        asked = source.notes.plan or getattr(self._core.attached.get("sql"), "plan", None)
        how = join_plans.how_to_join(query.node, asked)
        relation_of(collection).plan_why = join_plans.why(how, asked)
        return query, self._session.view(self.name, collection, index_by=index, plan=how)

    def _compiled(self, compiler: Compiler, source: Source, node: exp.Expr) -> Query:
        compiler.parameters = Parameters(self._types)
        return compiler.query(node, {}, compiler.parameters.place(relation_of(self._values).node, source))


def _one_query(core: Core, text: str, dialect: str) -> tuple[Source, exp.Expr]:
    found = list(statement_reader.statements(text, lambda: dialect))
    if len(found) != 1:
        raise SqlError("E_SYNTAX", f"one query is prepared, not {len(found)}", "", 1, 1)
    source = replace(found[0].source(), zone=core.zone, types=core.types)
    node = statement_reader.parsed(source)
    if not isinstance(node, exp.Query) or found[0].notes.definitions or found[0].notes.as_of is not None:
        raise source.refuse(node, "only queries of the present can be prepared")
    return source, node


def _types(session: Session, source: Source, node: exp.Expr) -> dict[str, DataType]:
    """The parameters' types, inferred one by one by binding the query repeatedly."""
    names = dict.fromkeys(p.name for p in sorted(node.find_all(exp.Parameter), key=_place))
    if not names:
        raise source.refuse(node, "the query has no parameters", "CREATE VIEW keeps a query without any")
    types: dict[str, DataType | None] = dict.fromkeys(names)
    while True:
        compiler = Compiler(session, source)
        compiler.parameters = Parameters(types)
        assumed = plan.Table(-1, tuple(t or INT for t in types.values()))
        try:
            compiler.query(node, {}, compiler.parameters.place(assumed, source))
            return {n: t for n, t in types.items() if t is not None}
        except Learned as found:
            types[found.name] = found.type


def _place(node: exp.Parameter) -> int:
    return int(node.this.meta.get("start", 0))
