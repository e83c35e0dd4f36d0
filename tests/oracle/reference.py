"""What a plan means, from scratch: every node evaluated over plain Python dictionaries, for one time's table contents.

This is the oracle of the differential engine, so it shares nothing with it but the plan classes: no times, no
differences, no codes. A bag is a dictionary from row (a tuple of Python values) to multiplicity. Loops are run from
their start for every time anew: X0 is the initial bag, then the bodies are applied until nothing changes or the limit
is reached. Expressions come from `tests.expr.reference`, the value-by-value meaning of all built-in functions.

`Oracle` keeps the tables' contents of every time and gives the contents that a view must have there. Rows that cannot
be computed (division by zero) are counted in `errors` and are missing in the result.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from everview.expr.nodes import Call, Expr, Udf
from everview.language.collection import Collection
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.types import NULL, DataType
from tests.expr.reference import RowError, value

Row = tuple[Any, ...]
Bag = dict[Row, int]
Tables = Mapping[int, Bag]

MAX_ROWS = 3_000
MAX_COUNT = 10**9
MAX_ROUNDS = 2_000


class TooBig(Exception):
    """The example is not worth its time (random plans only): too many rows, or multiplicities near 64 bits."""


class Divergent(Exception):
    """A loop did not converge within its limit, where that is an error."""


class Oracle:
    """Contents of the tables at every time, and of any view computed from them.

    >>> oracle = Oracle()
    >>> oracle.commit({7: {(1, 2): 1}})
    1
    >>> oracle.commit({7: {(1, 2): -1, (3, 4): 2}})
    2
    >>> oracle.tables(1)[7], oracle.tables(2)[7]
    ({(1, 2): 1}, {(3, 4): 2})
    """

    def __init__(self) -> None:
        self._times: list[dict[int, Bag]] = [{}]
        self._known: dict[tuple[plan.Node, int], Evaluation] = {}

    @property
    def time(self) -> int:
        return len(self._times) - 1

    def commit(self, changes: Mapping[int, Mapping[Row, int]]) -> int:
        """One more time: the tables of the last one with the changes added."""
        tables = dict(self._times[-1])
        for table, change in changes.items():
            tables[table] = added(tables.get(table, {}), change)
            assert all(n > 0 for n in tables[table].values()), "a delete of what is not there"
        self._times.append(tables)
        return self.time

    def tables(self, time: int) -> dict[int, Bag]:
        """What the tables hold at a time."""
        return self._times[time]

    def contents(self, node: plan.Node, time: int) -> Bag:
        """What a view of this plan holds at a time."""
        return self._evaluation(node, time).result

    def errors(self, node: plan.Node, time: int) -> int:
        """How many rows could not be computed."""
        return sum(self._evaluation(node, time).errors.values())

    def _evaluation(self, node: plan.Node, time: int) -> Evaluation:
        key = (node, time)
        if key not in self._known:
            self._known[key] = Evaluation(node, self._times[time])
        return self._known[key]


def contents(collection: Collection, tables: Tables) -> Bag:
    """The rows of a collection for the given contents of tables (by their ids)."""
    return Evaluation(relation_of(collection).node, tables).result


def added(*bags: Mapping[Row, int]) -> Bag:
    """The sum of bags, without zeros."""
    total: Counter[Row] = Counter()
    for bag in bags:
        for row, n in bag.items():
            total[row] += n
    return {row: n for row, n in total.items() if n}


Variables = dict[tuple[int, int], Bag]
Free = frozenset[tuple[int, int]]


class Evaluation:
    """One evaluation of one plan; `result` and `errors` are what came out."""

    def __init__(self, node: plan.Node, tables: Tables) -> None:
        self.errors: Counter[str] = Counter()
        self._tables = tables
        self._memo: dict[Any, Bag] = {}
        self.result = self._bag(node, {})

    def _bag(self, node: plan.Node, variables: Variables) -> Bag:
        """Sub-plans are shared, so each is computed once for each value of the variables it reads."""
        key = (node, frozenset((v, frozenset(variables[v].items())) for v in free_variables(node)))
        if key not in self._memo:
            bag = {row: n for row, n in self._compute(node, variables).items() if n}
            if len(bag) > MAX_ROWS or any(abs(n) > MAX_COUNT for n in bag.values()):
                raise TooBig
            self._memo[key] = bag
        return self._memo[key]

    def _compute(self, node: plan.Node, variables: Variables) -> Bag:
        match node:
            case plan.Table():
                return dict(self._tables.get(node.id, {}))
            case plan.Variable():
                return variables[node.depth, node.index]
            case plan.LoopResult():
                return self._loop(node.loop, variables)[node.index]
            case plan.Join():
                return _join(node, self._bag(node.left, variables), self._bag(node.right, variables))
            case plan.Union():
                return added(*(self._bag(child, variables) for child in node.inputs))
        child = self._bag(node.children()[0], variables)
        match node:
            case plan.Project():
                return self._each(child, lambda row: [tuple(value_of(e, row) for e in node.exprs)])
            case plan.Filter():
                return self._each(child, lambda row: [row] if value_of(node.predicate, row) is True else [])
            case plan.FlatMap():
                return self._each(child, lambda row: node.function(*row))
            case plan.Negate():
                return {row: -n for row, n in child.items()}
            case plan.Threshold():
                return {row: 1 if node.kind == "distinct" else n for row, n in child.items() if n > 0}
            case plan.Reduce():
                return self._grouped(child, node.keys, lambda key, group: [_aggregates(node, group)])
            case plan.PythonReduce():
                return self._grouped(child, node.keys, lambda key, group: node.function(key, in_order(group)))
            case plan.TopK():
                return added(*(_top(node, group) for group in groups(child, node.keys).values()))
        raise NotImplementedError(type(node))

    def _each(self, child: Bag, function: Callable[[Row], Any]) -> Bag:
        found: Counter[Row] = Counter()
        for row, n in child.items():
            try:
                for new in function(row):
                    found[new] += n
            except RowError as error:
                self.errors[error.kind] += n
        return found

    def _grouped(self, child: Bag, keys: tuple[int, ...], function: Callable[[Row, Bag], Any]) -> Bag:
        found: Counter[Row] = Counter()
        for key, group in groups(child, keys).items():
            for new in function(key, group):
                found[(*key, *new)] += 1
        return found

    def _loop(self, loop: plan.Loop, variables: Variables) -> list[Bag]:
        now = [{} if start is None else self._bag(start, variables) for start in loop.initials]
        for _ in range(MAX_ROUNDS if loop.max_rounds is None else loop.max_rounds):
            inside = variables | {(loop.depth, i): bag for i, bag in enumerate(now)}
            new = [self._bag(body, inside) for body in loop.bodies]
            if new == now:
                return new
            now = new
        if loop.max_rounds is None or loop.at_limit == "error":
            raise Divergent
        return now


@functools.lru_cache(maxsize=20_000)
def free_variables(node: plan.Node) -> Free:
    """Variables of enclosing loops that a plan reads."""
    if isinstance(node, plan.Variable):
        return frozenset({(node.depth, node.index)})
    if isinstance(node, plan.Loop):
        nothing: Free = frozenset()
        inside = nothing.union(*map(free_variables, node.bodies))
        outside = nothing.union(*(free_variables(i) for i in node.initials if i is not None))
        return outside | {v for v in inside if v[0] != node.depth}
    return frozenset().union(*map(free_variables, node.children()))


# ---- rows


def value_of(expr: Expr, row: Row) -> Any:
    """An expression's value for a row."""
    return value(_one_by_one(expr), row, _code_of)


