"""The name of a component is the least label of its members; every member says it.

Most changes of a component leave the member with the least label where it is. Then only those that came, or went, say
something new: they are in the log of the epoch. If it went, or a smaller one came, all members are walked: that many
rows change anyway.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FLAG_BASED,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_FUEL,
    FOREST_LOG,
    FOREST_LOG_FROM,
    FOREST_LOG_N,
    FOREST_SERIAL,
    LOGGED,
    NO_PARENT,
    OWN_VALUE,
    VERTEX_BASE,
    VERTEX_DEPTH,
    VERTEX_FLAGS,
    VERTEX_PARENT,
    VERTEX_VALUE,
    place,
    touch,
)
from everview.kernels.memory import ld, st
from everview.kernels.strong.component import (
    COMP_BEST,
    COMP_BORN,
    COMP_FLAGS,
    COMP_HAS_BEST,
    COMP_HAS_SAID,
    COMP_IS_DIRTY,
    COMP_MEMBER,
    COMP_SAID,
    COMP_UNSURE,
    STRONG_AHEAD,
    STRONG_COMPS,
    STRONG_DIRTY,
    STRONG_DIRTY_N,
    STRONG_SEARCHING,
    comp_of,
    lower,
    record_at,
)
from everview.kernels.strong.search import NOWHERE, SIDE_N, SIDE_OF, begin_side, expand, is_complete


@inner
def _is_said(ctx, comp):
    """Whether the name of a component is what its members say."""
    comps = ld(ctx, STRONG_COMPS)
    at = record_at(comp)
    flags = ld(comps, at + COMP_FLAGS)
    if flags & COMP_HAS_BEST == 0 or flags & COMP_HAS_SAID == 0:
        return flags & (COMP_HAS_BEST | COMP_HAS_SAID) == 0
    return ld(comps, at + COMP_BEST) == ld(comps, at + COMP_SAID)


@inner
def _must_walk(ctx, comp):
    """Whether all members of a component that was dirty must be walked."""
    comps = ld(ctx, STRONG_COMPS)
    at = record_at(comp)
    if comp_of(ctx, ld(comps, at + COMP_MEMBER)) != comp:
        return False  # it is no more
    if ld(comps, at + COMP_FLAGS) & COMP_UNSURE != 0:
        return True
    return ld(comps, at + COMP_BORN) != ld(ctx, FOREST_SERIAL) and not _is_said(ctx, comp)


@inner
def _next_dirty(ctx):
    """Begin to walk the next component whose members say something else; whether there is one."""
    while ld(ctx, STRONG_DIRTY_N) > 0:
        n = ld(ctx, STRONG_DIRTY_N) - 1
        st(ctx, STRONG_DIRTY_N, n)
        comp = ld(ld(ctx, STRONG_DIRTY), 1 + n)
        comps = ld(ctx, STRONG_COMPS)
        at = record_at(comp)
        st(comps, at + COMP_FLAGS, ld(comps, at + COMP_FLAGS) & ~COMP_IS_DIRTY)
        if _must_walk(ctx, comp):
            begin_side(ctx, 1, ld(comps, at + COMP_MEMBER))
            st(ctx, STRONG_SEARCHING, 1)
            return True
    return False


@shared
def _name_members(ctx, comp):
    """All members of a component are in the queue: find its name; if they say another, they must change."""
    queue = ld(ctx, STRONG_AHEAD)
    many = ld(ctx, STRONG_AHEAD + SIDE_N)
    at = record_at(comp) + COMP_FLAGS
    comps = ld(ctx, STRONG_COMPS)
    if ld(comps, at) & COMP_UNSURE != 0:
        st(comps, at, ld(comps, at) & ~(COMP_UNSURE | COMP_HAS_BEST))
        entries = ld(ctx, FOREST_ENTRIES)
        for i in range(many):
            one = place(ctx, ld(queue, 1 + i))
            if ld(entries, one + VERTEX_FLAGS) & FLAG_BASED != 0:
                lower(ctx, comp, ld(entries, one + VERTEX_BASE))
    if not _is_said(ctx, comp):
        for i in range(many):
            touch(ctx, ld(ld(ctx, STRONG_AHEAD), 1 + i))
    return 0


@shared
def name_components(ctx, time):
    """Find the names of the components that changed. 1: it is done, 0: the fuel is used up."""
    while True:
        if ld(ctx, STRONG_SEARCHING) == 0 and not _next_dirty(ctx):
            return 1
        if ld(ctx, FOREST_FUEL) < 0:
            return 0
        comp = comp_of(ctx, ld(ctx, STRONG_AHEAD + SIDE_OF))
        if not is_complete(ctx, 1):
            expand(ctx, 1, comp, NOWHERE, 0, time)
        else:
            _name_members(ctx, comp)
            st(ctx, STRONG_SEARCHING, 0)


@inner
def _label(ctx, entry):
    """A vertex says the name of its component, or its own if it is alone."""
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    comp = ld(entries, at + VERTEX_DEPTH)
    value = ld(entries, at + VERTEX_BASE)
    has = ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0
    if comp != 0:
        comps = ld(ctx, STRONG_COMPS)
        record = record_at(comp)
        flags = ld(comps, record + COMP_FLAGS)
        has = flags & COMP_HAS_BEST != 0
        value = ld(comps, record + COMP_BEST)
        st(comps, record + COMP_SAID, value)
        st(comps, record + COMP_FLAGS, flags | COMP_HAS_SAID if has else flags & ~COMP_HAS_SAID)
    st(entries, at + VERTEX_VALUE, value if has else 0)
    st(entries, at + VERTEX_PARENT, OWN_VALUE if has else NO_PARENT)


@shared
def label_logged(ctx):
    """Whoever changed in the epoch says the name of its component."""
    for i in range(ld(ctx, FOREST_LOG_FROM), ld(ctx, FOREST_LOG_N)):
        _label(ctx, ld(ld(ctx, FOREST_LOG), 1 + i * LOGGED))
    return 0


@shared
def label_all(ctx):
    """Every vertex says the name of its component."""
    for entry in range(ld(ctx, FOREST_ENTRIES_N)):
        _label(ctx, entry)
    return 0
