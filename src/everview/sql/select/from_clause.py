"""FROM and WHERE: tables, derived tables, and joins of every kind.

Relations joined by comma, CROSS and INNER JOIN are collected as *leaves* with one list of conditions, and joined in a
chosen order (`everview.sql.select.join_order`). Outer joins are built at their position, because their conditions do
not commute with the rest.

Expressions are bound to the columns in textual order. The finished plan has them in that order again.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from everview.errors import PlanError
from everview.expr.functions import call, conjunction
from everview.expr.nodes import Call, ColumnRef, Expr
from everview.plan import joins
from everview.plan.nodes import ONE_ROW, Filter, Join, Node, Project, Table
from everview.session.clock.filters import Term
from everview.sql.answers import files
from everview.sql.answers.parameters import PARAMETER
from everview.sql.clock import temporal_tables, watermarks
from everview.sql.scalar.moment_forms import JAVA
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select import asof, demand, pivots, row_functions, table_functions, temporal_joins
from everview.sql.select.conditions import conjuncts, moved, outer_join, shifted, split
from everview.sql.select.join_order import ordered_join
from everview.sql.select.scopes import HIDDEN_FIELD, Field, Outer, Relation, Scope
from everview.sql.select.table_functions import Bound, TableCall
from everview.sql.text.dialects import DEFAULT
from everview.sql.text.error_positions import SqlError, has_query
from everview.sql.text.keywords import RESERVED

if TYPE_CHECKING:
    from everview.session.names.entries import FunctionMade
    from everview.sql.select.compiler import Compiler
    from everview.sql.select.query import Env


METHODS = ("", "NATURAL", "ASOF")

STREAMS = frozenset({"tumble", "hop", "cumulate", "session"})
"""Functions of a table in FROM; see `everview.sql.select.stream_windows`."""

SIDES = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


class Unfolded(NamedTuple):
    """A table function applied to rows, each of which is combined with its results."""

    child: Node
    made: Bound
    outer: bool


class FromClause:
    """The relations of a FROM and the conditions between them, growing join by join."""

    def __init__(self, compiler: Compiler, env: Env, outer: Outer | None) -> None:
        self.compiler = compiler
        self.env = env
        self.outer = outer
        self.source = compiler.source
        self.leaves: list[Relation] = []
        self.conditions: list[Expr] = []
        self.late: list[exp.Expr] = []
        """Conditions with subqueries, applied to the joined rows."""
        self.wanted: list[Node] = []
        """Further leaves that are not relations of the FROM: only the existence of a match matters."""
        self.keys: list[frozenset[Field]] = []
        """The key of each table that has one, by field names: it determines all of the table's columns."""
        self.placed: dict[int, Expr] = {}
        """Clock-dependent parts of the text that are columns, by identity."""
        self.terms: list[tuple[int, Term, exp.Expr]] = []
        """Conditions on now(): their leaf, over its columns, and their positions."""
        self.unfolded: dict[Node, Unfolded] = {}
        """The inputs of table functions, by their results."""
        self.comma = False
        self.only_context = False
        """Whether the only leaf is the context."""

    @classmethod
    def of(cls, select: exp.Select, compiler: Compiler, env: Env, outer: Outer | None) -> FromClause:
        """The FROM of a SELECT, without its WHERE; the context of a correlated subquery comes first."""
        clause = cls(compiler, env, outer)
        if outer is not None and outer.positions:
            clause.leaves.append(compiler.context(outer))
            clause.only_context = True
        source = select.args.get("from_")
        if source is not None:
            clause.begin(source.this)
            clause._joins(select.args.get("joins") or [])
        elif not clause.leaves:
            clause.leaves.append(Relation(ONE_ROW, (HIDDEN_FIELD,)))
        for lateral in select.args.get("laterals") or []:
            clause.lateral_view(lateral)
        return clause

    @property
    def relation(self) -> Relation:
        """The columns of all leaves in textual order (the plan is only valid for its types)."""
        if len(self.leaves) == 1:
            return self.leaves[0]
        node = self.leaves[0].node
        for leaf in self.leaves[1:]:
            node = Join(node, leaf.node, (), ())
        return Relation(node, tuple(f for leaf in self.leaves for f in leaf.fields))

    def scope(self) -> Scope:
        scope = Scope(self.relation, self.source, self.outer)
        scope.placed.update(self.placed)
        return scope

    def where(self, node: exp.Expr | None) -> None:
        """Add conditions to those of the joins."""
        for part in conjuncts(node):
            if has_query(part):
                self.late.append(part)
            elif self.compiler.standing and temporal_tables.mentions_now(part) and not self.placed:
                self._follow_clock(part)
            else:
                self.conditions.append(Scalars(self.compiler, self.scope(), self.env).condition(part))

    def _follow_clock(self, part: exp.Expr) -> None:
        """Assign a condition on now() to the leaf whose columns it names."""
        starts = [0]
        for leaf in self.leaves:
            starts.append(starts[-1] + len(leaf.fields))
        for term in temporal_tables.terms(part, Scalars(self.compiler, self.scope(), self.env)):
            columns = term.expr.columns()
            owner = bisect(starts, min(columns, default=0)) - 1
            if not columns or max(columns) >= starts[owner + 1]:
                raise self.source.refuse(part, "now() is compared with columns of several tables", temporal_tables.HINT)
            self.terms.append((owner, Term(shifted(term.expr, -starts[owner]), term.side), part))

    def widen(self, at: int, node: Node, more: int) -> None:
        """Give a leaf additional unnamed columns, shifting what is already bound."""
        end = sum(len(leaf.fields) for leaf in self.leaves[: at + 1])
        old = self.leaves[at]
        self.leaves[at] = replace(old, node=node, fields=(*old.fields, *[HIDDEN_FIELD] * more))

        def behind(expr: Expr) -> Expr:
            return moved(expr, {c: c if c < end else c + more for c in expr.columns()})

        self.conditions = [behind(c) for c in self.conditions]
        self.placed = {place: behind(expr) for place, expr in self.placed.items()}

    def has_key(self) -> bool:
        """Whether there is at most one row (for each context): the only table has a key, and it is given."""
        before = 1 if self.outer is not None and self.outer.positions else 0
        leaf = self.leaves[-1].node
        if len(self.leaves) != before + 1 or not isinstance(leaf, Table) or not leaf.key:
            return False
        start = sum(len(other.fields) for other in self.leaves[:-1])
        given = {column for c in self.conditions for column in _given(c, start)}
        return all(start + k in given for k in leaf.key)

    def joined(self) -> Relation:
        """Everything except the conditions with subqueries."""
        relation = self.relation
        nodes, conditions = self._before_functions()
        for i in dict.fromkeys(owner for owner, _, _ in self.terms):
            mine = [(term, part) for owner, term, part in self.terms if owner == i]
            nodes[i] = temporal_tables.passing(self.compiler, nodes[i], tuple(t for t, _ in mine), mine[0][1])
        nodes += self.wanted
        late = [c for c in conditions if self.outer is not None and self.outer.demand is not None]
        late = [c for c in late if demand.fails(c)]  # not for rows that were not requested
        node = ordered_join(nodes, [c for c in conditions if c not in late], self.compiler.sizes(nodes))
        node = Filter(node, conjunction(late)) if late else node
        return Relation(joins.take(node, range(len(relation.fields))), relation.fields)

    def _before_functions(self) -> tuple[list[Node], list[Expr]]:
        """The leaves, and the remaining conditions once those on the input of a table function are tested before it:
        the function may fail for other rows (the elements of JSON WHERE jsonb_typeof(j) = 'array').
        """
        nodes, left, start = [], self.conditions, 0
        for leaf in self.leaves:
            node = leaf.node
            if node in self.unfolded:
                mine = [
                    c for c in left if c.columns() and start <= min(c.columns()) and self._is_before(c, start, node)
                ]
                left = [c for c in left if c not in mine]
                node = self._filtered(node, [shifted(c, -start) for c in mine])
            nodes.append(node)
            start += len(leaf.fields)
        return nodes, left

    def _is_before(self, condition: Expr, start: int, node: Node) -> bool:
        return max(condition.columns()) < start + len(self.unfolded[node].child.types)

    def _filtered(self, node: Node, conditions: list[Expr]) -> Node:
        """The rows of a node for which conditions hold, tested before its table functions."""
        if not conditions:
            return node
        if node not in self.unfolded:
            return Filter(node, conjunction(conditions))
        child, made, outer = self.unfolded[node]
        before = [c for c in conditions if max(c.columns()) < len(child.types)]
        rows = made.applied(self._filtered(child, before), outer)
        behind = [c for c in conditions if c not in before]
        return Filter(rows, conjunction(behind)) if behind else rows

    def also(self, node: Node, conditions: Sequence[Expr]) -> bool:
        """Keep rows for which one of the node's distinct rows satisfies conditions (over the FROM's columns, then the
        node's), by joining it like any other leaf. Not if it would come last anyway, without sizes to decide.
        """
        if self.compiler.sizes([*(leaf.node for leaf in self.leaves), *self.wanted, node]) is None:
            return False
        width, by = len(self.relation.fields), sum(len(w.types) for w in self.wanted)
        self.conditions += [moved(e, {c: c if c < width else c + by for c in e.columns()}) for e in conditions]
        self.wanted.append(node)
        return True

    # -------------------------------------------------------------------------------- tables and joins

    def begin(self, node: exp.Expr) -> None:
        call_ = table_functions.found(node)
        if call_ is not None and call_.name not in STREAMS:
            self._function(call_, node, "inner", None, node)
        elif isinstance(node, exp.Lateral):
            self._lateral(node, "inner")
        else:
            self._add(self._keyed(self._factor(node)))
        self._joins(node.args.get("joins") or [])

    def _joins(self, joins_: Sequence[exp.Join]) -> None:
        """Joins in their order. What stands between commas belongs together, which matters for RIGHT and FULL."""
        at = 0
        while at < len(joins_):
            end = at + 1
            while end < len(joins_) and not _is_comma(joins_[end]):
                end += 1
            group = joins_[at:end]
            if _is_comma(group[0]) and any(j.side.upper() in ("RIGHT", "FULL") for j in group[1:]):
                self._beside(group)
            else:
                for join in group:
                    self._join(join)
            at = end

    def _beside(self, group: Sequence[exp.Join]) -> None:
        """One item of a list in FROM with its own joins: FROM a, b FULL JOIN c ON ..."""
        first = group[0].this
        if isinstance(first, exp.Lateral) or table_functions.found(first) is not None:
            for join in group:
                self._join(join)
            return
        self.source.only(group[0], "this")
        self._add(self._together(self._keyed(self._factor(first)), group[1:], first))

    def _keyed(self, leaf: Relation) -> Relation:
        """Note a table's key, for groups by it."""
        if isinstance(leaf.node, Table) and leaf.node.key and not leaf.hidden:
            self.keys.append(frozenset(leaf.fields[k] for k in leaf.node.key))
        return leaf

    def _add(self, leaf: Relation) -> None:
        """Add a leaf; if its rows belong to values of parameters, only those for the values in question."""
        root = self.compiler.parameters.outer
        if leaf.parameters and self.outer is root and len(self.leaves) == 1 and self.only_context:
            self.only_context = False
            self.leaves = [Relation(leaf.node, leaf.fields)]  # it has the values, in the place of the context
            return
        start = sum(len(other.fields) for other in self.leaves)
        self.leaves.append(Relation(leaf.node, leaf.fields))
        self.conditions += self._same_parameters(leaf, start)

    def _same_parameters(self, leaf: Relation, start: int) -> list[Expr]:
        """Conditions that a leaf whose columns begin at `start` belongs to the values in question."""
        if leaf.context:  # the context stands first, before all other columns
            here = self.relation if self.leaves else leaf
            pairs = [
                joins.same_keys(here.ref(i), ColumnRef(leaf.node.types[i], start + i)) for i in range(leaf.context)
            ]
            return [call("eq", a, b) for left, right in pairs for a, b in zip(left, right, strict=True)]
        if not leaf.parameters:
            return []
        scope = self.scope()
        return [
            call("eq", scope.column(exp.column(name, table=PARAMETER)), ColumnRef(leaf.node.types[i], start + i))
            for i, name in enumerate(leaf.parameters)
        ]

    def _join(self, join: exp.Join) -> None:
        self.source.only(join, "this", "side", "kind", "method", "on", "using", "match_condition")
        side, kind, method = join.side.upper(), join.kind.upper(), join.method.upper()
        if kind in ("SEMI", "ANTI") and side in ("", "LEFT") and not method:
            self._semi(join, kind == "SEMI")
            return
        if kind not in ("", "INNER", "OUTER", "CROSS") or side not in SIDES or method not in METHODS:
            what = " ".join(word for word in (method, side, kind) if word)
            raise self.source.refuse(join, f"{what} JOIN is not supported", "use [NOT] EXISTS, or USING")
        on, using = join.args.get("on"), join.args.get("using")
        if (kind == "OUTER" and not side) or (side and kind == "INNER"):
            raise self.source.error(join, "E_JOIN", "a join is INNER, or LEFT, RIGHT or FULL [OUTER]", "say which")
        if kind == "CROSS" and (on is not None or using):
            raise self.source.error(join, "E_JOIN", "a CROSS JOIN has no condition", "write JOIN, or use WHERE")
        how = SIDES[side]
        self.comma |= not (side or kind or method or on or using)
        call_ = table_functions.found(join.this)
        if call_ is not None and not using and method != "NATURAL" and call_.name not in STREAMS:
            self._function(call_, join.this, how, on, join)
            return
        if isinstance(join.this, exp.Lateral):
            self._lateral(join.this, "left" if join.this.args.get("cross_apply") is False else how, on)
            return
        joined = kind == "INNER" or (not kind and self.source.word_before(join.this) == "JOIN")
        if not (side or method or on or using) and joined:
            raise self.source.error(join, "E_JOIN", "an inner join needs ON or USING", "or write CROSS JOIN")
        version = temporal_joins.version_of(join.this)
        right = self._factor(join.this, versioned=version is not None)
        if version is None:  # rows of earlier versions may have one key and different values
            self._keyed(right)
        if version is not None:
            node = temporal_joins.joined(self, right, version, on, how, join)
            self._replace(Relation(node, self.relation.fields + right.fields))
            return
        if method == "ASOF":
            self._asof(right, on, using, how, join)
            return
        if method == "NATURAL":
            using = _common_names(self.relation, right)
        if how != "inner" and method != "NATURAL" and on is None and using is None:
            raise self.source.error(join, "E_JOIN", f"a {how} join needs ON or USING")
        if using and on is not None:
            raise self.source.error(join, "E_JOIN", "a join has ON or USING, not both")
        if using:
            self._using(right, [u if isinstance(u, str) else u.name for u in using], how, join)
        elif how == "inner":
            self._add(right)
            self.where(on)
        else:
            self._outer(right, on, how, join)

    def _semi(self, join: exp.Join, found: bool) -> None:
        """a LEFT SEMI JOIN b ON ...: the rows of a with a match; ANTI: without one."""
        on = join.args.get("on")
        what = "SEMI" if found else "ANTI"
        if on is None and not join.args.get("using") and self.source.dialect in JAVA:
            on = exp.Boolean(this=True)  # LEFT SEMI JOIN t: if there is a row at all
        if on is None and join.args.get("using"):
            on = self._equalities(join)
        if on is None:
            raise self.source.refuse(join, f"a {what} JOIN has ON", f"a {what} JOIN b ON a.k = b.k")
        joined = join.parent.args.get("joins") or [] if join.parent is not None else []
        later = joined[[id(j) for j in joined].index(id(join)) + 1 :] if any(j is join for j in joined) else []
        if any(j.side.upper() in ("RIGHT", "FULL") for j in later):
            raise self.source.refuse(join, f"a {what} JOIN before a RIGHT or FULL JOIN is not supported", "use EXISTS")
        rows = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=join.this), where=exp.Where(this=on))
        exists = exp.Exists(this=rows)
        self.where(exists if found else exp.Not(this=exists))

    def _equalities(self, join: exp.Join) -> exp.Expr | None:
        """The equalities of USING, if the tables of both sides have names."""
        names = [u.name for u in join.args["using"]]
        fields = [f for f in self.relation.fields if f.name.lower() in [n.lower() for n in names]]
        tables = {f.table for f in fields}
        right = join.this.alias_or_name
        if len(fields) != len(names) or len(tables) != 1 or "" in tables or not right or right in tables:
            return None
        (left,) = tables
        return exp.and_(*(exp.EQ(this=exp.column(n, left), expression=exp.column(n, right)) for n in names))

    def _function(self, call_: TableCall, node: exp.Expr, how: str, on: exp.Expr | None, at: exp.Expr) -> None:
        """A table function: a leaf if it is uncorrelated, else applied to what is joined so far."""
        written = row_functions.found(call_, self.compiler)
        if written is not None:
            self._written(written, call_, node, how, on)
            return
        if isinstance(node, exp.Lateral):
            self.source.only(node, "this", "alias", "ordinality", "joins", "view", "outer")
        else:
            self.source.only(node, "this", "expressions", "alias", "ordinality", "offset", "joins")
        reads = any(True for a in call_.args for _ in a.find_all(exp.Column, exp.Parameter, exp.Query))
        if reads and self.leaves:
            self._applied(call_, node, how, on, at)
            return
        alone = Scope(Relation(ONE_ROW, (HIDDEN_FIELD,)), self.source, self.outer)
        made = table_functions.bound(call_, Scalars(self.compiler, alone, self.env))
        rows = made.applied(ONE_ROW)
        right = Relation(joins.take(rows, range(1, len(rows.types))), self._called(made, call_, node))
        if how == "inner":
            self._add(right)
            self.where(on)
        elif on is None:
            raise self.source.error(at, "E_JOIN", f"a {how} join needs ON or USING")
        else:
            self._outer(right, on, how, at)

    def _written(self, made: FunctionMade, call_: TableCall, node: exp.Expr, how: str, on: exp.Expr | None) -> None:
        """A function of SQL that gives rows: a LATERAL query."""
        query = row_functions.query(made, call_, node, self.compiler)
        plain = how == "inner"
        with row_functions.inside(made, call_, self.compiler):
            self._lateral(query, how, None if plain else on)
        if plain:
            self.where(on)

    def _applied(self, call_: TableCall, node: exp.Expr, how: str, on: exp.Expr | None, at: exp.Expr) -> None:
        """A table function of columns: every joined row is combined with its results."""
        if how not in ("inner", "left"):
            what = f"a {how} join with a function of columns before it is not supported"
            raise self.source.refuse(at, what, "exchange the sides")
        self.settle()
        conditional = _says_something(on)
        padded = how == "left" and not conditional
        scope = Scope(self.joined(), self.source, self.outer)
        made = table_functions.bound(call_, Scalars(self.compiler, scope, self.env))
        rows = made.applied(scope.relation.node, padded)
        found = Relation(rows, (*scope.relation.fields, *self._called(made, call_, node)))
        self.only_context = False
        if how == "left" and conditional:
            self._replace(self._with_unmatched(scope.relation, found, on))
            return
        self.unfolded[rows] = Unfolded(scope.relation.node, made, padded)
        self._replace(found)
        if conditional:
            self.where(on)

    def _called(self, made: Bound, call_: TableCall, node: exp.Expr) -> tuple[Field, ...]:
        """A function's columns: for single values, the alias is also the column's name."""
        alias = node.args.get("alias")
        if isinstance(alias, exp.TableAlias):
            self._check_alias(alias)
        name = alias.name if alias is not None and alias.name else call_.name
        columns = tuple(c.name for c in (alias.args.get("columns") or [])) if alias is not None else ()
        if len(columns) > len(made.names):
            raise self.source.error(alias, "E_WIDTH", f"{name} has {len(made.names)} columns, not {len(columns)}")
        if not columns and made.function.columns == 1 and call_.name != "explode":
            columns = (name,)
        return tuple(Field(n, name) for n in (*columns, *made.names[len(columns) :]))

    def _factor(self, node: exp.Expr, versioned: bool = False) -> Relation:
        if not versioned and temporal_joins.version_of(node) is not None:
            raise self.source.refuse(
                node,
                "FOR SYSTEM_TIME AS OF is for the table that a JOIN names",
                "SELECT ... AS OF 17 is for a whole query",
            )
        known = (
            "this",
            "db",
            "alias",
            "joins",
            "with_",
            "limit",
            "order",
            "offset",
            "expressions",
            "version",
            "pivots",
            "only",
        )
        self.source.only(node, *known)
        if isinstance(node, exp.Table):
            call_ = table_functions.found(node)
            if call_ is not None and call_.name in STREAMS and not call_.numbered:
                made = self.compiler.windows(call_, self.env).called(call_.name)
                return self._inner_joins(node, self._aliased(made, node))
            if not isinstance(node.this, exp.Identifier):
                what = self.source.written(node.this)
                hint = "SELECT ... FROM 'file.parquet'" if what.lower().startswith("read_") else "use a derived table"
                raise self.source.refuse(node, f"the table function {what} is not supported here", hint)
            relation = self.compiler.table(node, self.env)
            if self.compiler.standing and self.source.notes.emits_rows:
                relation = watermarks.passed(self.compiler, relation, node)
            spec = self.source.notes.windows.get(node.this.meta.get("start", -1))
            if spec is not None:
                relation = temporal_tables.window(self.compiler, node, relation, spec)
            if not files.is_file(node, self.source):
                relation = relation.called(node.name, schema=self.compiler.schema_of(node, self.env))
            return self._inner_joins(node, self._pivoted(self._aliased(relation, node), node))
        if isinstance(node, exp.Subquery) and _holds_joins(node):
            self.source.only(node, "this", "alias", "joins")
            inside = self._factor(node.this)
            return self._inner_joins(node, self._aliased(visible(inside), node) if node.alias else inside)
        if isinstance(node, (exp.Subquery, exp.Values)):
            return self._inner_joins(node, self._pivoted(self._aliased(self._derived(node), node), node))
        raise self.source.refuse(node, f"{node.key} is not supported in FROM")

    def _pivoted(self, relation: Relation, node: exp.Expr) -> Relation:
        for pivot in node.args.get("pivots") or []:
            relation = pivots.applied(self.compiler, relation, pivot, self.env)
        return relation

    def _derived(self, node: exp.Expr) -> Relation:
        """A query in FROM. If it reads an outer query, it has a context too."""
        outer, compiler = self.outer, self.compiler
        if outer is None or outer is compiler.parameters.outer:
            return compiler.derived(node, self.env)
        if outer.demand is None:
            try:
                return compiler.derived(node, self.env)
            except SqlError as error:
                if error.code not in ("E_COLUMN", "E_TABLE"):
                    raise
        query = compiler.query(node, self.env, outer)
        return replace(query.relation(), context=len(outer.positions))

    def _inner_joins(self, node: exp.Expr, first: Relation) -> Relation:
        """Joins that belong to one item of FROM."""
        return self._together(first, node.args.get("joins") or [], node)

    def _together(self, first: Relation, more: Sequence[exp.Join], at: exp.Expr) -> Relation:
        """A relation with joins of its own."""
        if not more:
            return first
        if first.context:
            raise self.source.refuse(at, "a query that reads the one around it is not supported inside parentheses")
        clause = FromClause(self.compiler, self.env, None)
        clause.leaves.append(first)
        clause._joins(more)
        clause.settle()
        return clause.joined()

    def _aliased(self, relation: Relation, node: exp.Expr) -> Relation:
        alias = node.args.get("alias")
        if alias is None or not alias.name:
            return relation
        self._check_alias(alias)
        columns = tuple(c.name for c in alias.args.get("columns") or [])
        if len(columns) > relation.width:
            raise self.source.error(alias, "E_WIDTH", f"{alias.name} has {relation.width} columns, not {len(columns)}")
        return relation.called(alias.name, columns)

    def _check_alias(self, alias: exp.TableAlias) -> None:
        """Refuse keywords as names of tables, as PostgreSQL does: the parser takes ANY for one in `r ANY JOIN s`."""
        name = alias.this
        for column in alias.args.get("columns") or []:
            if not column.args.get("quoted") and not column.name.isidentifier():  # the parser takes numbers for names
                raise self.source.error(column, "E_SYNTAX", f"{column.name} is not expected here", "name a column")
        if self.source.dialect != DEFAULT or not isinstance(name, exp.Identifier) or name.args.get("quoted"):
            return
        if name.name.upper() in RESERVED or not name.name.isidentifier():
            what, hint = f"{name.name} is not expected here", f'a table may be called "{name.name}", in quotes'
            raise self.source.error(name, "E_SYNTAX", what, hint)

    def lateral_view(self, node: exp.Lateral) -> None:
        """LATERAL VIEW [OUTER] explode(a) t AS x, as Hive and Spark write it behind the joins."""
        call_ = table_functions.found(node)
        if call_ is None or call_.name in STREAMS or not node.args.get("view"):
            raise self.source.refuse(
                node, "LATERAL VIEW must be followed by a function that returns rows", "explode(array)"
            )
        self._function(replace(call_, outer=call_.outer or bool(node.args.get("outer"))), node, "inner", None, node)

    def _lateral(self, node: exp.Lateral, how: str, on: exp.Expr | None = None) -> None:
        if not isinstance(node.this, exp.Subquery):
            raise self.source.refuse(node, "LATERAL is followed by a query in parentheses")
        if not self.leaves or how in ("right", "full"):  # nothing before it can be read
            relation = self._aliased(self.compiler.query(node.this.this, self.env, None).relation(), node)
            if self.leaves:
                self._outer(relation, on, how, node)
            else:
                self.leaves.append(relation)
            return
        self.settle()
        conditional = _says_something(on)
        scope = Scope(self.joined(), self.source, self.outer)
        width = len(scope.relation.fields)
        query, positions = self.compiler.subqueries(scope, self.env).bound(node.this.this, always=True)
        right = joins.take(query.node, range(query.width))
        joined = self.compiler.subqueries(scope, self.env).beside(
            right, positions, "left" if how == "left" and not conditional else "inner"
        )
        kept = joins.take(joined, [*range(width), *range(width + len(positions), len(joined.types))])
        fields = self._aliased(Relation(right, query.fields(), context=len(positions)), node).fields[len(positions) :]
        found = Relation(kept, (*scope.relation.fields, *fields))
        if how == "left" and conditional:
            self._replace(self._with_unmatched(scope.relation, found, on))
            return
        self._replace(found)
        if conditional:
            self.where(on)

    def _with_unmatched(self, left: Relation, pairs: Relation, on: exp.Expr | None) -> Relation:
        """A left join: the pairs for which a condition holds, and the rows of the left that are in none of them."""
        matched = Scope(pairs, self.source, self.outer)
        for part in conjuncts(on):
            self.compiler.subqueries(matched, self.env).keep_where(part)
        rows = joins.take(matched.relation.node, range(len(pairs.fields)))
        right = joins.take(pairs.node, range(len(left.fields), len(pairs.fields)))
        return Relation(joins.completed(left.node, right, rows, "left"), pairs.fields)

    def settle(self) -> None:
        """Apply the conditions with subqueries to what is joined so far, instead of at the end."""
        if not self.late:
            return
        late, self.late = self.late, []
        scope = Scope(self.joined(), self.source, self.outer)
        fields = scope.relation.fields
        for part in late:
            self.compiler.subqueries(scope, self.env).keep_where(part)
        self._replace(Relation(joins.take(scope.relation.node, range(len(fields))), fields))

    # --------------------------------------------------------------------------- joins where they stand

    def _replace(self, relation: Relation) -> None:
        """Replace all leaves by one."""
        self.leaves, self.conditions, self.terms = [relation], [], []

    def _outer(self, right: Relation, on: exp.Expr | None, how: str, at: exp.Expr) -> None:
        self._check_sides(how, at)
        left = self.joined()
        both = Relation(Join(left.node, right.node, (), ()), left.fields + right.fields)
        scope = Scope(both, self.source, self.outer)
        asked = [part for part in conjuncts(on) if has_query(part)]
        plain = [part for part in conjuncts(on) if not has_query(part)]
        parts = [Scalars(self.compiler, scope, self.env).condition(part) for part in plain]
        parts += self._same_parameters(right, len(left.fields))
        node = outer_join(left.node, right.node, parts, "inner" if asked else how)
        if asked:
            pairs = Scope(Relation(node, both.fields), self.source, self.outer)
            for part in asked:
                self.compiler.subqueries(pairs, self.env).keep_where(part)
            matched = joins.take(pairs.relation.node, range(len(both.fields)))
            node = joins.completed(left.node, right.node, matched, how)  # type: ignore[arg-type]
        self._replace(Relation(node, both.fields))

    def _asof(
        self, right: Relation, on: exp.Expr | None, using: Sequence[exp.Expr] | None, how: str, at: exp.Join
    ) -> None:
        """ASOF JOIN: of the partners by equal keys, the one whose time is nearest. With MATCH_CONDITION (a >= b), as
        Snowflake and Calcite have it, the keys alone stand in ON or USING."""
        match = at.args.get("match_condition")
        keys = (on is not None) + bool(using)
        if how not in ("inner", "left") or keys > 1 or not (keys or match):
            raise self.source.refuse(at, "an ASOF join is an inner or left one with ON or USING")
        self.settle()
        left = self.joined()
        both = Relation(Join(left.node, right.node, (), ()), left.fields + right.fields)
        scope, width = Scope(both, self.source, self.outer), len(left.fields)
        if using:
            pairs = [self._named_once(left, right, u.name, at) for u in using]
            sides = [(left.ref(a), ColumnRef(right.node.types[b], width + b)) for a, b in pairs]
            conditions = [call("eq", a, b) for a, b in sides[:-1]]
            conditions.append(call("eq" if match is not None else "ge", *sides[-1]))
        else:
            conditions = [Scalars(self.compiler, scope, self.env).condition(part) for part in conjuncts(on)]
        conditions += [Scalars(self.compiler, scope, self.env).condition(part) for part in conjuncts(match)]
        node = asof.joined(left.node, right.node, conditions, how, self._same_parameters(right, width), split)
        if node is None:
            raise self.source.error(
                on or at, "E_JOIN", "an ASOF join has equalities and one <, <=, > or >= between both sides"
            )
        fields = list(both.fields)
        if using:  # those of the left stand for both
            hidden = {width + b for _, b in pairs}
            fields = [replace(f, plain=f.plain and i not in hidden) for i, f in enumerate(fields)]
        self._replace(Relation(node, tuple(fields)))

    def _check_sides(self, how: str, at: exp.Expr) -> None:
        if how in ("right", "full"):
            self.settle()
            if self.outer is not None and self.outer.positions:
                raise self.source.refuse(
                    at, f"a {how} join in a correlated subquery is not supported", "turn it into a LEFT JOIN"
                )
            if self.comma:
                raise self.source.refuse(
                    at, f"a {how} join after a comma is not supported", "write CROSS JOIN and parentheses"
                )

    def _using(self, right: Relation, names: Sequence[str], how: str, at: exp.Join) -> None:
        """Columns of USING appear once, before all others; both are still accessible with their tables' names."""
        self._check_sides(how, at)
        left = self.joined()
        width = len(left.fields)
        pairs = [self._named_once(left, right, n, at) for n in names]
        equal = [
            self._equal(left.ref(a), ColumnRef(right.node.types[b], width + b), n, at)
            for (a, b), n in zip(pairs, names, strict=True)
        ]
        equal += self._same_parameters(right, width)
        node = outer_join(left.node, right.node, equal, how)
        refs = joins.refs(node.types)
        context = len(self.outer.positions) if self.outer is not None else 0
        merged = [_merged(refs[a], refs[width + b], how) for a, b in pairs]
        used = {a for a, _ in pairs} | {width + b for _, b in pairs}
        fields = [replace(f, plain=f.plain and i not in used) for i, f in enumerate(left.fields + right.fields)]
        new = [Field(left.fields[a].name) for a, _ in pairs]
        node = Project(node, (*refs[:context], *merged, *refs[context:]))
        self._replace(Relation(node, (*fields[:context], *new, *fields[context:])))

    def _named_once(self, left: Relation, right: Relation, name: str, at: exp.Join) -> tuple[int, int]:
        column = exp.column(name)
        found = [Scope(r, self.source).matches(column) for r in (left, right)]
        for positions, side in zip(found, ("left", "right"), strict=True):
            if len(positions) != 1:
                what = "is not a column" if not positions else "is more than one column"
                raise self.source.error(at, "E_COLUMN", f"{name} {what} of the {side} side of the join")
        return found[0][0], found[1][0]

    def _equal(self, a: Expr, b: Expr, name: str, at: exp.Join) -> Expr:
        try:
            return call("eq", a, b)
        except PlanError:
            raise self.source.error(
                at, "E_TYPE", f"{name} is {in_words(a.type)} on one side and {in_words(b.type)} on the other"
            ) from None


