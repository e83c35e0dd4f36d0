"""Collections: queries as values.

A `Collection` is a lazily evaluated bag of rows: a plan (`everview.plan.nodes`) plus the names of its columns. Every
method returns a new collection; nothing runs until `db.view(name, collection)` installs it, and from then on it is kept
up to date.

    edges = db.table("edges", {"src": int, "dst": int})
    two_hops = edges.join(far := edges.alias("far"), edges.dst == far.src).select(src=edges.src, dst=far.dst)

Columns are referred to by `col.x` (the column of that name here) or by `edges.src` (that column of `edges`, wherever it
went: through joins, filters, renames). Columns named like a method (`filter`, `join`) are accessed as `c["filter"]`.

Loops (`iterate`, `fixpoint`) call their body once or a few times with a collection that stands for the loop's variable;
the body is a plain function and must return the same collections each time. What the body builds from the variable is
only valid inside that loop; using it elsewhere is refused (E_LEAK).

Bags, not sets: rows have multiplicities. `union_all` adds, `except_` subtracts down to zero, `intersect` takes the
smaller, `distinct` makes them 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from everview.errors import PlanError
from everview.expr import language, nodes
from everview.expr.common_types import ORDERED
from everview.expr.resolve import Column, Scope, constants_of, predicate, resolve
from everview.language import hints
from everview.language import loop as loops
from everview.language.active_loops import Token
from everview.language.relation import Relation, relation_of
from everview.plan import joins
from everview.plan.explain import Explained, explain
from everview.plan.nodes import (
    Filter,
    FlatMap,
    Negate,
    Node,
    Project,
    Threshold,
    Union,
)
from everview.types import DataType

if TYPE_CHECKING:
    from everview.language.group import Grouping

__all__ = ["Collection", "Column"]


class Collection:
    """A bag of typed rows, described and not yet computed.

    >>> from everview.plan.nodes import Table
    >>> from everview.types import INT
    >>> edges = Collection(Table(0, (INT, INT)), (Column("src", INT), Column("dst", INT)), None, label="edges")
    >>> edges.filter(edges.src > 3).select(node=edges.dst)
    Collection(node int)
    >>> far = edges.alias("far")
    >>> edges.join(far, edges.dst == far.src, how="left").select(edges.src, to=far.dst)
    Collection(src int, to int?)
    >>> from everview.expr.language import col, count
    >>> print(edges.group_by("src").agg(n=count(), low=col.dst.min()).filter(col.n > 1).explain())
    r0 := Table edges (src int, dst int)
    r1 := Reduce[r0] by src: n = count(), low = min(dst)
    r2 := Filter[r1] n > 1
    >>> edges.iterate(lambda path: path.join(far, path.dst == far.src).select(src=path.src, dst=far.dst)
    ...     .union_all(edges).distinct())
    Collection(src int, dst int)
    """

    # public names are methods only: anything else would hide a column of that name
    _relation: Relation

    def __init__(
        self,
        node: Node,
        columns: Sequence[Column],
        owner: Any,
        *,
        label: str = "",
        parents: Sequence[Collection] = (),
        loop_tokens: frozenset[Token] | None = None,
    ) -> None:
        self._relation = Relation(node, columns, owner, label=label, parents=parents, loop_tokens=loop_tokens)

    # -------------------------------------------------------------------------------------- columns

    def __getattr__(self, name: str) -> language.Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> language.Expression:
        if not isinstance(name, str):
            raise hints.not_a_name(self, name)
        if name not in self.schema():
            raise hints.missing(self, name, [c.name for c in self._relation.columns])
        position = scope_of(self).named(name).index
        return language.Bound(self._relation.number, position, name, self._relation.label or "c")

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(c.name for c in self._relation.columns if c.name.isidentifier())]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        raise hints.not_computed(self, "iterated over", "list(v), or v.rows()")

    def __len__(self) -> int:
        raise hints.not_computed(self, "counted", "len(v)")

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Collection({', '.join(f'{c.name} {c.type!r}' for c in self._relation.columns)})"

    def schema(self) -> dict[str, DataType]:
        """Names and types of the columns, in order (of columns with one name, the last)."""
        return {c.name: c.type for c in self._relation.columns}

    def explain(self) -> str:
        """The logical plan as a list of steps."""
        return Explained(explain(self._relation.node, *known_names(self)))

    # ----------------------------------------------------------------------------------- row by row

    def select(self, *names: str | language.Expression, **named: Any) -> Collection:
        """Compute new columns: `c.select("a", c.b, total=col.x + col.y)`."""
        outputs = [(_name_of(n), language.Named(n) if isinstance(n, str) else n) for n in names]
        return self._project([*outputs, *named.items()], "select")

    def with_columns(self, **named: Any) -> Collection:
        """Keep all columns and add new ones; an existing name is replaced in place."""
        outputs = [(c.name, named.get(c.name, _At(i))) for i, c in enumerate(self._relation.columns)]
        new = [(name, value) for name, value in named.items() if name not in self.schema()]
        return self._project([*outputs, *new], "with_columns")

    def rename(self, **new_to_old: str) -> Collection:
        """Rename columns: `c.rename(new="old")`."""
        scope = scope_of(self)
        at = {scope.named(old).index: new for new, old in new_to_old.items()}
        columns = [replace(c, name=at.get(i, c.name)) for i, c in enumerate(self._relation.columns)]
        return self._derive(self._relation.node, columns)

    def without(self, *names: str) -> Collection:
        """Drop these columns."""
        scope = scope_of(self)
        dropped = {scope.named(n).index for n in names}
        kept = [(c.name, _At(i)) for i, c in enumerate(self._relation.columns) if i not in dropped]
        return self._project(kept, "without")

    def filter(self, *conditions: Any) -> Collection:
        """Keep the rows for which all conditions are true (neither false nor NULL)."""
        node, scope = self._relation.node, scope_of(self)
        rest = []
        for condition in conditions:
            among = constants_of(condition, scope)  # a long list of constants becomes a join
            if among is None:
                rest.append(condition)
            else:
                node = joins.among(node, *among)
        if rest:
            node = Filter(node, predicate(rest, scope))
        return self if node is self._relation.node else self._derive(node, self._relation.columns)

    def map(self, function: Callable[..., Any], returns: Mapping[str, Any]) -> Collection:
        """Map each row to `function(*values)`: a tuple of the returned columns (with one column, its bare value)."""
        return self._flat_map(function, returns, many=False)

    def flat_map(self, function: Callable[..., Any], returns: Mapping[str, Any]) -> Collection:
        """Map each row to the rows that `function(*values)` returns: tuples (with one column, bare values)."""
        return self._flat_map(function, returns, many=True)

    def alias(self, name: str) -> Collection:
        """The same rows as another collection, so that the two sides of a self-join can be distinguished."""
        columns = [replace(c, origins=()) for c in self._relation.columns]
        return Collection(self._relation.node, columns, self._relation.owner, label=name, parents=(self,))

    # ----------------------------------------------------------------------------------------- bags

    def union_all(self, *others: Collection) -> Collection:
        """All rows of all collections, matched by position; multiplicities add."""
        if not others:
            return self
        node = Union((self._relation.node, *(relation_of(_fitting(self, o, "union_all")).node for o in others)))
        return self._derive(node, self._relation.columns, *others)

    def except_(self, other: Collection) -> Collection:
        """The rows of this collection minus those of the other, down to zero."""
        return self._derive(Threshold(_minus(self, other, "except_"), "positive"), self._relation.columns, other)

    def intersect(self, other: Collection) -> Collection:
        """Rows in both; multiplicities are the minimum."""
        left_over = Threshold(_minus(self, other, "intersect"), "positive")
        return self._derive(Union((self._relation.node, Negate(left_over))), self._relation.columns, other)

    def negate(self) -> Collection:
        """The same rows with opposite multiplicities."""
        return self._derive(Negate(self._relation.node), self._relation.columns)

    def distinct(self) -> Collection:
        """Each distinct row once."""
        return self._derive(Threshold(self._relation.node, "distinct"), self._relation.columns)

    def threshold(self) -> Collection:
        """The rows with positive multiplicities, unchanged."""
        return self._derive(Threshold(self._relation.node, "positive"), self._relation.columns)

    # ---------------------------------------------------------------------------------------- joins

    def join(self, other: Collection, on: Any = None, how: joins.How = "inner") -> Collection:
        """Pairs of rows for which `on` holds.

        `on` is a condition, `(c.x == d.y) & (c.a < d.b)`, or names of common columns, which then appear once. `how`:
        inner, left, right, full (unmatched rows get NULLs), semi and anti (rows of this collection with or without a
        match, keeping their multiplicity), cross (every pair). NULL equals nothing.
        """
        from everview.language.join import join

        return join(self, other, on, how)

    # --------------------------------------------------------------------------------------- groups

    def group_by(self, *columns: str | language.Expression, **named: Any) -> Grouping:
        """Groups of rows with equal values (NULL is a value here): `c.group_by("k", year=col.day.year()).agg(...)`."""
        from everview.language.group import Grouping

        outputs = [(_name_of(n), language.Named(n) if isinstance(n, str) else n) for n in columns]
        return Grouping(self, resolve_outputs(self, [*outputs, *named.items()], "group_by"))

    def agg(self, *unnamed: Any, **aggregates: Any) -> Collection:
        """Aggregates of the whole collection: one row, or none while the collection is empty."""
        from everview.language.group import Grouping

        return Grouping(self, []).agg(*unnamed, **aggregates)

    def limit(self, n: int) -> Collection:
        """At most n rows, the first in the order of their columns: an ordinary query that is kept up to date. To
        inspect some rows, use `v.head(n)`; for the first by another order, `c.top(n, by=...)`.

        >>> import everview as ev
        >>> db = ev.connect()
        >>> t = db.table("t", {"x": int})
        >>> v = db.view("v", t.limit(2))
        >>> t.insert([(3,), (1,), (2,)])
        >>> sorted(v.rows())
        [(1,), (2,)]
        """
        columns = [(i, c.name) for i, c in enumerate(self._relation.columns) if c.type.kind in ORDERED]
        order = [language.Bound(self._relation.number, i, name, self._relation.label or "c") for i, name in columns]
        return self.top(n, by=order or [language.lit(0)])

    def top(self, k: int, by: Any, offset: int = 0) -> Collection:
        """The first k rows in the order of `by` (`col.x.desc()`, a name, a list); ties: by the other columns."""
        from everview.language.group import Grouping

        return Grouping(self, []).top(k, by, offset)

    # ---------------------------------------------------------------------------------------- loops

    def iterate(
        self,
        body: Callable[[Collection], Collection],
        priority: Any = None,
        max_rounds: int | None = None,
        at_limit: Literal["error", "stop"] = "error",
        queued: bool = False,
    ) -> Collection:
        """The fixed point of `body`, started with these rows.

        The body's result replaces the variable in every round, so a body that should keep the initial rows must add
        them (`.union_all(start)`). `priority` orders the work: rows with small values are settled before larger ones
        enter; it changes the cost, not the result. With `queued`, rows produced by the body wait for their turn too,
        from 0 to 1023; shortest paths by cost then hardly ever continue from a node whose distance is still too long.
        Such a loop has no `max_rounds`. After `max_rounds` the loop fails, or with at_limit="stop" returns what it has.
        """
        return loops.iterate(self, body, priority, max_rounds, at_limit, queued)

    # ----------------------------------------------------------------------------------- internals

    def _derive(self, node: Node, columns: Sequence[Column], *others: Collection) -> Collection:
        """A collection derived from this one (and others); types are the node's, names and origins the columns'."""
        typed = [replace(c, type=t) for c, t in zip(columns, node.types, strict=True)]
        return Collection(node, typed, common_owner(self, *others), parents=(self, *others))

    def _project(self, outputs: Sequence[tuple[str, Any]], where: str) -> Collection:
        columns = resolve_outputs(self, outputs, where)
        if not columns:
            raise PlanError("E_EMPTY", f"{where} would leave no columns", "keep at least one; lit(1) will do")
        return self._derive(project(self._relation.node, [c.expr for c in columns]), columns_of(columns))

    def _flat_map(self, function: Callable[..., Any], returns: Mapping[str, Any], many: bool) -> Collection:
        where = "flat_map" if many else "map"
        language.check_callable(function, where)
        language.check_schema(returns, where)
        types = [language.declared(t) for t in returns.values()]
        if not types:
            raise PlanError("E_EMPTY", f"{where} would leave no columns", 'say what it returns: {"column": type}')
        rows = RowFunction(function, many, bare=len(types) == 1, tuples=bool(types) and types[0].kind == "tuple")
        columns = [Column(n, t) for n, t in zip(returns, types, strict=True)]
        return self._derive(FlatMap(self._relation.node, rows, tuple(types)), columns)


@dataclass(frozen=True)
class RowFunction:
    """A user function in the form that plans use: values of a row in, a list of tuples out. Equal functions give equal
    plans.

    >>> RowFunction(lambda x: x + 1, many=False, bare=True, tuples=False)(1)
    [(2,)]
    """

    function: Callable[..., Any]
    many: bool
    bare: bool
    tuples: bool

    def __call__(self, *values: Any) -> list[tuple[Any, ...]]:
        result = self.function(*values)
        rows: Iterable[Any] = result if self.many else (result,)
        if not self.bare:
            return [tuple(row) for row in rows]
        return [row if isinstance(row, tuple) and not self.tuples else (row,) for row in rows]

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", repr(self.function)))


# ----------------------------------------------------------------------------------------- columns


@dataclass(frozen=True)
class Output:
    """An output column: its name, its value, and the origins it keeps if it is a plain column."""

    name: str
    expr: nodes.Expr
    origins: tuple[tuple[int, int], ...] = ()


class _At(language.Expression):
    """The column at a position, whatever its name."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


