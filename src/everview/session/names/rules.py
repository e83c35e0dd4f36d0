"""Constraints as people declare them: what is kept of one besides the plan that guards it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

CHECK, UNIQUE, FOREIGN_KEY = "check", "unique", "foreign key"

NO_ACTION, CASCADE, SET_NULL, SET_DEFAULT = "no action", "cascade", "set null", "set default"


@dataclass(frozen=True)
class Rule:
    """One constraint of a table, by the names of its columns; a foreign key refers to columns of another table.

    `text` is a CHECK's condition as it was written.
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
    """whether it is looked at when a transaction ends, not after each of its statements"""

    def written(self) -> list[Any]:
        """As JSON has it."""
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
        """With another name of a table."""
        named = {old: new}
        return replace(self, table=named.get(self.table, self.table), other=named.get(self.other, self.other))

    def with_columns(self, table: str, names: dict[str, str]) -> Rule:
        """With other names of a table's columns."""
        here, text = self.columns, self.text
        if self.table == table:
            here, text = tuple(names.get(c, c) for c in self.columns), with_names(self.text, names)
        there = tuple(names.get(c, c) for c in self.other_columns) if self.other == table else self.other_columns
        return replace(self, columns=here, other_columns=there, text=text)

    def reads(self, table: str, column: str) -> bool:
        """Whether it is about a column."""
        return (self.table == table and column in self.columns) or (
            self.other == table and column in self.other_columns
        )

    def declared(self) -> str:
        """As CREATE TABLE says it.

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
    """A text of SQL with other names of columns, all of which are quoted in it.

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
    """A text without the quotes that its names do not need."""
    return _SIMPLE.sub(r"\1", text)


NO_RULE = Rule("", CHECK, "", ())
