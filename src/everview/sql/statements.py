"""Statements: what `db.sql` does with each kind.

Statements of one text run one after the other; the answer is the last one's. A SELECT is installed as a view for a
moment, read, and dropped, so it uses (and shares) the indexes that are there. INSERT, UPDATE and DELETE are one
transaction each, or part of the one that BEGIN opened. A transaction's own changes are not visible before COMMIT, so a
statement that would have to read them is refused.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.clock import Expiring
from everview.codes.codec import Codec
from everview.collection import Collection
from everview.errors import EverviewError, InputError, did_you_mean
from everview.expr import functions
from everview.expr.nodes import Expr
from everview.expr.nodes import Literal as Constant
from everview.expr.resolve import Column
from everview.plan import joins
from everview.plan import nodes as plan
from everview.plan.explain import numbered
from everview.plan.multiway import Choice, decisions, in_shards
from everview.plan.prune import prune
from everview.sql import choice, constants, names, pipelines, reading
from everview.sql.places import Source, SqlError
from everview.sql.query import Compiler, Query
from everview.sql.result import Result, Row, in_order
from everview.sql.scalars import Scalars
from everview.sql.scopes import HIDDEN, Correlated, Field, Relation, Scope
from everview.sql.subscription import Subscription
from everview.table import Table
from everview.types import INT, STR, TIMESTAMP
from everview.view import View

if TYPE_CHECKING:
    from everview.session import Session
    from everview.transacting import Transaction

QUERIES = (exp.Query, exp.Values)
"""What can be asked: VALUES too."""

QUERY = "(query)"
"""The name a SELECT has while it is installed."""


class Statements:
    """A session's SQL: the transaction that BEGIN opened, and how to run statements."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.transaction: Transaction | None = None
        self.changed: set[str] = set()
        self.subscriptions = 0
        self.plan: Choice | None = None

    def run(self, text: str) -> Any:
        """Run all statements of a text; the last one's answer."""
        answers = [answer for _, answer in self.answers(text)]
        return answers[-1] if answers else None

    def answers(self, text: str) -> Iterator[tuple[reading.Statement, Any]]:
        """Run the statements of a text one by one; each with its answer."""
        self.session._alive()
        for statement in reading.statements(text):
            yield statement, self._run_one(statement)

    def _run_one(self, statement: reading.Statement) -> Any:
        command = _COMMANDS.get(statement.first) or _COMMANDS.get(statement.start)
        if command is not None:
            return command(self, statement)
        source = Source(statement.text, statement.notes)
        node = reading.parsed(source.text)
        handler: Callable[[exp.Expr, Source], Any] | None
        if statement.notes.as_of is not None and not isinstance(node, QUERIES):
            raise source.refuse(node, "only a SELECT can be asked AS OF an earlier time")
        if statement.notes.definitions:
            handler = self._define
        elif isinstance(node, QUERIES):
            handler = self._select
        else:
            handler = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if handler is None:
            raise source.refuse(node, f"this statement is not supported: {node.key.upper()}", _STATEMENTS)
        staged = self.session._pending()
        before = len(staged) if staged is not None else 0
        try:
            return handler(node, source)
        except BaseException as error:
            if staged is not None:
                del staged[before:]  # a statement that fails inside a transaction changes nothing
            if self.session._clock.unused():
                self.session._collect()
            if not isinstance(error, Correlated):
                raise
            raise source.refuse(node, "a subquery reads the query around it in a way that is not supported") from None

    # ---------------------------------------------------------------------------------------- queries

    def _bound(self, node: exp.Expr, source: Source, standing: bool = False) -> tuple[Query, Compiler]:
        compiler = Compiler(self.session, source, standing)
        query = compiler.query(node, {}, None)
        return query, compiler

    def _collection(self, query: Query, compiler: Compiler, node: plan.Node, columns: Sequence[str]) -> Collection:
        parents = [self.session[n] for n in compiler.used]
        return Collection(
            node, [Column(n, t) for n, t in zip(columns, node.types, strict=True)], self.session, parents=parents
        )

    def _select(self, node: exp.Expr, source: Source) -> Result:
        query, compiler = self._bound(node, source)
        if source.notes.as_of is not None:
            return self._answer_as_of(node, source, source.notes.as_of, compiler.used)
        self._refuse_pending(compiler.used, node, source)
        return self._answer(query, compiler)

    def _answer_as_of(self, node: exp.Expr, source: Source, time: int, used: Iterable[str]) -> Result:
        """Ask a session that holds nothing but what the query reads, as it was at that time."""
        from everview.session import Session

        with Session(interner=self.session._interner) as past:
            past._functions = self.session._functions
            for name in used:
                found = self.session[name]
                snapshot = found.as_of(time)
                table = past.table(name, {c.name: c.type for c in found._columns})
                table._session._stage(table, snapshot._repeated(), 1)
            plain = Source(source.text, replace(source.notes, as_of=None))
            return Statements(past)._select(node, plain)

    def _answer(self, query: Query, compiler: Compiler) -> Result:
        """Install, read, sort, drop."""
        inside = [f"c{i}" for i in range(len(query.node.types))]
        collection = self._collection(query, compiler, query.node, inside)
        view = self.session.view(QUERY, collection, plan=self._how_to_join(query.node, compiler.source))
        try:
            codes = view._read(self.session.time)._repeated()
            if query.order:
                codes = codes[:, in_order(view._codec.decode_rows(codes), query.order)]
        except EverviewError as error:
            error.message = error.message.replace(f"view {QUERY!r}", "the query")
            raise
        finally:
            view.drop()
        types = query.node.types[: query.width]
        return Result(Codec(types, query.names, self.session._interner), codes[: query.width].copy())

    def _how_to_join(self, node: plan.Node, source: Source) -> Choice | None:
        return choice.how_to_join(node, source.notes.plan or self.plan)

    def _asked(self, source: Source) -> bool:
        """Whether somebody said how to join."""
        return bool(source.notes.plan or self.plan)

    def on_set(self, node: exp.Set, source: Source) -> None:
        """SET plan = 'binary' | 'delta' | 'wco' | default"""
        self.plan = choice.setting(node, source)

    def _refuse_pending(self, used: Sequence[str] | dict[str, None], node: exp.Expr, source: Source) -> None:
        """Changes of the open transaction cannot be read yet."""
        if not self.changed:
            return
        read = {t for n in used for t in self._tables_below(n)}
        if read & self.changed:
            raise source.error(
                node,
                "E_TRANSACTION",
                f"{', '.join(sorted(read & self.changed))} was changed in this transaction, which cannot be read yet",
                "COMMIT first",
            )

    def _tables_below(self, name: str) -> list[str]:
        nodes = self.session[name]._node.walk()
        return [self.session._table_of(n)._label for n in nodes if isinstance(n, plan.Table)]

    def show(self, statement: reading.Statement) -> Result:
        """SHOW TABLES, SHOW VIEWS, SHOW plan"""
        what = statement.text.split()[1:]
        rest = " ".join(what).lower()
        if rest == "plan":
            return self._texts("plan", [self.plan or "default"])
        found = {"tables": self.session.tables, "views": self.session.views}
        if rest not in found:
            place = Source(statement.text).line_and_column(statement.text.lower().index("show"))
            raise SqlError("E_UNSUPPORTED", f"there is no SHOW {rest}", "SHOW TABLES, SHOW VIEWS or SHOW plan", *place)
        return self._texts(rest[:-1], sorted(found[rest]))

    def explain(self, statement: reading.Statement) -> Result:
        """EXPLAIN query, EXPLAIN view"""
        text = statement.text
        start = text.lower().index("explain")
        # sqlglot takes what follows EXPLAIN for one token: what is to be noted is in there
        explained = next(reading.statements(f"{text[:start]}       {text[start + 7 :]}"), statement)
        source = Source(explained.text, explained.notes)
        name = names.spelled(source.text.strip(), self.session.views)
        if name in self.session.views:
            view = self.session[name]
            return self._texts("plan", view.explain().split("\n"))
        node = reading.parsed(source.text)
        if isinstance(node, exp.Create) and isinstance(node.expression, QUERIES):
            node = node.expression
        if not isinstance(node, QUERIES):
            raise source.refuse(
                node, "only queries and views can be explained", "EXPLAIN SELECT ..., or EXPLAIN name_of_a_view"
            )
        query, compiler = self._bound(node, source)
        plain = joins.take(query.node, range(query.width))
        collection = self._collection(query, compiler, plain, query.names)
        how = self._how_to_join(plain, source)
        joined = self._joins(plain, how, self._asked(source))
        lines = [*collection.explain().split("\n"), *joined, *self._kept(collection)]
        return self._texts("plan", lines)

    def _joins(self, node: plan.Node, how: Choice | None, asked: bool) -> Iterator[str]:
        """How joins of several inputs would be kept."""
        builder = self.session._builder
        pruned = prune(node, builder.installed, builder)
        if builder.graph.sharded:
            yield from map(str, in_shards(pruned, builder.installed))
            return
        for decision in decisions(pruned, how, builder.installed, builder.indexed):
            yield str(decision if asked or how is None else replace(decision, why=choice.DIFFERENT))

    def _kept(self, collection: Collection) -> Iterator[str]:
        """Which of the plan's steps are kept already, so that a view of it would share them."""
        session, measure = self.session, self.session._measure()
        rows = numbered(collection._node)
        for node in prune(collection._node, session._builder.installed, session._builder).walk():
            for kept in session._builder.arrangements.get((node, ()), []):
                _, updates, size = measure(kept.operator)
                users = [
                    v._name
                    for v in session._views.values()
                    if kept.operator in session._upstream(v._arrangement.operator)
                ]
                by = ", ".join(str(c) for c in kept.order)
                what = rows.get(node) or kept.operator.describe()
                used = f", for {', '.join(users)}" if users else ""
                yield f"kept: {what} in the order {by}: {updates} updates, {size} bytes{used}"

    def subscribe(self, statement: reading.Statement) -> Subscription:
        """SUBSCRIBE [TO] view, or TO (query), [WITHOUT SNAPSHOT]"""
        words = pipelines.Words(statement)
        words.need("SUBSCRIBE")
        words.next_is("TO")
        query = words.brackets()
        name = "" if query else names.spelled(words.take("a view or a query in brackets"), self.session.views)
        if name and name not in self.session.views:
            words.at -= 1
            raise words.error(f"there is no view {name}", did_you_mean(name, self.session.views), "E_TABLE")
        snapshot = not words.next_is("WITHOUT", "SNAPSHOT")
        words.end()
        if not query:
            return Subscription(self.session._views[name], snapshot=snapshot)
        start = statement.text.index("(")
        blank = "".join("\n" if c == "\n" else " " for c in statement.text[:start])
        source = Source(blank + query, statement.notes)
        self.subscriptions += 1
        created = exp.Create(this=exp.to_table("s"), expression=reading.parsed(source.text))
        view = self._create_view(f"(subscription {self.subscriptions})", created, source)
        return Subscription(view, snapshot=snapshot, own=True)

    def create_source(self, statement: reading.Statement) -> Any:
        """CREATE SOURCE"""
        return pipelines.create_source(self.session, statement, self._schema)

    def create_sink(self, statement: reading.Statement) -> Any:
        """CREATE SINK"""
        return pipelines.create_sink(self.session, statement)

    def run_pipeline(self, statement: reading.Statement) -> Any:
        """RUN"""
        return pipelines.run(self.session, statement)

    def _schema(self, name: str, columns: str) -> tuple[dict[str, Any], list[str]]:
        """Types of columns as CREATE TABLE lists them, and the key."""
        source = Source(f"CREATE TABLE {name} {columns}")
        return self._columns(reading.parsed(source.text).this, source)

    def _texts(self, column: str, values: Sequence[str]) -> Result:
        codec = Codec((STR,), (column,), self.session._interner)
        return Result(codec, codec.encode_rows([(v,) for v in values]))

    # ----------------------------------------------------------------------------- tables and views

    def on_create(self, node: exp.Create, source: Source) -> Any:
        """CREATE TABLE and CREATE [MATERIALIZED] VIEW."""
        self._refuse_in_transaction(node, source)
        kind = str(node.args.get("kind")).upper()
        if kind not in ("TABLE", "VIEW"):
            raise source.refuse(node, f"CREATE {kind} is not supported", "there are tables and views")
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        name = self._new_name(target, node, source)
        if name is None:
            return self.session[names.spelled(target.name, [*self.session.tables, *self.session.views])]
        return self._create_table(name, node, source) if kind == "TABLE" else self._create_view(name, node, source)

    def _new_name(self, target: exp.Table, node: exp.Create, source: Source) -> str | None:
        """The name to create; None if it exists and that is fine."""
        name = names.spelled(target.name, [*self.session.tables, *self.session.views])
        if name in self.session:
            if node.args.get("exists"):
                return None
            replaced = node.args.get("replace") and name in self.session.views
            if not replaced and name not in self.session._again:
                raise source.error(target, "E_NAME", f"the name {name} is taken", "choose another, or DROP it first")
        return name

    def _define(self, node: exp.Expr, source: Source) -> View:
        """WITH RECURSIVE a AS (...), b AS (...) and no query: views a and b; the last one is the answer."""
        self._refuse_in_transaction(node, source)
        clause = node.args["with_"]
        for cte in clause.expressions:
            name = names.spelled(cte.alias, [*self.session.tables, *self.session.views])
            if name in self.session and name not in self.session._again:
                raise source.error(
                    cte.args["alias"], "E_NAME", f"the name {name} is taken", "choose another, or DROP it"
                )
        for cte in clause.expressions:
            query = exp.Select(expressions=[exp.Star()], with_=clause.copy()).from_(exp.to_table(cte.alias))
            view = self._create_view(cte.alias, exp.Create(this=exp.to_table(cte.alias), expression=query), source)
        return view

    def _create_view(self, name: str, node: exp.Create, source: Source) -> View:
        if not isinstance(node.expression, QUERIES):
            raise source.refuse(node, "CREATE VIEW name AS is followed by a query")
        written = node.expression.copy()
        query, compiler = self._bound(node.expression, source, standing=True)
        columns = list(query.names)
        if isinstance(node.this, exp.Schema):
            given = [e.name for e in node.this.expressions]
            if len(given) != len(columns):
                raise source.error(
                    node.this, "E_WIDTH", f"the view has {len(columns)} columns, {len(given)} names are given"
                )
            columns = given
        for column in columns:
            if columns.count(column) > 1:
                raise source.error(
                    node.expression, "E_DUPLICATE", f"two columns of the view are called {column}", "name them with AS"
                )
        plain = joins.take(query.node, range(query.width))
        collection = self._collection(query, compiler, plain, columns)
        if compiler.by_size:
            compiler = Compiler(self.session, source, standing=True)
            compiler.by_text = True
            collection._meaning = joins.take(compiler.query(written, {}, None).node, range(query.width))
        if name in self.session.views and node.args.get("replace"):
            self.session._views[name].drop()
        how = self._how_to_join(plain, source)
        view = self.session.view(name, collection, plan=how)
        if how is not None and not self._asked(source):
            view._plan_why = choice.DIFFERENT
        return view

    def _create_table(self, name: str, node: exp.Create, source: Source) -> Table:
        if not isinstance(node.this, exp.Schema) or node.expression is not None:
            raise source.refuse(
                node, "CREATE TABLE lists its columns", "CREATE TABLE t (x int); then INSERT INTO t SELECT ..."
            )
        schema, key = self._columns(node.this, source)
        ttl = self._ttl(node, schema, source)
        if not isinstance(ttl, Expr):
            return self.session.table(name, schema, key=key or None, ttl=ttl)
        table = self.session.table(name, schema, key=key or None)
        self.session._clock.add(Expiring(self.session, table, ttl))
        return table

    def _columns(self, listed: exp.Schema, source: Source) -> tuple[dict[str, Any], list[str]]:
        """The types of listed columns, and which of them are the key."""
        schema: dict[str, Any] = {}
        key: list[str] = []
        for item in listed.expressions:
            if isinstance(item, exp.ColumnDef):
                if item.name in schema:
                    raise source.error(item, "E_DUPLICATE", f"two columns are called {item.name}")
                declared, is_key = self._column(item, source)
                schema[item.name] = declared
                key += [item.name] if is_key else []
            elif isinstance(item, exp.PrimaryKey):
                key += [e.name for e in item.expressions]
            else:
                raise source.refuse(item, f"{item.key} constraints are not supported: nothing would enforce them")
        for column in key:
            if column not in schema:
                raise source.error(
                    listed, "E_COLUMN", f"the key column {column} is not there", did_you_mean(column, schema)
                )
            schema[column] = schema[column].optional(False)
        return schema, key

    def _ttl(self, node: exp.Create, schema: dict[str, Any], source: Source) -> Expr | dt.timedelta | None:
        """TTL INTERVAL '5 minutes' (after a row came) or TTL ts + INTERVAL '5 minutes' (by the row's own time)."""
        properties = node.args.get("properties")
        given = None
        for item in properties.expressions if properties is not None else []:
            if not isinstance(item, exp.MergeTreeTTL) or len(item.expressions) != 1:
                raise source.refuse(item, f"{item.sql('postgres')} is not supported in CREATE TABLE")
            given = item.expressions[0]
            given = given.this if isinstance(given, exp.MergeTreeTTLAction) else given
        if given is None:
            return None
        if isinstance(given, exp.Interval):
            months, microseconds = constants.interval(given, source)
            if months or microseconds <= 0:
                raise source.refuse(given, "a time to live is some days, hours, minutes or seconds")
            return dt.timedelta(microseconds=microseconds)
        relation = Relation(plan.Table(-1, tuple(schema.values())), tuple(map(Field, schema)))
        bound = Scalars(Compiler(self.session, source, standing=True), Scope(relation, source), {}).bind(given)
        if bound.type.kind not in ("date", "timestamp"):
            raise source.error(given, "E_TYPE", f"a time to live is an interval or a timestamp, not {bound.type!r}")
        return functions.cast(bound, TIMESTAMP)

    def _column(self, item: exp.ColumnDef, source: Source) -> tuple[Any, bool]:
        if item.kind is None:
            raise source.error(item, "E_TYPE", f"the column {item.name} has no type")
        declared = names.data_type(item.kind, source).optional()
        is_key = False
        for constraint in item.args.get("constraints") or []:
            if isinstance(constraint.kind, exp.NotNullColumnConstraint):
                declared = declared.optional(bool(constraint.kind.args.get("allow_null")))
            elif isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
                is_key = True
            else:
                raise source.refuse(
                    item, f"{constraint.kind.key} is not supported in CREATE TABLE: nothing would enforce it"
                )
        return declared, is_key

    def on_drop(self, node: exp.Drop, source: Source) -> None:
        """DROP TABLE and DROP [MATERIALIZED] VIEW."""
        self._refuse_in_transaction(node, source)
        kind = str(node.args.get("kind")).upper()
        if kind not in ("TABLE", "VIEW"):
            raise source.refuse(node, f"DROP {kind} is not supported")
        there = self.session.tables if kind == "TABLE" else self.session.views
        for target in node.args.get("tables") or [node.this]:
            name = names.spelled(target.name, there)
            if name not in there:
                if node.args.get("exists"):
                    continue
                raise source.error(target, "E_TABLE", f"there is no {kind.lower()} {name}", did_you_mean(name, there))
            if kind == "VIEW":
                self.session._views[name].drop()
            else:
                self.session._tables[name].drop(cascade=bool(node.args.get("cascade")))

    # ------------------------------------------------------------------------------------ changing rows

    def _table(self, target: exp.Expr, source: Source) -> Table:
        name = names.spelled(target.name, [*self.session.tables, *self.session.views])
        found = self.session._tables.get(name) if name in self.session.tables else None
        if found is None:
            if name in self.session.views:
                raise source.error(
                    target, "E_TABLE", f"{name} is a view and cannot be changed", "change the tables it is made of"
                )
            hint = did_you_mean(name, self.session.tables)
            raise source.error(target, "E_TABLE", f"there is no table {name}", hint)
        return found

    def on_insert(self, node: exp.Insert, source: Source) -> None:
        """INSERT INTO t [(columns)] VALUES ... or SELECT ..."""
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        table = self._table(target, source)
        conflict = self._conflict(node, source)
        if node.args.get("returning"):
            raise source.refuse(node, "RETURNING is not supported")
        at = self._places(node, table, source)
        rows = self._constants(node.expression, table, at, source)
        if rows is None:
            query, compiler = self._bound(node.expression, source)
            self._refuse_pending(compiler.used, node, source)
            self._check_width(len(query.names), table, at, node, source)
            rows = self._answer(self._fitted(query, table, at, node, source), compiler).rows()
        columns = [dict(zip(at, row, strict=True)) for row in rows]
        full = [tuple(row.get(i) for i in range(len(table._columns))) for row in columns]
        self._insert(table, full, conflict, node, source)

    def _constants(self, node: exp.Expr, table: Table, at: Sequence[int], source: Source) -> list[Row] | None:
        """The rows of VALUES, if they are all constants: the usual case, which needs no dataflow."""
        if not isinstance(node, exp.Values) or node.find(exp.Query) is not None:
            return None
        compiler = Compiler(self.session, source)
        scalars = Scalars(compiler, Scope(Relation(_NOTHING, (HIDDEN,)), source), {})
        rows = []
        for row in node.expressions:
            items = row.expressions if isinstance(row, exp.Tuple) else [row]
            self._check_width(len(items), table, at, row, source)
            values = [self._fitted_value(scalars.bind(e), table, i, e, source) for e, i in zip(items, at, strict=True)]
            found = [constants.folded(v, self.session._interner) for v in values]
            if not all(isinstance(v, Constant) for v in found):
                return None
            rows.append(tuple(v.value for v in found if isinstance(v, Constant)))
        return rows

    def _check_width(self, given: int, table: Table, at: Sequence[int], node: exp.Expr, source: Source) -> None:
        if given != len(at):
            raise source.error(node, "E_WIDTH", f"{given} values for {len(at)} columns of {table._label}")

    def _conflict(self, node: exp.Insert, source: Source) -> str:
        """What to do with a key that exists: error, nothing or update."""
        clause = node.args.get("conflict")
        if clause is None:
            return "update" if str(node.args.get("alternative") or "").upper() == "REPLACE" else "error"
        action = clause.args.get("action")
        if action is not None and "NOTHING" in action.name.upper():
            return "nothing"
        raise source.refuse(
            node, "ON CONFLICT is only supported with DO NOTHING", "INSERT OR REPLACE replaces rows by key"
        )

    def _places(self, node: exp.Insert, table: Table, source: Source) -> list[int]:
        have = [c.name for c in table._columns]
        if not isinstance(node.this, exp.Schema):
            return list(range(len(have)))
        places = []
        for column in node.this.expressions:
            name = names.spelled(column.name, have)
            if name not in have:
                raise source.error(
                    column, "E_COLUMN", f"{table._label} has no column {column.name}", did_you_mean(column.name, have)
                )
            places.append(have.index(name))
        return places

    def _fitted(self, query: Query, table: Table, at: Sequence[int], node: exp.Expr, source: Source) -> Query:
        """The query's outputs with the types of the table's columns."""
        child = query.node
        given = child.exprs if isinstance(child, plan.Project) else joins.refs(child.types)
        exprs = [self._fitted_value(given[i], table, position, node, source) for i, position in enumerate(at)]
        below = child.child if isinstance(child, plan.Project) else child
        return Query(plan.Project(below, tuple(exprs)), query.names)

    def _fitted_value(self, value: Expr, table: Table, position: int, at: exp.Expr, source: Source) -> Expr:
        """A value as the table's column wants it: quoted constants are read, numbers become wider ones."""
        column = table._columns[position]
        if isinstance(value, Constant):
            if value.value is None:
                return Constant(column.type.optional(), None)
            if value.type.kind == "str" and column.type.kind not in ("str", "bytes"):
                return constants.text_as(value.value, column.type, at, source)
        same = value.type.kind == column.type.kind
        numbers = {value.type.kind, column.type.kind} <= functions.NUMBERS
        if not (same or numbers or functions.common_type((value.type, column.type)) is not None):
            what = f"{table._label}.{column.name} is {column.type!r}, the value is {value.type!r}"
            raise source.error(at, "E_TYPE", what, "cast it: CAST(x AS type)")
        if column.type.kind == "int" and not same:
            value = functions.call("round", value)
        return functions.cast(value, column.type)

    def _insert(self, table: Table, rows: list[Any], conflict: str, node: exp.Expr, source: Source) -> None:
        if table._key and conflict != "update":
            rows = self._new_keys(table, rows, conflict, node, source)
        if rows:
            table.insert(rows)
            self._mark(table)

    def _new_keys(self, table: Table, rows: list[Any], conflict: str, node: exp.Expr, source: Source) -> list[Any]:
        codes = table._codec.encode(rows)
        keys = [tuple(codes[k, i].item() for k in table._key) for i in range(len(rows))]
        there = {tuple(r[k] for k in table._key) for r in self.session._present(table, keys)}
        kept = []
        for row, key in zip(rows, keys, strict=True):
            if key not in there:
                there.add(key)
                kept.append(row)
            elif conflict == "error":
                shown = ", ".join(repr(row[k]) for k in table._key)
                raise InputError(
                    "E_KEY",
                    f"table {table._label!r} has a row with the key {shown} already",
                    "UPDATE it, or INSERT OR REPLACE",
                )
        return kept

    def _mark(self, table: Table) -> None:
        if self.transaction is not None:
            self.changed.add(table._label)

    def on_delete(self, node: exp.Delete, source: Source) -> None:
        """DELETE FROM t [WHERE ...]"""
        self._refuse_extras(node, source)
        table = self._table(node.this, source)
        rows = self._read_rows(exp.select("*").from_(node.this), node, source)
        if rows:
            table.delete(rows)
            self._mark(table)

    def on_update(self, node: exp.Update, source: Source) -> None:
        """UPDATE t SET column = ... [WHERE ...]"""
        self._refuse_extras(node, source)
        table = self._table(node.this, source)
        have = [c.name for c in table._columns]
        new: dict[int, exp.Expr] = {}
        for setting in node.expressions:
            column = setting.this
            name = names.spelled(column.name, have)
            if name not in have:
                raise source.error(
                    column, "E_COLUMN", f"{table._label} has no column {column.name}", did_you_mean(column.name, have)
                )
            new[have.index(name)] = setting.expression
        items: list[exp.Expr] = [exp.Star(), *new.values()]
        select = exp.Select(expressions=items).from_(node.this)
        width = len(have)
        rows = self._read_rows(select, node, source, table, list(new))
        old = [row[:width] for row in rows]
        places = {position: width + i for i, position in enumerate(new)}
        changed = [tuple(row[places.get(i, i)] for i in range(width)) for row in rows]
        if not rows:
            return
        with self.session.transaction():
            table.delete(old)
            self._insert(table, changed, "error", node, source)
        self._mark(table)

    def _read_rows(
        self,
        select: exp.Select,
        node: exp.Expr,
        source: Source,
        table: Table | None = None,
        assigned: Sequence[int] = (),
    ) -> list[Any]:
        where = node.args.get("where")
        if where is not None:
            select.set("where", where)
        query, compiler = self._bound(select, source)
        self._refuse_pending(compiler.used, node, source)
        if table is not None:
            query = self._fitted(query, table, [*range(len(table._columns)), *assigned], node, source)
        return self._answer(query, compiler).rows()

    def _refuse_extras(self, node: exp.Expr, source: Source) -> None:
        for arg, what in (("using", "USING"), ("from_", "FROM"), ("returning", "RETURNING"), ("limit", "LIMIT")):
            if node.args.get(arg):
                raise source.refuse(node, f"{what} is not supported in UPDATE and DELETE", "use a subquery in WHERE")

    def on_truncatetable(self, node: exp.TruncateTable, source: Source) -> None:
        """TRUNCATE t"""
        for target in node.expressions:
            table = self._table(target, source)
            table.clear()
            self._mark(table)

    # ------------------------------------------------------------------------------------ transactions

    def on_transaction(self, node: exp.Transaction, source: Source) -> None:
        """BEGIN"""
        if self.transaction is not None:
            raise source.error(node, "E_TRANSACTION", "a transaction is open already", "COMMIT or ROLLBACK it")
        self.transaction = self.session.transaction()
        self.transaction.__enter__()

    def on_commit(self, node: exp.Commit, source: Source) -> None:
        """COMMIT"""
        self._end(node, source, None)

    def on_rollback(self, node: exp.Rollback, source: Source) -> None:
        """ROLLBACK"""
        self._end(node, source, RuntimeError)

    def _end(self, node: exp.Expr, source: Source, failure: type[Exception] | None) -> None:
        if self.transaction is None:
            raise source.error(node, "E_TRANSACTION", "no transaction is open", "begin one with BEGIN")
        transaction, self.transaction = self.transaction, None
        self.changed.clear()
        transaction.__exit__(failure, None, None)

    def _refuse_in_transaction(self, node: exp.Expr, source: Source) -> None:
        if self.transaction is not None:
            raise source.error(
                node,
                "E_TRANSACTION",
                "tables and views cannot be created or dropped inside a transaction",
                "COMMIT first",
            )


_NOTHING = plan.Table(-1, (INT,))
"""A plan with types and no rows, for expressions that read no columns."""

_STATEMENTS = (
    "there are SELECT, CREATE TABLE, VIEW, SOURCE and SINK, DROP, INSERT, UPDATE, DELETE, TRUNCATE, EXPLAIN, SHOW, "
    "SET plan, SUBSCRIBE, RUN, BEGIN, COMMIT and ROLLBACK"
)

_COMMANDS: dict[str, Callable[[Statements, reading.Statement], Any]] = {
    "SHOW": Statements.show,
    "EXPLAIN": Statements.explain,
    "SUBSCRIBE": Statements.subscribe,
    "CREATE SOURCE": Statements.create_source,
    "CREATE SINK": Statements.create_sink,
    "RUN": Statements.run_pipeline,
}
"""Statements that sqlglot does not know, by their first word or two."""