def scope_of(c: Collection, where: str = "") -> Scope:
    return Scope(relation_of(c).columns, f"{where} of {c!r}" if where else repr(c))


def resolve_outputs(c: Collection, outputs: Sequence[tuple[str, Any]], where: str) -> list[Output]:
    """Resolve named expressions; of several outputs that are one plain column the first keeps its origins."""
    scope = scope_of(c)
    taken: set[int] = set()
    found: list[Output] = []
    for name, value in outputs:
        expr = scope.at(value.position) if isinstance(value, _At) else resolve(value, scope)
        origins: tuple[tuple[int, int], ...] = ()
        if isinstance(expr, nodes.ColumnRef) and expr.index not in taken:
            taken.add(expr.index)
            origins = relation_of(c).columns[expr.index].origins
        found.append(Output(name, expr, origins))
    refuse_duplicates([o.name for o in found], where, allowed=[col.name for col in relation_of(c).columns])
    return found


def refuse_duplicates(names: Sequence[str], where: str, allowed: Sequence[str] = ()) -> None:
    """Refuse two outputs with one name, unless the input (a join) has it twice already."""
    for name in names:
        if names.count(name) > max(1, allowed.count(name)):
            raise PlanError("E_DUPLICATE", f"{where} has two columns called {name!r}", f"rename one: {name}_2=...")


