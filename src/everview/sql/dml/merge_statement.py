"""MERGE INTO t USING s ON ... WHEN [NOT] MATCHED [BY SOURCE] [AND ...] THEN UPDATE, DELETE, INSERT or DO NOTHING.

Every WHEN becomes a separate query: for matched rows of the table, for unmatched rows of the source, or for unmatched
rows of the table, each with its condition and without the rows of the preceding WHENs of its kind. All are evaluated
before anything is changed. Changing a row of the table twice is an error. Columns that are set to DEFAULT, or given it,
are `NOT_GIVEN` in the rows that the queries find, and get their values last.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import TokenType, exp

from everview.errors import InputError
from everview.language.relation import relation_of
from everview.session.rights.principal import doing
from everview.session.table import Table
from everview.sql.answers.result import Row
from everview.sql.dml import changes, omitted_columns, own_changes
from everview.sql.dml.affected_rows import Returning
from everview.sql.dml.changes import Rows
from everview.sql.dml.omitted_columns import NOT_GIVEN
from everview.sql.select.compiler import Compiler
from everview.sql.select.query import Query
from everview.sql.text import misspellings
from everview.sql.text.error_positions import Source

if TYPE_CHECKING:
    from everview.sql.statements import Do, Statements


Bound = tuple[Query, Compiler]
"""A query, and what compiled it"""


@dataclass(frozen=True)
class _When:
    """The action of one WHEN: deleted rows (the first columns found) and inserted rows."""

    rows: Rows
    old: bool
    new: tuple[int, ...] | None
    """the positions of a new row's columns among those found; None: there is no new row"""
    matched: bool
    reset: frozenset[int] = frozenset()
    """the columns that are set to DEFAULT"""

    def changed(self, row: Row) -> Row:
        """The new row among the columns found."""
        return tuple(NOT_GIVEN if i in self.reset else row[place] for i, place in enumerate(self.new or ()))


def _check_using(source: Source) -> None:
    """Refuse a MERGE without the word USING, which the parser does not miss: the word before is taken for an alias."""
    if not any(token.token_type == TokenType.USING for token in source.tokens):
        word = misspellings.of_merge(source)
        if word is not None:
            raise word.error(source)
        at = source.tokens[min(3, len(source.tokens) - 1)].start
        raise source.error_at(at, "E_SYNTAX", "USING is missing", "MERGE INTO t USING s ON ...")


def merge(sql: Statements, node: exp.Merge, source: Source) -> Do:
    """MERGE INTO ... USING ... ON ... WHEN ... [RETURNING t.x, ...]"""
    _check_using(source)
    table = changes.table_of(sql, node.this, source)
    clause = node.args.get("returning")
    if clause is not None and any(isinstance(e, exp.Star) for e in clause.expressions):
        name = node.this.alias_or_name
        raise source.refuse(clause, "after MERGE, * would be columns of both sides", f"RETURNING {name}.*")
    returning = Returning(sql, node, table, source)
    joined = exp.Join(this=node.args["using"], kind="CROSS")
    every = changes.of_target(node)
    every.set("joins", [joined])
    every.set("where", exp.Where(this=node.args["on"]))
    sql.bound(every, source, change=node)  # reads both sides; what follows uses copies of them
    whens = _whens(sql, node, table, source)

    def change() -> list[Row]:
        found = [(when, when.rows()) for when in whens]
        width = len(relation_of(table).columns)
        _check_once(sql, table, [row[:width] for when, rows in found if when.old and when.matched for row in rows])
        gone = [row[:width] for when, rows in found if when.old and when.new is None for row in rows]
        old = [row[:width] for when, rows in found if when.old and when.new is not None for row in rows]
        changed = omitted_columns.completed(sql, table, range(width), _new(found, old=True))
        new = omitted_columns.generated(sql, table, _new(found, old=False))
        with sql.session.transaction(), doing("MERGE"):
            if gone:
                table.delete(gone)
            changes.replace_rows(sql, table, old, changed)
            changes.insert_rows(sql, table, new, "error")
        return [*changed, *new, *gone]

    return lambda: changes.done(sql, change, returning)


