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

from everview.kernels import cache as _cache

_cache.configure()  # before anything imports numba

from everview.collection import Collection  # noqa: E402
from everview.errors import (  # noqa: E402
    ClosedError,
    CompactedError,
    EverviewError,
    InputError,
    InternalError,
    LoopError,
    PlanError,
    RowErrors,
    StoreError,
    UdfError,
)
from everview.expr.language import col, count, greatest, least, lit, tuple_, udf, when  # noqa: E402
from everview.loops import fixpoint  # noqa: E402
from everview.session import Session, connect  # noqa: E402
from everview.snapshot import Snapshot  # noqa: E402
from everview.table import Table  # noqa: E402
from everview.types import DataType, decimal  # noqa: E402
from everview.view import Batch, View  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "ClosedError",
    "Collection",
    "CompactedError",
    "DataType",
    "EverviewError",
    "InputError",
    "InternalError",
    "LoopError",
    "PlanError",
    "RowErrors",
    "Session",
    "Snapshot",
    "StoreError",
    "Table",
    "UdfError",
    "View",
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
    """`everview.graph`, `everview.io` and `everview.spark` are imported when first asked for."""
    if name in ("graph", "io", "spark"):
        import importlib

        return importlib.import_module(f"everview.{name}")
    raise AttributeError(f"module 'everview' has no attribute {name!r}")
