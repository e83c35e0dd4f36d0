"""ALTER TABLE, ALTER VIEW and ALTER INDEX.

    ALTER TABLE t ADD COLUMN x int, DROP COLUMN y, ALTER COLUMN z TYPE text, ADD PRIMARY KEY (a)
    ALTER TABLE t ADD CONSTRAINT c CHECK (x > 0), DROP CONSTRAINT d, ALTER COLUMN x SET DEFAULT 3
    ALTER TABLE t RENAME COLUMN a TO b        ALTER VIEW v RENAME COLUMN a TO b
    ALTER TABLE t RENAME TO u                 ALTER VIEW v RENAME TO w        ALTER INDEX i RENAME TO j
    ALTER VIEW v SET (plan = delta)           best, binary, delta, wco, or DEFAULT: as it was written

The actions of one statement are applied one after the other to a description of the table; then all of them are
executed at once, or none (`everview.session.names.alter`). As in PostgreSQL, views continue to read what was renamed,
and what they read cannot be dropped or change its type, unless CASCADE drops them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import TokenType, exp

from everview.codes.limits import in_plans
from everview.errors import EverviewError, did_you_mean
from everview.expr import functions
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.expr.resolve import Column
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.changes.defaults import ALWAYS, DEFAULT, IDENTITY, IDENTITY_ALWAYS, default_text, parsed_default
from everview.session.names.constraint_rules import UNIQUE, Rule
from everview.session.names.entries import Commented, DefaultSet
from everview.session.names.rollback import all_or_nothing
from everview.session.relations import declared_columns
from everview.session.table import Table
from everview.session.view import View
from everview.sql.ddl import indexes, schemas, sequences
from everview.sql.ddl.declarations import Declared, add, is_generated, tell_key_name
from everview.sql.ddl.definitions import columns_of
from everview.sql.dml import omitted_columns, volatile_functions
from everview.sql.scalar.names import spelled
from everview.sql.scalar.scalars import Scalars
from everview.sql.select.compiler import Compiler
from everview.sql.select.scopes import Field, Relation, Scope
from everview.sql.text import consumed_parts, keywords, misspellings, statement_reader
from everview.sql.text.error_positions import Source, SqlError
from everview.sql.text.token_reader import Words
from everview.types import DataType

if TYPE_CHECKING:
    from everview.sql.statements import Statements


@dataclass(frozen=True)
class _Column:
    """A column of the altered table: its values over the old columns."""

    name: str
    type: DataType
    value: Expr


def alter(sql: Statements, statement: statement_reader.Statement) -> None:
    """ALTER TABLE | [MATERIALIZED] VIEW | INDEX name ..."""
    words = Words(statement)
    words.need("ALTER")
    sql.refuse_in_transaction(None, statement.source())
    if words.next_is("SEQUENCE"):
        sequences.alter(sql, words)
        return
    if words.is_word("TYPE") or words.is_word("DOMAIN"):
        _refuse_type(words)
    kind = words.choose("VIEW") if words.next_is("MATERIALIZED") else words.choose("TABLE", "VIEW", "INDEX")
    optional = words.next_is("IF", "EXISTS")
    if kind == "TABLE":
        words.next_is("ONLY")
    at = words.at
    name = words.name(f"the {kind.lower()}'s name")
    found = _found(sql, words, kind, name, optional, at)
    if found is None:
        statement.notes.skipped.append(f"there is no {kind.lower()} {name}: nothing is altered")
        return
    if isinstance(found, str):
        words.need("RENAME")
        words.need("TO")
        new = words.name("a new name")
        words.end()
        _rename_index(sql, words, found, new)
        return
    do = _Alteration(sql, words, found, statement).read()
    words.end()
    if not sql.dry:
        do()


def _refuse_type(words: Words) -> None:
    """Types are parts of the plans that use them, so they cannot change."""
    what = f"a {words.tokens[words.at].text.lower()} keeps its definition"
    raise words.error(
        what, "CREATE another, then ALTER TABLE t ALTER x TYPE other USING x::text::other", "E_UNSUPPORTED"
    )


def _found(sql: Statements, words: Words, kind: str, name: str, optional: bool, at: int) -> Table | View | str | None:
    """The object to alter; None if it does not exist and IF EXISTS allows that."""
    catalog = sql.core.catalog
    known = {"TABLE": sql.session.tables, "VIEW": sql.session.views}.get(kind, indexes.seen(sql))
    if kind == "TABLE" and [t.text.upper() for t in words.tokens[words.at : words.at + 1]] == ["RENAME"]:
        known = (*sql.session.tables, *sql.session.views)  # ALTER TABLE renames views, too, as in PostgreSQL
    exact = spelled(name, known) if kind == "INDEX" else schemas.found(sql.core, name, known)
    if exact in known and kind != "INDEX":
        sql.core.access.may_own("relation", exact)  # before it is told what depends on it
        return catalog.tables.get(exact) or catalog.views[exact]
    if exact in known:
        return exact
    if optional:
        words.at = len(words.tokens)
        return None
    words.at = at
    other = {"TABLE": "VIEW", "VIEW": "TABLE"}.get(kind, "")
    there = sql.spelled(name) in sql.session and bool(other)
    hint = f"it is a {other.lower()}: ALTER {other} {name}" if there else did_you_mean(name, known)
    raise words.error(f"there is no {kind.lower()} {name}", hint, "E_TABLE")


def _rename_index(sql: Statements, words: Words, old: str, new: str) -> None:
    of, index = sql.core.catalog.indexes()[old]
    if new in sql.core.catalog.indexes():
        raise words.error(f"there is an index {new} already", "choose another name", "E_NAME")
    definitions = sql.core.definitions
    definitions.indexes.make(of, index.keys, new)  # it shares the old one's state
    definitions.indexes.drop(old)


class _Alteration:
    """The planned alteration of a table or view."""

    def __init__(
        self, sql: Statements, words: Words, found: Table | View, statement: statement_reader.Statement
    ) -> None:
        self.sql = sql
        self.words = words
        self.found = found
        self.source: Source = sql.placed(statement.source())
        self.columns = [
            _Column(name, declared, ColumnRef(in_plans(declared), i))
            for i, (name, declared) in enumerate(declared_columns(relation_of(found)))
        ]
        self.key = (
            [relation_of(found).columns[k].name for k in relation_of(found).key] if isinstance(found, Table) else []
        )
        self.gone: list[str] = []
        """views dropped with columns"""
        self.dropped: list[Rule] = []
        """dropped constraints"""
        self.remade: list[Rule] = []
        """constraints of changed columns, which are created again"""
        self.said: list[Callable[[], None]] = []
        """actions after the columns are changed"""
        self.added: list[str] = []
        """names of constraints that are added"""
        self.before = sql.core.constraints.rules(relation_of(found).label)
        label = relation_of(found).label
        self.defaults = {c: text for (name, c), text in sql.core.catalog.defaults.items() if name == label}
        """what is said of missing values, as altered so far"""

    def read(self) -> Callable[[], None]:
        """Parse the actions; return a function that executes them."""
        words = self.words
        if words.next_is("RENAME"):
            return self._rename()
        if isinstance(self.found, View):
            if words.next_is("SET"):
                return self._set_plan(self.found)
            what = "a view can only be renamed, its columns too, and get another plan"
            raise words.unknown(what, "CREATE OR REPLACE VIEW defines another query", ("RENAME", "SET"))
        if words.next_is("SET", "SCHEMA"):
            return self._set_schema()
        self._action()
        while words.next_is(","):
            self._action()
        return self._do

    def _do(self) -> None:
        table, core = self.found, self.sql.core
        assert isinstance(table, Table)
        gone = [name for name in dict.fromkeys(self.gone) if name in core.catalog.views]
        names = [c.name for c in self.columns]
        key = tuple(names.index(k) for k in self.key)
        same = declared_columns(relation_of(table)) == tuple((c.name, c.type) for c in self.columns)
        same = same and key == relation_of(table).key and all(_is_same(c.value, i) for i, c in enumerate(self.columns))
        lost = [] if same else [n for n in core.definitions.altering.without_history(table) if n not in gone]
        with all_or_nothing(core), core.catalog.together():
            for rule in dict.fromkeys([*self.dropped, *self.remade]):
                core.definitions.guards.drop(rule)
            if not same:
                node = plan.Project(relation_of(table).node, tuple(c.value for c in self.columns))
                columns = [Column(c.name, c.type) for c in self.columns]
                core.definitions.altering.alter(table, node, columns, key, gone)
            for rule in dict.fromkeys(self.remade):
                self._make_again(rule)
            for say in self.said:
                say()
        if lost:
            told = f"ALTER TABLE {relation_of(table).label}: earlier times of {', '.join(lost)} cannot be read any more"
            self.source.notes.notices.append(told)

    def _make_again(self, rule: Rule) -> None:
        declared = columns_of(
            self.sql, "t", f"(CONSTRAINT {_quoted(rule.name)} {rule.declared()})", None, self._table(rule)
        )
        for wanted in declared.wanted:
            add(self.sql, self._table(rule), wanted)

    def _table(self, rule: Rule) -> Table:
        return self.sql.core.catalog.tables[rule.table]

    # names

    def _rename(self) -> Callable[[], None]:
        words, altering = self.words, self.sql.core.definitions.altering
        if words.is_word("CONSTRAINT"):
            raise words.error("a constraint keeps its name", "DROP it, and ADD it with another name", "E_UNSUPPORTED")
        if words.next_is("TO"):
            at = words.at
            new = words.name("a new name")
            schema = relation_of(self.found).label.rpartition(".")[0]
            full = f"{schema}.{new}" if schema and "." not in new else new
            if spelled(full, self._names()) in self.sql.session:
                words.at = at
                raise words.error(f"the name {new} is taken", "choose another, or DROP it first", "E_NAME")
            return lambda: altering.rename(relation_of(self.found).label, full)
        words.next_is("COLUMN")
        old = self._place()
        words.need("TO")
        at = words.at
        new = words.name("a new name")
        names = [c.name for c in self.columns]
        if new.lower() in (n.lower() for i, n in enumerate(names) if i != old):
            words.at = at
            raise words.error(
                f"{relation_of(self.found).label} has a column {new} already", "choose another name", "E_DUPLICATE"
            )
        names[old] = new
        return lambda: altering.rename_columns(relation_of(self.found).label, tuple(names))

    def _set_plan(self, view: View) -> Callable[[], None]:
        words = self.words
        words.need("(", "PLAN", "=")
        wanted = words.take("a plan")
        words.need(")")
        plan = "written" if wanted.lower() == "default" else wanted.lower()

        def do() -> None:
            view.replan(plan)

        return do

    def _names(self) -> list[str]:
        return [*self.sql.session.tables, *self.sql.session.views]

    def _set_schema(self) -> Callable[[], None]:
        words = self.words
        at = words.at
        name = words.name("a schema")
        there = [schemas.PUBLIC, *schemas.seen(self.sql.core)]
        schema = spelled(name, there)
        if schema not in there:
            words.at = at
            raise words.error(f"there is no schema {name}", did_you_mean(name, there), "E_NAME")
        last = relation_of(self.found).label.rpartition(".")[2]
        new = last if schema == schemas.PUBLIC else f"{schema}.{last}"
        if new in self.sql.session:
            raise words.error(f"the name {new} is taken", "rename it first", "E_NAME")
        return lambda: self.sql.core.definitions.altering.rename(relation_of(self.found).label, new)

    def _place(self) -> int:
        """The position of the next named column."""
        at = self.words.at
        name = self.words.name("a column")
        names = [c.name for c in self.columns]
        exact = spelled(name, names)
        if exact not in names:
            self.words.at = at
            what = f"{relation_of(self.found).label} has no column {name}"
            hint = keywords.did_you_mean(name, ("COLUMN", "CONSTRAINT")) or did_you_mean(name, names)
            raise self.words.error(what, hint, "E_COLUMN")
        return names.index(exact)

    # actions

    def _action(self) -> None:
        words = self.words
        for form in _OTHERS:  # their own readers have not recognised them
            if words.is_word(form[0]):
                words.need(*form)
        word = words.choose("ADD", "DROP", "ALTER", also=("RENAME", "SET", "ENABLE", "DISABLE", "OWNER"))
        if word == "ADD":
            start = words.at
            if words.next_is("CONSTRAINT"):
                name = words.name("a name")
                if words.next_is("PRIMARY", "KEY") or words.next_is("PRIMARY KEY"):
                    tell_key_name(relation_of(self.found).label, name, self.source.notes.notices)
                    self._add_key()
                else:
                    self._add_constraint(start)
            elif any(words.next_is(*w.split()) or words.next_is(w) for w in ("CHECK", "UNIQUE", "FOREIGN KEY")):
                self._add_constraint(start)
            elif words.next_is("PRIMARY", "KEY") or words.next_is("PRIMARY KEY"):
                self._add_key()
            else:
                self._add_column()
        elif word == "DROP":
            if words.next_is("CONSTRAINT"):
                self._drop_constraint()
            else:
                self._drop_column()
        else:
            self._alter_column()

    def _add_column(self) -> None:
        words = self.words
        words.next_is("COLUMN")
        optional = words.next_is("IF", "NOT", "EXISTS")
        start = words.at
        name = words.name("the column's name")
        text = self._to_comma(start)
        taken = name.lower() in (c.name.lower() for c in self.columns)
        if taken and optional:
            return
        if taken:
            words.at = start
            raise words.error(
                f"{relation_of(self.found).label} has a column {name} already", "choose another name", "E_DUPLICATE"
            )
        try:
            declaration = self._declared(text, start)
        except SqlError:
            hint = keywords.did_you_mean(name, ("COLUMN", "CONSTRAINT", "CHECK", "UNIQUE", "PRIMARY", "FOREIGN"))
            if not hint:
                raise
            words.at = start
            raise words.error(f"{name} is not expected here", hint) from None
        declared = declaration.schema[name]
        if declaration.key:
            if self.key:
                words.at = start
                raise words.error(
                    f"{relation_of(self.found).label} already has a key", "DROP CONSTRAINT first", "E_KEY"
                )
            self.key = [name]
        self.columns.append(_Column(name, declared, self._first_value(declaration, name, declared, start)))
        if not declaration.plain:
            self._keep_later(declaration, text)

    def _first_value(self, declaration: Declared, name: str, declared: DataType, start: int) -> Expr:
        """The value of a new column in existing rows."""
        text = declaration.defaults.get(name)
        if text is None:
            return Literal(in_plans(declared).optional(), None)
        found = parsed_default(text)
        source = replace(self.source, text=f"SELECT {found.text}", known=None, shown="")
        if found.kind in (IDENTITY, IDENTITY_ALWAYS) or volatile_functions.is_volatile(
            omitted_columns.parsed(found.text)
        ):
            if len(self.sql.core.catalog.tables[relation_of(self.found).label]):
                self.words.at = start
                hint = "add the column without it, UPDATE it, then ALTER COLUMN ... SET DEFAULT"
                raise self.words.error("each row that is there would need a value of its own", hint, "E_UNSUPPORTED")
            return Literal(in_plans(declared).optional(), None)
        fields = tuple(
            Field(c.name, relation_of(self.found).label.rpartition(".")[2]) for c in relation_of(self.found).columns
        )
        scope = Scope(Relation(relation_of(self.found).node, fields), source)
        bound = Scalars(Compiler(self.sql.session, source), scope, {}).bind(omitted_columns.parsed(found.text).copy())
        return omitted_columns.fitted(
            bound, declared.optional(declared.nullable or bound.type.nullable), exp.Null(), source
        )

    def _keep_later(self, declaration: Declared, text: str) -> None:
        """Store defaults and constraints after the columns exist: they are bound again then, because columns may have
        moved.
        """
        self.added += [w.rule.name for w in declaration.wanted]
        label = relation_of(self.found).label

        def keep() -> None:
            table = self.sql.core.catalog.tables[label]
            columns_of(self.sql, "t", f"({text})", self.source, table).keep(self.sql, table)

        self.said.append(keep)

    def _add_constraint(self, start: int) -> None:
        """ADD [CONSTRAINT name] CHECK | UNIQUE | FOREIGN KEY ..."""
        text = self._to_comma(start)
        if text.upper().endswith(" NOT VALID"):
            raise self.words.error(
                "NOT VALID would leave rows that break the constraint", "leave it out", "E_UNSUPPORTED"
            )
        self._keep_later(self._declared(text, start), text)

    def _to_comma(self, start: int) -> str:
        """The text from a token to the comma that ends the action."""
        words, depth = self.words, 0
        if start >= len(words.tokens):
            raise words.error("the statement ends where an expression or a declaration is expected", "", "E_SYNTAX")
        while words.at < len(words.tokens):
            token = words.tokens[words.at]
            depth += (token.text == "(") - (token.text == ")")
            if token.token_type == TokenType.COMMA and depth == 0:
                break
            words.at += 1
        return words.text[words.tokens[start].start : words.tokens[words.at - 1].end + 1]

    def _declared(self, text: str, start: int) -> Declared:
        """A column or constraint declared as in CREATE TABLE."""
        assert isinstance(self.found, Table)
        try:
            return columns_of(self.sql, "t", f"({text})", self.source, self._so_far(self.found))
        except EverviewError as error:
            read = f"CREATE TABLE t ({text})"
            if isinstance(error, SqlError):
                error = misspellings.explained(error, Source(read), statement_reader.readable(self.source.dialect))
            before = len("CREATE TABLE t (") + len(text) - len(text.removeprefix(f"{_FRESH} "))
            inside = Source(read).offset(error.line, error.column) - before if isinstance(error, SqlError) else 0
            at = self.words.tokens[start].start + max(0, inside)
            what = error.message.partition(": ")[2] or error.message
            raise self.source.error_at(at, error.code, what, error.hint) from None

    def _so_far(self, table: Table) -> Table:
        """The table as altered so far, for expressions about its columns; nothing is read from it."""
        columns = [Column(c.name, c.type) for c in self.columns]
        if declared_columns(relation_of(table)) == tuple((c.name, c.type) for c in self.columns):
            return table
        names = [c.name for c in columns]
        key = tuple(names.index(k) for k in self.key)
        node = plan.Table(-1, tuple(in_plans(c.type) for c in columns), key)
        return Table(self.sql.core, relation_of(table).label, columns, node, key)

    def _drop_column(self) -> None:
        words = self.words
        words.next_is("COLUMN")
        optional = words.next_is("IF", "EXISTS")
        at = words.at
        if (
            optional
            and at < len(words.tokens)
            and spelled(words.tokens[at].text, [c.name for c in self.columns]) not in (c.name for c in self.columns)
        ):
            words.at += 1
            words.next_is("CASCADE") or words.next_is("RESTRICT")
            return
        place = self._place()
        cascade = words.next_is("CASCADE")
        cascade or words.next_is("RESTRICT")
        column = self.columns[place]
        if len(self.columns) == 1:
            words.at = at
            raise words.error(
                f"{column.name} is the only column of {relation_of(self.found).label}", "DROP TABLE", "E_EMPTY"
            )
        users = self._users(column)
        if column.name in self.key:
            users = sorted({*users, *self._all_users()})
            self.key = []
        users = self._without_own(users, column.name, cascade)
        self._give_up(users, cascade, at, f"the column {column.name} of {relation_of(self.found).label}")
        del self.columns[place]

    def _without_own(self, users: list[str], column: str, cascade: bool) -> list[str]:
        """Constraints dropped with a column: those of its table, with CASCADE those of others; the rest."""
        left: list[str] = []
        for name in users:
            rule = relation_of(self.sql.core.catalog.views[name]).rule
            if rule is None:
                left.append(name)
            elif is_generated(rule) and rule.columns[0] != column and column in rule.columns:
                left.append(f"the generated column {rule.columns[0]}")
            elif rule.reads(relation_of(self.found).label, column) and (
                rule.table == relation_of(self.found).label or cascade
            ):
                self.dropped.append(rule)
            elif rule.reads(relation_of(self.found).label, column):
                left.append(f"{rule.table} (constraint {rule.name})")
        return left

    def _users(self, column: _Column) -> list[str]:
        """Views that read a column as it is."""
        if not isinstance(self.found, Table) or not isinstance(column.value, ColumnRef):
            return []
        return self.sql.core.definitions.altering.readers(self.found, column.value.index)

    def _all_users(self) -> list[str]:
        return sorted(relation_of(self.found).views) if isinstance(self.found, Table) else []

    def _give_up(self, users: list[str], cascade: bool, at: int, what: str) -> None:
        if users and not cascade:
            end, self.words.at = self.words.at, at
            error = self.words.error(
                f"{what} is needed by {self.sql.core.access.named(users)}",
                "drop those first, or use CASCADE",
                "E_IN_USE",
            )
            self.words.at = end
            raise error
        self.gone += [u for u in users if u not in self.gone]

    def _add_key(self) -> None:
        words = self.words
        at = words.at - 1
        if self.key:
            words.at = at
            raise words.error(
                f"{relation_of(self.found).label} already has a key: ({', '.join(self.key)})",
                _drop_hint(self.found),
                "E_KEY",
            )
        words.need("(")
        places = [self._place()]
        while words.next_is(","):
            places.append(self._place())
        words.need(")")
        for place in places:
            column = self.columns[place]
            if column.name in self.key:
                words.at = at
                raise words.error(f"the key column {column.name} is listed twice", "name it once", "E_DUPLICATE")
            self.key.append(column.name)
            self._set_type(place, column.type.optional(False), at)

    def _drop_constraint(self) -> None:
        words = self.words
        optional = words.is_word("IF")
        if optional:
            words.need("IF", "EXISTS")
        at = words.at
        name = words.name("the constraint's name")
        cascade = words.next_is("CASCADE")
        cascade or words.next_is("RESTRICT")
        last = relation_of(self.found).label.rpartition(".")[2]
        if name.lower() == f"{last}_pkey".lower() and self.key:
            referring = [f"{r.table} (constraint {r.name})" for r in self._referring({*self.key})]
            plain = [u for u in self._all_users() if relation_of(self.sql.core.catalog.views[u]).rule is None]
            self._give_up(
                plain if cascade else [*plain, *referring], cascade, at, f"the key of {relation_of(self.found).label}"
            )
            self.dropped += self._referring({*self.key})
            self.key = []
            return
        rules = {r.name: r for r in self.before}
        exact = spelled(name, rules)
        if exact in rules:
            self._drop_rule(rules[exact], cascade, at)
        elif not optional:
            words.at = at
            hint = did_you_mean(name, rules) if rules else _drop_hint(self.found)
            raise words.error(f"{relation_of(self.found).label} has no constraint {name}", hint, "E_NAME")

    def _drop_rule(self, rule: Rule, cascade: bool, at: int) -> None:
        referring = self._referring({*rule.columns}) if rule.kind == UNIQUE else []
        if referring and not cascade:
            users = [f"{r.table} (constraint {r.name})" for r in referring]
            self._give_up(users, False, at, f"the constraint {rule.name}")
        self.dropped += [rule, *referring]

    def _referring(self, columns: set[str]) -> list[Rule]:
        """Foreign keys that refer to these columns."""
        rules = self.sql.core.constraints.referring(relation_of(self.found).label)
        return [r for r in rules if {*r.other_columns} == columns]

    def _alter_column(self) -> None:
        words = self.words
        words.next_is("COLUMN")
        at = words.at
        place = self._place()
        column = self.columns[place]
        if words.next_is("SET", "NOT", "NULL"):
            self._set_type(place, column.type.optional(False), at)
        elif words.next_is("DROP", "NOT", "NULL"):
            if column.name in self.key:
                words.at = at
                raise words.error(
                    f"{column.name} is part of the key, which is never NULL", _drop_hint(self.found), "E_KEY"
                )
            self._set_type(place, column.type.optional(), at)
        elif words.next_is("TYPE") or words.next_is("SET", "DATA", "TYPE"):
            self._new_type(place, at)
        elif words.next_is("SET", "DEFAULT"):
            self._set_default(column)
        elif words.next_is("DROP", "DEFAULT"):
            self._refuse_other_kind(column, at)
            self._say_default(column.name, "")
        elif words.next_is("DROP", "IDENTITY"):
            optional = words.next_is("IF", "EXISTS")
            if self._missing(column.name) in (IDENTITY, IDENTITY_ALWAYS):
                self._say_default(column.name, "")
            elif not optional:
                words.at = at
                raise words.error(f"{column.name} is no identity", "DROP DEFAULT removes a default", "E_COLUMN")
        else:
            hint = "TYPE, SET DEFAULT, DROP DEFAULT, SET NOT NULL or DROP NOT NULL"
            what = "this change to a column is not understood"
            raise words.unknown(what, hint, ("TYPE", "SET", "DROP"))

    def _set_default(self, column: _Column) -> None:
        words = self.words
        start = words.at
        if start >= len(words.tokens):
            raise words.error("an expression is missing here", "SET DEFAULT 0")
        self._refuse_other_kind(column, start)
        text = self._to_comma(start)
        source = replace(self.source, text=f"SELECT {text}", known=None, shown="")
        tree = statement_reader.parsed(source)

        def bind() -> str:
            if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
                raise source.error(tree, "E_SYNTAX", "SET DEFAULT is followed by one expression")
            return omitted_columns.checked(self.sql, tree.expressions[0], column.type, source)

        self._say_default(column.name, default_text(DEFAULT, consumed_parts.whole(tree, source, bind)))

    def _say_default(self, column: str, text: str) -> None:
        label, core = relation_of(self.found).label, self.sql.core
        if text or column in self.defaults:
            self.defaults[column] = text
            self.said.append(lambda: core.definitions.remarks.add(DefaultSet(label, column, text)))

    def _missing(self, column: str) -> str:
        """How a column's missing values are found: DEFAULT, IDENTITY ...; empty if they are NULL."""
        text = self.defaults.get(column, "")
        return parsed_default(text).kind if text else ""

    def _refuse_other_kind(self, column: _Column, at: int) -> None:
        """Refuse a change to the DEFAULT of a column whose missing values are found in another way."""
        kind = self._missing(column.name)
        if kind not in ("", DEFAULT):
            self.words.at = at
            is_generated = kind == ALWAYS
            what = f"{column.name} is {'a generated column' if is_generated else 'an identity'}, it has no DEFAULT"
            raise self.words.error(what, "DROP COLUMN" if is_generated else "DROP IDENTITY first", "E_GENERATED")

    def _keep_remarks(self, column: _Column, declared: DataType, at: int) -> None:
        """A column with another type keeps its comment, and its DEFAULT if that has a value of the type."""
        label, core = relation_of(self.found).label, self.sql.core
        comment = core.catalog.comments.get((label, column.name))
        if comment:
            self.said.append(lambda: core.definitions.remarks.add(Commented(label, column.name, comment)))
        kind, self.words.at, end = self._missing(column.name), at, self.words.at
        if kind == ALWAYS:
            what = f"{column.name} is a generated column: its type is that of its expression"
            raise self.words.error(what, "DROP it and ADD another", "E_GENERATED")
        if kind in (IDENTITY, IDENTITY_ALWAYS) and declared.kind != "int":
            raise self.words.error(
                f"{column.name} is an identity: its values are ints", "DROP IDENTITY first", "E_TYPE"
            )
        if kind == DEFAULT:
            text = parsed_default(self.defaults[column.name]).text
            try:
                omitted_columns.checked(self.sql, omitted_columns.parsed(text).copy(), declared, Source(text))
            except EverviewError:
                what = f"the DEFAULT of {column.name}, {text}, is no value of that type"
                raise self.words.error(what, f"ALTER COLUMN {column.name} DROP DEFAULT first", "E_TYPE") from None
        self.words.at = end
        self._say_default(column.name, self.defaults.get(column.name, ""))

    def _set_type(self, place: int, declared: DataType, at: int) -> None:
        column = self.columns[place]
        if declared == column.type:
            return
        if declared == column.type.optional(False):  # unchanged for views
            self.columns[place] = replace(column, type=declared)
            return
        users = self._rules_made_again(self._users(column), column.name, declared)
        self._give_up(users, False, at, f"the column {column.name} of {relation_of(self.found).label}, as it is,")
        self.columns[place] = replace(column, type=declared)

    def _rules_made_again(self, users: list[str], column: str, declared: DataType) -> list[str]:
        """Views of a column; constraints are created again if it changes."""
        left: list[str] = []
        for name in users:
            rule = relation_of(self.sql.core.catalog.views[name]).rule
            if rule is None:
                left.append(name)
            else:
                self.remade.append(rule)
        return left

    def _new_type(self, place: int, at: int) -> None:
        """TYPE t [USING expression]"""
        words, column = self.words, self.columns[place]
        start = words.at
        while words.at < len(words.tokens) and not self._ends():
            words.at += 1
        if words.at == start:
            raise words.error("a type is missing here", "ALTER COLUMN x TYPE text")
        text = words.text[words.tokens[start].start : words.tokens[words.at - 1].end + 1]
        declared = self._declared(f"{_FRESH} {text}", start).schema[_FRESH].optional(column.type.nullable)
        value = self._using() if words.next_is("USING") else column.value
        if value is column.value and in_plans(declared) == in_plans(column.type):  # another limit, unchanged for views
            self.columns[place] = replace(column, type=declared)
            return
        users = self._rules_made_again(self._users(column), column.name, declared)
        self._give_up(users, False, at, f"the column {column.name} of {relation_of(self.found).label}, as it is,")
        try:
            cast = functions.cast(value, in_plans(declared).optional(declared.nullable or value.type.nullable))
        except EverviewError as error:
            words.at = at
            raise words.error(error.message, "say how: USING expression", "E_TYPE") from None
        self._keep_remarks(column, declared, at)
        self.columns[place] = _Column(column.name, declared, cast)

    def _ends(self) -> bool:
        """Whether an action, or its type, ends at the next token."""
        words = self.words
        token, before = words.tokens[words.at], words.tokens[: words.at]
        depth = sum((t.text == "(") - (t.text == ")") for t in before)
        return depth == 0 and (token.token_type == TokenType.COMMA or token.text.upper() == "USING")

    def _using(self) -> Expr:
        """An expression over the table's old columns."""
        words = self.words
        start = words.at
        text = self._to_comma(start)
        end = words.tokens[start].start + len(text)
        blank = "".join(c if c == "\n" else " " for c in self.source.text[: words.tokens[start].start])
        lead = "SELECT "
        placed = blank[: -len(lead)] + lead if len(blank) >= len(lead) else lead
        placed += self.source.text[words.tokens[start].start : end]
        shown = self.source.shown if len(blank) >= len(lead) else ""
        source = replace(self.source, text=placed, known=None, shown=shown)
        tree = statement_reader.parsed(source)
        fields = tuple(Field(c.name, relation_of(self.found).label) for c in relation_of(self.found).columns)
        scope = Scope(Relation(relation_of(self.found).node, fields), source)

        def bind() -> Expr:
            if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
                raise source.error(tree, "E_SYNTAX", "USING is followed by one expression")
            return Scalars(Compiler(self.sql.session, source), scope, {}).bind(tree.expressions[0])

        return consumed_parts.whole(tree, source, bind)


_OTHERS = (("ENABLE", "ROW", "LEVEL", "SECURITY"), ("DISABLE", "ROW", "LEVEL", "SECURITY"), ("OWNER", "TO"))
"""Forms of ALTER TABLE that are read elsewhere."""

_FRESH = "everview_column"
"""A name for a column of which only the type matters"""


def _is_same(value: Expr, place: int) -> bool:
    return isinstance(value, ColumnRef) and value.index == place


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _drop_hint(found: Table | View) -> str:
    return f"the key is called {relation_of(found).label.rpartition('.')[2]}_pkey: ALTER TABLE ... DROP CONSTRAINT"
