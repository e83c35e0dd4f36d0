"""The declarations of CREATE TABLE and ALTER TABLE: columns, keys, defaults and constraints.

    id serial PRIMARY KEY, price numeric(10,2) NOT NULL DEFAULT 0 CHECK (price >= 0), UNIQUE (name, shop),
    FOREIGN KEY (shop) REFERENCES shops (id) ON DELETE CASCADE, total numeric GENERATED ALWAYS AS (price * 2) STORED

Parsing yields a `Declared`, which changes nothing; `Declared.keep` then adds the rest to an existing table. For
enforcement of constraints see `everview.session.changes.constraints`; for missing values
`everview.session.changes.defaults`. Default names are PostgreSQL's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.limits import INTEGER, in_plans
from everview.errors import did_you_mean
from everview.expr import functions
from everview.expr.nodes import ColumnRef, Expr
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.changes.constraints import shown_columns
from everview.session.changes.defaults import ALWAYS, DEFAULT, IDENTITY, IDENTITY_ALWAYS, default_text, parsed_default
from everview.session.clock.lifetimes import ArrivalTTL
from everview.session.names.constraint_rules import (
    CASCADE,
    CHECK,
    FOREIGN_KEY,
    NO_ACTION,
    SET_DEFAULT,
    SET_NULL,
    UNIQUE,
    Rule,
)
from everview.session.names.entries import Commented, DefaultSet, SequenceMade
from everview.session.table import Table
from everview.sql.ddl import domains, schemas, sequences
from everview.sql.dml import omitted_columns
from everview.sql.scalar import names
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select.compiler import Compiler
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.text import consumed_parts, keywords
from everview.sql.text.error_positions import Source, has_query, offset_of
from everview.types import INT, TIMESTAMP, DataType

if TYPE_CHECKING:
    from everview.sql.statements import Statements

SERIALS = {"SERIAL": (1, 2**31 - 1), "BIGSERIAL": (1, 2**63 - 1), "SMALLSERIAL": (1, 2**15 - 1)}

ACTIONS = {
    "NO ACTION": NO_ACTION,
    "RESTRICT": NO_ACTION,
    "CASCADE": CASCADE,
    "SET NULL": SET_NULL,
    "SET DEFAULT": SET_DEFAULT,
}

_IGNORED = ("NOT DEFERRABLE", "DEFERRABLE", "INITIALLY IMMEDIATE", "INITIALLY DEFERRED", "MATCH SIMPLE")
"""Clauses of a reference that are the default, or handled elsewhere"""


@dataclass
class Wanted:
    """A declared constraint: its rule, and for CHECK the condition over the table's columns."""

    rule: Rule
    condition: Expr | None = None


@dataclass
class Declared:
    """The declarations of a table."""

    label: str
    schema: dict[str, DataType] = field(default_factory=dict)
    key: list[str] = field(default_factory=list)
    defaults: dict[str, str] = field(default_factory=dict)
    sequences: list[SequenceMade] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)
    """By column; "" is the table."""

    @property
    def plain(self) -> bool:
        """Whether there is nothing but columns and a key."""
        return not (self.defaults or self.sequences or self.wanted or self.comments)

    def keep(self, sql: Statements, table: Table) -> None:
        """Store all of it for an existing table."""
        definitions = sql.core.definitions
        for sequence in self.sequences:
            definitions.remarks.add(sequence)
        for column, text in self.defaults.items():
            definitions.remarks.add(DefaultSet(self.label, column, text))
        for wanted in self.wanted:
            add(sql, table, wanted)
        for column, text in self.comments.items():
            definitions.remarks.add(Commented(self.label, column, text))

    def differs(self, sql: Statements) -> bool:
        """Whether an existing table of this name was declared differently."""
        have = {(r.kind, r.columns, r.text, r.other, r.other_columns) for r in sql.core.constraints.rules(self.label)}
        want = {(w.rule.kind, w.rule.columns, w.rule.text, w.rule.other, w.rule.other_columns) for w in self.wanted}
        there = {c: t for (n, c), t in sql.core.catalog.defaults.items() if n == self.label}
        return have != want or there != self.defaults


