"""Solutions: the bindings that satisfy some literals, as a plan with one column per variable.

Solutions are a bag: a table row that occurs twice yields its solutions twice. Relations defined by rules are sets, so
duplicates come from tables only, and only aggregates can see them (goebel-2019 §14.5 argues why they should: two
employees with equal salaries are two salaries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.datalog import variants
from everview.datalog.syntax import Aggregate, Apply, Const, Place, Term, Var, Variant, Wild
from everview.errors import EverviewError, PlanError, did_you_mean
from everview.expr import common_types, functions, language, nodes
from everview.expr.resolve import Column, Scope, resolve
from everview.plan import joins
from everview.plan.keys import unique_columns
from everview.plan.nodes import Filter, Negate, Node, Project, Threshold, Types, Union
from everview.types import BOOL, BYTES, DATE, FLOAT, INT, STR, TIMESTAMP, DataType, decimal

CASTS: dict[str, DataType] = {
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "str": STR,
    "bytes": BYTES,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "decimal": decimal(),
}
"""Conversion functions: `date("2026-11-16")`."""


@dataclass(frozen=True)
class Relation:
    """A relation that rules can read: a plan and the names of its columns."""

    node: Node
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Solutions:
    """A plan whose columns are variables (None: an unused column)."""

    node: Node
    names: tuple[str | None, ...]

    @property
    def bound(self) -> set[str]:
        """The bound variables."""
        return {n for n in self.names if n is not None}

    def at(self, name: str) -> int:
        return self.names.index(name)

    def value(self, term: Term) -> nodes.Expr:
        """The term over the solutions' columns; its variables are bound."""
        columns = tuple(Column(n or "", t) for n, t in zip(self.names, self.node.types, strict=True))
        for variant in variants.within(term):
            for wanted, item in zip(variant.fields, variant.args, strict=True):
                variants.check(wanted, self.value(item).type, item.place)
        try:
            return resolve(expression(term), Scope(columns, "the rule"))
        except EverviewError as error:
            raise term.place.placed(error) from None

    def where(self, condition: nodes.Expr) -> Solutions:
        """Only those for which the condition is true."""
        return Solutions(Filter(self.node, condition), self.names)

    def extended(self, name: str, value: nodes.Expr) -> Solutions:
        """With one more variable."""
        if isinstance(value, nodes.ColumnRef) and self.names[value.index] is None:
            names = [name if i == value.index else n for i, n in enumerate(self.names)]
            return Solutions(self.node, tuple(names))
        return Solutions(Project(self.node, (*joins.refs(self.node.types), value)), (*self.names, name))

    def taken(self, names: Sequence[str]) -> Solutions:
        """The values of these variables, with multiplicity."""
        return Solutions(joins.take(self.node, [self.at(n) for n in names]), tuple(names))

    def distinct(self, names: Sequence[str]) -> Solutions:
        """The values of these variables, each once."""
        return Solutions(distinct(joins.take(self.node, [self.at(n) for n in names])), tuple(names))

    def joined(self, other: Solutions, place: Place) -> Solutions:
        """Pairs that agree on the common variables."""
        on, names = self._shared(other, place)
        kept = (*self.names, *(None if n in names else n for n in other.names))
        return Solutions(joins.join(self.node, other.node, on, "inner"), kept)

    def without(self, other: Solutions, place: Place) -> Solutions:
        """Those that agree with none of the others on the common variables."""
        on, _ = self._shared(other, place)
        return Solutions(joins.join(self.node, other.node, on, "anti"), self.names)

    def _shared(self, other: Solutions, place: Place) -> tuple[joins.Condition, list[str]]:
        names = [n for n in other.names if n is not None and n in self.names]
        pairs = [self._key(other, n, place) for n in names]
        return joins.Condition(tuple(l for l, _ in pairs), tuple(r for _, r in pairs)), names

    def _key(self, other: Solutions, name: str, place: Place) -> tuple[nodes.Expr, nodes.Expr]:
        l, r = self.at(name), other.at(name)
        left = nodes.ColumnRef(self.node.types[l], l)
        right = nodes.ColumnRef(other.node.types[r], r)
        try:
            a, b = functions.call("eq", left, right).children()
        except PlanError:
            raise place.error(
                "E_TYPE", f"{name} is {left.type!r} before this and {right.type!r} here", "convert one: Y = int(X)"
            ) from None
        return joins.canonical(a), joins.canonical(b)


