"""Components of vertices: for each vertex the number of its component, for each component its size and its name.

A vertex is an entry of a forest (`everview.kernels.frontier.forest`), whose words mean here:

    VERTEX_VALUE   the label that was said of it: the least of its component
    VERTEX_PARENT  OWN_VALUE if it has a label, else NO_PARENT
    VERTEX_DEPTH   the number of its component; 0: it is alone, and has no record
    VERTEX_BASE    its own label as a source, if FLAG_BASED

so that the log, the undo and the output of trees serve here too. Components of two vertices or more have *records*.
Members are not listed: a search from one of them finds the others.

Records have a log of their own (`record`). A record that is made in a step is dropped by undoing; one that a step
makes superfluous stays, with no vertex that refers to it, until `compact` renumbers all of them between two steps.

*Hops* are two words for each vertex: the next vertex on its way to a member of its component, and the last one on a way
from there (plus one; 0: none). They show that a component is one, see `deleted_edges`. They have a log, too.

*Marks* are five more words that only a step needs: whether a vertex is in the set ahead, in the set behind, in a third
set, and among those that merge; the third set's, and the fifth, are used by Tarjan's algorithm too. A mark is a number
that the *clock* gave out once, so that no set is ever cleared.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, operator, shared
from everview.kernels.frontier.forest import (
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_SERIAL,
    KEPT,
    VERTEX_DEPTH,
    forest_words,
    forget,
    free_forest,
    place,
    undo,
)
from everview.kernels.frontier.rollback import OTHER_WORDS
from everview.kernels.memory import alloc, free, ld, reserve, reserve_lasting, st

(
    STRONG_COMPS,
    STRONG_COMPS_N,
    STRONG_COMPS_BEFORE,
    STRONG_COMPACTED,
    STRONG_BIG,
    STRONG_BIG_BEFORE,
    STRONG_LOG,
    STRONG_LOG_N,
    STRONG_MARKS,
    STRONG_MARKS_N,
    STRONG_CLOCK,
    STRONG_DIRTY,
    STRONG_DIRTY_N,
    STRONG_CUTS,
    STRONG_CUTS_N,
    STRONG_HOLES,
    STRONG_HOLES_N,
    STRONG_HOPS_LOG,
    STRONG_HOPS_LOG_N,
    STRONG_SIDE,
    STRONG_INSIDE,
    STRONG_AHEAD,
    STRONG_AHEAD_N,
    STRONG_AHEAD_AT,
    STRONG_AHEAD_ID,
    STRONG_AHEAD_OF,
    STRONG_AHEAD_WORK,
    STRONG_AHEAD_BIG,
    STRONG_BEHIND,
    STRONG_BEHIND_N,
    STRONG_BEHIND_AT,
    STRONG_BEHIND_ID,
    STRONG_BEHIND_OF,
    STRONG_BEHIND_WORK,
    STRONG_BEHIND_BIG,
    STRONG_SEARCHING,
    STRONG_MET,
    STRONG_SET,
    STRONG_SET_N,
    STRONG_UNITED,
    STRONG_UNITED_N,
    STRONG_UNITED_ID,
    STRONG_FRAMES,
    STRONG_FRAMES_N,
    STRONG_OPEN,
    STRONG_OPEN_N,
    STRONG_ROOTS,
    STRONG_ROOT_AT,
    STRONG_BEGAN,
    STRONG_CHANGE_AT,
    STRONG_WORK,
    STRONG_MOST_WORK,
    STRONG_WORDS,
) = range(OTHER_WORDS, OTHER_WORDS + 53)
"""A context, behind the words of a forest and those of FORM_OTHER. COMPS: the records, number 0 is nobody's; BEFORE:
their number before the step; COMPACTED: after `compact`. BIG: the largest component, which merging does not walk.
MARKS: see the module; CLOCK: the last number given out. DIRTY: components whose name may have changed. CUTS, HOLES,
SIDE, INSIDE: see `deleted_edges`. AHEAD and BEHIND: the two sides of a search, `search`. SEARCHING: whether one is
under way; MET: the sides did. SET: vertices of a third set; UNITED: those that merge (`new_edges`). FRAMES, OPEN,
ROOTS, ROOT_AT, BEGAN: see `tarjan`. CHANGE_AT: the next change to look at. WORK: rows of edges looked at in the epoch;
MOST_WORK: from there on all components are found anew.
"""

(
    COMP_SIZE,
    COMP_MEMBER,
    COMP_FLAGS,
    COMP_BEST,
    COMP_SAID,
    COMP_BORN,
    COMP_STAMP,
    COMP_WORDS,
) = range(8)
"""A record: how many vertices; one of them, the *hub*; flags; the least label of its members, if COMP_HAS_BEST; the one
that was said, if COMP_HAS_SAID; the epochs (FOREST_SERIAL) in which it was made, and last copied to the log.
"""

COMP_HAS_BEST, COMP_HAS_SAID, COMP_IS_DIRTY, COMP_UNSURE, COMP_HAS_HOPS = 1, 2, 4, 8, 16
"""COMP_UNSURE: the member with the least label may have gone; COMP_HAS_HOPS: all members but the hub have hops."""

MARK_ON, MARK_BACK, MARK_AHEAD, MARK_BEHIND, MARK_THIRD, MARK_LOW, MARK_UNITED, MARKS_WIDTH = range(8)

_LOGGED_RECORD = 1 + COMP_WORDS

_OF_STEPS = (
    STRONG_LOG,
    STRONG_DIRTY,
    STRONG_CUTS,
    STRONG_HOLES,
    STRONG_HOPS_LOG,
    STRONG_AHEAD,
    STRONG_BEHIND,
    STRONG_SET,
    STRONG_UNITED,
    STRONG_FRAMES,
    STRONG_OPEN,
)
"""Blocks that only a step needs; each is followed by its number of rows."""

_BLOCKS = (STRONG_COMPS, STRONG_MARKS, *_OF_STEPS)


@inner
def comp_of(ctx, entry):
    """The number of a vertex' component; 0: it is alone."""
    return ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_DEPTH)