# keeping constraints


def add(sql: Statements, table: Table, wanted: Wanted) -> None:
    """Store a constraint, and the index for its look-ups."""
    rule, core = wanted.rule, sql.core
    columns = [c.name for c in relation_of(table).columns]
    at = tuple(columns.index(c) for c in rule.columns) if rule.kind != CHECK else ()
    child = _rows_that_break(sql, table, wanted, at)
    made = False
    if at and relation_of(table).arrangement.order[: len(at)] != at:  # otherwise the table itself is that index
        core.definitions.indexes.make(table, at, rule.name)
        made = True
    try:
        core.definitions.guards.add(rule, child)
    except BaseException:
        if made:
            core.definitions.indexes.drop(rule.name)
        raise


def tell_key_name(label: str, name: str, notices: list[str]) -> None:
    """Say that the constraint of a key has another name than the one given."""
    own = f"{label.rpartition('.')[2]}_pkey"
    if name.lower() != own.lower():
        notices.append(f"the key of {label} is called {own}, not {name}")


def _rows_that_break(sql: Statements, table: Table, wanted: Wanted, at: tuple[int, ...]) -> plan.Node:
    """What a guard checks; see `everview.session.changes.constraints`."""
    rule, node = wanted.rule, relation_of(table).node
    if rule.kind == CHECK:
        assert wanted.condition is not None
        places = [[c.name for c in relation_of(table).columns].index(n) for n in shown_columns(rule, table)]
        broken = plan.Filter(node, functions.call("not", wanted.condition))
        return plan.Project(broken, tuple(ColumnRef(node.types[c], c) for c in places))
    types = node.types
    nulls = [functions.call("is_null", ColumnRef(types[c], c)) for c in at if types[c].nullable]
    here = node if not nulls else plan.Filter(node, functions.call("not", functions.conjunction(nulls, "or")))
    keys = tuple(ColumnRef(types[c], c) for c in at)
    if rule.kind == UNIQUE:
        return plan.Project(here, keys)
    parent = sql.core.catalog.tables[rule.other]
    there = [c.name for c in relation_of(parent).columns]
    joined = plan.Join(node, relation_of(parent).node, at, tuple(there.index(c) for c in rule.other_columns))
    return plan.Union((plan.Project(here, keys), plan.Negate(plan.Project(joined, keys))))


# reading


