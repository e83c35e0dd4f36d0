"""Common types of rows from several places: set operations, VALUES and recursions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import common_types, functions
from everview.expr.nodes import Literal
from everview.plan import joins
from everview.plan.nodes import Node, Project
from everview.sql.scalar import constants
from everview.sql.scalar.type_names import in_words
from everview.types import DataType

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler


def unified(compiler: Compiler, rows: Sequence[Node], at: exp.Expr) -> list[Node]:
    """The same rows with types that all have in common."""
    if len({len(r.types) for r in rows}) > 1:
        raise compiler.source.error(at, "E_WIDTH", "the rows have different numbers of values")
    rows = _read_as_others(compiler, rows, at)
    columns: list[DataType] = []
    for i, types in enumerate(zip(*(r.types for r in rows), strict=True)):
        known = [t for t, r in zip(types, rows, strict=True) if not _is_null(r, i)]
        known = known or [t for t in types if t.kind != "int"] or list(types)  # a NULL that was cast has a type
        common = common_types.common_type(known)
        if common is None:
            raise compiler.source.error(
                at,
                "E_TYPE",
                f"column {i + 1} is {' and '.join(dict.fromkeys(map(in_words, types)))}",
                "cast one side",
            )
        columns.append(common)
    return [_cast_columns(r, columns) for r in rows]


def _read_as_others(compiler: Compiler, rows: Sequence[Node], at: exp.Expr) -> Sequence[Node]:
    """Rows with quoted constants parsed as the type of other rows: VALUES (1), ('2')."""
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
                read = (constants.number_as if is_number else constants.text_as)(text, common, at, compiler.source)
                found[k] = Project(row.child, (*row.exprs[:i], read, *row.exprs[i + 1 :]))
    return found


def _quoted(node: Node, column: int) -> str | None:
    """The text of a column that is a quoted constant, which is read as what stands in other rows."""
    expr = node.exprs[column] if isinstance(node, Project) else None
    return expr.value if isinstance(expr, Literal) and expr.type.kind == "str" else None


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
