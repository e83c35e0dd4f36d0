"""Data types of columns.

Every value is stored as one int64 *code* (see `everview.codes`); the type determines how a code is read:

| kind        | code                                                           | order kept |
|-------------|----------------------------------------------------------------|------------|
| `int`       | the number itself                                              | yes        |
| `bool`      | 0 or 1                                                         | yes        |
| `float`     | bits of the float64, folded so that codes sort like numbers    | yes        |
| `date`      | days since 1970-01-01                                          | yes        |
| `timestamp` | microseconds since 1970-01-01 UTC                              | yes        |
| `timestamptz` | the same; an instant that is displayed in a time zone       | yes        |
| `time`      | microseconds since midnight                                    | yes        |
| `decimal`   | the number times 10**scale, up to 18 digits                    | yes        |
| `enum`      | the label's place among the `names`                            | yes        |
| `str`, `bytes`, `tuple` | a 64-bit id made from the value (interned)         | no         |
| `char`      | the id of the text without its trailing blanks                 | no         |
| `numeric`, `interval`, `uuid`, `json`, `array`, `struct`, `map` | the id of the value's text (`codes.packed`) | no |

NULL is one reserved code in every nullable column. It is near, but not at, the lower end of the 64-bit range, where no
float has its code. The extreme values therefore stay usable. Inserting that one integer into a nullable int column is
an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from everview.errors import InputError

Kind = Literal[
    "int", "float", "bool", "str", "bytes", "date", "timestamp", "decimal", "tuple", "timestamptz", "time", "enum",
    "char", "numeric", "interval", "uuid", "json", "array", "struct", "map",
]  # fmt: skip

NULL = -(2**63) + 0x5EED_4E55_4C4C
"""The code of NULL in every nullable column."""

PACKED: frozenset[str] = frozenset({"numeric", "interval", "uuid", "json", "array", "struct", "map"})
"""Kinds whose values are interned in serialised form; their functions are evaluated in Python, value by value."""

INTERNED: frozenset[str] = frozenset({"str", "bytes", "tuple", "char"}) | PACKED
"""Kinds whose codes are dictionary ids and do not preserve the order of values."""


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
    names: tuple[str, ...] = ()
    """Labels of an enum in order, or the field names of a struct."""
    width: int = 0
    """Bits of a small int (negative: unsigned), characters of a char or varchar, digits of a decimal; or 0."""

    def optional(self, nullable: bool = True) -> DataType:
        """The same type with or without NULL."""
        return replace(self, nullable=nullable)

    def __repr__(self) -> str:
        name: str = self.kind
        if self.kind == "decimal":
            name = f"decimal({self.width}, {self.scale})" if self.width else f"decimal({self.scale})"
        elif self.kind == "numeric":
            name = "numeric" if self.scale == FREE else f"numeric({self.width or MOST_DIGITS}, {self.scale})"
        elif self.kind in ("tuple", "array", "map"):
            name = f"{self.kind}({', '.join(map(repr, self.items))})"
        elif self.kind == "struct":
            fields = (f"{n} {t!r}" for n, t in zip(self.names, self.items, strict=True))
            name = f"struct({', '.join(fields)})"
        elif self.kind == "enum":
            name = f"enum({', '.join(map(repr, self.names))})"
        elif self.kind == "char":
            name = f"char({self.width})"
        elif self.kind == "str" and self.width:
            name = f"varchar({self.width})"
        elif self.width:
            name = f"{'u' if self.width < 0 else ''}int{abs(self.width)}"
        return name + ("?" if self.nullable else "")


INT = DataType("int")
FLOAT = DataType("float")
BOOL = DataType("bool")
STR = DataType("str")
BYTES = DataType("bytes")
DATE = DataType("date")
TIMESTAMP = DataType("timestamp")
TIMESTAMPTZ = DataType("timestamptz")
TIME = DataType("time")
INTERVAL = DataType("interval")
UUID = DataType("uuid")
JSON = DataType("json")

MOST_DIGITS = 38
"""Maximum number of digits of a numeric."""

FREE = MOST_DIGITS + 1
"""Scale of a numeric without a fixed scale: each value has up to 38 digits before the point and up to 38 after it. It
is larger than every other scale, so the maximum of two scales fits both."""


def decimal(scale: int = 6, width: int = 0) -> DataType:
    """A decimal with `scale` digits after the point; `width` digits in all, or 18.

    >>> decimal(2), decimal(2, 9)
    (decimal(2), decimal(9, 2))
    """
    if not isinstance(scale, int) or not isinstance(width, int):
        raise InputError("E_TYPE", f"decimal({scale!r}, {width!r}) is not a type", "give numbers of digits: decimal(2)")
    return DataType("decimal", scale=scale, width=width if width < 18 else 0)


def numeric(scale: int, width: int = MOST_DIGITS) -> DataType:
    """A decimal with up to 38 digits in all, `scale` of them after the point.

    >>> numeric(2), numeric(FREE)
    (numeric(38, 2), numeric)
    """
    return DataType("numeric", scale=scale, width=width) if scale < FREE else DataType("numeric", scale=FREE)


def array(item: DataType) -> DataType:
    """A list of values of one type; each may be NULL.

    >>> array(INT)
    array(int?)
    """
    return DataType("array", items=(item.optional(),))


def struct(names: tuple[str, ...], items: tuple[DataType, ...]) -> DataType:
    """Named values of several types; each may be NULL.

    >>> struct(("x", "y"), (INT, STR))
    struct(x int?, y str?)
    """
    return DataType("struct", items=tuple(item.optional() for item in items), names=names)


def mapping(key: DataType, value: DataType) -> DataType:
    """Values by keys.

    >>> mapping(STR, INT)
    map(str, int?)
    """
    return DataType("map", items=(key.optional(False), value.optional()))


def enum(*labels: str) -> DataType:
    """One of some labels, ordered as they are listed.

    >>> enum("low", "high")
    enum('low', 'high')
    """
    return DataType("enum", names=labels)


def small_int(bits: int) -> DataType:
    """An int of this many bits; negative: unsigned.

    >>> small_int(16), small_int(-8)
    (int16, uint8)
    """
    return DataType("int", width=bits)


def char(letters: int) -> DataType:
    """A text padded with blanks to a fixed length; the padding is ignored in comparisons.

    >>> char(3)
    char(3)
    """
    return DataType("char", width=letters)


def varchar(letters: int) -> DataType:
    """A text with a maximum length. Only table columns have this type: in expressions its values are ordinary texts.

    >>> varchar(3), unlimited(varchar(3))
    (varchar(3), str)
    """
    return DataType("str", width=letters)


def unlimited(declared: DataType) -> DataType:
    """The type of a column within plans, where a varchar is an ordinary text."""
    return replace(declared, width=0) if declared.kind == "str" and declared.width else declared


def bounds(bits: int) -> tuple[int, int]:
    """The smallest and largest int of this many bits.

    >>> bounds(16), bounds(-8)
    ((-32768, 32767), (0, 255))
    """
    return (0, 2**-bits - 1) if bits < 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