def _new(found: list[tuple[_When, list[Row]]], *, old: bool) -> list[Row]:
    """Inserted rows: replacements or additions."""
    return [when.changed(row) for when, rows in found if when.new is not None and when.old == old for row in rows]


def _whens(sql: Statements, node: exp.Merge, table: Table, source: Source) -> list[_When]:
    made: list[_When] = []
    before: dict[tuple[bool, bool], list[exp.Expr]] = {}
    clause = node.args["whens"]
    for when in clause.expressions:
        kind = (bool(when.args.get("matched")), bool(when.args.get("source")))
        earlier = before.setdefault(kind, [])
        condition = when.args.get("condition")
        tests = [*([condition] if condition is not None else []), *(_unless(e) for e in earlier)]
        one = _when(sql, node, when, kind, tests, table, source)
        if one is not None:
            made.append(one)
        earlier.append(condition.copy() if condition is not None else exp.true())
    return made


def _unless(condition: exp.Expr) -> exp.Expr:
    """That a preceding condition was false or NULL."""
    return exp.Not(this=exp.Coalesce(this=exp.Paren(this=condition.copy()), expressions=[exp.false()]))


def _when(
    sql: Statements,
    node: exp.Merge,
    when: exp.When,
    kind: tuple[bool, bool],
    tests: list[exp.Expr],
    table: Table,
    source: Source,
) -> _When | None:
    matched, by_source = kind
    if matched and by_source:
        words = [t.text.upper() for t in source.tokens]
        by = next((i + 2 for i in range(len(words)) if words[i : i + 3] == ["WHEN", "MATCHED", "BY"]), 0)
        hint = "WHEN NOT MATCHED BY SOURCE"
        raise source.error_at(source.tokens[by].start, "E_SYNTAX", "BY is not expected here", hint)
    then = when.args["then"]
    word = then.name.upper() if isinstance(then, exp.Var) else ""
    width = len(relation_of(table).columns)
    doing_now = "INSERT" if isinstance(then, exp.Insert) else "UPDATE" if isinstance(then, exp.Update) else word
    if doing_now in ("INSERT", "UPDATE", "DELETE"):
        sql.core.access.may(doing_now, "relation", relation_of(table).label)
    if isinstance(then, exp.Insert):
        if matched or by_source:
            raise source.error(then, "E_SYNTAX", "only rows that are not matched can be inserted", "UPDATE or DELETE")
        return _inserted(sql, node, then, tests, table, source)
    if not matched and not by_source:
        if word != "DO NOTHING":
            what = "rows that are not matched can only be inserted"
            raise source.error(when, "E_SYNTAX", what, "INSERT or DO NOTHING")
        _of_source(sql, node, [exp.Literal.number(1)], tests, source)  # what its condition reads must be there
        return None
    settings: list[tuple[exp.Expr, exp.Expr]] = []
    if isinstance(then, exp.Update):
        settings = [pair for setting in then.expressions for pair in changes.settings_of(setting, source)]
    elif word not in ("DELETE", "DO NOTHING"):
        raise source.refuse(then, "WHEN is followed by UPDATE SET, DELETE, INSERT or DO NOTHING")
    assigned = changes.positions_of([column for column, _ in settings], table, source)
    settings, reset = changes.reset(sql, settings, assigned, table, source)
    at = [p for p in assigned if p not in reset]
    select = changes.of_target(node, [value for _, value in settings])
    if matched:
        select.set("joins", [exp.Join(this=node.args["using"].copy(), kind="CROSS")])
        tests = [node.args["on"].copy(), *tests]
    else:
        tests = [_alone(node, node.args["using"].copy()), *tests]
    rows = _fitted(sql, _bound(sql, node, select, tests, source), [*range(width), *at], node, source, table)
    if word == "DO NOTHING":
        return None
    places = {position: width + i for i, position in enumerate(at)}
    new = None if word == "DELETE" else tuple(places.get(i, i) for i in range(width))
    return _When(rows, True, new, matched, frozenset(reset))