def _is_comma(join: exp.Join) -> bool:
    return not (join.side or join.kind or join.method or join.args.get("on") or join.args.get("using"))


def _says_something(on: exp.Expr | None) -> bool:
    """Whether a condition is more than ON TRUE."""
    return on is not None and not (isinstance(on, exp.Boolean) and on.this)


def _given(condition: Expr, start: int) -> Iterator[int]:
    """The column from `start` on that an equality equates with earlier columns or constants."""
    if isinstance(condition, Call) and condition.op == "eq":
        for one, other in (condition.args, condition.args[::-1]):
            if isinstance(one, ColumnRef) and one.index >= start and max(other.columns(), default=-1) < start:
                yield one.index


def _holds_joins(node: exp.Subquery) -> bool:
    """Whether parentheses in FROM hold tables and joins, not a query."""
    inner = node.this
    if isinstance(inner, exp.Subquery):
        return bool(inner.alias or inner.args.get("joins")) or _holds_joins(inner)
    return isinstance(inner, exp.Table)


def visible(relation: Relation) -> Relation:
    """Without the columns that are only accessible with their tables' names: the expansion of *."""
    kept = [i for i, f in enumerate(relation.fields) if (f.plain and f.starred) or i < relation.hidden]
    fields = tuple(relation.fields[i] for i in kept)
    return replace(relation, node=joins.take(relation.node, kept), fields=fields)


def _common_names(left: Relation, right: Relation) -> list[str]:
    there = {f.name.lower() for f in right.fields if f.plain and f.starred}
    return list(
        dict.fromkeys(f.name for f in left.fields if f.plain and f.starred and f.name and f.name.lower() in there)
    )


def _merged(left: Expr, right: Expr, how: str) -> Expr:
    if how == "full":
        return call("coalesce", left, right)
    return right if how == "right" else left
