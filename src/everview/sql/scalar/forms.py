"""How a form of SQL is bound: a function for a kind of sqlglot's nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from everview.expr.nodes import Expr

Forms = Mapping[type[exp.Expr], Callable[[Any, Any], Expr]]
"""For each kind of node a function of the `Scalars` at work and the node."""
