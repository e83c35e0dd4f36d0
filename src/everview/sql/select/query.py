"""Queries: SELECT, set operations, WITH, ORDER BY and LIMIT, as plans.

The order of work is SQL's: FROM and WHERE (`from_clause`), groups (`grouping`), SELECT, DISTINCT, then the order. An
ORDER BY without LIMIT means nothing for a view, which is a bag; with one it is a maintained top-k, ties broken by the
remaining columns. The columns that only the order needs are kept behind the others (`Query.width` says how many these
are), so that the answer to a SELECT can be sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.codes.digits import whole_number
from everview.codes.interner import Interner
from everview.dataflow.lending import is_guest
from everview.errors import did_you_mean
from everview.expr import common_types, functions
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan.nodes import ONE_ROW, Constant, Filter, Negate, Node, Project, Table, Threshold, TopK, Union
from everview.plan.sizes import Sizes
from everview.plan.windows import Window, WindowCall
from everview.session.core import core_of
from everview.session.names.estimates import estimates
from everview.sql.answers import files
from everview.sql.answers.parameters import Parameters
from everview.sql.clock import clock_columns
from everview.sql.ddl import defined, schemas
from everview.sql.rights import policies
from everview.sql.scalar import constants
from everview.sql.scalar.names import output_name
from everview.sql.scalar.scalars import Scalars, conjuncts, sort_keys
from everview.sql.select import dependent, outer_aggregates, recursion, stars, stream_windows, table_functions
from everview.sql.select.counts import ALL_ROWS, count
from everview.sql.select.from_clause import FromClause
from everview.sql.select.grouping import Grouped, aggregates_in, grouping_sets
from everview.sql.select.memberships import long_list
from everview.sql.select.scopes import HIDDEN_FIELD, Field, Outer, Relation, Scope
from everview.sql.select.subqueries import Subqueries
from everview.sql.select.table_functions import TableCall
from everview.sql.select.windows import Windows, narrow, place_alias, windows_in
from everview.sql.text import parts
from everview.sql.text.places import Source
from everview.types import INT, DataType

if TYPE_CHECKING:
    from everview.session.session import Session

Env = Mapping[str, "Relation | None"]
"""The WITH queries in sight by lower-case name; None: one whose columns are not known yet."""

CLAUSES = (
    "with_", "expressions", "distinct", "from_", "joins", "laterals",
    "where", "group", "having", "windows", "qualify", "order", "limit", "offset",
)  # fmt: skip
"""What a SELECT may have."""

SUFFIX_SETS = ("hive", "spark", "spark2", "databricks")
"""Dialects that have GROUP BY a, b GROUPING SETS (...), where the list only names the keys."""

WHOLE = ("with_", "order", "limit", "offset")
"""What a set operation has as a whole: where it stands, the chain of operations before it is a query of its own."""

ORDER_BY_SIZE_ROWS = 10_000
"""Rows from which the order of joins goes by sizes: below, it is the text's, so that plans can be foretold."""


@dataclass(frozen=True)
class Query:
    """A bound query: `context` columns, then outputs up to `width`, then columns only the order needs."""

    node: Node
    names: tuple[str, ...]
    context: int = 0
    order: tuple[tuple[int, bool], ...] = ()
    at_most_one: bool = False
    exactly_one: bool = False

    @property
    def width(self) -> int:
        """Columns without those for the order."""
        return self.context + len(self.names)

    def fields(self) -> tuple[Field, ...]:
        return (*[HIDDEN_FIELD] * self.context, *map(Field, self.names))

    def relation(self) -> Relation:
        """As a table of another query."""
        return Relation(joins.take(self.node, range(self.width)), self.fields())