@inner
def record_at(comp):
    """The first word of a record in STRONG_COMPS."""
    return 1 + comp * COMP_WORDS


@inner
def mark_at(entry):
    """The first word of a vertex' marks in STRONG_MARKS."""
    return 1 + entry * MARKS_WIDTH


@inner
def tick(ctx):
    """A number that no mark has."""
    now = ld(ctx, STRONG_CLOCK) + 1
    st(ctx, STRONG_CLOCK, now)
    return now


@shared
def make_marks(ctx):
    """Every entry has marks."""
    have = ld(ctx, STRONG_MARKS_N)
    need = ld(ctx, FOREST_ENTRIES_N)
    if need > have:
        marks = reserve_lasting(ctx, STRONG_MARKS, STRONG_MARKS_N, MARKS_WIDTH, need - have)
        for w in range(mark_at(have), mark_at(need)):
            st(marks, w, 0)
        st(ctx, STRONG_MARKS_N, need)
    return 0


@inner
def hop_of(ctx, entry, ahead):
    """The next vertex on the way to the hub (`ahead`), or the last one on the way from there, plus one; 0: none."""
    return ld(ld(ctx, STRONG_MARKS), mark_at(entry) + (MARK_ON if ahead != 0 else MARK_BACK))


@inner
def set_hop(ctx, entry, ahead, hop):
    """Change it. What it was is logged, unless the components are being found."""
    at = mark_at(entry) + (MARK_ON if ahead != 0 else MARK_BACK)
    if ld(ctx, FOREST_SERIAL) != 0:
        log = reserve(ctx, STRONG_HOPS_LOG, STRONG_HOPS_LOG_N, 2, 1)
        n = ld(ctx, STRONG_HOPS_LOG_N)
        st(log, 1 + 2 * n, at)
        st(log, 2 + 2 * n, ld(ld(ctx, STRONG_MARKS), at))
        st(ctx, STRONG_HOPS_LOG_N, n + 1)
    st(ld(ctx, STRONG_MARKS), at, hop)


@inner
def has_hops(ctx, comp):
    """Whether a component (0: a vertex that is alone) has hops."""
    return comp != 0 and ld(ld(ctx, STRONG_COMPS), record_at(comp) + COMP_FLAGS) & COMP_HAS_HOPS != 0


