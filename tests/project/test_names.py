"""Names: constants that name what they measure, and modules whose names are stored in directories."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from everview.codes.immutable import FrozenDict, FrozenList, JsonNull
from everview.codes.intervals import Interval
from everview.plan.node_records import OURS, PARTS, WRAPPERS

PACKAGE = Path(__file__).parents[2] / "src" / "everview"
VAGUE = {
    "FEW",
    "MANY",
    "MOST",
    "SOME",
    "LARGE",
    "SMALL",
    "BIG",
    "LONG",
    "HIGH",
    "LOW",
    "SAMPLE",
    "PIECE",
    "PIECES",
    "NOW",
}
IN_KERNELS = {"frontier/offers.py:LARGE", "frontier/pairs.py:_SMALL", "frontier/repair.py:FEW"}
"""To be renamed with the next change of these kernels, because a rename compiles them again. Never add to it."""


def constants() -> Iterator[tuple[Path, str]]:
    """Every constant of a module that is a number or the like: its file and its name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            yield from ((path, t.id) for t in targets if isinstance(t, ast.Name))


def test_constants_name_what_they_measure() -> None:
    found = [(path, name) for path, name in constants() if name.strip("_") in VAGUE]
    outside = [f"{path.relative_to(PACKAGE)}: {name}" for path, name in found if "kernels" not in path.parts]
    inside = {f"{p.relative_to(PACKAGE / 'kernels')}:{name}" for p, name in found if "kernels" in p.parts}
    tables = {
        "sql/text/syntax_errors.py: _PIECE",
        "sql/scalar/type_names.py: _SMALL",
        "codes/type_declarations.py: _SMALL",
    }
    assert set(outside) - tables == set(), "name the thing that is measured: MAX_WINDOWS, not MOST"
    assert inside <= IN_KERNELS


def test_classes_in_digests_stay_in_their_modules() -> None:
    """A digest contains the module of every class in a plan. Moving one makes stored state be computed again."""
    assert {c.__name__: c.__module__ for c in PARTS.values()} == {
        **dict.fromkeys(("ColumnRef", "Literal", "Call", "Udf"), "everview.expr.nodes"),
        **dict.fromkeys(("Frame", "WindowCall"), "everview.plan.windows"),
        "DataType": "everview.types",
        "Aggregate": "everview.plan.nodes",
    }
    assert {c.__name__: c.__module__ for c in (FrozenDict, FrozenList, JsonNull, Interval)} == {
        **dict.fromkeys(("FrozenDict", "FrozenList", "JsonNull"), "everview.codes.immutable"),
        "Interval": "everview.codes.intervals",
    }
    assert WRAPPERS == {
        "RowFunction": "everview.language.collection",
        "Listing": "everview.sql.lists",
        "Folding": "everview.sql.folds",
        "Unfolding": "everview.sql.unfolding",
        "SideBySide": "everview.sql.unfolding",
        "Documents": "everview.sql.lists",
        "Median": "everview.datalog.groups",
        "Range": "everview.datalog.ranges",
    }
    assert set(OURS.values()) == {"everview.expr.variance"}
