"""Clock-dependent parts of a SELECT as columns of its FROM; see `everview.sql.clock.temporal_conditions`.

Every comparison with now() belongs to the leaf of FROM whose columns it names. The flags of all comparisons of a leaf
are columns of it, produced by one follower. If the day is used, a table of one row is a further leaf. The clause maps
parts of the text to expressions over these columns (`FromClause.placed`).
"""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import ColumnRef, Expr
from everview.language.relation import relation_of
from everview.sql.clock import temporal_conditions, temporal_tables
from everview.sql.scalar.scalars import Scalars
from everview.sql.select.conditions import conjuncts
from everview.sql.select.grouping import aggregates_in
from everview.sql.select.scopes import HIDDEN_FIELD, Relation
from everview.sql.select.windows import windows_in
from everview.sql.text.error_positions import SqlError, has_query

if TYPE_CHECKING:
    from everview.sql.select.from_clause import FromClause


def follow(clause: FromClause, select: exp.Select) -> None:
    """Make columns of the clock-dependent parts of a SELECT, unless they are only plain conditions in WHERE."""
    where = select.args.get("where")
    tests = [part for part in conjuncts(where.this if where else None) if temporal_conditions.reads_clock(part)]
    others = [select.args.get(a) for a in ("group", "having", "qualify", "order")]
    nodes = [*select.expressions, *(select.args.get("windows") or []), *(n for n in others if n is not None)]
    nodes = [n for n in nodes if temporal_conditions.reads_clock(n)]
    if nodes or not all(_is_plain(clause, part) for part in tests):
        _place(clause, [*tests, *nodes])


def _is_plain(clause: FromClause, part: exp.Expr) -> bool:
    """Whether a condition on now() can filter a table before anything else."""
    if has_query(part):
        return False
    try:
        return bool(temporal_tables.terms(part, Scalars(clause.compiler, clause.scope(), clause.env)))
    except SqlError as error:
        if error.code == "E_UNSUPPORTED":
            return False
        raise


def _place(clause: FromClause, nodes: list[exp.Expr]) -> None:
    """Make columns of what follows the clock in expressions."""
    if clause.terms:
        raise clause.source.refuse(
            clause.terms[0][2], "now() in ON is not supported beside now() in SELECT, OR or CASE", "put it into WHERE"
        )
    found: dict[int, list[tuple[exp.Expr, temporal_conditions.Truth]]] = {}
    units: list[tuple[exp.Expr, str]] = []
    for node in nodes:
        for atom in temporal_conditions.atoms(node):
            known = _truth(clause, atom)
            if known is None:
                units += temporal_conditions.ticks(atom)
            else:
                found.setdefault(_owner(clause, known, atom), []).append((atom, known))
        units += _ticks_outside_atoms(node)
    for owner in sorted(found, reverse=True):  # what is bound over leaves before it stays where it is
        _flag(clause, owner, found[owner])
    _tick(clause, units)


def _truth(clause: FromClause, atom: exp.Expr) -> temporal_conditions.Truth | None:
    """What decides a comparison; None if it compares with something made of the day."""
    scalars = Scalars(clause.compiler, clause.scope(), clause.env)
    if any(aggregates_in(atom)) or any(windows_in(atom)):
        if _only_ticks(atom):
            return None
        raise temporal_tables.refused(atom, scalars)
    try:
        return temporal_conditions.truth(atom, scalars)
    except SqlError as error:
        if error.code == "E_UNSUPPORTED" and _only_ticks(atom):
            return None
        raise


def _only_ticks(atom: exp.Expr) -> bool:
    """Whether the clock is only used for the day and the like."""
    inside = {id(n) for tick, _ in temporal_conditions.ticks(atom) for n in temporal_conditions.outside_queries(tick)}
    return all(
        id(n) in inside for n in temporal_conditions.outside_queries(atom) if isinstance(n, temporal_tables.CLOCK_CALLS)
    )


def _ticks_outside_atoms(node: exp.Expr) -> list[tuple[exp.Expr, str]]:
    inside = {id(n) for atom in temporal_conditions.atoms(node) for n in temporal_conditions.outside_queries(atom)}
    return [(tick, unit) for tick, unit in temporal_conditions.ticks(node) if id(tick) not in inside]


def _starts(clause: FromClause) -> list[int]:
    starts = [0]
    for leaf in clause.leaves:
        starts.append(starts[-1] + len(leaf.fields))
    return starts


def _owner(clause: FromClause, truth: temporal_conditions.Truth, atom: exp.Expr) -> int:
    """The leaf whose columns a comparison is about."""
    starts = _starts(clause)
    columns = frozenset[int]().union(*(m.columns() for m in truth.moments))
    owner = bisect(starts, min(columns, default=0)) - 1
    if not columns or max(columns) >= starts[owner + 1]:
        raise clause.source.refuse(
            atom, "now() is compared with columns of several tables, or none", temporal_tables.HINT
        )
    return owner


def _flag(clause: FromClause, owner: int, mine: list[tuple[exp.Expr, temporal_conditions.Truth]]) -> None:
    start, end = _starts(clause)[owner : owner + 2]
    moments = list(dict.fromkeys(m for _, truth in mine for m in truth.moments))
    here = tuple(_moved(m, -start) for m in moments)
    node = temporal_conditions.flagged(clause.compiler, clause.leaves[owner].node, here, mine[0][0])
    clause.widen(owner, node, len(moments))
    flags = {m: ColumnRef(node.types[end - start + i], end + i) for i, m in enumerate(moments)}
    for atom, truth in mine:
        clause.placed[id(atom)] = truth.of(*(flags[m] for m in truth.moments))


def _moved(expr: Expr, by: int) -> Expr:
    refs = [e for e in expr.walk() if isinstance(e, ColumnRef)]
    return expr.remap({e.index: ColumnRef(e.type, e.index + by) for e in refs})


def _tick(clause: FromClause, units: list[tuple[exp.Expr, str]]) -> None:
    for unit in dict.fromkeys(unit for _, unit in units):
        table = temporal_conditions.tick_table(clause.compiler, unit)
        at = _starts(clause)[-1]
        clause.leaves.append(Relation(relation_of(table).node, (HIDDEN_FIELD,)))
        for node, wanted in units:
            if wanted == unit:
                clause.placed[id(node)] = temporal_conditions.tick_value(
                    ColumnRef(relation_of(table).node.types[0], at), node
                )