def _name_of(given: str | language.Expression) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, language.Named | language.Bound):
        return given.name
    raise PlanError("E_NAME", f"{given!r} needs a name", "write it as a keyword: total=...")


def columns_of(outputs: Sequence[Output]) -> list[Column]:
    return [Column(o.name, o.expr.type, o.origins) for o in outputs]


def project(node: Node, exprs: Sequence[nodes.Expr]) -> Node:
    """A Project, unless nothing would change."""
    return node if tuple(exprs) == joins.refs(node.types) else Project(node, tuple(exprs))


def common_owner(*collections: Collection) -> Any:
    """The session they all belong to (a loop variable may have none yet)."""
    found = None
    for c in collections:
        if not isinstance(c, Collection):
            raise PlanError("E_TYPE", f"a collection is needed, not {c!r}", "make a table first: db.table(...)")
        if found is not None and relation_of(c).owner is not None and relation_of(c).owner is not found:
            raise PlanError(
                "E_SESSION",
                "these collections belong to different sessions",
                "copy the rows from one session to the other",
            )
        found = found if found is not None else relation_of(c).owner
    return found


def check_names(c: Collection, where: str = "the view") -> None:
    """Refuse a result with ambiguous column names."""
    refuse_duplicates([col.name for col in relation_of(c).columns], where)


