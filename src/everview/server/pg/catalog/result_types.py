"""The types of a catalog query's columns, from its text: SQLite has none, but clients need them.

A catalog column has PostgreSQL's type; a cast has its target type; comparisons are booleans. Otherwise it is text,
unless the values are all numbers.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from everview.server.pg.answers import Column
from everview.server.pg.catalog.relations import LETTER_OF, LETTERS, RELATIONS
from everview.server.pg.catalog.sqlite_translation import function_name, type_name
from everview.server.pg.oids import number_of, type_of
from everview.types import STR, DataType, small_int

_BOOLEAN = (
    exp.Predicate, exp.And, exp.Or, exp.Not, exp.Exists, exp.In, exp.Is, exp.Boolean, exp.Between, exp.RegexpLike,
    exp.Like,
)  # fmt: skip

_FUNCTIONS = {
    "count": "l", "current_setting": "t", "version": "t", "current_schema": "n", "current_database": "n",
    "pg_get_userbyid": "n", "format_type": "t", "array_agg": "T", "pg_backend_pid": "i", "current_schemas": "N",
    "array_length": "i", "array_upper": "i", "array_lower": "i", "cardinality": "i", "pg_is_in_recovery": "b",
    "pg_table_is_visible": "b", "has_table_privilege": "b", "has_schema_privilege": "b", "row_number": "l",
    "has_database_privilege": "b", "pg_database_size": "l", "pg_total_relation_size": "l", "pg_relation_size": "l",
    "string_to_array": "T", "bool_or": "b", "bool_and": "b", "to_regclass": "o", "generate_series": "i",
    "generate_subscripts": "i", "parse_ident": "T", "txid_current": "l", "pg_type_is_visible": "b", "age": "i",
    "set_config": "t", "array": "T", "pg_encoding_to_char": "n", "pg_has_role": "b",
}  # fmt: skip


def columns_of(tree: exp.Expr) -> list[Column] | None:
    """The columns of a query as far as its text tells; None where a star hides them."""
    select = tree.find(exp.Select) if not isinstance(tree, exp.Select) else tree
    while isinstance(tree, exp.SetOperation):
        tree = tree.this
        select = tree if isinstance(tree, exp.Select) else select
    found: list[Column] = []
    for item in select.expressions if select is not None else ():
        if not item.is_star:
            found.append(Column(name_of(item), *_typed(item, tree)))
            continue
        assert select is not None
        inside = _star(item, select, tree)
        if inside is None:
            return None
        found += inside
    return found


def _star(item: exp.Expr, select: exp.Select, tree: exp.Expr) -> list[Column] | None:
    """The columns that a star stands for."""
    wanted = item.table.lower() if isinstance(item, exp.Column) else ""
    sources = [select.args["from_"].this] if select.args.get("from_") else []
    sources += [j.this for j in select.args.get("joins") or []]
    found: list[Column] = []
    for source in sources:
        if wanted and source.alias_or_name.lower() != wanted:
            continue
        inside = _inside(source, tree)
        if inside is None:
            return None
        found += inside
    return found or None


def _inside(source: exp.Expr, tree: exp.Expr) -> list[Column] | None:
    """The columns of a table, a WITH query or a query in brackets."""
    if isinstance(source, exp.Subquery):
        return columns_of(source.this)
    if not isinstance(source, exp.Table):
        return None
    for cte in tree.find_all(exp.CTE):
        if cte.alias.lower() == source.name.lower() and not source.db:
            inside = columns_of(cte.this)
            names = [c.name for c in cte.args["alias"].args.get("columns") or []]
            return inside and [replace(c, name=n) for c, n in zip(inside, names, strict=False)] if names else inside
    columns = RELATIONS.get(source.db.lower() or "pg_catalog", {}).get(source.name.lower())
    return None if columns is None else [Column(n, LETTERS[k][1], LETTERS[k][0]) for n, k in columns.items()]


def name_of(item: exp.Expr) -> str:
    """What PostgreSQL calls a column."""
    if isinstance(item, (exp.Alias, exp.Column)):
        name = item.args["alias"] if isinstance(item, exp.Alias) else item.this
        quoted = isinstance(name, exp.Identifier) and name.args.get("quoted")
        return item.alias_or_name if quoted else item.alias_or_name.lower()
    inner: exp.Expr = item
    while isinstance(inner, (exp.Cast, exp.Paren, exp.Dot)):
        inner = inner.expression if isinstance(inner, exp.Dot) else inner.this
    if inner.alias_or_name and isinstance(inner, exp.Column):
        return inner.alias_or_name
    special = {"CurrentUser": "current_user", "Case": "case", "Array": "array", "Coalesce": "coalesce",
               "Exists": "exists"}.get(type(inner).__name__)  # fmt: skip
    return special or function_name(inner) or "?column?"


def _typed(item: exp.Expr, tree: exp.Expr) -> tuple[DataType, int]:
    """The type of an expression, and its OID if that is another than the type's own."""
    oid, declared = LETTERS[letter] if (letter := _letter(item, tree, 0)) else (0, STR)
    if not letter:
        found = _cast(item)
        if found is not None:
            return found
    return declared, oid


