"""Binds the queries of one statement: its settings, visible names, and dispatch to the other modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.codes.interner import Interner
from everview.dataflow.read_leases import is_guest
from everview.errors import did_you_mean
from everview.expr import functions
from everview.language.relation import relation_of
from everview.plan.nodes import Filter, Node, Project, Table, Threshold
from everview.plan.sizes import Sizes
from everview.session.core import core_of
from everview.session.names.estimates import estimates
from everview.sql.answers import files
from everview.sql.answers.parameters import Parameters
from everview.sql.ddl import schemas, sql_functions
from everview.sql.rights import policies
from everview.sql.scalar.scalars import Scalars
from everview.sql.select import (
    limits,
    recursion,
    select_statement,
    set_operations,
    stream_windows,
    values,
)
from everview.sql.select.query import Env, Query
from everview.sql.select.scopes import HIDDEN_FIELD, Field, Outer, Relation, Scope
from everview.sql.select.subqueries import Subqueries
from everview.sql.select.table_functions import TableCall
from everview.sql.text import consumed_parts
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.session.rights.principal import Principal
    from everview.session.session import Session

ORDER_BY_SIZE_ROWS = 10_000
"""Number of rows from which joins are ordered by size: below, textual order is used, so that plans are predictable."""


class Compiler:
    """Binds the queries of one statement."""

    def __init__(self, session: Session, source: Source, standing: bool = False) -> None:
        self.session = session
        self.core = core_of(session)
        self.source = source
        self.standing = standing
        """Whether the result is maintained, so that now() moves."""
        self.parameters = source.parameters or Parameters()
        self.by_text = is_guest()
        """Whether joins are in textual order whatever the sizes, so that a definition is stable."""
        self.by_size = False
        """Whether some joins were ordered by sizes."""
        self.target: exp.Expr | None = None
        """The target table of a statement: a table even if WITH uses its name."""
        self.given: Mapping[int, Relation | None] = {}
        """Data-modifying WITH queries, by identity; see `everview.sql.dml.modifying_ctes`."""
        self.emitted = False
        """Whether there are windows for EMIT ON WINDOW CLOSE."""
        self.trusted = False
        """Whether it binds for the system itself, ignoring the current user: conditions of policies."""
        self.shared = False
        """Whether attributes in policies are parameters, not constants."""
        self.claims: dict[str, Any] = {}
        """The current user's attributes that the plan depends on, with their values."""
        self.reader: Principal | None = None
        """In a policy's condition: whose rows it selects, which functions that it calls may ask."""
        self.stand_in: tuple[exp.Expr, Relation] | None = None
        """A table of the statement that stands for other rows: those that a policy is to admit."""
        self.clock_read = False
        """Whether now() is a constant in the plan, which therefore holds at this moment only."""
        self.command = "SELECT"
        """The command that changes the target's rows."""
        self.loop_depth = 0
        self.called: dict[str, None] = {}
        """Functions written in SQL that are called, in order."""
        self._marked: dict[int, exp.Expr] = {}
        """Statements whose calls of functions written in SQL are marked."""
        self.alone: dict[tuple[int, tuple[tuple[str, int], ...]], tuple[Query, exp.Expr, Env]] = {}
        """Uncorrelated subqueries, by identity and by the meaning of visible names: each nesting level is requested
        twice, but bound once."""
        self.inlining: tuple[str, ...] = ()
        """Those whose bodies are being bound."""
        self.used: dict[str, None] = {}
        """Tables and views read, in order."""
        self.decided_by: dict[str, None] = {}
        """Those that conditions of policies read."""
        self.asked_for: dict[str, None] = {}
        """Those that the query itself reads."""
        self.files: dict[Table, files.FileTable] = {}
        """Files read, by their placeholder tables."""

    @property
    def interner(self) -> Interner:
        return self.core.interner

    def sizes(self, leaves: Sequence[Node]) -> Sizes | None:
        """Estimates for ordering joins; None if they would not matter: two leaves, or nothing large among them."""
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
        if self.stand_in is not None and node is self.stand_in[0]:
            return self.stand_in[1]
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
        (self.decided_by if self.trusted else self.asked_for)[exact] = None
        present = self.core.attached.get(PRESENT, {}) if self.trusted else {}
        collection = self.session[present.get(exact, exact)]
        relation = Relation(relation_of(collection).node, tuple(Field(c.name) for c in relation_of(collection).columns))
        found = policies.visible(self, exact, relation, self.command if node is self.target else "SELECT")
        return found if shown is None else policies.narrowed(found, shown)

    def schema_of(self, node: exp.Table, env: Env) -> str:
        """The schema of a table or view, in lower case; none of a WITH query."""
        if node.name.lower() in env and node.args.get("db") is None:
            return ""
        exact = schemas.found(self.core, schemas.written(node), _all_names(self.session))
        return (exact.rpartition(".")[0] or schemas.PUBLIC).lower()

    def windows(self, call_: TableCall, env: Env) -> Relation:
        """TUMBLE, HOP, CUMULATE and SESSION."""
        return stream_windows.relation(self, call_, env)

    def query(self, node: exp.Expr, env: Env, outer: Outer | None) -> Query:
        """Any query; with an outer scope its context comes first."""
        if id(root := node.root()) not in self._marked:
            self._marked[id(root)] = root
            sql_functions.mark(root, self.core.catalog)
        if isinstance(node, exp.Subquery):
            self.source.only(node, "this", "alias", "joins", "with_", "limit", "order", "offset", "pivots")
            return limits.limited(self, node, self.query(node.this, self.with_clause(node, env), outer))
        if isinstance(node, exp.Select):
            return select_statement.bound(self, node, self.with_clause(node, env), outer)
        if isinstance(node, exp.SetOperation):
            made = set_operations.bound(self, node, self.with_clause(node, env), outer)
            return limits.limited(self, node, made)
        if isinstance(node, exp.Values):
            return limits.limited(self, node, values.bound(self, node, self.with_clause(node, env), outer))
        raise self.source.refuse(node, f"{node.key} is not a query")

    def with_clause(self, node: exp.Expr, env: Env) -> Env:
        """The visible names including the query's WITH."""
        clause = node.args.get("with_")
        if clause is None:
            return env
        self.source.only(clause, "expressions", "recursive")  # SEARCH and CYCLE add columns: before those are missed
        self._refuse_twice(clause)
        if clause.args.get("recursive"):
            return recursion.bind_all(self, clause.expressions, env)
        for cte in clause.expressions:
            if id(cte.this) in self.given:
                env = self.changed([cte], env)
            else:
                env = {**env, cte.alias.lower(): self.cte(cte, env)}
        return env

    def changed(self, ctes: Sequence[exp.CTE], env: Env) -> Env:
        """The visible names with the RETURNING of those WITH queries that change rows."""
        for cte in ctes:
            if id(cte.this) not in self.given:
                continue
            rows = self.given[id(cte.this)]
            if rows is None:  # it has no RETURNING
                consumed_parts.understood(cte.args["alias"])
            else:
                env = {**env, cte.alias.lower(): self.renamed(cte, rows)}
        return env

    def _refuse_twice(self, clause: exp.With) -> None:
        """Refuse two queries of one WITH with the same name."""
        seen: set[str] = set()
        for cte in clause.expressions:
            if cte.alias.lower() in seen:
                what = f"two queries of WITH are called {cte.alias}"
                raise self.source.error(cte.args["alias"], "E_DUPLICATE", what, "give one of them another name")
            seen.add(cte.alias.lower())

    def cte(self, cte: exp.CTE, env: Env) -> Relation:
        """One WITH query."""
        return self.renamed(cte, self.derived(cte.this, env))

    def derived(self, node: exp.Expr, env: Env, parameterised: bool = False) -> Relation:
        """A query as a table of another; if it reads parameters, for all their values."""
        if parameterised or self.parameters.are_read(node, env):
            query = self.query(node, env, self.parameters.outer)
            return replace(query.relation(), parameters=self.parameters.names)
        return self.query(node, env, None).relation()

    def renamed(self, cte: exp.CTE, relation: Relation) -> Relation:
        """With the column names of the WITH."""
        columns = tuple(c.name for c in cte.args["alias"].args.get("columns") or [])
        if len(columns) > relation.width:
            raise self.source.error(
                cte.args["alias"], "E_WIDTH", f"{cte.alias} has {relation.width} columns, not {len(columns)}"
            )
        return relation.called("", columns)


PRESENT = "present tables"
"""What is attached to a session about an earlier time: names of the tables that have what is there now, by the names
that policies call them.
"""


def _all_names(session: Session) -> list[str]:
    return [*session.tables, *session.views]
