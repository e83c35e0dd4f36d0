"""How a text is read: sqlglot's PostgreSQL, with functions by the names that people write.

sqlglot knows the functions of thirty systems and turns those of one into nodes that mean the same in all, which loses
what was written: `to_char(d, 'YYYY')` becomes a node with the format '%Y', `date_bin` forgets its origin. So the
functions that are bound by name here (`everview.sql.calls`) are left as calls by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres

from everview.sql.callnames import AGGREGATES, SCALARS, TABLES

_READ_BY_NAME = {*SCALARS, *AGGREGATES, *TABLES}


def _aggregate(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: exp.AnonymousAggFunc(this=name, expressions=args)


class Everview(Postgres):
    """PostgreSQL's dialect, with our functions left as they are written."""

    ORIGINAL_NAME_META_KEY = "name"

    class Parser(Postgres.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: ClassVar = {
            **{name: make for name, make in Postgres.Parser.FUNCTIONS.items() if name.lower() not in _READ_BY_NAME},
            **{name.upper(): _aggregate(name) for name in AGGREGATES},
            "EVERY": exp.LogicalAnd.from_arg_list,
        }
        FUNCTION_PARSERS: ClassVar = {
            name: parse for name, parse in Postgres.Parser.FUNCTION_PARSERS.items() if name.lower() not in _READ_BY_NAME
        }