class Compiler:
    """Binds the queries of one statement."""

    def __init__(self, session: Session, source: Source, standing: bool = False) -> None:
        self.session = session
        self.core = core_of(session)
        self.source = source
        self.standing = standing
        """Whether the answer is kept, so that now() moves."""
        self.parameters = source.parameters or Parameters()
        self.by_text = is_guest()
        """Whether joins are in the text's order whatever the sizes: so a definition is the same on any day."""
        self.by_size = False
        """Whether some joins were ordered by sizes."""
        self.target: exp.Expr | None = None
        """The table that a statement changes: a table whatever WITH calls so."""
        self.given: Mapping[int, Relation | None] = {}
        """WITH queries that change rows, by identity; see `everview.sql.dml.modifying`."""
        self.emitted = False
        """Whether there are windows that EMIT ON WINDOW CLOSE is about."""
        self.trusted = False
        """Whether it binds for the system itself, whoever acts: conditions of policies."""
        self.shared = False
        """Whether attributes that policies read are parameters, not constants."""
        self.claims: dict[str, Any] = {}
        """Attributes of whoever acts that the plan depends on, and their values."""
        self.command = "SELECT"
        """What is done to the rows of the target."""
        self.loop_depth = 0
        self.called: dict[str, None] = {}
        """Functions written in SQL that are called, in order."""
        self._marked: dict[int, exp.Expr] = {}
        """Statements whose calls of functions written in SQL are marked."""
        self.alone: dict[tuple[int, tuple[tuple[str, int], ...]], tuple[Query, exp.Expr, Env]] = {}
        """Subqueries that read nothing around them, by identity and by what the names in sight stand for: each level of
        a nest of them is asked for twice, and may be bound once."""
        self.inlining: tuple[str, ...] = ()
        """Those whose bodies are being bound."""
        self.used: dict[str, None] = {}
        """Tables and views read, in order."""
        self.files: dict[Table, files.FileTable] = {}
        """Files read, by the tables that stand for them."""

    @property
    def interner(self) -> Interner:
        return self.core.interner

    def sizes(self, leaves: Sequence[Node]) -> Sizes | None:
        """Estimates to order joins by; None if they would say nothing: two leaves, or nothing large among them."""
        if self.by_text or len(leaves) < 3 or max(map(self._sizes.rows, leaves)) < ORDER_BY_SIZE_ROWS:
            return None
        self.by_size = True
        return self._sizes

    @cached_property
    def _sizes(self) -> Sizes:
        return estimates(self.core)

    def scalars(self, scope: Scope, env: Env) -> Scalars:
        return Scalars(self, scope, env)

    def subqueries(self, scope: Scope, env: Env) -> Subqueries:
        return Subqueries(self, scope, env)

    def context(self, outer: Outer) -> Relation:
        """The distinct values of the outer columns that a subquery reads."""
        above = outer.scope.relation
        needed = above.node
        if outer.demand is not None and above.ref(outer.demand).type.nullable:
            needed = Filter(needed, functions.call("is_not_null", above.ref(outer.demand)))
        values = Project(needed, tuple(above.ref(p) for p in outer.positions))
        return Relation(Threshold(values, "distinct"), (HIDDEN_FIELD,) * len(outer.positions))

    def table(self, node: exp.Table, env: Env) -> Relation:
        """A WITH query, table or view by name."""
        if files.is_file(node, self.source):
            return files.relation(self, node)
        full = schemas.full_name(node)
        name = full.lower()
        if name in env and node is not self.target and node.args.get("db") is None:
            found = env[name]
            if found is None:
                raise recursion.Untyped(node)
            return found
        exact = schemas.found(self.core, schemas.written(node), _all_names(self.session))
        shown = None
        if not self.trusted and node is self.target:
            self.core.access.may_read(exact)
        elif not self.trusted:
            shown = self.core.access.readable(exact)
        if exact not in self.session:
            raise self.source.error(
                node,
                "E_TABLE",
                f"there is no table or view {full}",
                did_you_mean(name, [*env, *_all_names(self.session)]),
            )
        self.used[exact] = None
        collection = self.session[exact]
        relation = Relation(relation_of(collection).node, tuple(Field(c.name) for c in relation_of(collection).columns))
        found = policies.visible(self, exact, relation, self.command if node is self.target else "SELECT")
        return found if shown is None else policies.narrowed(found, shown)

    def windows(self, call_: TableCall, env: Env) -> Relation:
        """TUMBLE, HOP, CUMULATE and SESSION."""
        return stream_windows.relation(self, call_, env)

    # ---------------------------------------------------------------------------------------- queries

    def query(self, node: exp.Expr, env: Env, outer: Outer | None) -> Query:
        """Any query; with an outer scope its context comes first."""
        if id(root := node.root()) not in self._marked:
            self._marked[id(root)] = root
            defined.mark(root, self.core.catalog)
        if isinstance(node, exp.Subquery):
            self.source.only(node, "this", "alias", "joins", "with_", "limit", "order", "offset")
            return self._limited(node, self.query(node.this, self.with_clause(node, env), outer))
        if isinstance(node, exp.Select):
            return self._select(node, self.with_clause(node, env), outer)
        if isinstance(node, exp.SetOperation):
            return self._limited(node, self._set_operation(node, self.with_clause(node, env), outer))
        if isinstance(node, exp.Values):
            return self._limited(node, self._values(node, self.with_clause(node, env), outer))
        raise self.source.refuse(node, f"{node.key} is not a query")

    def with_clause(self, node: exp.Expr, env: Env) -> Env:
        """The names in sight with those of the query's WITH."""
        clause = node.args.get("with_")
        if clause is None:
            return env
        self._refuse_twice(clause)
        if clause.args.get("recursive"):
            return recursion.bind_all(self, clause.expressions, env)
        for cte in clause.expressions:
            if self.given.get(id(cte.this), True) is None:  # it changes rows and gives none
                parts.understood(cte.args["alias"])
                continue
            env = {**env, cte.alias.lower(): self.cte(cte, env)}
        return env

    def _refuse_twice(self, clause: exp.With) -> None:
        """Two queries of one WITH have two names."""
        seen: set[str] = set()
        for cte in clause.expressions:
            if cte.alias.lower() in seen:
                what = f"two queries of WITH are called {cte.alias}"
                raise self.source.error(cte.args["alias"], "E_DUPLICATE", what, "give one of them another name")
            seen.add(cte.alias.lower())

    def cte(self, cte: exp.CTE, env: Env) -> Relation:
        """One WITH query."""
        given = self.given.get(id(cte.this))
        if given is not None:
            return self.renamed(cte, given)
        return self.renamed(cte, self.derived(cte.this, env))

    def derived(self, node: exp.Expr, env: Env, parameterised: bool = False) -> Relation:
        """A query as a table of another; if it reads parameters, for all their values."""
        if parameterised or self.parameters.are_read(node, env):
            query = self.query(node, env, self.parameters.outer)
            return replace(query.relation(), parameters=self.parameters.names)
        return self.query(node, env, None).relation()

    def renamed(self, cte: exp.CTE, relation: Relation) -> Relation:
        """With the column names that the WITH gives."""
        columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or [])
        if len(columns) > relation.width:
            raise self.source.error(
                cte.args["alias"], "E_WIDTH", f"{cte.alias} has {relation.width} columns, not {len(columns)}"
            )
        return relation.called("", columns)

    def _values(self, node: exp.Values, env: Env, outer: Outer | None) -> Query:
        start = self.context(outer) if outer is not None and outer.positions else Relation(ONE_ROW, (HIDDEN_FIELD,))
        context = len(outer.positions) if outer is not None else 0
        bound: list[Node] = []
        for row in node.expressions:
            scope = Scope(start, self.source, outer)
            items = row.expressions if isinstance(row, exp.Tuple) else [row]
            exprs = [Scalars(self, scope, env).bind(e) for e in items]
            bound.append(Project(scope.relation.node, (*joins.refs(start.node.types)[:context], *exprs)))
        rows = self.unified(bound, node)
        names = tuple(f"column{i + 1}" for i in range(len(rows[0].types) - context))
        alias = node.args.get("alias")
        if alias is not None and not isinstance(node.parent, (exp.From, exp.Join)):  # VALUES (1, 2) AS t(a, b)
            parts.understood(alias)
            given = tuple(c.name for c in alias.columns)
            names = (*given, *names[len(given) :])
        return Query(_written(Union(tuple(rows))) if len(rows) > 1 else rows[0], names, context)

    # ----------------------------------------------------------------------------------------- SELECT

    def _select(self, select: exp.Select, env: Env, outer: Outer | None) -> Query:
        into = select.args.get("into")
        if into is not None and not into.meta.get("is_made"):
            raise self.source.refuse(into, "INTO makes a table of a whole statement", "CREATE TABLE t AS SELECT ...")
        self.source.only(select, *CLAUSES, "into")
        clause = FromClause.of(select, self, env, outer)
        if self.standing:
            clock_columns.follow(clause, select)
        where = select.args.get("where")
        for part in conjuncts(where.this if where else None):
            if long_list(part) is not None:
                clause.late.append(part)
            else:
                clause.where(part)
        clause.late = [p for p in clause.late if not self.subqueries(clause.scope(), env).join_early(p, clause)]
        single = clause.has_key()
        scope = Scope(clause.joined(), self.source, outer)
        scope.placed.update(clause.placed)
        for part in clause.late:
            self.subqueries(scope, env).keep_where(part)
        context = len(outer.positions) if outer is not None else 0
        gives_rows = self._unfold(select, scope, env)
        self._narrow_for_windows(select, scope, context)
        below = Scalars(self, scope, env)
        scalars, one = self._grouped(select, below, context, clause.keys)
        having = select.args.get("having")
        if having is not None and isinstance(scalars, Grouped):
            self._keep(having.this, scalars)
        self._windows(select, scalars, context)
        items = self._items(select, scalars)
        names = tuple(name for name, _ in items)
        one = one or (select.args.get("from_") is None and not gives_rows)
        query = Query(
            scalars.scope.relation.node,
            names,
            context,
            (),
            one or (single and not gives_rows),
            one and not (having or select.args.get("qualify")) and (where is None or isinstance(scalars, Grouped)),
        )
        return self._finish(select, scalars, query, items)

    def _unfold(self, select: exp.Select, scope: Scope, env: Env) -> bool:
        """A table function as an output: every row becomes as many as it gives. Whether there is one."""
        outputs = [i.this if isinstance(i, exp.Alias) else i for i in select.expressions]
        calls = [o for o in outputs if table_functions.is_one(o)]
        if not calls:
            return False
        if len(calls) > 1:
            raise self.source.refuse(calls[1], "only one function that gives rows can stand in SELECT", "use FROM")
        if any(select.args.get(a) for a in ("group", "having")) or any(
            True for i in select.expressions for _ in (*aggregates_in(i), *windows_in(i))
        ):
            raise self.source.refuse(
                calls[0], "a function that gives rows cannot stand beside groups, aggregates and windows", "use FROM"
            )
        call = table_functions.found(calls[0])
        assert call is not None
        made = table_functions.bound(call, Scalars(self, scope, env))
        if len(made.names) > 1:
            raise self.source.refuse(calls[0], "a function of several columns stands in FROM")
        scope.placed[id(calls[0])] = scope.append(made.applied(scope.relation.node))[-1]
        return True

    def _narrow_for_windows(self, select: exp.Select, scope: Scope, context: int) -> None:
        parts = [select.args.get(a) for a in ("group", "having", "order", "qualify")]
        nodes = [*select.expressions, *(select.args.get("windows") or []), *(p for p in parts if p is not None)]
        if any(True for n in nodes for _ in windows_in(n)):
            narrow(scope, nodes, context)

    def _windows(self, select: exp.Select, scalars: Scalars, context: int) -> None:
        """Make window calls columns, then apply QUALIFY."""
        order, qualify = select.args.get("order"), select.args.get("qualify")
        nodes = [*select.expressions, *(order.expressions if order else []), *([qualify.this] if qualify else [])]
        calls = [w for n in nodes for w in windows_in(n)]
        if calls or select.args.get("windows"):
            Windows(select, scalars, context).place(calls)
        if qualify is not None:
            place_alias(scalars.scope, qualify.this, select.expressions, scalars)
            self._keep(qualify.this, scalars)

    def _keep(self, condition: exp.Expr, scalars: Scalars) -> None:
        bound = scalars.condition(condition)
        scalars.scope.keep(bound)

    def _grouped(
        self, select: exp.Select, below: Scalars, context: int, unique: Sequence[frozenset[Field]]
    ) -> tuple[Scalars, bool]:
        """Expressions over groups if the query has any; whether it has exactly one group (per context)."""
        group, having, order = (select.args.get(a) for a in ("group", "having", "order"))
        nodes = [*select.expressions, *([having.this] if having else []), *(order.expressions if order else [])]
        qualify = select.args.get("qualify")
        nodes += [*(select.args.get("windows") or []), *([qualify.this] if qualify else [])]
        lent = outer_aggregates.belonging(self, nodes, below.scope, below.env)
        if group is None and having is None and not lent and not any(True for n in nodes for _ in aggregates_in(n)):
            return below, False
        if group is not None and group.args.get("grouping_sets") and self.source.dialect not in SUFFIX_SETS:
            at = group.args["grouping_sets"][0]
            hint = "GROUP BY a, GROUPING SETS (b, c)"
            raise self.source.error(at, "E_SYNTAX", "a comma is missing before GROUPING SETS", hint)
        keys, sets = grouping_sets(group)
        if group is not None and group.args.get("all") and not keys:  # GROUP BY ALL: by what is not aggregated
            items = [i.this if isinstance(i, exp.Alias) else i for i in select.expressions]
            keys = [i for i in items if not any(aggregates_in(i)) and not any(windows_in(i))]
            if any(self.is_star(k) for k in keys):
                raise self.source.error(group, "E_STAR", "GROUP BY ALL needs outputs with names, not *")
            keys = [k for k in keys if k.find(exp.Column) is not None]
            sets = [list(range(len(keys)))]
        by = [self._group_key(k, select, below) for k in keys]
        if len(sets) == 1:
            by += dependent.columns(self, by, [*select.expressions, *nodes], below, unique)
            sets = [list(range(len(by)))] if len(by) > len(keys) else sets
        scalars = Grouped(below, by, sets, context)
        scalars.collect(nodes)
        scalars.collect_outside(lent)
        one = not keys and len(sets) == 1
        scalars.reduce(one)
        scalars.lend()
        return scalars, one

    def _group_key(self, key: exp.Expr, select: exp.Select, below: Scalars) -> tuple[exp.Expr, Expr]:
        """An expression, the number of an output, or an output's alias if no column has that name."""
        if isinstance(key, exp.Literal) and not key.is_string:
            key = self._numbered(key, select.expressions)
            return key, below.bind(key)
        if isinstance(key, exp.Column) and not key.table and not below.scope.matches(key):
            for item in select.expressions:
                if isinstance(item, exp.Alias) and item.alias.lower() == key.name.lower():
                    return item.this, below.bind(item.this)
        if any(aggregates_in(key)):
            raise self.source.error(key, "E_AGGREGATE", "GROUP BY cannot hold aggregates", "use a derived table")
        return key, below.bind(key)

    def _numbered(self, key: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
        number = whole_number(key.name) if key.name.isdecimal() else 0
        if not 1 <= number <= len(items):
            raise self.source.error(key, "E_RANGE", f"there is no output number {key.name}", f"there are {len(items)}")
        item = items[number - 1]
        return item.this if isinstance(item, exp.Alias) else item

    def _items(self, select: exp.Select, scalars: Scalars) -> list[tuple[str, Expr]]:
        found: list[tuple[str, Expr]] = []
        for i, item in enumerate(select.expressions):
            if self.is_star(item):
                found += self.star(item, scalars)
            else:
                found.append((output_name(item, i), scalars.bind(item)))
        if not found:
            raise self.source.error(select, "E_EMPTY", "SELECT has no columns", "name at least one")
        return found

    @staticmethod
    def is_star(item: exp.Expr) -> bool:
        """Whether an output is * or t.*"""
        return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))

    def star(self, item: exp.Expr, scalars: Scalars) -> list[tuple[str, Expr]]:
        table = item.args["table"].name.lower() if isinstance(item, exp.Column) else ""
        relation = scalars.below.scope.relation if isinstance(scalars, Grouped) else scalars.scope.relation
        chosen = [
            i for i, f in enumerate(relation.fields) if f.name and (f.table.lower() == table if table else f.plain)
        ]
        if not chosen:
            tables = [f.table for f in relation.fields if f.table]
            hint = did_you_mean(table, tables) if table else "there is no FROM"
            raise self.source.error(item, "E_TABLE", f"there are no columns {item.sql('postgres')}", hint)
        found: list[tuple[str, Expr]] = [(relation.fields[i].name, relation.ref(i)) for i in chosen]
        if isinstance(scalars, Grouped):
            missing = next((name for name, e in found if e not in scalars.keys), None)
            if missing is not None:
                what = f"{missing}, one of *, is neither grouped by nor aggregated"
                raise self.source.error(item, "E_GROUP", what, "name the columns")
            found = [(name, scalars.scope.relation.ref(scalars.keys.index(e))) for name, e in found]
        return stars.changed(item.this if isinstance(item, exp.Column) else item, found, scalars)

    # --------------------------------------------------------------------- DISTINCT, ORDER BY and LIMIT

    def _finish(self, select: exp.Select, scalars: Scalars, query: Query, items: list[tuple[str, Expr]]) -> Query:
        outputs = [e for _, e in items]
        distinct = select.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        order = select.args.get("order")
        sorting: list[tuple[Expr, bool]] = []
        for ordered in order.expressions if order is not None else []:
            key = self.order_key(ordered.this, scalars, items)
            if distinct is not None and on is None and key not in outputs:
                raise self.source.error(ordered, "E_ORDER", "with DISTINCT, ORDER BY can only use outputs")
            sorting += sort_keys(key, ordered)
        firsts = [scalars.bind(e) for e in on.expressions] if on is not None else []
        context = joins.refs(scalars.scope.relation.node.types)[: query.context]
        if distinct is not None and on is None:
            outputs = [joins.canonical(e) for e in outputs]
        columns = list(dict.fromkeys([*(e for e, _ in sorting), *firsts]))
        extra = [e for e in columns if e not in outputs]
        exprs = [*context, *outputs, *extra]
        # subqueries in the outputs have joined their columns to the relation by now
        node: Node = Project(scalars.scope.relation.node, tuple(exprs))
        if distinct is not None and on is None:
            node = Threshold(node, "distinct")
        place = {e: i for i, e in reversed(list(enumerate(exprs))) if i >= query.context}
        ordering = tuple(
            (place[joins.canonical(e) if distinct is not None and on is None else e], down) for e, down in sorting
        )
        if on is not None:
            keys = (*range(query.context), *(place[e] for e in firsts))
            node = TopK(node, keys, ordering, 1)
        return self._top(select, replace(query, node=node, order=ordering))

    def order_key(self, key: exp.Expr, scalars: Scalars, items: list[tuple[str, Expr]]) -> Expr:
        """An output by number or name, else an expression over the input."""
        if isinstance(key, exp.Literal) and not key.is_string:
            self._numbered(key, [exp.Null()] * len(items))
            return items[whole_number(key.name) - 1][1]
        if isinstance(key, exp.Column) and not key.table:
            named = [e for name, e in items if name.lower() == key.name.lower()]
            if named:
                return named[0]
        return scalars.bind(key)

    def _limited(self, node: exp.Expr, query: Query) -> Query:
        """ORDER BY and LIMIT of a set operation or of brackets: outputs only."""
        order = node.args.get("order")
        if order is None:
            return self._top(node, query)
        sorting: list[tuple[Expr, bool]] = []
        types = query.node.types
        for ordered in order.expressions:
            key = ordered.this
            if isinstance(key, exp.Literal) and not key.is_string:
                self._numbered(key, [exp.Null()] * len(query.names))
                at = whole_number(key.name) - 1
            else:
                names = [n.lower() for n in query.names]
                if not isinstance(key, exp.Column) or key.table or key.name.lower() not in names:
                    raise self.source.error(
                        ordered,
                        "E_ORDER",
                        "ORDER BY after a set operation names outputs",
                        did_you_mean(key.name, query.names),
                    )
                at = names.index(key.name.lower())
            sorting += sort_keys(ColumnRef(types[query.context + at], query.context + at), ordered)
        refs = joins.refs(types)[: query.width]
        extra = [e for e in dict.fromkeys(e for e, _ in sorting) if e not in refs]
        exprs = [*refs, *extra]
        widened = Project(query.node, tuple(exprs)) if extra or len(types) > query.width else query.node
        ordering = tuple((exprs.index(e), down) for e, down in sorting)
        return self._top(node, replace(query, node=widened, order=ordering))

    def _top(self, node: exp.Expr, query: Query) -> Query:
        clause = node.args.get("limit")
        limit, offset = count(clause, self), count(node.args.get("offset"), self)
        if limit is None and offset is None:
            return query
        options = clause.args.get("limit_options") if clause is not None else None
        if clause is not None and options is not None and options.args.get("with_ties") and limit:
            return self._with_ties(clause, query, limit, offset or 0)
        top = TopK(
            query.node, tuple(range(query.context)), query.order, ALL_ROWS if limit is None else limit, offset or 0
        )
        few = limit is not None and limit <= 1
        return replace(query, node=top, at_most_one=query.at_most_one or few, exactly_one=False)

    def _with_ties(self, clause: exp.Expr, query: Query, limit: int, offset: int) -> Query:
        """The first rows and those that the order does not tell from the last of them: by their ranks."""
        if not query.order:
            raise self.source.error(clause, "E_ORDER", "WITH TIES needs ORDER BY")
        width = len(query.node.types)
        calls = (WindowCall("rank", INT), WindowCall("row_number", INT))
        ranked = Window(query.node, tuple(range(query.context)), query.order, calls)
        rank, number = ColumnRef(INT, width), ColumnRef(INT, width + 1)
        kept = [functions.call("le", rank, Literal(INT, limit + offset))]
        kept += [functions.call("gt", number, Literal(INT, offset))] if offset else []
        node = joins.take(Filter(ranked, functions.conjunction(kept)), range(width))
        return replace(query, node=node, at_most_one=False, exactly_one=False)

    # --------------------------------------------------------------------------------- set operations

    def _set_operation(self, node: exp.SetOperation, env: Env, outer: Outer | None) -> Query:
        """A chain of set operations, which sqlglot nests to the left: from its first branch on, without recursion."""
        chain = [node]
        while isinstance(chain[-1].this, exp.SetOperation) and not any(chain[-1].this.args.get(a) for a in WHOLE):
            chain.append(chain[-1].this)
        found = self._branch(chain[-1].this, env, outer)
        for operation in reversed(chain):
            self.source.only(operation, "this", "expression", "distinct", "by_name", *WHOLE)
            found = self._combined(operation, found, self._branch(operation.expression, env, outer))
        if isinstance(found, recursion.Untyped):
            raise found
        return found

    def _branch(self, node: exp.Expr, env: Env, outer: Outer | None) -> Query | recursion.Untyped:
        """One side of a set operation; what is missing, if its columns are those of a recursion that is still open."""
        try:
            return self.query(node, env, outer)
        except recursion.Untyped as missing:
            return missing

    def _combined(
        self, node: exp.SetOperation, left: Query | recursion.Untyped, right: Query | recursion.Untyped
    ) -> Query | recursion.Untyped:
        if isinstance(left, recursion.Untyped) or isinstance(right, recursion.Untyped):
            first = left if isinstance(right, recursion.Untyped) else right
            if isinstance(first, recursion.Untyped):
                return first
            plain = joins.take(first.node, range(first.width))
            return replace(first, node=plain, order=(), at_most_one=False, exactly_one=False)
        if node.args.get("by_name"):
            left, right = self._by_name(node, left, right)
        if left.width != right.width:
            raise self.source.error(
                node, "E_WIDTH", f"one side has {len(left.names)} columns, the other {len(right.names)}"
            )
        sides = self.unified([joins.take(q.node, range(q.width)) for q in (left, right)], node)
        return Query(combine(node, *sides), left.names, left.context)

    def _by_name(self, node: exp.SetOperation, left: Query, right: Query) -> tuple[Query, Query]:
        """UNION BY NAME: both sides with the columns of either, NULL where a side has none of that name."""
        if not isinstance(node, exp.Union):
            raise self.source.refuse(node, "only UNION goes BY NAME", "name the columns in the same order")
        for query in (left, right):
            for name in query.names:
                if [n.lower() for n in query.names].count(name.lower()) > 1:
                    raise self.source.error(node, "E_DUPLICATE", f"two columns are called {name}", "name them with AS")
        here = [n.lower() for n in left.names]
        names = (*left.names, *(n for n in right.names if n.lower() not in here))
        return _with_names(left, names), _with_names(right, names)

    def _read_as_others(self, rows: Sequence[Node], at: exp.Expr) -> Sequence[Node]:
        """Rows whose quoted constants are read as what other rows have there: VALUES (1), ('2')."""
        found = list(rows)
        for i in range(len(rows[0].types)):
            quoted = [_quoted(r, i) for r in rows]
            others = [r.types[i] for r, q in zip(rows, quoted, strict=True) if q is None and not _is_null(r, i)]
            kinds = {t.kind for t in others}
            if not others or kinds & {"str", "char", "bytes"} or not any(q is not None for q in quoted):
                continue
            common = common_types.common_type(others)
            for k, text in enumerate(quoted):
                row = found[k]
                if text is not None and common is not None and isinstance(row, Project):
                    is_number = common.kind in ("decimal", "numeric")
                    read = (constants.number_as if is_number else constants.text_as)(text, common, at, self.source)
                    found[k] = Project(row.child, (*row.exprs[:i], read, *row.exprs[i + 1 :]))
        return found

    def unified(self, rows: Sequence[Node], at: exp.Expr) -> list[Node]:
        """The same rows with types that all have in common."""
        if len({len(r.types) for r in rows}) > 1:
            raise self.source.error(at, "E_WIDTH", "the rows have different numbers of values")
        rows = self._read_as_others(rows, at)
        columns: list[DataType] = []
        for i, types in enumerate(zip(*(r.types for r in rows), strict=True)):
            known = [t for t, r in zip(types, rows, strict=True) if not _is_null(r, i)]
            known = known or [t for t in types if t.kind != "int"] or list(types)  # a NULL that was cast has a type
            common = common_types.common_type(known)
            if common is None:
                raise self.source.error(
                    at,
                    "E_TYPE",
                    f"column {i + 1} is {' and '.join(repr(t) for t in dict.fromkeys(types))}",
                    "cast one side",
                )
            columns.append(common)
        return [_cast_columns(r, columns) for r in rows]


