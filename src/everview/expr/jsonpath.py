"""SQL/JSON paths, as in PostgreSQL's jsonpath: `$.items[*] ? (@.price > 10).name`.

A path is compiled into steps, each of which maps a list of items to a list. Conditions are three-valued: what cannot be
compared is unknown (None), and a filter keeps what is true.

In *lax* mode, the default, arrays are unwrapped by member access, filters and comparisons, a non-array is treated as an
array of one item, and a missing item is skipped. In *strict* mode all of these are errors (`PathError`); an error
inside a condition makes it unknown.

Supported: members, `.*`, `.**`, `[1]`, `[0 to last]`, `[*]`, filters, comparisons, `&& || !`, exists, `starts with`,
`like_regex` (flags i, s, q), `is unknown`, arithmetic, and the methods type, size, abs, floor, ceiling and double. Not
supported: variables, datetime and keyvalue.

The parser is in `everview.expr.jsonpath_parser`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Item = Any
Step = Callable[["Run", list[Item]], list[Item]]
Truth = Callable[["Run", list[Item]], bool | None]


class PathError(Exception):
    """The path cannot be followed in this value."""


@dataclass(frozen=True)
class Path:
    """A compiled path."""

    step: Step
    strict: bool
    is_condition: bool


@dataclass(frozen=True)
class Run:
    """One evaluation of a path over a value."""

    root: Item
    strict: bool

    def fail(self) -> list[Item]:
        """A missing item: an error in strict mode, else nothing."""
        if self.strict:
            raise PathError
        return []


def items(path: Path, value: Item) -> list[Item]:
    """The items that a path selects; `PathError` if it cannot be followed."""
    return path.step(Run(value, path.strict), [value])


def matches(path: Path, value: Item) -> bool | None:
    """The truth value of a path that is a condition; None if unknown."""
    found = items(path, value)
    if len(found) != 1 or not (found[0] is None or isinstance(found[0], bool)):
        raise PathError
    return found[0]


# ------------------------------------------------------------------------------------------------- steps


def _unwrapped(run: Run, given: list[Item]) -> list[Item]:
    """In lax mode arrays are replaced by their items."""
    if run.strict:
        return given
    return [part for item in given for part in (item if isinstance(item, list) else [item])]


def member(name: str) -> Step:
    def step(run: Run, given: list[Item]) -> list[Item]:
        found: list[Item] = []
        for item in _unwrapped(run, given):
            found += [item[name]] if isinstance(item, dict) and name in item else run.fail()
        return found

    return step


def any_member(run: Run, given: list[Item]) -> list[Item]:
    found: list[Item] = []
    for item in _unwrapped(run, given):
        found += item.values() if isinstance(item, dict) else run.fail()
    return found


def anything(run: Run, given: list[Item]) -> list[Item]:
    """.**: an item and everything inside it."""
    found: list[Item] = []
    for item in given:
        inside = item.values() if isinstance(item, dict) else item if isinstance(item, list) else []
        found += [item, *anything(run, list(inside))]
    return found


def any_element(run: Run, given: list[Item]) -> list[Item]:
    if run.strict and not all(isinstance(item, list) for item in given):
        raise PathError
    return [part for item in given for part in (item if isinstance(item, list) else [item])]


Bounds = tuple[Callable[[Run, int], int], Callable[[Run, int], int]]


def elements(ranges: list[Bounds]) -> Step:
    def step(run: Run, given: list[Item]) -> list[Item]:
        found: list[Item] = []
        for item in given:
            if not isinstance(item, list):
                if run.strict:
                    raise PathError
                item = [item]
            for low, high in ranges:
                first, last = low(run, len(item)), high(run, len(item))
                if run.strict and (first < 0 or first > last or last >= len(item)):
                    raise PathError
                found += item[max(first, 0) : max(last + 1, 0)]
        return found

    return step


def filtered(test: Truth) -> Step:
    def step(run: Run, given: list[Item]) -> list[Item]:
        return [item for item in _unwrapped(run, given) if test(run, [item]) is True]

    return step


def chain(steps: list[Step]) -> Step:
    def step(run: Run, given: list[Item]) -> list[Item]:
        for one in steps:
            given = one(run, given)
        return given

    return step


def _is_number(item: Item) -> bool:
    return isinstance(item, (int, float, Decimal)) and not isinstance(item, bool)


def method(name: str) -> Step:
    def step(run: Run, given: list[Item]) -> list[Item]:
        if name == "type":
            return [_kind(item) for item in given]
        if name == "size":
            if run.strict and not all(isinstance(item, list) for item in given):
                raise PathError
            return [len(item) if isinstance(item, list) else 1 for item in given]
        return [_METHODS[name](item) for item in _unwrapped(run, given)]

    return step


def _kind(item: Item) -> str:
    if item is None or isinstance(item, bool):
        return "null" if item is None else "boolean"
    return next((kind for python, kind in _KINDS if isinstance(item, python)), "number")


_KINDS: tuple[tuple[type, str], ...] = ((dict, "object"), (list, "array"), (str, "string"))


def _numeric(function: Callable[[Any], Any]) -> Callable[[Item], Item]:
    def run(item: Item) -> Item:
        if not _is_number(item):
            raise PathError
        return function(item)

    return run


def _double(item: Item) -> float:
    try:
        found = float(item) if _is_number(item) or isinstance(item, str) else math.nan
    except ValueError:
        raise PathError from None
    if not math.isfinite(found):
        raise PathError
    return found


_METHODS: dict[str, Callable[[Item], Item]] = {
    "abs": _numeric(abs),
    "floor": _numeric(math.floor),
    "ceiling": _numeric(math.ceil),
    "double": _double,
}
METHODS = ("type", "size", *_METHODS)

# -------------------------------------------------------------------------------------------- conditions


def _known(step: Step, run: Run, given: list[Item]) -> list[Item] | None:
    """The items of an operand, arrays unwrapped; None if they cannot be found."""
    try:
        return _unwrapped(run, step(run, given))
    except PathError:
        return None


def _compared(a: Item, b: Item, op: str) -> bool | None:
    """The result of comparing two items; None if they cannot be compared."""
    if a is None or b is None:
        same = a is b
        return same if op == "==" else not same if op == "!=" else same and op in ("<=", ">=")
    kinds = {_kind(a), _kind(b)}
    if len(kinds) > 1 or kinds & {"object", "array"}:
        return None
    return bool(_COMPARE[op](a, b))


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _some(run: Run, results: list[bool | None]) -> bool | None:
    """True if any is; in strict mode, or if none is true, unknown if any is."""
    if True in results and not (run.strict and None in results):
        return True
    return None if None in results else False


def comparison(left: Step, op: str, right: Step) -> Truth:
    def test(run: Run, given: list[Item]) -> bool | None:
        a, b = _known(left, run, given), _known(right, run, given)
        if a is None or b is None:
            return None
        return _some(run, [_compared(x, y, op) for x in a for y in b])

    return test


def text_test(operand: Step, holds: Callable[[str], bool]) -> Truth:
    def test(run: Run, given: list[Item]) -> bool | None:
        found = _known(operand, run, given)
        return None if found is None else _some(run, [holds(i) if isinstance(i, str) else None for i in found])

    return test


def exists(operand: Step) -> Truth:
    def test(run: Run, given: list[Item]) -> bool | None:
        try:
            return bool(operand(run, given))
        except PathError:
            return None

    return test


def both(a: Truth, b: Truth) -> Truth:
    def test(run: Run, given: list[Item]) -> bool | None:
        x, y = a(run, given), b(run, given)
        return False if x is False or y is False else None if x is None or y is None else True

    return test


def either(a: Truth, b: Truth) -> Truth:
    def test(run: Run, given: list[Item]) -> bool | None:
        x, y = a(run, given), b(run, given)
        return True if x is True or y is True else None if x is None or y is None else False

    return test


def negated(a: Truth) -> Truth:
    def test(run: Run, given: list[Item]) -> bool | None:
        x = a(run, given)
        return None if x is None else not x

    return test


def as_item(test: Truth) -> Step:
    return lambda run, given: [test(run, given)]


def arithmetic(left: Step, op: str, right: Step) -> Step:
    def step(run: Run, given: list[Item]) -> list[Item]:
        a, b = _unwrapped(run, left(run, given)), _unwrapped(run, right(run, given))
        if len(a) != 1 or len(b) != 1 or not _is_number(a[0]) or not _is_number(b[0]):
            raise PathError
        return [_calculated(a[0], op, b[0])]

    return step


def _calculated(a: Item, op: str, b: Item) -> Item:
    x, y = (Decimal(str(n)) for n in (a, b))
    if op in ("/", "%") and not y:
        raise PathError
    found = {"+": x.__add__, "-": x.__sub__, "*": x.__mul__, "/": x.__truediv__, "%": x.__mod__}[op](y)
    return int(found) if found == found.to_integral_value() else found


def signed(operand: Step, op: str) -> Step:
    def step(run: Run, given: list[Item]) -> list[Item]:
        found = _unwrapped(run, operand(run, given))
        if not all(map(_is_number, found)):
            raise PathError
        return [-n if op == "-" else n for n in found]

    return step