@shared
def add_hole(ctx, entry, ahead):
    """A vertex has lost its hop, and needs another."""
    holes = reserve(ctx, STRONG_HOLES, STRONG_HOLES_N, 2, 1)
    n = ld(ctx, STRONG_HOLES_N)
    st(holes, 1 + 2 * n, entry)
    st(holes, 2 + 2 * n, ahead)
    st(ctx, STRONG_HOLES_N, n + 1)
    return 0


@shared
def touch_record(ctx, comp):
    """A record is about to change: copy it to the log, unless that was done in this epoch."""
    at = record_at(comp)
    comps = ld(ctx, STRONG_COMPS)
    serial = ld(ctx, FOREST_SERIAL)
    if ld(comps, at + COMP_STAMP) == serial:
        return 0
    if comp < ld(ctx, STRONG_COMPS_BEFORE):
        log = reserve(ctx, STRONG_LOG, STRONG_LOG_N, _LOGGED_RECORD, 1)
        n = ld(ctx, STRONG_LOG_N)
        to = 1 + n * _LOGGED_RECORD
        st(log, to, comp)
        for w in range(COMP_WORDS):
            st(log, to + 1 + w, ld(comps, at + w))
        st(ctx, STRONG_LOG_N, n + 1)
    st(comps, at + COMP_STAMP, serial)
    return 0


@inner
def grown(ctx, comp):
    """A component got larger: it may be the largest now."""
    comps = ld(ctx, STRONG_COMPS)
    big = ld(ctx, STRONG_BIG)
    if big == 0 or ld(comps, record_at(comp) + COMP_SIZE) > ld(comps, record_at(big) + COMP_SIZE):
        st(ctx, STRONG_BIG, comp)


@shared
def new_record(ctx, size, member):
    """The number of a new component, which has no label yet."""
    comps = reserve_lasting(ctx, STRONG_COMPS, STRONG_COMPS_N, COMP_WORDS, 1)
    comp = ld(ctx, STRONG_COMPS_N)
    at = record_at(comp)
    for w in range(COMP_WORDS):
        st(comps, at + w, 0)
    st(comps, at + COMP_SIZE, size)
    st(comps, at + COMP_MEMBER, member)
    st(comps, at + COMP_BORN, ld(ctx, FOREST_SERIAL))
    st(comps, at + COMP_STAMP, ld(ctx, FOREST_SERIAL))
    st(ctx, STRONG_COMPS_N, comp + 1)
    grown(ctx, comp)
    return comp


@shared
def make_dirty(ctx, comp):
    """The name of a component must be looked at when the epoch ends. Its record was touched."""
    dirty = reserve(ctx, STRONG_DIRTY, STRONG_DIRTY_N, 1, 1)
    comps = ld(ctx, STRONG_COMPS)
    at = record_at(comp) + COMP_FLAGS
    flags = ld(comps, at)
    if flags & COMP_IS_DIRTY == 0:
        n = ld(ctx, STRONG_DIRTY_N)
        st(dirty, 1 + n, comp)
        st(ctx, STRONG_DIRTY_N, n + 1)
        st(comps, at, flags | COMP_IS_DIRTY)
    return 0


@inner
def lower(ctx, comp, label):
    """A member of a component has a label."""
    comps = ld(ctx, STRONG_COMPS)
    at = record_at(comp)
    flags = ld(comps, at + COMP_FLAGS)
    if flags & COMP_HAS_BEST == 0 or label < ld(comps, at + COMP_BEST):
        st(comps, at + COMP_BEST, label)
        st(comps, at + COMP_FLAGS, flags | COMP_HAS_BEST)


@inner
def without(ctx, comp, label):
    """A member of a component with a label goes, or loses it: whether the least is still there is not known."""
    comps = ld(ctx, STRONG_COMPS)
    at = record_at(comp)
    flags = ld(comps, at + COMP_FLAGS)
    if flags & COMP_HAS_BEST != 0 and label == ld(comps, at + COMP_BEST):
        st(comps, at + COMP_FLAGS, flags | COMP_UNSURE)