def _code_of(kind: DataType, v: Any) -> int:
    """Codes, for the hash function; only ints and NULL are needed here."""
    assert kind.kind == "int"
    return NULL if v is None else v


@functools.lru_cache(maxsize=2_000)
def _one_by_one(expr: Expr) -> Expr:
    """The same expression with functions of Arrow arrays as functions of values."""
    if isinstance(expr, Call):
        return replace(expr, args=tuple(map(_one_by_one, expr.args)))
    if isinstance(expr, Udf):
        args = tuple(map(_one_by_one, expr.args))
        if not expr.vectorized:
            return replace(expr, args=args)
        arrays = [_ARROW[a.type.kind] for a in args]

        def of_values(*values: Any) -> Any:
            columns = [pa.array([v], kind) for v, kind in zip(values, arrays, strict=True)]
            return expr.function(*columns)[0].as_py()

        return Udf(expr.type, of_values, args)
    return expr


_ARROW = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": pa.string()}


def _join(node: plan.Join, left: Bag, right: Bag) -> Bag:
    by_key: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    for row, n in right.items():
        by_key[tuple(_key(row[k]) for k in node.right_keys)].append((row, n))
    found: Counter[Row] = Counter()
    for row, n in left.items():
        key = tuple(_key(row[k]) for k in node.left_keys)
        if None not in key:
            for other, m in by_key.get(key, ()):
                found[row + other] += n * m
        if len(found) > 4 * MAX_ROWS:
            raise TooBig
    return found


