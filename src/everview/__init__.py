"""Everview: views that stay true while the data changes.

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
"""

from everview.codes.frozen import JSON_NULL
from everview.codes.intervals import Interval
from everview.errors import (
    ClosedError,
    CompactedError,
    EverviewError,
    InputError,
    InternalError,
    LoopError,
    MemoryLimitError,
    PlanError,
    RowErrors,
    StoreError,
    UdfError,
)
from everview.expr.language import col, count, greatest, least, lit, tuple_, udf, when
from everview.language.collection import Collection
from everview.language.loop import fixpoint
from everview.session.batch import Batch
from everview.session.session import Session, connect
from everview.session.snapshot import Snapshot
from everview.session.table import Table
from everview.session.view import View
from everview.session.what_if import WhatIf
from everview.types import DataType, decimal

__version__ = "0.1.0"

__all__ = [
    "JSON_NULL",
    "Batch",
    "ClosedError",
    "Collection",
    "CompactedError",
    "DataType",
    "EverviewError",
    "InputError",
    "InternalError",
    "Interval",
    "LoopError",
    "MemoryLimitError",
    "PlanError",
    "RowErrors",
    "Session",
    "Snapshot",
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


def __getattr__(name: str) -> object:
    """`everview.graph`, `io`, `notebook` and `spark` are imported when first asked for."""
    if name in ("graph", "io", "notebook", "spark"):
        import importlib

        return importlib.import_module(f"everview.{name}")
    raise AttributeError(f"module 'everview' has no attribute {name!r}")
