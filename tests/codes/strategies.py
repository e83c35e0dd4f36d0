"""Values of every type, extremes included, for property tests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from everview.types import NULL, DataType

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 0]),
    "float": st.floats() | st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 5e-324]),
    "bool": st.booleans(),
    "str": st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["", "𝄞", "a\0b"]),
    "bytes": st.binary() | st.sampled_from([b"", b"\xff", b"\0"]),
    "date": st.dates(),
    "timestamp": st.datetimes().map(lambda time: time.replace(fold=0)),  # UTC has no repeated hour
}


def types(depth: int = 1) -> st.SearchStrategy[DataType]:
    """Any column type, tuples nested `depth` deep."""
    plain = st.builds(DataType, st.sampled_from(sorted(SCALARS)), st.booleans())
    decimals = st.builds(lambda scale, null: DataType("decimal", null, scale), st.integers(0, 18), st.booleans())
    if not depth:
        return plain | decimals
    items = st.lists(types(depth - 1), max_size=3).map(tuple)
    return plain | decimals | st.builds(lambda parts, null: DataType("tuple", null, items=parts), items, st.booleans())


def values(declared: DataType) -> st.SearchStrategy[Any]:
    """Values of a type."""
    if declared.nullable:
        return st.none() | values(declared.optional(False)).filter(
            lambda value: type(value) is not int or value != NULL
        )
    if declared.kind == "decimal":
        return st.integers(1 - 10**18, 10**18 - 1).map(lambda code: Decimal(code).scaleb(-declared.scale))
    if declared.kind == "tuple":
        return st.tuples(*map(values, declared.items))
    return SCALARS[declared.kind]


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[DataType, ...], list[tuple[Any, ...]]]:
    """A schema of one to three columns, and rows; often more rows than the few that are encoded one by one."""
    schema = tuple(draw(st.lists(types(), min_size=1, max_size=3)))
    rows = draw(st.lists(st.tuples(*map(values, schema)), max_size=8))
    return schema, rows * draw(st.sampled_from([1, 5]))


def same(left: Any, right: Any) -> bool:
    """Equal, telling -0.0 from 0.0 and 1 from True, and taking NaN for NaN."""
    return repr(left) == repr(right)
