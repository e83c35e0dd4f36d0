"""Everview: incrementally maintained views over changing data.

>>> import everview as ev
>>> from everview import col
>>> db = ev.connect()
>>> edge = db.table("edge", {"src": int, "dst": int})
>>> degree = db.view("degree", edge.group_by("src").agg(n=ev.count()))
>>> edge.insert([(1, 2), (1, 3), (2, 3)])
>>> sorted(degree.rows())
[(1, 2), (2, 1)]
>>> edge.delete([(1, 3)])
>>> sorted(degree.rows())
[(1, 1), (2, 1)]

Importing the package is cheap: public names are loaded on first use, compiled kernels by the first `connect()`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from everview.kernels.build.no_compiler import do_without

if TYPE_CHECKING:
    from everview.codes.immutable import JSON_NULL
    from everview.codes.intervals import Interval
    from everview.errors import (
        ClosedError,
        CompactedError,
        ConstraintError,
        EverviewError,
        InputError,
        InternalError,
        LoopError,
        MemoryLimitError,
        Notice,
        PlanError,
        RowErrors,
        StoppedError,
        StoreError,
        UdfError,
    )
    from everview.expr.language import col, count, greatest, least, lit, tuple_, udf, when
    from everview.language.collection import Collection
    from everview.language.loop import fixpoint
    from everview.plan.provenance import Provenance
    from everview.session.changes.batch import Batch
    from everview.session.connecting import connect
    from everview.session.reads.snapshot import Snapshot
    from everview.session.reads.what_if import WhatIf
    from everview.session.session import Session
    from everview.session.table import Table
    from everview.session.view import View
    from everview.types import DataType, decimal

__version__ = "0.1.0"

__all__ = [
    "JSON_NULL",
    "Batch",
    "ClosedError",
    "Collection",
    "CompactedError",
    "ConstraintError",
    "DataType",
    "EverviewError",
    "InputError",
    "InternalError",
    "Interval",
    "LoopError",
    "MemoryLimitError",
    "Notice",
    "PlanError",
    "Provenance",
    "RowErrors",
    "Session",
    "Snapshot",
    "StoppedError",
    "StoreError",
    "Table",
    "UdfError",
    "View",
    "WhatIf",
    "col",
    "connect",
    "count",
    "decimal",
    "fixpoint",
    "greatest",
    "least",
    "lit",
    "tuple_",
    "udf",
    "when",
]

_HOMES = {
    "codes.immutable": "JSON_NULL",
    "codes.intervals": "Interval",
    "errors": "ClosedError CompactedError ConstraintError EverviewError InputError InternalError LoopError "
    "MemoryLimitError Notice PlanError RowErrors StoppedError StoreError UdfError",
    "expr.language": "col count greatest least lit tuple_ udf when",
    "language.collection": "Collection",
    "language.loop": "fixpoint",
    "plan.provenance": "Provenance",
    "session.changes.batch": "Batch",
    "session.connecting": "connect",
    "session.session": "Session",
    "session.reads.snapshot": "Snapshot",
    "session.table": "Table",
    "session.view": "View",
    "session.reads.what_if": "WhatIf",
    "types": "DataType decimal",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_PARTS = ("errors", "graph", "io", "notebook", "spark", "types")

do_without()  # a process that imports this runs kernels and does not compile them


def __getattr__(name: str) -> Any:
    """Load a public name or a submodule on first access."""
    if name in _HOME_OF:
        found = getattr(importlib.import_module(f"everview.{_HOME_OF[name]}"), name)
        globals()[name] = found
        return found
    if name in _PARTS:
        return importlib.import_module(f"everview.{name}")
    raise AttributeError(f"module 'everview' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