def distinct(node: Node) -> Node:
    """Each row once; a no-op if that is certain already."""
    return node if unique_columns(node) else Threshold(node, "distinct")


def union(parts: Sequence[Node], places: Sequence[Place], what: str) -> Node:
    """All rows of all parts, their columns cast to common types."""
    same = cast_alike(parts, places, what)
    return same[0] if len(same) == 1 else Union(tuple(same))


def cast_alike(parts: Sequence[Node], places: Sequence[Place], what: str) -> list[Node]:
    """The parts with columns of common types."""
    types = list(parts[0].types)
    for part, place in zip(parts, places, strict=True):
        for i, have in enumerate(part.types):
            types[i] = common(types[i], have, place, f"column {i + 1} of {what}")
    return [cast_to(part, tuple(types)) for part in parts]


def most(parts: Sequence[Node], places: Sequence[Place], what: str) -> Node:
    """Each row of any part, with the maximum of its multiplicities: a + what b has more than a."""
    same = cast_alike(parts, places, what)
    if len(same) > 1 and all(unique_columns(part) for part in same):
        return Threshold(Union(tuple(same)), "distinct")
    found = same[0]
    for part in same[1:]:
        more = Threshold(Union((part, Negate(found))), "positive")
        found = Union((found, more))
    return found


def common(before: DataType, here: DataType, place: Place, what: str) -> DataType:
    """The type that values of both types fit into."""
    found = common_types.common_type((before, here))
    if found is None:
        raise place.error(
            "E_TYPE",
            f"{what} is {here.optional(False)!r} here and {before.optional(False)!r} before",
            "convert one: int(X), str(X), ...",
        )
    return found


def cast_to(node: Node, types: Types) -> Node:
    """The node with columns of these kinds; nullable where they are or its own were."""
    refs = joins.refs(node.types)
    exprs = tuple(functions.cast(e, t) for e, t in zip(refs, types, strict=True))
    return node if exprs == refs else Project(node, exprs)


def expression(term: Term) -> language.Expression:
    """The term as a Python collection expression."""
    match term:
        case Var(name=name):
            return language.Named(name)
        case Const(value=value):
            return language.wrap(value)
        case Apply(function=function, args=args) if function is not None:
            return language.UdfCall(function, tuple(map(expression, args)))
        case Variant(args=args):
            return language.Apply("json_array", language.wrap(term.tag), *map(_field, term.fields, args))
        case Apply(op=op, args=args) if op in CASTS:
            if len(args) != 1:
                raise term.place.error("E_FUNCTION", f"{op} takes one argument, not {len(args)}")
            return language.Cast(expression(args[0]), CASTS[op])
        case Apply(op=op, args=args):
            if op not in functions.FUNCTIONS:
                raise term.place.error("E_FUNCTION", f"there is no function {op}", _function_hint(op))
            return language.Apply(op, *map(expression, args))
        case Wild():
            raise term.place.error("E_UNSAFE", "_ has no value to compute with", "give it a name")
        case Aggregate():
            raise term.place.error(
                "E_AGGREGATE",
                f"{term.kind} is not allowed here",
                f"give it a variable of its own, N = {term.kind}(X), or put it into the head",
            )
    raise TypeError(f"not a term: {term!r}")


def _field(kind: str, term: Term) -> language.Expression:
    """The value of a variant's field: 3 for a float is 3.0, so that equal values are equal documents."""
    value = expression(term)
    return language.Cast(value, FLOAT) if kind == "float" else value


def _function_hint(name: str) -> str:
    extreme = {"min": "least", "max": "greatest"}.get(name)
    return f"of several values: {extreme}(...)" if extreme else did_you_mean(name, [*functions.FUNCTIONS, *CASTS])


CONDITIONS = frozenset({"contains", "startswith", "endswith", "like", "regexp_matches", "is_null", "is_not_null"})
"""Boolean functions, which may be used as literals."""