@shared
def no_components(ctx):
    """There are no records, as there are no vertices."""
    st(ctx, STRONG_COMPS_N, 0)
    comps = reserve_lasting(ctx, STRONG_COMPS, STRONG_COMPS_N, COMP_WORDS, 1)
    for w in range(COMP_WORDS):
        st(comps, record_at(0) + w, 0)
    for field in (STRONG_COMPACTED, STRONG_BIG, STRONG_BIG_BEFORE, STRONG_MARKS_N, STRONG_CLOCK):
        st(ctx, field, 0)
    st(ctx, STRONG_COMPS_N, 1)
    st(ctx, STRONG_COMPS_BEFORE, 1)
    return 0


@shared
def compact(ctx):
    """Between two steps: records that no vertex refers to go, the others get new numbers."""
    many = ld(ctx, STRONG_COMPS_N)
    if many <= 2 * ld(ctx, STRONG_COMPACTED) + 4096:
        return 0
    moved = alloc(many)
    for c in range(many):
        st(moved, c, 0)
    entries = ld(ctx, FOREST_ENTRIES)
    for entry in range(ld(ctx, FOREST_ENTRIES_N)):
        st(moved, ld(entries, place(ctx, entry) + VERTEX_DEPTH), 1)
    comps = ld(ctx, STRONG_COMPS)
    left = 1
    for c in range(1, many):
        if ld(moved, c) != 0:
            for w in range(COMP_WORDS):
                st(comps, record_at(left) + w, ld(comps, record_at(c) + w))
            st(moved, c, left)
            left += 1
    st(moved, 0, 0)
    for entry in range(ld(ctx, FOREST_ENTRIES_N)):
        at = place(ctx, entry) + VERTEX_DEPTH
        st(entries, at, ld(moved, ld(entries, at)))
    st(ctx, STRONG_BIG, ld(moved, ld(ctx, STRONG_BIG)))
    st(ctx, STRONG_BIG_BEFORE, ld(ctx, STRONG_BIG))
    st(ctx, STRONG_COMPS_N, left)
    st(ctx, STRONG_COMPS_BEFORE, left)
    st(ctx, STRONG_COMPACTED, left)
    free(moved)
    return 0


@inner
def _rest(ctx):
    """Nothing is under way."""
    for field in _OF_STEPS:
        st(ctx, field + 1, 0)
        block = ld(ctx, field)
        if block != 0 and ld(block, 0) > KEPT:
            st(ctx, field, 0)
            free(block)
    st(ctx, STRONG_SEARCHING, 0)


@operator
def forget_components(ctx):
    """The step is committed."""
    st(ctx, STRONG_COMPS_BEFORE, ld(ctx, STRONG_COMPS_N))
    st(ctx, STRONG_BIG_BEFORE, ld(ctx, STRONG_BIG))
    _rest(ctx)
    forget(ctx)
    return 0


@operator
def undo_components(ctx):
    """The step failed, wherever it was."""
    comps = ld(ctx, STRONG_COMPS)
    log = ld(ctx, STRONG_LOG)
    i = ld(ctx, STRONG_LOG_N) - 1
    while i >= 0:
        at = 1 + i * _LOGGED_RECORD
        for w in range(COMP_WORDS):
            st(comps, record_at(ld(log, at)) + w, ld(log, at + 1 + w))
        i -= 1
    hops = ld(ctx, STRONG_HOPS_LOG)
    i = ld(ctx, STRONG_HOPS_LOG_N) - 1
    while i >= 0:
        st(ld(ctx, STRONG_MARKS), ld(hops, 1 + 2 * i), ld(hops, 2 + 2 * i))
        i -= 1
    st(ctx, STRONG_COMPS_N, ld(ctx, STRONG_COMPS_BEFORE))
    st(ctx, STRONG_BIG, ld(ctx, STRONG_BIG_BEFORE))
    _rest(ctx)
    undo(ctx)
    return 0


@inner
def components_words(ctx):
    """Words of memory that the operator takes."""
    words = forest_words(ctx) + STRONG_WORDS
    for field in _BLOCKS:
        block = ld(ctx, field)
        words += 0 if block == 0 else ld(block, 0)
    return words


@inner
def free_components(ctx):
    """Give back what the operator has allocated."""
    for field in _BLOCKS:
        st(ctx, field + 1, 0)
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)
    free_forest(ctx)