def _cast(item: exp.Expr) -> tuple[DataType, int] | None:
    inner = item.this if isinstance(item, exp.Alias) else item
    if not isinstance(inner, exp.Cast):
        return None
    name = type_name(inner)
    if name in ("regclass", "regtype", "regproc", "regnamespace"):
        return STR, 25
    oid = number_of(name)
    declared = type_of(oid)
    if declared is None:
        return None
    sized = {23: small_int(32), 21: small_int(16), 26: small_int(-32)}.get(oid, declared)
    return sized, oid


def _letter(item: exp.Expr, tree: exp.Expr, depth: int) -> str:
    """The letter of an expression's type; nothing if it does not tell."""
    if depth > 20:
        return ""
    match item:
        case exp.Alias() | exp.Paren():
            return _letter(item.this, tree, depth + 1)
        case exp.Cast():
            return ""
        case exp.Column():
            return _column(item, tree, depth)
        case exp.Subquery() if isinstance(item.this, exp.Select) and item.this.expressions:
            return _letter(item.this.expressions[0], tree, depth + 1)
        case exp.Case():
            branches = [i.args.get("true") for i in item.args.get("ifs") or []] + [item.args.get("default")]
            found = [
                _letter(b, tree, depth + 1) for b in branches if isinstance(b, exp.Expr) and not isinstance(b, exp.Null)
            ]
            return next(
                (f for f in found if f),
                "t" if any(isinstance(b, exp.Literal) and b.is_string for b in branches) else "",
            )
        case exp.Coalesce() | exp.Max() | exp.Min():
            return _letter(item.this, tree, depth + 1)
        case exp.Literal():
            return "t" if item.is_string else "i" if item.name.isdecimal() else ""
        case exp.Dot():
            return _letter(item.expression, tree, depth + 1)
        case exp.ArrayAgg():
            inner = item.this.this if isinstance(item.this, exp.Order) else item.this
            cast = _cast(inner)
            number = cast is not None and cast[0].kind == "int"
            letter = "l" if number else _letter(inner, tree, depth + 1)
            return {"b": "B", "l": "L", "o": "O", "i": "L", "s": "L"}.get(letter, "T")
        case exp.Count():
            return "l"
        case exp.LogicalAnd() | exp.LogicalOr():
            return "b"
    if isinstance(item, _BOOLEAN):
        return "b"
    return _FUNCTIONS.get(function_name(item), "")


def _column(item: exp.Column, tree: exp.Expr, depth: int) -> str:
    """A column's letter: the catalogue's, or that of what is called so inside."""
    for alias in tree.find_all(exp.Alias):
        passed_on = isinstance(alias.this, exp.Column) and alias.this.name == item.name
        outside = alias.find_ancestor(exp.Select) is not item.find_ancestor(exp.Select)
        if alias.alias == item.name and outside and not passed_on:
            oid = _cast(alias)
            return (
                next((k for k, v in LETTERS.items() if v[0] == oid[1]), "")
                if oid
                else _letter(alias.this, tree, depth + 1)
            )
    return LETTER_OF.get(item.name.lower(), "")
