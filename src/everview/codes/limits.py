"""Limits of table columns: what a column refuses although its values are ordinary elsewhere.

A column declared `varchar(3)` or `int` in SQL limits what may be written into it. Once stored, its values are texts
and 64-bit ints like any others: plans, views and expressions do not know the limit, so no arithmetic is narrowed.

    relation.codec.types      declared types: what INSERT, COPY and Python's `insert` check
    relation.columns[i].type  the types of `in_plans`: what expressions over the table see

This differs from `"int16"` or `"int32"` in Python (`everview.types.small_int`), which views keep, and which decide the
Arrow type of their columns. Hence `INTEGER` is marked: it has the width of `"int32"` and a name, `"integer"`.
"""

from __future__ import annotations

from dataclasses import replace

from everview.types import DataType, unlimited

INTEGER = DataType("int", names=("integer",), width=32)
"""A column declared `int` in SQL: 32 bits are accepted; in plans it is an ordinary int."""


def is_integer(declared: DataType) -> bool:
    """Whether a column was declared `int` in SQL.

    >>> from everview.types import INT, small_int
    >>> is_integer(INTEGER.optional()), is_integer(INT), is_integer(small_int(32))
    (True, False, False)
    """
    return declared.kind == "int" and declared.names == INTEGER.names


def in_plans(declared: DataType) -> DataType:
    """The type of a column within plans.

    >>> from everview.types import varchar
    >>> in_plans(INTEGER.optional()), in_plans(varchar(3))
    (int?, str)
    """
    return replace(declared, names=(), width=0) if is_integer(declared) else unlimited(declared)


def written(declared: DataType) -> str:
    """The name of a column's type, which `everview.codes.type_declarations.data_type` reads back.

    >>> from everview.types import INT
    >>> written(INTEGER.optional()), written(INT)
    ('integer?', 'int')
    """
    return f"integer{'?' if declared.nullable else ''}" if is_integer(declared) else repr(declared)
