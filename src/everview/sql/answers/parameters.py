"""Parameters `$name` of prepared queries.

All requested values are rows of one table, and the query is computed for all of them at once, like a correlated
subquery (`everview.sql.select.scopes`): the parameters are columns of an outer query. One dataflow therefore serves all
values, and a new value costs what its own rows cost.

A derived table or WITH query that reads parameters, including recursive ones, has their values as its first columns;
where it is used, these are joined to the values in question.

A parameter's type is that of the first operand it is compared with, or of a cast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.expr.nodes import Literal
from everview.sql.select.scopes import Field, Outer, Relation, Scope
from everview.types import DataType

if TYPE_CHECKING:
    from everview.plan.nodes import Node
    from everview.sql.text.error_positions import Source

PARAMETER = "$"
"""The pseudo-table whose columns are the parameters."""


class Learned(Exception):
    """Raised when the type of a parameter was inferred: the query must be bound again."""

    def __init__(self, name: str, found: DataType) -> None:
        self.name = name
        self.type = found.optional(False)


class Parameters:
    """The parameters of a statement: their known types, and the scope that contains them."""

    def __init__(self, types: Mapping[str, DataType | None] | None = None) -> None:
        self.types = dict(types or {})
        self.outer: Outer | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.types)

    def place(self, node: Node, source: Source) -> Outer:
        """Make the parameters the columns of a relation around the query."""
        relation = Relation(node, tuple(Field(n, PARAMETER, False) for n in self.types))
        self.outer = Outer(Scope(relation, source), tuple(range(len(self.types))))
        return self.outer

    def lacks_type(self, node: exp.Expr) -> bool:
        """Whether an expression is a parameter without a known type."""
        return isinstance(node, exp.Parameter) and node.name in self.types and self.types[node.name] is None

    def constant(self, node: exp.Parameter) -> Literal | None:
        """The value of a parameter, if it is one of a single call; see `everview.sql.answers.parameter_values`."""
        return None

    def check(self, node: exp.Parameter, source: Source) -> None:
        """Refuse a parameter that cannot have a value here."""
        if node.name not in self.types:
            raise source.refuse(
                node, f"${node.name} has no value here", "prepare the query: db.prepare(name, text), then call that"
            )
        if self.types[node.name] is None:
            raise source.error(
                node, "E_PARAMETER", f"the type of ${node.name} is not known", f"write CAST(${node.name} AS type)"
            )

    def are_read(self, node: exp.Expr, env: Mapping[str, Any]) -> bool:
        """Whether a query reads parameters, or a WITH query that does."""
        if not self.types:
            return False
        if node.find(exp.Parameter) is not None:
            return True
        known = (env.get(t.name.lower()) for t in node.find_all(exp.Table))
        return any(r is not None and r.parameters for r in known)