def _inserted(
    sql: Statements, node: exp.Merge, then: exp.Insert, tests: list[exp.Expr], table: Table, source: Source
) -> _When:
    width = len(relation_of(table).columns)
    at, values = _given(then, table, source)
    kept = [i for i, value in enumerate(values) if not changes.is_default(value)]
    at, values = [at[i] for i in kept], [values[i] for i in kept]
    select = _of_source(sql, node, values or [exp.Literal.number(1)], tests, source)
    rows = _fitted(sql, select, at, node, source, table)
    omitted_columns.refuse_given(sql, table, at, then, source)

    def full() -> list[Row]:
        return omitted_columns.completed(sql, table, at, [row[: len(at)] for row in rows()])

    return _When(full, False, tuple(range(width)), False)


def _given(then: exp.Insert, table: Table, source: Source) -> tuple[list[int], list[exp.Expr]]:
    """The columns that INSERT (x, y) VALUES (...) gives values, and the values; none for DEFAULT VALUES."""
    listed, given = then.this, then.expression
    names = [] if listed is None else listed.expressions
    if given is None and len(names) == 1 and changes.is_default(names[0]) and source.word_after(names[0]) == "VALUES":
        return [], []
    if not isinstance(given, exp.Tuple):
        raise source.refuse(then, "INSERT is followed by VALUES (...)")
    for item in given.expressions:
        if isinstance(item, exp.Alias):
            raise source.error(
                item.args["alias"], "E_SYNTAX", f"{item.alias} is not expected here", "values have no names"
            )
    width = len(relation_of(table).columns)
    at = list(range(width)) if listed is None else changes.positions_of(names, table, source)
    changes.check_width(len(given.expressions), table, at, then, source)
    return at, list(given.expressions)


def _of_source(
    sql: Statements, node: exp.Merge, values: list[exp.Expr], tests: list[exp.Expr], source: Source
) -> Bound:
    """Values for the rows of the source that are not matched and pass tests."""
    select = exp.Select(expressions=values, from_=exp.From(this=node.args["using"].copy()))
    return _bound(sql, node, select, [_alone(node, node.this), *tests], source)


def _alone(node: exp.Merge, other: exp.Expr) -> exp.Expr:
    """That there is no match on the other side."""
    inside = exp.Select(
        expressions=[exp.Literal.number(1)],
        from_=exp.From(this=other),
        where=exp.Where(this=node.args["on"].copy()),
    )
    return exp.Not(this=exp.Exists(this=inside))


def _bound(sql: Statements, node: exp.Merge, select: exp.Select, tests: list[exp.Expr], source: Source) -> Bound:
    condition = tests[0]
    for test in tests[1:]:
        condition = exp.And(this=exp.Paren(this=condition), expression=exp.Paren(this=test))
    select.set("where", exp.Where(this=condition))
    return sql.bound(select, source, change=node)


def _fitted(sql: Statements, bound: Bound, at: list[int], node: exp.Merge, source: Source, table: Table) -> Rows:
    """The rows of a query as columns of the table."""
    query, compiler = bound
    given = changes.fitted(query, table, at, node, source)
    return lambda: sql.answer(given, compiler).rows()


def _check_once(sql: Statements, table: Table, found: list[Row]) -> None:
    """Refuse to change a row twice; equal rows count with multiplicity."""
    counts = Counter(found)
    if len(counts) == len(found):
        return
    there = Counter(own_changes.rows_of(sql.core, table))
    for row, n in counts.items():
        if n > there[row]:
            raise InputError(
                "E_AMBIGUOUS",
                f"a row of {relation_of(table).label!r} is matched twice: {row}",
                "let ON find one partner for it",
            )
