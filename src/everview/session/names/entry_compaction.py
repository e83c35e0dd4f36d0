"""Reduces a catalog's entry log to the entries that describe what still exists.

Dropped objects are left out; altered or renamed ones appear as if created that way. Checkpoints store the result, and
the set of existing names follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from everview.codes.limits import in_plans
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.substitute import substituted
from everview.session.names.constraint_rules import with_names
from everview.session.names.entries import (
    AccessSet,
    Collected,
    ColumnsRenamed,
    Commented,
    ConstraintMade,
    DefaultSet,
    Entry,
    FollowerMade,
    FunctionDropped,
    FunctionMade,
    IndexDropped,
    IndexMade,
    PlanChanged,
    Renamed,
    SequenceDropped,
    SequenceMade,
    TableAltered,
    TableDropped,
    TableMade,
    TypeDropped,
    TypeMade,
    ViewDropped,
    ViewMade,
)

Kept = list[tuple[Entry, bytes]]
"""Entries with their records; the record is empty if the entry was changed here."""


def compacted(entries: Iterable[tuple[Entry, bytes]]) -> Kept:
    """The entries (with their records) without what was dropped later, and with later alterations applied.

    >>> compacted([(IndexMade("w", (0,)), b""), (IndexMade("v", (1,)), b""), (ViewDropped("v"), b"")])
    [(IndexMade(view='w', keys=(0,), name=''), b'')]
    >>> compacted([(TableMade("t", (), (), 3), b"x"), (Renamed("t", "u"), b"y")])
    [(TableMade(name='u', columns=(), key=(), id=3, label='t'), b'')]
    """
    kept: Kept = []
    for entry, data in entries:
        kept = _after(kept, entry, data)
    read = {n.id for e, _ in kept if isinstance(e, ViewMade) for n in e.node.walk() if isinstance(n, plan.Table)}
    return [e for e in kept if not isinstance(e[0], FollowerMade) or e[0].owner or e[0].id in read]


def _after(kept: Kept, entry: Entry, data: bytes) -> Kept:
    """The entries that remain after another one."""
    if isinstance(entry, ViewDropped):
        return _without(kept, lambda e: _about(e) == entry.name)
    if isinstance(entry, FunctionDropped):
        kept = _without(kept, lambda e: isinstance(e, AccessSet) and (e.kind, e.name) == ("function", entry.name))
        return _without(kept, lambda e: isinstance(e, FunctionMade) and e.name == entry.name)
    if isinstance(entry, AccessSet):
        others = _without(kept, lambda e: isinstance(e, AccessSet) and (e.kind, e.name) == (entry.kind, entry.name))
        return [*others, (entry, data)] if entry.value else others
    if isinstance(entry, TypeDropped):
        return _without(kept, lambda e: isinstance(e, TypeMade) and e.name == entry.name)
    if isinstance(entry, SequenceDropped):
        return _without(kept, lambda e: isinstance(e, SequenceMade) and e.name == entry.name)
    if isinstance(entry, IndexDropped):
        return _without(kept, lambda e: isinstance(e, IndexMade) and e.name == entry.name)
    if isinstance(entry, TableDropped):
        gone = _gone_with([e for e, _ in kept], entry.name)
        return _without(kept, lambda e: e in gone)
    if isinstance(entry, Commented):
        same = (entry.name, entry.column)
        others = _without(kept, lambda e: type(e) is type(entry) and (e.name, e.column) == same)
        return [*others, (entry, data)] if entry.text else others
    if isinstance(entry, Renamed):
        return _changed(kept, lambda e: _renamed(e, entry))
    if isinstance(entry, ColumnsRenamed):
        return _with_columns(kept, entry)
    if isinstance(entry, TableAltered):
        left = _without(kept, lambda e: isinstance(e, PlanChanged) and _reads(e, {_table(entry).id}))
        return _altered(_without(left, lambda e: _about(e) in entry.gone), entry)
    if isinstance(entry, PlanChanged):  # first, so that readers of the join are built that way from the start
        others = _without(kept, lambda e: isinstance(e, PlanChanged) and e.join == entry.join)
        return others if entry.join == entry.target else [(entry, b""), *others]
    if not isinstance(entry, Collected):
        kept.append((entry, data))
    return kept


def _without(kept: Kept, gone: Callable[[Entry], bool]) -> Kept:
    return [e for e in kept if not gone(e[0])]


def _changed(kept: Kept, change: Callable[[Entry], Entry]) -> Kept:
    return [(new, data if new is old else b"") for old, data in kept for new in (change(old),)]


def _about(entry: Entry) -> str | None:
    """The view (or table) that an entry concerns, if it concerns nothing else."""
    if isinstance(entry, (ViewMade, Commented)):
        return entry.name
    if isinstance(entry, AccessSet) and entry.kind == "relation":
        return entry.name
    return entry.view if isinstance(entry, IndexMade) else None


def _gone_with(entries: list[Entry], table: str) -> set[Entry]:
    """A table's entry, and those of its followers and of the views that read it."""
    made: set[Entry] = {e for e in entries if isinstance(e, TableMade) and e.name == table}
    made |= {e for e in entries if isinstance(e, FollowerMade) and table in (e.table, e.looks_at)}
    made |= {e for e in entries if isinstance(e, SequenceMade) and e.owner[:1] == (table,)}
    ids = {e.id for e in made if isinstance(e, (TableMade, FollowerMade))}
    views = {e.name for e in entries if isinstance(e, ViewMade) and _reads(e, ids)}
    made |= {e for e in entries if isinstance(e, PlanChanged) and _reads(e, ids)}
    return made | {e for e in entries if _about(e) in {*views, table}}