class Reading:
    """Reads the list of columns and constraints of a table."""

    def __init__(self, sql: Statements, label: str, source: Source, table: Table | None = None) -> None:
        self.sql = sql
        self.source = source
        self.found = Declared(label)
        self.table = table
        self._conditions: list[tuple[str | None, exp.Expr]] = []
        self._computed: list[tuple[str, exp.Expr, exp.Expr]] = []
        self._uniques: list[tuple[str | None, list[str], exp.Expr]] = []
        self._references: list[tuple[str | None, list[str], exp.Reference, exp.Expr]] = []
        self._given: list[tuple[str, exp.Expr]] = []
        self._columns: dict[str, DataType] = {}
        self._kinds: dict[str, exp.DataType] = {}
        if table is not None:
            self._columns = table.schema()

    def read(self, items: Sequence[exp.Expr], at: exp.Expr) -> Declared:
        """What a list says; `at` is where it stands."""
        for item in items:
            self._item(item)
        self._columns |= self.found.schema
        self._keys(at)
        self._bind()
        return self.found

    def _item(self, item: exp.Expr) -> None:
        if isinstance(item, exp.ColumnDef):
            self._column(item)
        elif isinstance(item, exp.LikeProperty):
            self._like(item)
        elif isinstance(item, exp.Constraint):
            name = item.this.name
            for inside in item.expressions:
                self._constraint(name, inside, None)
        else:
            self._constraint(None, item, None)

    # columns

    def _column(self, item: exp.ColumnDef) -> None:
        if item.name in self.found.schema:
            raise self.source.error(item, "E_DUPLICATE", f"two columns are called {item.name}")
        if item.kind is None:
            self._untyped(item)
            return
        kind, constraints = domains.declared(item, self.source)
        serial = kind.this.name if isinstance(kind.this, exp.DataType.Type) else ""
        if serial in SERIALS:
            declared = INTEGER if serial == "SERIAL" else INT
            least, most = SERIALS[serial]
            made = sequences.of_column(self.sql, self.found, item.name, SequenceMade("", 1, 1, least, most))
            self.found.defaults[item.name] = default_text(DEFAULT, f"nextval('{made}')")
        else:
            if kind.this in _TIMES and kind.expressions:
                self._precision(kind)
            declared = names.column_type(kind, self.source).optional()
        self.found.schema[item.name] = declared
        self._kinds[item.name] = kind.copy()
        for each in constraints:
            name = each.args.get("this")
            self._constraint(None if name is None else name.name, each.kind, item.name)

    def _untyped(self, item: exp.ColumnDef) -> None:
        """x [int] AS a + b: a generated column, of the expression's type if none is given; x AS PROCTIME(): the time
        of arrival.
        """
        kinds = [c.args.get("kind") for c in item.args.get("constraints") or []]
        if len(kinds) != 1 or not isinstance(kinds[0], exp.ComputedColumnConstraint):
            raise self.source.error(item, "E_TYPE", f"the column {item.name} has no type")
        inside = kinds[0].this
        written = self.source.notes.computed.get(item.this.meta.get("start", -1))
        kind = None if written is None else names.written_type(written, item, self.source)
        declared = None if kind is None else names.column_type(kind, self.source).optional()
        if isinstance(inside, exp.Anonymous) and inside.name.lower() == "proctime" and not inside.expressions:
            consumed_parts.understood(kinds[0])
            self.found.schema[item.name] = declared or TIMESTAMP.optional()
            self.found.defaults[item.name] = default_text(DEFAULT, "now()")
            self.source.notes.notices.append(
                f"{item.name} AS PROCTIME() is a column with DEFAULT now(): when a row was inserted"
            )
            return
        if kind is not None and declared is not None:  # its expression may read columns behind it
            self.found.schema[item.name], self._kinds[item.name] = declared, kind
        else:
            earlier = {n: t for n, t in self.found.schema.items() if n not in {c for c, _, _ in self._computed}}
            self.found.schema[item.name] = self._scope(earlier).bind(inside.copy()).type.optional()
        self._constraint(None, kinds[0], item.name)

    def _precision(self, kind: exp.DataType) -> None:
        """timestamp(6) is the supported precision; timestamp(3), common in Flink, keeps microseconds, too."""
        if [p.name for p in kind.expressions] not in (["3"], ["6"]):
            raise self.source.refuse(kind, "moments are kept in microseconds", "write timestamp, or timestamp(6)")
        consumed_parts.understood(kind)

    def _constraint(self, name: str | None, node: exp.Expr, column: str | None) -> None:
        """One constraint, of the table or of a column."""
        found, schema = self.found, self.found.schema
        if name and isinstance(node, (exp.PrimaryKeyColumnConstraint, exp.PrimaryKey)):
            tell_key_name(found.label, name, self.source.notes.notices)
        if isinstance(node, exp.NotNullColumnConstraint) and column is not None:
            schema[column] = schema[column].optional(bool(node.args.get("allow_null")))
        elif isinstance(node, exp.PrimaryKeyColumnConstraint) and column is not None:
            found.key.append(column)
        elif isinstance(node, exp.PrimaryKey):
            found.key += [e.name for e in node.expressions]
            if [str(o).upper() for o in node.args.get("options") or []] == ["NOT ENFORCED"]:
                self.source.notes.notices.append("NOT ENFORCED is ignored: a row with a key that is there is refused")
            elif node.args.get("options"):
                what = f"{node.args['options'][0]} is not supported for a key"
                raise self.source.refuse(node, what, "a key is checked with each statement")
        elif isinstance(node, exp.CheckColumnConstraint):
            if node.args.get("enforced"):
                raise self.source.refuse(node, "a CHECK that is not enforced means nothing", "leave it out")
            self._conditions.append((name, node.this))
        elif isinstance(node, exp.UniqueColumnConstraint):
            self._uniques.append((name, self._unique(node, column), node))
        elif isinstance(node, exp.ForeignKey):
            columns = [e.name for e in node.expressions]
            self._references.append((name, columns, node.args["reference"], node))
        elif isinstance(node, exp.Reference) and column is not None:
            self._references.append((name, [column], node, node))
        elif isinstance(node, exp.DefaultColumnConstraint) and column is not None:
            self._once(column, node)
            self._given.append((column, node.this))
        elif isinstance(node, exp.GeneratedAsIdentityColumnConstraint) and column is not None:
            self._once(column, node)
            self._refuse_identity(column, node)
            made = sequences.of_column(self.sql, found, column, sequences.declared(node, self.source))
            found.defaults[column] = default_text(IDENTITY_ALWAYS if node.this else IDENTITY, made)
            schema[column] = schema[column].optional(False)
        elif isinstance(node, exp.AutoIncrementColumnConstraint) and column is not None:  # MySQL's, SQLite's
            self._once(column, node)
            made = sequences.of_column(self.sql, found, column, SequenceMade("", 1, 1, 1, sequences.LARGEST))
            found.defaults[column] = default_text(IDENTITY, made)
            schema[column] = schema[column].optional(False)
        elif isinstance(node, exp.CommentColumnConstraint) and column is not None:
            found.comments[column] = node.this.name
            consumed_parts.understood(node)
        elif isinstance(node, exp.CollateColumnConstraint) and node.this.name.upper() in names.COLLATIONS:
            pass
        elif isinstance(node, exp.ComputedColumnConstraint) and column is not None:
            self._once(column, node)
            self._refuse_by_default(node)
            if node.args.get("not_null"):
                schema[column] = schema[column].optional(False)
            consumed_parts.read(node)
            self._computed.append((column, node.this, node))
        elif isinstance(node, exp.Identifier):
            raise self.source.error(node, "E_TYPE", f"the column {node.name} has no type", "name one: int, text ...")
        else:
            what = _WORDS.get(type(node)) or node.sql("postgres")
            raise self.source.refuse(node, f"{what} is not supported in CREATE TABLE: nothing would enforce it")

    def _refuse_by_default(self, node: exp.Expr) -> None:
        """GENERATED BY DEFAULT AS (a + b), which sqlglot does not distinguish: computed columns are always computed."""
        words = [token.text.upper() for token in self.source.tokens]
        at = next((i for i in range(len(words)) if words[i : i + 4] == ["BY", "DEFAULT", "AS", "("]), None)
        if at is not None:
            where = self.source.tokens[at].start
            hint = "write GENERATED ALWAYS AS, or DEFAULT"
            raise self.source.error_at(where, "E_SYNTAX", "a computed column is GENERATED ALWAYS", hint)

    def _refuse_identity(self, column: str, node: exp.Expr) -> None:
        """Only integer columns can be identities."""
        if self.found.schema[column].kind != "int":
            what = f"an identity column is a whole number, not {in_words(self.found.schema[column].optional(False))}"
            raise self.source.error(node, "E_TYPE", what, "declare it int or bigint")

    def _once(self, column: str, node: exp.Expr) -> None:
        taken = {*self.found.defaults, *(c for c, _ in self._given), *(c for c, _, _ in self._computed)}
        if column in taken:
            raise self.source.error(node, "E_DUPLICATE", f"the column {column} already has a default")

    def _unique(self, node: exp.UniqueColumnConstraint, column: str | None) -> list[str]:
        if node.args.get("nulls"):
            raise self.source.refuse(node, "NULLS NOT DISTINCT is not supported", "declare the columns NOT NULL")
        include = node.args.get("include")
        if include is not None:
            self._stored(include)
        listed = node.args.get("this")
        return [e.name for e in listed.expressions] if listed is not None else [column or ""]

    def _stored(self, include: exp.Expr) -> None:
        """INCLUDE (x), WITH (fillfactor = 70): how an index is kept; a condition would say which rows are unique."""
        if include.args.get("where") is not None:
            what = "UNIQUE has no condition: it holds for all rows"
            raise self.source.refuse(include.args["where"], what, "NULLs are never equal")
        consumed_parts.understood(include)

    def like_whole(self, item: exp.LikeProperty) -> Declared:
        """CREATE TABLE t LIKE s, as in MySQL, Spark and Flink: with all declarations of s."""
        self._like(item, everything=True)
        return self.read([], item)

    def _like(self, item: exp.LikeProperty, everything: bool = False) -> None:
        """LIKE t [INCLUDING DEFAULTS | CONSTRAINTS | ALL ...]: columns with their types and NOT NULL"""
        name = self.sql.spelled(schemas.written(item.this))
        self.sql.core.access.may_read(name)
        like = self.sql.core.catalog.tables.get(name)
        if like is None:
            raise self.source.error(item, "E_TABLE", f"there is no table {item.this.name}")
        included = {o.args["value"].name.upper() for o in item.expressions if o.name.upper() == "INCLUDING"}
        for option in item.expressions:
            said_of = option.args["value"].name.upper()
            if said_of not in _INCLUDED:
                what = f"there is no {option.name.upper()} {said_of}"
                at = next((t.start for t in self.source.tokens if t.text.upper() == said_of), offset_of(option))
                raise self.source.error_at(at, "E_SYNTAX", what, did_you_mean(said_of, _INCLUDED))
            consumed_parts.understood(option)
        everything = everything or "ALL" in included
        self.found.schema |= like.schema()
        had = {c: t for (n, c), t in self.sql.core.catalog.defaults.items() if n == relation_of(like).label}
        for column, text in had.items():
            is_default = text.startswith(DEFAULT) and (everything or "DEFAULTS" in included)
            if is_default:
                self.found.defaults[column] = text
            elif text.startswith(ALWAYS) and (everything or "GENERATED" in included):
                inside = omitted_columns.parsed(text[len(ALWAYS) + 1 :]).copy()
                self._computed.append((column, inside, item))
            elif text.startswith(IDENTITY) and (everything or "IDENTITY" in included):
                found = parsed_default(text)
                made = self.sql.core.catalog.sequences[found.text]
                name = sequences.of_column(self.sql, self.found, column, made)
                self.found.defaults[column] = default_text(found.kind, name)
        self._like_rules(like, everything, included)

    def _like_rules(self, like: Table, everything: bool, included: set[str]) -> None:
        if everything or "INDEXES" in included:
            self.found.key += [relation_of(like).columns[k].name for k in relation_of(like).key]
        for rule in self.sql.core.constraints.rules(relation_of(like).label):
            if rule.kind == CHECK and (everything or "CONSTRAINTS" in included) and not is_generated(rule):
                self._conditions.append((rule.name, omitted_columns.parsed(rule.text).copy()))
            elif rule.kind == UNIQUE and (everything or "INDEXES" in included):
                self._uniques.append((None, list(rule.columns), exp.Null()))

    # keys and conditions, once all columns are known

    def _spelled(self, column: str, at: exp.Expr) -> str:
        exact = names.spelled(column, self._columns)
        if exact not in self._columns:
            what = f"the column {column} is not there"
            raise self.source.error(at, "E_COLUMN", what, did_you_mean(column, self._columns))
        return exact

    def _keys(self, at: exp.Expr) -> None:
        found = self.found
        for column in found.key:
            if found.key.count(column) > 1:
                raise self.source.error(at, "E_DUPLICATE", f"the key column {column} is listed twice")
            if column not in self._columns:
                raise self.source.error(
                    at, "E_COLUMN", f"the key column {column} does not exist", did_you_mean(column, self._columns)
                )
            if column in found.schema:
                self._columns[column] = found.schema[column] = found.schema[column].optional(False)

    def _bind(self) -> None:
        """Bind expressions and name every constraint."""
        last = self.found.label.rpartition(".")[2]
        for column, node in self._given:
            self.found.defaults[column] = default_text(
                DEFAULT, omitted_columns.checked(self.sql, node, self._columns[column], self.source)
            )
        for column, inside, node in self._computed:
            self._compute(column, inside, node)
        for name, inside in self._conditions:
            self._check(name, inside)
        for name, columns, node in self._uniques:
            exact = tuple(self._spelled(c, node) for c in columns)
            if set(exact) == set(self.found.key):
                continue
            made = self._name(name, f"{last}_{'_'.join(exact)}_key", node)
            self.found.wanted.append(Wanted(Rule(made, UNIQUE, self.found.label, exact)))
        for name, columns, reference, node in self._references:
            self._refer(name, [self._spelled(c, node) for c in columns], reference, node)

    def _name(self, name: str | None, base: str, at: exp.Expr | None = None) -> str:
        """The given name, or an unused default."""
        taken = {w.rule.name for w in self.found.wanted}
        taken |= {r.name for r in self.sql.core.constraints.rules(self.found.label)} | {
            *self.sql.core.catalog.indexes()
        }
        if name is not None:
            if name in taken:
                raise self.source.error(at, "E_NAME", f"constraint {name} already exists", "choose another name")
            return name
        number = 0
        while (made := f"{base}{number or ''}") in taken:
            number += 1
        return made

    def _scope(self, columns: dict[str, DataType] | None = None) -> Scalars:
        columns = self._columns if columns is None else columns
        last = self.found.label.rpartition(".")[2]
        types = tuple(map(in_plans, columns.values()))
        relation = Relation(plan.Table(-1, types), tuple(Field(c, last) for c in columns))
        return Scalars(Compiler(self.sql.session, self.source, standing=True), Scope(relation, self.source), {})

    def _check(self, name: str | None, node: exp.Expr) -> None:
        text = plain_text(node, self._columns)
        if has_query(node):
            raise self.source.refuse(node, "a CHECK looks at one row, so it has no subquery", "use a FOREIGN KEY")
        condition = self._scope().condition(node)
        listed = self._read(condition)
        last = self.found.label.rpartition(".")[2]
        base = f"{last}_{listed[0]}_check" if len(listed) == 1 else f"{last}_check"
        made = self._name(name, base, node)
        self.found.wanted.append(Wanted(Rule(made, CHECK, self.found.label, tuple(listed), text), condition))

    def _read(self, condition: Expr) -> list[str]:
        """The columns that a condition reads."""
        read = {e.index for e in condition.walk() if isinstance(e, ColumnRef)}
        return [c for i, c in enumerate(self._columns) if i in read]

    def _compute(self, column: str, inside: exp.Expr, node: exp.Expr) -> None:
        """GENERATED ALWAYS AS (expression) STORED: a computed value with a guard"""
        if has_query(inside):
            raise self.source.refuse(inside, "a generated column is computed from its row, so it has no subquery")
        text = plain_text(inside, self._columns)
        others = {n: t for n, t in self._columns.items() if n not in {c for c, _, _ in self._computed}}
        self._scope(others).bind(inside)  # not of other generated columns, as in PostgreSQL
        self.found.defaults[column] = default_text(ALWAYS, text)
        kind = self._kinds.get(column)
        cast = exp.cast(inside.copy(), kind) if kind is not None else inside.copy()
        same = self._scope().condition(exp.NullSafeEQ(this=exp.column(column), expression=cast))
        last = self.found.label.rpartition(".")[2]
        made = self._name(None, f"{last}_{column}_generated", node)
        read = (column, *(c for c in self._read(same) if c != column))
        rule = Rule(made, CHECK, self.found.label, read, f'"{column}" IS NOT DISTINCT FROM {text}')
        self.found.wanted.append(Wanted(rule, same))

    # foreign keys

    def _refer(self, name: str | None, columns: list[str], reference: exp.Reference, node: exp.Expr) -> None:
        target = reference.this
        listed = [e.name for e in target.expressions] if isinstance(target, exp.Schema) else []
        table = target.this if isinstance(target, exp.Schema) else target
        other = self._other(table)
        own = other is None
        schema = self._columns if other is None else {c.name: c.type for c in relation_of(other).columns}
        key = self._own_key() if other is None else [relation_of(other).columns[k].name for k in relation_of(other).key]
        there = [names.spelled(c, schema) for c in listed] or list(key)
        label = self.found.label if other is None else relation_of(other).label
        if not there:
            raise self.source.error(node, "E_NO_KEY", f"{label} has no key to refer to", "name its columns")
        for column in there:
            if column not in schema:
                what = f"{label} has no column {column}"
                raise self.source.error(node, "E_COLUMN", what, did_you_mean(column, schema))
        if len(there) != len(columns):
            raise self.source.error(node, "E_WIDTH", f"{len(columns)} columns refer to {len(there)}")
        found = self._as_unique(label, columns, there, key, own)
        if found is None and self.source.notes.loose_references:
            consumed_parts.understood(reference)
            written = f"FOREIGN KEY REFERENCES {label} ({', '.join(there)})"
            self.source.notes.notices.append(f"{written} is ignored: it is neither a key nor UNIQUE")
            return
        if found is None:
            what = f"({', '.join(there)}) of {label} is neither its key nor UNIQUE"
            raise self.source.error(node, "E_NO_KEY", what, "declare it UNIQUE, or refer to the key")
        columns, there = found
        for mine, theirs in zip(columns, there, strict=True):
            self._same_type(mine, self._columns[mine], theirs, schema[theirs], node)
        if other is not None and any(
            isinstance(f, ArrivalTTL) or f.owner for f in self.sql.core.clock.agenda.of(other)
        ):
            what = f"rows of {label} go when their time is over, whatever refers to them"
            raise self.source.refuse(node, what, "let the table that refers have the time to live")
        on_delete, on_update, deferred = self._actions(reference, node, columns)
        last = self.found.label.rpartition(".")[2]
        made = self._name(name, f"{last}_{'_'.join(columns)}_fkey", node)
        rule = Rule(made, FOREIGN_KEY, self.found.label, tuple(columns), "", label, tuple(there))
        rule = replace(rule, on_delete=on_delete, on_update=on_update, deferred=deferred)
        self.found.wanted.append(Wanted(rule))

    def _own_key(self) -> list[str]:
        if self.found.key or self.table is None:
            return self.found.key
        return [relation_of(self.table).columns[k].name for k in relation_of(self.table).key]

    def _other(self, table: exp.Table) -> Table | None:
        """The referenced table; None: the one being declared."""
        written = schemas.written(table)
        if self.table is None and written.lower() in (
            self.found.label.lower(),
            self.found.label.rpartition(".")[2].lower(),
        ):
            consumed_parts.understood(table)
            return None
        name = self.sql.spelled(written)
        if self.table is not None and name == relation_of(self.table).label:
            return None
        self.sql.core.access.may("REFERENCES", "relation", name)  # rows that are referred to tell of themselves
        found = self.sql.core.catalog.tables.get(name)
        if found is None:
            hint = did_you_mean(name, self.sql.session.tables)
            raise self.source.error(table, "E_TABLE", f"there is no table {name} to refer to", hint)
        return found

    def _as_unique(
        self, label: str, here: list[str], there: list[str], key: list[str], own: bool
    ) -> tuple[list[str], list[str]] | None:
        """The two sides in the order of a key or UNIQUE that has the referenced columns; None if there is none."""
        uniques = [list(r.columns) for r in self.sql.core.constraints.rules(label) if r.kind == UNIQUE]
        if own:
            uniques += [list(w.rule.columns) for w in self.found.wanted if w.rule.kind == UNIQUE]
        for unique in (key, *uniques):
            if {*unique} == {*there}:
                return [here[there.index(c)] for c in unique], list(unique)
        return None

    def _same_type(self, mine: str, here: DataType, theirs: str, there: DataType, node: exp.Expr) -> None:
        if in_plans(here).optional() != in_plans(there).optional():
            what = f"{mine} is {in_words(here)}, {theirs} is {in_words(there)}"
            raise self.source.error(node, "E_TYPE", what, "give both columns the same type")

    def _actions(self, reference: exp.Reference, node: exp.Expr, columns: list[str]) -> tuple[str, str, bool]:
        found = {"DELETE": NO_ACTION, "UPDATE": NO_ACTION}
        options = [str(o).upper() for o in reference.args.get("options") or []]
        for each in ("delete", "update"):
            if node.args.get(each):
                options.append(f"ON {each.upper()} {str(node.args[each]).upper()}")
        for option in options:
            words = option.split()
            if words[0] == "ON" and words[1] in found and " ".join(words[2:]) in ACTIONS:
                found[words[1]] = ACTIONS[" ".join(words[2:])]
            elif option == "MATCH FULL" and len(columns) == 1:
                continue
            elif option not in _IGNORED:
                hint = keywords.did_you_mean(words[1], ("DELETE", "UPDATE")) if len(words) > 1 else ""
                raise self.source.refuse(node, f"{option} is not supported in a foreign key", hint)
        if found["UPDATE"] not in (NO_ACTION, CASCADE, SET_NULL):
            raise self.source.refuse(node, "ON UPDATE SET DEFAULT is not supported", "NO ACTION, CASCADE or SET NULL")
        return found["DELETE"], found["UPDATE"], "INITIALLY DEFERRED" in options


