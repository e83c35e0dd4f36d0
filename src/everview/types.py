"""Data types of columns.

Every value becomes one int64 *code* at the edge (see `everview.codes`), so a type says how to read a code:

| kind        | code                                                           | order kept |
|-------------|----------------------------------------------------------------|------------|
| `int`       | the number itself                                              | yes        |
| `bool`      | 0 or 1                                                         | yes        |
| `float`     | bits of the float64, folded so that codes sort like numbers    | yes        |
| `date`      | days since 1970-01-01                                          | yes        |
| `timestamp` | microseconds since 1970-01-01 UTC                              | yes        |
| `decimal`   | the number times 10**scale                                     | yes        |
| `str`, `bytes`, `tuple` | a 64-bit id made from the value (interned)         | no         |

NULL is one reserved code in every nullable column: a number near, but not at, the lower end of the 64-bit range, where
no float has its code. So the extremes stay usable; that very integer in a nullable int column is refused with a clear
error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["int", "float", "bool", "str", "bytes", "date", "timestamp", "decimal", "tuple"]

NULL = -(2**63) + 0x5EED_4E55_4C4C
"""The code of NULL in every nullable column."""

INTERNED: frozenset[str] = frozenset({"str", "bytes", "tuple"})
"""Kinds whose codes are ids in a dictionary and do not keep the values' order."""


@dataclass(frozen=True)
class DataType:
    """One column's type.

    >>> INT.optional()
    int?
    """

    kind: Kind
    nullable: bool = False
    scale: int = 0
    items: tuple[DataType, ...] = ()

    def optional(self, nullable: bool = True) -> DataType:
        """The same type with or without NULL."""
        return replace(self, nullable=nullable)

    def __repr__(self) -> str:
        name: str = self.kind
        if self.kind == "decimal":
            name = f"decimal({self.scale})"
        elif self.kind == "tuple":
            name = f"tuple({', '.join(map(repr, self.items))})"
        return name + ("?" if self.nullable else "")


INT = DataType("int")
FLOAT = DataType("float")
BOOL = DataType("bool")
STR = DataType("str")
BYTES = DataType("bytes")
DATE = DataType("date")
TIMESTAMP = DataType("timestamp")


def decimal(scale: int = 6) -> DataType:
    """A decimal with `scale` digits after the point, 18 digits in all.

    >>> decimal(2)
    decimal(2)
    """
    return DataType("decimal", scale=scale)