def _reads(entry: ViewMade | PlanChanged, tables: set[int]) -> bool:
    """Whether a plan reads one of some tables."""
    return any(isinstance(n, plan.Table) and n.id in tables for n in entry.node.walk())


def _renamed(entry: Entry, to: Renamed) -> Entry:
    if isinstance(entry, TableMade) and entry.name == to.old:
        return replace(entry, name=to.new, label=entry.label or to.old)
    if isinstance(entry, AccessSet) and (entry.kind, entry.name) == ("relation", to.old):
        return replace(entry, name=to.new)
    if isinstance(entry, ConstraintMade):
        rule = entry.rule.renamed(to.old, to.new)
        return entry if rule == entry.rule else replace(entry, rule=rule)
    if isinstance(entry, SequenceMade) and to.old in (entry.name, *entry.owner[:1]):
        owner = (to.new, *entry.owner[1:]) if entry.owner[:1] == (to.old,) else entry.owner
        return replace(entry, name=to.new if entry.name == to.old else entry.name, owner=owner)
    if isinstance(entry, (ViewMade, Commented)) and entry.name == to.old:
        return replace(entry, name=to.new)
    if isinstance(entry, IndexMade) and entry.view == to.old:
        return replace(entry, view=to.new)
    if isinstance(entry, FollowerMade) and to.old in (entry.table, entry.looks_at):
        sides = (to.new, *entry.sides[1:]) if entry.looks_at == to.old else entry.sides
        return replace(entry, table=to.new if entry.table == to.old else entry.table, sides=sides)
    return entry


def _with_columns(kept: Kept, to: ColumnsRenamed) -> Kept:
    """With a table's or view's columns renamed, in comments too."""
    before: dict[str, str] = {}
    for entry, _ in kept:
        if isinstance(entry, (TableMade, ViewMade)) and entry.name == to.name:
            names = [c[0] for c in entry.columns] if isinstance(entry, TableMade) else entry.columns
            before = dict(zip(names, to.columns, strict=True))

    def change(entry: Entry) -> Entry:
        if isinstance(entry, TableMade) and entry.name == to.name:
            types = [declared for _, declared in entry.columns]
            return replace(entry, columns=tuple(zip(to.columns, types, strict=True)))
        if isinstance(entry, ViewMade) and entry.name == to.name:
            return replace(entry, columns=to.columns)
        if isinstance(entry, Commented) and entry.name == to.name and entry.column:
            text = with_names(entry.text, before) if isinstance(entry, DefaultSet) else entry.text
            return replace(entry, column=before[entry.column], text=text)
        if isinstance(entry, ConstraintMade):
            rule = entry.rule.with_columns(to.name, before)
            return entry if rule == entry.rule else replace(entry, rule=rule)
        if isinstance(entry, SequenceMade) and entry.owner[:1] == (to.name,):
            return replace(entry, owner=(to.name, before[entry.owner[1]]))
        return entry

    return _changed(kept, change)


def _altered(kept: Kept, to: TableAltered) -> Kept:
    """With a table's columns altered; its views read the new table."""
    plans, moved = standing_for(to), places(to)
    old = next(e for e, _ in kept if isinstance(e, TableMade) and e.name == to.name)

    def change(entry: Entry) -> Entry:
        if entry is old:
            return TableMade(to.name, to.columns, to.key, to.id, to.label)
        if isinstance(entry, ViewMade):
            node = substituted(entry.node, plans)
            return entry if node is entry.node else replace(entry, node=node)
        if isinstance(entry, IndexMade) and entry.view == to.name:
            return replace(entry, keys=tuple(moved[k] for k in entry.keys if k in moved))
        if isinstance(entry, Commented) and entry.name == to.name and entry.column:
            at = moved.get([name for name, _ in old.columns].index(entry.column))
            return replace(
                entry, column="" if at is None else to.columns[at][0], text=entry.text if at is not None else ""
            )
        return entry

    lost = [
        e for e, _ in kept if isinstance(e, IndexMade) and e.view == to.name and not all(k in moved for k in e.keys)
    ]
    found = _changed([e for e in kept if e[0] not in lost], change)
    return _without(found, lambda e: isinstance(e, Commented) and not e.text)


def places(altered: TableAltered) -> dict[int, int]:
    """The positions in an altered table of the old columns that are unchanged. A column that became NOT NULL counts as
    unchanged: readers that allow NULL see the same values.
    """
    exprs = _exprs(altered)
    found: dict[int, int] = {}
    for new, expr in enumerate(exprs):
        declared = in_plans(altered.columns[new][1])
        if isinstance(expr, ColumnRef) and in_plans(expr.type) in (declared, declared.optional()):
            found.setdefault(expr.index, new)
    return found


def standing_for(altered: TableAltered) -> dict[plan.Node, plan.Node]:
    """A projection of the new table that stands for the old one in plans. A dropped column, which nothing reads, is
    NULL there.
    """
    old = _table(altered)
    new = plan.Table(altered.id, tuple(in_plans(declared) for _, declared in altered.columns), altered.key)
    moved = places(altered)
    exprs: list[Expr] = [
        ColumnRef(declared, moved[i]) if i in moved else Literal(declared, None) for i, declared in enumerate(old.types)
    ]
    return {old: plan.Project(new, tuple(exprs))}


def _exprs(altered: TableAltered) -> tuple[Expr, ...]:
    assert isinstance(altered.node, plan.Project)
    return altered.node.exprs


def _table(altered: TableAltered) -> plan.Table:
    assert isinstance(altered.node, plan.Project) and isinstance(altered.node.child, plan.Table)
    return altered.node.child