_INCLUDED = (
    "ALL", "DEFAULTS", "CONSTRAINTS", "INDEXES", "GENERATED", "IDENTITY", "COMMENTS", "STATISTICS", "STORAGE",
    "COMPRESSION",
)  # fmt: skip
"""What LIKE ... INCLUDING names; the last three mean nothing here."""

_TIMES = tuple(exp.DataType.Type[name] for name in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIME"))

_WORDS: dict[type[exp.Expr], str] = {
    exp.CollateColumnConstraint: "COLLATE",
    exp.ExcludeColumnConstraint: "EXCLUDE",
}


def is_generated(rule: Rule) -> bool:
    """Whether a CHECK guards a generated column, and so comes with it."""
    return rule.name.endswith("_generated")


def plain_text(node: exp.Expr, columns: Iterable[str]) -> str:
    """An expression in parsable form, with column names quoted as spelled, so that they can be replaced; does not mark
    anything as read.
    """
    copy = node.copy()
    known = list(columns)
    for column in copy.find_all(exp.Column):
        identifier = column.args["this"]
        if isinstance(identifier, exp.Identifier):
            column.args.pop("table", None)
            identifier.set("this", names.spelled(str(identifier.args["this"]), known))
            identifier.set("quoted", True)
    return copy.sql("postgres")
