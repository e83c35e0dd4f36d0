"""The outputs of a SELECT, and references to them: *, numbers, aliases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.digits import whole_number
from everview.errors import did_you_mean
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar.names import output_name
from everview.sql.scalar.scalars import Scalars
from everview.sql.scalar.type_names import in_words
from everview.sql.select import stars
from everview.sql.select.grouping import Grouped
from everview.sql.select.scopes import Field
from everview.sql.text import consumed_parts
from everview.sql.text.dialects import DEFAULT
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler


def items(compiler: Compiler, select: exp.Select, scalars: Scalars) -> list[tuple[str, Expr]]:
    found: list[tuple[str, Expr]] = []
    for i, item in enumerate(select.expressions):
        if is_star(item):
            found += star(compiler, item, scalars)
        elif isinstance(item, exp.Dot) and isinstance(item.expression, exp.Star):
            found += _fields(compiler, item, scalars)
        else:
            found.append((output_name(item, i), scalars.bind(item)))
    if not found:
        raise compiler.source.error(select, "E_EMPTY", "SELECT has no columns", "name at least one")
    return found


def _fields(compiler: Compiler, item: exp.Dot, scalars: Scalars) -> list[tuple[str, Expr]]:
    """(row).*: each of its fields"""
    value = scalars.bind(item.this)
    if value.type.kind != "struct":
        raise compiler.source.error(item, "E_TYPE", f"{in_words(value.type)} has no fields", "rows have: (r).*")
    consumed_parts.understood(item.expression)
    return [(n, scalars.call("struct_get", value, Literal(INT, i))) for i, n in enumerate(value.type.names)]


def is_star(item: exp.Expr) -> bool:
    """Whether an output is * or t.*"""
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def star(compiler: Compiler, item: exp.Expr, scalars: Scalars) -> list[tuple[str, Expr]]:
    table = item.args["table"].name.lower() if isinstance(item, exp.Column) else ""
    relation = scalars.below.scope.relation if isinstance(scalars, Grouped) else scalars.scope.relation

    def is_chosen(field: Field) -> bool:
        return field.is_of(item) if isinstance(item, exp.Column) else field.plain

    chosen = [i for i, f in enumerate(relation.fields) if f.name and f.starred and is_chosen(f)]
    if not chosen:
        tables = [f.table for f in relation.fields if f.table]
        hint = did_you_mean(table, tables) if table else "there is no FROM"
        raise compiler.source.error(item, "E_TABLE", f"there are no columns {item.sql('postgres')}", hint)
    found: list[tuple[str, Expr]] = [(relation.fields[i].name, relation.ref(i)) for i in chosen]
    if isinstance(scalars, Grouped):
        missing = next((name for name, e in found if e not in scalars.keys), None)
        if missing is not None:
            what = f"{missing}, one of *, is neither grouped by nor aggregated"
            raise compiler.source.error(item, "E_GROUP", what, "name the columns")
        found = [(name, scalars.scope.relation.ref(scalars.keys.index(e))) for name, e in found]
    return stars.changed(item.this if isinstance(item, exp.Column) else item, found, scalars)


def numbered(compiler: Compiler, key: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
    number = whole_number(key.name) if key.name.isdecimal() else 0
    if not 1 <= number <= len(items):
        raise compiler.source.error(key, "E_RANGE", f"there is no output number {key.name}", f"there are {len(items)}")
    item = items[number - 1]
    return item.this if isinstance(item, exp.Alias) else item


def refuse_constant(compiler: Compiler, key: exp.Expr, clause: str) -> None:
    """Refuse a constant that is not an output's number, as PostgreSQL does: ORDER BY 'a' would order by nothing."""
    if isinstance(key, (exp.Literal, exp.Boolean, exp.Null)) and compiler.source.dialect == DEFAULT:
        hint = f'a name has no quotes, or double ones: "{key.name}"' if key.is_string else "name a column or an output"
        raise compiler.source.error(key, "E_SYNTAX", f"a constant says nothing in {clause}", hint)


def order_key(compiler: Compiler, key: exp.Expr, scalars: Scalars, items: list[tuple[str, Expr]]) -> Expr:
    """An output by number or name, else an expression over the input."""
    if isinstance(key, exp.Literal) and not key.is_string:
        numbered(compiler, key, [exp.Null()] * len(items))
        return items[whole_number(key.name) - 1][1]
    if isinstance(key, exp.Column) and not key.table:
        named = [e for name, e in items if name.lower() == key.name.lower()]
        if named:
            return named[0]
    refuse_constant(compiler, key, "ORDER BY")
    return scalars.bind(key)
