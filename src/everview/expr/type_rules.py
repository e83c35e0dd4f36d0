"""Which types the built-in functions accept, what they are cast to, and the types of the results.

A rule is a function of the argument types; it raises `NoMatch` if they do not fit. `functions` assigns the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from everview.expr import python_function_types
from everview.expr.common_types import MAX_SCALE, NUMBERS, ORDERED, NoMatch, Rule, Types, common_type
from everview.types import BOOL, FLOAT, FREE, INT, MOST_DIGITS, STR, DataType, decimal, numeric


def need(condition: bool) -> None:
    if not condition:
        raise NoMatch


def common(types: Types, kinds: frozenset[str] | None = None) -> DataType:
    found = common_type(types)
    if found is None or (kinds is not None and found.kind not in kinds):
        raise NoMatch
    return found


def fixed(wanted: Sequence[DataType], result: DataType) -> Rule:
    """Exactly these kinds; fewer arguments may be given (the arity says how many)."""

    def rule(types: Types) -> tuple[Types, DataType]:
        for given, want in zip(types, wanted, strict=False):
            need(common_type((given, want)) == want.optional(given.nullable))
        return tuple(wanted[: len(types)]), result

    return rule


def plain(t: DataType) -> DataType:
    """The type of a computed number: small ints and decimals of few digits may leave their range."""
    if t.kind == "numeric":
        return numeric(t.scale).optional(t.nullable) if t.width else t
    return replace(t, width=0) if t.kind in ("int", "decimal") else t


def arithmetic(types: Types) -> tuple[Types, DataType]:
    t = plain(common(types, NUMBERS | {"numeric"}))
    return (t,) * len(types), t


def sum_or_difference(types: Types) -> tuple[Types, DataType]:
    if {t.kind for t in types} == {"interval"}:
        return types, types[0]
    return arithmetic(types)


def mul(types: Types) -> tuple[Types, DataType]:
    t = plain(common(types, NUMBERS | {"numeric"}))
    if t.kind not in ("decimal", "numeric"):
        return (t, t), t
    scales = [x.scale if x.kind in ("decimal", "numeric") else 0 for x in types]
    if t.kind == "numeric" or sum(scales) > MAX_SCALE:
        sides = (numeric(scales[0]), numeric(scales[1]))
        return sides, python_function_types.product(*sides)
    return (decimal(scales[0]), decimal(scales[1])), decimal(sum(scales))


def div(types: Types) -> tuple[Types, DataType]:
    t = common(types, NUMBERS | {"numeric"})
    if t.kind != "numeric":
        return to_float(types)
    return (numeric(types[0].scale), numeric(types[1].scale)), python_function_types.QUOTIENT


def to_float(types: Types) -> tuple[Types, DataType]:
    common(types, NUMBERS | {"numeric"})
    return (FLOAT,) * len(types), FLOAT


def floordiv(types: Types) -> tuple[Types, DataType]:
    t = plain(common(types, NUMBERS | {"numeric"}))
    return (t, t), INT if t.kind == "decimal" else numeric(0) if t.kind == "numeric" else t


def number(types: Types) -> tuple[Types, DataType]:
    need(types[0].kind in NUMBERS | {"numeric"})
    return (plain(types[0]),), plain(types[0])


def negated(types: Types) -> tuple[Types, DataType]:
    return (types, types[0]) if types[0].kind == "interval" else number(types)


def round(types: Types) -> tuple[Types, DataType]:
    need(types[0].kind in NUMBERS | {"numeric"} and all(t.kind == "int" for t in types[1:]))
    return (plain(types[0]), *types[1:]), plain(types[0])


def sign(types: Types) -> tuple[Types, DataType]:
    need(types[0].kind in NUMBERS | {"numeric"})
    return types, FLOAT if types[0].kind == "float" else INT


def attempt(types: Types) -> tuple[Types, DataType]:
    return types, types[0].optional()


def equality(types: Types) -> tuple[Types, DataType]:
    t = _comparable(types, common(types))
    return (t, t), BOOL


def order(types: Types) -> tuple[Types, DataType]:
    t = _comparable(types, common(types, ORDERED))
    return (t, t), BOOL


def _comparable(types: Types, both: DataType) -> DataType:
    """A type in which numbers can be compared without overflow: 2.5 with a number of 38 digits before the point."""
    if both.kind != "numeric" or both.scale >= FREE or len({(t.kind, t.scale, t.width) for t in types}) == 1:
        return both
    before = max(_digits_before(t) for t in types)
    return numeric(FREE).optional(both.nullable) if before + both.scale > MOST_DIGITS else both


def _digits_before(declared: DataType) -> int:
    """How many digits numbers of a type have before the point at most."""
    if declared.kind == "int":
        return 19
    return (declared.width or (18 if declared.kind == "decimal" else MOST_DIGITS)) - declared.scale


def extreme(types: Types) -> tuple[Types, DataType]:
    t = common(types, ORDERED)
    return (t,) * len(types), t.optional(all(x.nullable for x in types))


def first_value(types: Types) -> tuple[Types, DataType]:
    t = common(types)
    return (t,) * len(types), t.optional(all(x.nullable for x in types))


def nullif(types: Types) -> tuple[Types, DataType]:
    t = common(types)
    return (t, t), t.optional()


def case(types: Types) -> tuple[Types, DataType]:
    need(len(types) % 2 == 1 and all(t.kind == "bool" for t in types[:-1:2]))
    t = common((*types[1::2], types[-1]))
    return (*[x for _ in types[:-1:2] for x in (BOOL, t)], t), t


def logic(types: Types) -> tuple[Types, DataType]:
    need(all(t.kind == "bool" for t in types))
    return types, BOOL.optional(any(t.nullable for t in types))


def anything_to(result: DataType) -> Rule:
    return lambda types: (types, result)


def cast(result: DataType, sources: str) -> Rule:
    allowed = frozenset((*sources.split(), result.kind))

    def rule(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind in allowed)
        return types, result

    return rule


def length(types: Types) -> tuple[Types, DataType]:
    need(types[0].kind in {"str", "bytes", "char"})
    return (STR.optional(types[0].nullable) if types[0].kind == "char" else types[0],), INT


def moment_to(result: DataType) -> Rule:
    def rule(types: Types) -> tuple[Types, DataType]:
        need(types[0].kind in {"date", "timestamp"})
        return types, result

    return rule


def date_trunc(types: Types) -> tuple[Types, DataType]:
    need(types[0].kind == "str" and types[1].kind in {"date", "timestamp"})
    return types, types[1]


def add_months(types: Types) -> tuple[Types, DataType]:
    need(types[0].kind in {"date", "timestamp"} and types[1].kind == "int")
    return types, types[0]


def tuple_make(types: Types) -> tuple[Types, DataType]:
    return types, DataType("tuple", items=types)


def tuple_get(types: Types) -> tuple[Types, DataType]:
    need(types[0].kind == "tuple" and types[1].kind == "int")
    return types, types[0]  # the item's type depends on the index: see _tuple_item
