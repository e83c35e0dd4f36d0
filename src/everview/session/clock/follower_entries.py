"""Conversion between clock followers and catalog entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from everview.expr.nodes import Expr
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.session.clock.filters import TemporalFilter, Term
from everview.session.clock.flags import ClockFlags, Ticks
from everview.session.clock.follower import Follower
from everview.session.clock.last_rows import LastRows
from everview.session.clock.lifetimes import ArrivalTTL, RowTTL
from everview.session.clock.lookups import LookupJoin
from everview.session.clock.watermarks import ClosedWindows, Watermark
from everview.session.names.entries import FollowerMade

if TYPE_CHECKING:
    from everview.session.core import Core


def described(follower: Follower, now: int) -> FollowerMade:
    """The entry that describes a follower when the clock shows `now`."""
    table = follower.table
    exprs: tuple[Expr, ...] = ()
    sides: tuple[Any, ...] = ()
    partition: tuple[int, ...] = ()
    size = 0
    if isinstance(follower, RowTTL):
        kind, exprs = "Expiring", (follower.until,)
    elif isinstance(follower, TemporalFilter):
        kind, exprs, sides = "Passing", tuple(t.expr for t in follower.tests), tuple(t.side for t in follower.tests)
    elif isinstance(follower, LastRows):
        kind, size, partition = "Latest", follower.size, follower.partition
    elif isinstance(follower, Watermark):
        kind, exprs = "Watermark", (follower.time, follower.mark)
    elif isinstance(follower, ClosedWindows):
        kind, exprs, size = "Closed windows", follower.ends, int(follower.strict)
    elif isinstance(follower, ClockFlags):
        kind, exprs = "Flags", follower.moments
    elif isinstance(follower, Ticks):
        kind, sides = "Ticks", (follower.unit,)
    elif isinstance(follower, LookupJoin):
        kind, exprs, sides, partition = "Lookup", follower.keys, (relation_of(follower.other).label,), follower.by
    else:
        assert isinstance(follower, ArrivalTTL)
        kind, size = "Aging table" if follower.owner else "Aging", follower.size
    own = -1 if follower.own is None else relation_of(follower.own).id
    return FollowerMade(
        kind, relation_of(table).label, plan.Project(relation_of(table).node, exprs), sides, size, partition, own, now
    )


def follower_of(core: Core, entry: FollowerMade) -> Follower:
    """Create the follower that an entry describes."""
    if entry.kind == "Ticks":
        return Ticks(core, str(entry.sides[0]))
    table = core.catalog.tables[entry.table]
    assert isinstance(entry.node, plan.Project)
    if entry.kind == "Expiring":
        return RowTTL(core, table, entry.node.exprs[0])
    if entry.kind == "Passing":
        terms = (Term(expr, side) for expr, side in zip(entry.node.exprs, entry.sides, strict=True))
        return TemporalFilter(core, table, tuple(terms))
    if entry.kind == "Watermark":
        return Watermark(core, table, *entry.node.exprs)
    if entry.kind == "Closed windows":
        return ClosedWindows(core, table, entry.node.exprs, bool(entry.size))
    if entry.kind == "Flags":
        return ClockFlags(core, table, entry.node.exprs)
    if entry.kind == "Lookup":
        return LookupJoin(core, table, entry.node.exprs, core.catalog.tables[entry.looks_at], entry.partition)
    if entry.kind == "Latest":
        return LastRows(core, table, entry.size, entry.partition)
    return ArrivalTTL(core, table, entry.size, owner=entry.owner)