def _quoted(node: Node, column: int) -> str | None:
    """The text of a column that is a quoted constant, which is read as what stands in other rows."""
    expr = node.exprs[column] if isinstance(node, Project) else None
    return expr.value if isinstance(expr, Literal) and expr.type.kind == "str" else None


def combine(node: exp.SetOperation, left: Node, right: Node) -> Node:
    """UNION, EXCEPT and INTERSECT, of bags (ALL) or of sets."""
    if isinstance(node, exp.Union):
        rows = (*left.inputs, right) if isinstance(left, Union) else (left, right)
        both = Union(rows)
        return Threshold(_canonical(both), "distinct") if node.args.get("distinct") else both
    left, right = _canonical(left), _canonical(right)
    if node.args.get("distinct"):
        left, right = Threshold(left, "distinct"), Threshold(right, "distinct")
    left_over = Threshold(Union((left, Negate(right))), "positive")
    return left_over if isinstance(node, exp.Except) else Union((left, Negate(left_over)))


def _with_names(query: Query, names: tuple[str, ...]) -> Query:
    """The query's outputs in the order of names, NULL for those that it does not have."""
    have = [n.lower() for n in query.names]
    refs = joins.refs(query.node.types)
    null = Literal(INT.optional(), None)
    chosen = [refs[query.context + have.index(n.lower())] if n.lower() in have else null for n in names]
    return Query(Project(query.node, (*refs[: query.context], *chosen)), names, query.context)