def _key(v: Any) -> Any:
    """NaN equals NaN here, as in the language."""
    return "NaN" if isinstance(v, float) and math.isnan(v) else v


# ---- groups


def groups(bag: Bag, keys: tuple[int, ...]) -> dict[Row, Bag]:
    """The rows by the values of their key columns; NULL is a value like any other."""
    found: dict[Row, Bag] = defaultdict(dict)
    for row, n in bag.items():
        found[tuple(row[k] for k in keys)][row] = n
    return found


def in_order(group: Bag) -> list[tuple[Row, int]]:
    """Rows and counts, sorted, NULLs last."""
    return sorted(group.items(), key=lambda item: tuple(rank(v, False) for v in item[0]))


@functools.total_ordering
class _Reversed:
    """A value that sorts the other way round."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.inner == other.inner)

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.inner < self.inner)


def rank(v: Any, descending: bool) -> tuple[bool, Any]:
    """A sort key: NULLs last in both directions, NaN above all numbers."""
    if v is None:
        return True, 0
    plain = (math.isnan(v), 0.0 if math.isnan(v) else v) if isinstance(v, float) else v
    return False, _Reversed(plain) if descending else plain


def _top(node: plan.TopK, group: Bag) -> Bag:
    ordered = sorted(
        group.items(),
        key=lambda item: (
            tuple(rank(item[0][c], descending) for c, descending in node.order),
            tuple((v is not None, rank(v, False)) for v in item[0]),  # ties: any unique order will do, this is by code
        ),
    )
    found: Bag = {}
    start, stop, at = node.offset, node.offset + node.limit, 0
    for row, n in ordered:
        kept = min(at + n, stop) - max(at, start)
        if kept > 0:
            found[row] = kept
        at += n
    return found


def _aggregates(node: plan.Reduce, group: Bag) -> Row:
    return tuple(aggregate(a, group) for a in node.aggregates)


def aggregate(a: plan.Aggregate, group: Bag) -> Any:
    """One aggregate of a group; a sum of floats is exact, then rounded once; an average is that, divided."""
    if a.column is None:
        return sum(group.values())
    values = [(row[a.column], n) for row, n in group.items() if row[a.column] is not None]
    if a.kind == "count":
        return sum(n for _, n in values)
    if a.kind == "count_distinct":
        return len({_key(v) for v, _ in values})
    if not values:
        return None
    if a.kind == "min":
        return min((v for v, _ in values), key=lambda v: rank(v, False))
    if a.kind == "max":
        return max((v for v, _ in values), key=lambda v: rank(v, False))
    total = _sum(values)
    if a.kind == "sum":
        return total if not isinstance(total, Fraction) else float(total)
    count = sum(n for _, n in values)
    return float(total) / count


def _sum(values: list[tuple[Any, int]]) -> Any:
    if not isinstance(values[0][0], float):
        return sum(v * n for v, n in values)
    if all(math.isfinite(v) for v, _ in values):
        return sum((Fraction(v) * n for v, n in values), Fraction(0))
    return math.fsum(v for v, _ in values if not math.isfinite(v)) if not _mixed(values) else math.nan


def _mixed(values: list[tuple[Any, int]]) -> bool:
    """Infinities of both signs."""
    return {math.inf, -math.inf} <= {v for v, _ in values}
