"""Constraints as declared: what is stored besides the plan that enforces them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

CHECK, UNIQUE, FOREIGN_KEY = "check", "unique", "foreign key"

NO_ACTION, CASCADE, SET_NULL, SET_DEFAULT = "no action", "cascade", "set null", "set default"


@dataclass(frozen=True)
class Rule:
    """A constraint of a table, by column names; a foreign key refers to columns of another table.

    `text` is the condition of a CHECK as written.
    """

    name: str
    kind: str
    table: str
    columns: tuple[str, ...]
    text: str = ""
    other: str = ""
    other_columns: tuple[str, ...] = ()
    on_delete: str = NO_ACTION
    on_update: str = NO_ACTION
    deferred: bool = False
    """whether it is checked at the end of a transaction, not after each statement"""

    def written(self) -> list[Any]:
        """As JSON."""
        return list(astuple(self))

    @classmethod
    def read(cls, fields: list[Any] | tuple[Any, ...]) -> Rule:
        """
        >>> rule = Rule("t_x_key", UNIQUE, "t", ("x",))
        >>> Rule.read(rule.written()) == rule
        True
        """
        given: list[Any] = [tuple(f) if isinstance(f, list) else f for f in fields]
        return cls(*given)

    def renamed(self, old: str, new: str) -> Rule:
        """With a table renamed."""
        named = {old: new}
        return replace(self, table=named.get(self.table, self.table), other=named.get(self.other, self.other))

    def with_columns(self, table: str, names: dict[str, str]) -> Rule:
        """With a table's columns renamed."""
        here, text = self.columns, self.text
        if self.table == table:
            here, text = tuple(names.get(c, c) for c in self.columns), with_names(self.text, names)
        there = tuple(names.get(c, c) for c in self.other_columns) if self.other == table else self.other_columns
        return replace(self, columns=here, other_columns=there, text=text)

    def reads(self, table: str, column: str) -> bool:
        """Whether it refers to a column."""
        return (self.table == table and column in self.columns) or (
            self.other == table and column in self.other_columns
        )

    def declared(self) -> str:
        """In the syntax of CREATE TABLE.

        >>> Rule("t_x_key", UNIQUE, "t", ("x", "y")).declared()
        'UNIQUE (x, y)'
        """
        columns = ", ".join(self.columns)
        if self.kind == CHECK:
            return f"CHECK ({shown(self.text)})"
        if self.kind == UNIQUE:
            return f"UNIQUE ({columns})"
        said = f"FOREIGN KEY ({columns}) REFERENCES {self.other} ({', '.join(self.other_columns)})"
        for when, action in (("DELETE", self.on_delete), ("UPDATE", self.on_update)):
            said += f" ON {when} {action.upper()}" if action != NO_ACTION else ""
        return said


_PARTS = re.compile(r''''(?:[^']|'')*'|"(?:[^"]|"")*"''')
_SIMPLE = re.compile(r'"([a-z_][a-z0-9_]*)"')


def with_names(text: str, names: Mapping[str, str]) -> str:
    """SQL text with other column names, all of which are quoted in it.

    >>> with_names('"a" > 3 OR "b" < "a"', {"a": "new"})
    '"new" > 3 OR "b" < "new"'
    """

    def other(found: re.Match[str]) -> str:
        part = found.group()
        name = part[1:-1].replace('""', '"')
        if part[0] == "'" or name not in names:
            return part
        return '"' + names[name].replace('"', '""') + '"'

    return _PARTS.sub(other, text)


def shown(text: str) -> str:
    """SQL text without unnecessary quotes."""
    return _SIMPLE.sub(r"\1", text)


NO_RULE = Rule("", CHECK, "", ())
