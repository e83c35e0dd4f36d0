"""The handler interface: a function for each kind of sqlglot node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from everview.expr.nodes import Expr

Forms = Mapping[type[exp.Expr], Callable[[Any, Any], Expr]]
"""For each kind of node a function of the current `Scalars` and the node."""