def known_names(collection: Collection) -> tuple[dict[Node, tuple[str, ...]], dict[Node, str]]:
    """The known names of columns of a collection's plan and its ancestors, and of tables."""
    names: dict[Node, tuple[str, ...]] = {}
    labels: dict[Node, str] = {}
    for c in _family(collection):
        names.setdefault(relation_of(c).node, tuple(column.name for column in relation_of(c).columns))
        if relation_of(c).label and not relation_of(c).parents:
            labels[relation_of(c).node] = relation_of(c).label
    return names, labels


def _family(c: Collection) -> Iterator[Collection]:
    """The collection and all its ancestors, each once, nearest first."""
    seen: set[int] = set()
    todo = [c]
    while todo:
        current = todo.pop(0)
        if relation_of(current).number not in seen:
            seen.add(relation_of(current).number)
            yield current
            todo.extend(relation_of(current).parents)


def _fitting(first: Collection, other: Collection, where: str) -> Collection:
    """The other collection, if its columns match the first's by position."""
    common_owner(first, other)
    widths = len(relation_of(first).columns), len(relation_of(other).columns)
    if widths[0] != widths[1]:
        raise PlanError(
            "E_WIDTH",
            f"{where}: {first!r} and {other!r} have {widths[0]} and {widths[1]} columns",
            "select the same number of columns on both sides",
        )
    for i, (a, b) in enumerate(zip(relation_of(first).columns, relation_of(other).columns, strict=True)):
        if not loops.same_kind(a.type, b.type):
            raise PlanError(
                "E_TYPE",
                f"{where}: column {i + 1} is {a.name} {a.type!r} here and {b.name} {b.type!r} there",
                f"cast one side, e.g. select(..., {b.name}=col.{b.name}.cast({a.type.optional(False)!r})); "
                "columns are matched by position",
            )
    return other


def _minus(first: Collection, other: Collection, where: str) -> Node:
    return Union((relation_of(first).node, Negate(relation_of(_fitting(first, other, where)).node)))