def _canonical(node: Node) -> Node:
    """Equal floats with equal codes."""
    exprs = tuple(joins.canonical(e) for e in joins.refs(node.types))
    return node if exprs == joins.refs(node.types) else Project(node, exprs)


def _written(rows: Union) -> Node:
    """The rows of VALUES: a constant if nothing in them has to be computed."""
    found: list[tuple[Any, ...]] = []
    for row in rows.inputs:
        if not isinstance(row, Project) or row.child != ONE_ROW:
            return rows
        values = [e for e in row.exprs if isinstance(e, Literal)]
        if len(values) < len(row.exprs):
            return rows
        found.append(tuple(e.value for e in values))
    return Constant(tuple(found), rows.types)


def _is_null(node: Node, column: int) -> bool:
    """Whether a column is the constant NULL, which fits every type."""
    if not isinstance(node, Project):
        return False
    expr = node.exprs[column]
    return isinstance(expr, Literal) and expr.value is None


def _cast_columns(node: Node, types: Sequence[DataType]) -> Node:
    if isinstance(node, Project):
        exprs = tuple(functions.cast(e, t) for e, t in zip(node.exprs, types, strict=True))
        return node if exprs == node.exprs else Project(node.child, exprs)
    refs = joins.refs(node.types)
    exprs = tuple(functions.cast(e, t) for e, t in zip(refs, types, strict=True))
    return node if exprs == refs else Project(node, exprs)


def _all_names(session: Session) -> list[str]:
    return [*session.tables, *session.views]
