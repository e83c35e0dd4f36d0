"""The operator: for every vertex the least label of its strong component, maintained by searches.

    label(v) = the least own label, as a source, of the vertices that v reaches and that reach v

It reads the edges' arrangements in place, in both directions, and outputs differences like any other operator: they
are its trace, its only state that outlives the process. What it keeps of components is derived, and found anew at the
first change after a directory is opened. Several epochs in one step are processed one after the other, each on the
edges as of that epoch.

    IDLE       nothing to do; a step begins
    ENTERING   vertices and their labels are listed; a newcomer says all of them (LOUD), after opening nothing is said
    FINDING    all components are found (`tarjan`)
    OPENING    an epoch begins: sources' labels are read, deleted edges are listed
    HOPPING    components from which edges went have hops (`deleted_edges`)
    SPLITTING  holes are mended; PEELING: the components of a part that broke off (`tarjan`)
    MERGING    new edges (`new_edges`); MENDING: the holes that merging leaves
    STARTING_ANEW  instead of all these: all components are found, because that is less work
    NAMING     names of components (`component_labels`)
    CLOSING    the epoch's differences are collected; the next epoch, or all are said

The work of an epoch is bounded: where searches have looked at more rows than there are edges, all components are found
anew. It returns to the executor, to be called again, whenever its fuel is used up.
"""

from __future__ import annotations

from everview.kernels.build.native import entry, inner, operator, shared, task
from everview.kernels.frontier.bulk_load import FEW_SLOTS, SPREAD_OUT, key_range
from everview.kernels.frontier.epochs import SOURCES, WASTE, delta_of, gather, in_phases, publish, source
from everview.kernels.frontier.forest import (
    FLAG_BASED,
    FOREST_BUILT,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_EPOCH,
    FOREST_EPOCHS_AT,
    FOREST_FRESH,
    FOREST_FUEL,
    FOREST_LOUD,
    FOREST_NRULES,
    FOREST_OUTPUT,
    FOREST_PHASE,
    FOREST_RULES,
    FOREST_SERIAL,
    FOREST_SERIALS,
    FOREST_START,
    FOREST_STEP,
    NO_PARENT,
    VERTEX_BASE,
    VERTEX_DEPTH,
    VERTEX_FLAGS,
    VERTEX_NEXT,
    VERTEX_NODE,
    VERTEX_PARENT,
    VERTEX_STAMP,
    VERTEX_VALUE,
    WORST_VALUE,
    place,
)
from everview.kernels.frontier.offers import adds, base_in, read_base, still_held, there
from everview.kernels.frontier.repair import change_at
from everview.kernels.frontier.trees import say_all, say_changes
from everview.kernels.frontier.vertex_lookup import empty_forest, find, found_or_new, room_for
from everview.kernels.memory import ld, st
from everview.kernels.run.step import STEP_BASE, STEP_EPOCHS
from everview.kernels.strong.component import (
    STRONG_BIG,
    STRONG_BIG_BEFORE,
    STRONG_CHANGE_AT,
    STRONG_COMPS_BEFORE,
    STRONG_COMPS_N,
    STRONG_DIRTY_N,
    STRONG_HOLES_N,
    STRONG_MOST_WORK,
    STRONG_SEARCHING,
    STRONG_WORK,
    comp_of,
    compact,
    components_words,
    free_components,
    lower,
    make_dirty,
    make_marks,
    no_components,
    touch_record,
    without,
)
from everview.kernels.strong.component_labels import label_all, label_logged, name_components
from everview.kernels.strong.deleted_edges import (
    SPLIT_DONE,
    SPLIT_PEELED,
    SPLIT_TOO_MUCH,
    add_cut,
    cut_hops,
    make_hops,
    mend,
)
from everview.kernels.strong.new_edges import MERGE_DONE, MERGE_TOO_MUCH, apply_merges, begin_merging, merge_changes
from everview.kernels.strong.search import edges_at
from everview.kernels.strong.tarjan import OF_ALL, begin_tarjan, tarjan
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, diff_at
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE, clear_delta, trace_rows

(
    STAGE_IDLE,
    STAGE_FINDING,
    STAGE_OPENING,
    STAGE_HOPPING,
    STAGE_SPLITTING,
    STAGE_PEELING,
    STAGE_MERGING,
    STAGE_MENDING,
    STAGE_STARTING_ANEW,
    STAGE_NAMING,
    STAGE_CLOSING,
) = range(11)
"""FOREST_PHASE. What is listed at once (ENTERING) has no phase of its own."""

ALWAYS_SEARCHED = 1 << 14
"""Rows of edges that an epoch may look at, however few there are."""


@inner
def _blank(ctx, low, many):
    """Entries for the nodes from `low` on, in order."""
    entries = ld(ctx, FOREST_ENTRIES)
    for i in range(many):
        at = place(ctx, i)
        st(entries, at + VERTEX_NODE, low + i)
        st(entries, at + VERTEX_VALUE, WORST_VALUE)
        st(entries, at + VERTEX_PARENT, NO_PARENT)
        st(entries, at + VERTEX_DEPTH, 0)
        st(entries, at + VERTEX_BASE, 0)
        st(entries, at + VERTEX_FLAGS, 0)
        st(entries, at + VERTEX_STAMP, 0)
        st(entries, at + VERTEX_NEXT, NO_PARENT)
    st(ctx, FOREST_ENTRIES_N, many)


@inner
def _enter_nodes(ctx, trace):
    """Entries for the nodes in the first column of a trace; a deleted one has no neighbours and says nothing."""
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        for i in range(ld(batch, BATCH_ROWS)):
            if i == 0 or ld(data, i) != ld(data, i - 1):
                found_or_new(ctx, ld(data, i))


@inner
def _enter_label(ctx, trace, batch, row, node, label, time):
    """Note a source's label if it is there, and smaller than what is known of it."""
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, find(ctx, node))
    smaller = ld(entries, at + VERTEX_FLAGS) & FLAG_BASED == 0 or label < ld(entries, at + VERTEX_BASE)
    if smaller and there(trace, batch, row, time) != 0:
        st(entries, at + VERTEX_BASE, label)
        st(entries, at + VERTEX_FLAGS, FLAG_BASED)


@shared
def _enter(ctx, time):
    """List all vertices, with their own labels as of a time, and begin to find their components."""
    empty_forest(ctx)
    no_components(ctx)
    start = ld(ctx, FOREST_START)
    low, high = key_range(start, 2**63 - 1, -(2**63))
    low, high = key_range(edges_at(ctx, 1), low, high)
    low, high = key_range(edges_at(ctx, 0), low, high)
    rows = trace_rows(start) + trace_rows(edges_at(ctx, 1))
    if low <= high and (high >> 1) - (low >> 1) <= (SPREAD_OUT * rows + FEW_SLOTS) >> 1:
        room_for(ctx, high - low + 1, high - low + 1, low)
        _blank(ctx, low, high - low + 1)
    else:
        _enter_nodes(ctx, start)
        _enter_nodes(ctx, edges_at(ctx, 1))
        _enter_nodes(ctx, edges_at(ctx, 0))
    for b in range(ld(start, TRACE_COUNT)):
        batch = ld(ld(start, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        for i in range(ld(batch, BATCH_ROWS)):
            if adds(batch, data, i, time):
                _enter_label(ctx, start, batch, i, ld(data, i), base_in(ctx, data, cap, i), time)
    make_marks(ctx)
    begin_tarjan(ctx, OF_ALL)
    st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - rows)
    return 0


@inner
def _found(ctx, base, time):
    """All components are found, as of the time before the step, or as of its first epoch, which says all of it."""
    label_all(ctx)
    st(ctx, FOREST_BUILT, 1)
    st(ctx, STRONG_COMPS_BEFORE, ld(ctx, STRONG_COMPS_N))
    st(ctx, STRONG_BIG_BEFORE, ld(ctx, STRONG_BIG))
    if time != base:
        st(ctx, FOREST_FRESH, 0)
        say_all(ctx, time)
        st(ctx, FOREST_EPOCH, 2)
    st(ctx, FOREST_PHASE, STAGE_OPENING)


@inner
def _open_source(ctx, delta, row, time):
    """A source changed: read its label anew."""
    node = ld(ld(delta, BATCH_DATA), row)
    one = found_or_new(ctx, node)
    at = place(ctx, one)
    entries = ld(ctx, FOREST_ENTRIES)
    was = ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0
    before = ld(entries, at + VERTEX_BASE)
    read_base(ctx, one, node, time)
    entries = ld(ctx, FOREST_ENTRIES)
    has = ld(entries, at + VERTEX_FLAGS) & FLAG_BASED != 0
    label = ld(entries, at + VERTEX_BASE)
    comp = comp_of(ctx, one)
    if comp != 0 and (was != has or before != label):
        touch_record(ctx, comp)
        make_dirty(ctx, comp)
        if was:
            without(ctx, comp, before)
        if has:
            lower(ctx, comp, label)


@inner
def _open_edge(ctx, delta, row, time):
    """An edge changed: its ends have entries, and one that went is a cut."""
    data = ld(delta, BATCH_DATA)
    near = ld(data, row)
    far = ld(data, ld(delta, BATCH_CAP) + row)
    a = found_or_new(ctx, near)
    b = found_or_new(ctx, far)
    if diff_at(delta, data, row, 0) < 0 and a != b and comp_of(ctx, a) != 0 and comp_of(ctx, a) == comp_of(ctx, b):
        if still_held(ctx, ld(ctx, FOREST_RULES), 0, near, far, 0, 0, time) == 0:
            add_cut(ctx, a, b)


@shared
def _open(ctx, epoch, time):
    """Begin an epoch under a number of its own."""
    serial = ld(ctx, FOREST_SERIALS) + 1
    st(ctx, FOREST_SERIALS, serial)
    st(ctx, FOREST_SERIAL, serial)
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    for i in range(ld(bounds, epoch), ld(bounds, epoch + 1)):
        rule, delta, row = change_at(ctx, i)
        if rule < 0:
            _open_source(ctx, delta, row, time)
        else:
            _open_edge(ctx, delta, row, time)
    make_marks(ctx)
    st(ctx, STRONG_SEARCHING, 0)
    st(ctx, STRONG_CHANGE_AT, 0)
    st(ctx, STRONG_WORK, 0)
    st(ctx, STRONG_MOST_WORK, trace_rows(edges_at(ctx, 1)) + ALWAYS_SEARCHED)
    st(ctx, FOREST_PHASE, STAGE_HOPPING)
    return 0


@inner
def _start_anew(ctx):
    """Give up searching: find all components, as of this epoch."""
    st(ctx, STRONG_HOLES_N, 0)
    st(ctx, STRONG_DIRTY_N, 0)
    st(ctx, STRONG_SEARCHING, 0)
    st(ctx, STRONG_BIG, 0)
    begin_tarjan(ctx, OF_ALL)
    st(ctx, FOREST_PHASE, STAGE_STARTING_ANEW)


@inner
def _split(ctx, epoch, time):
    answer = mend(ctx, time)
    if answer == SPLIT_DONE:
        begin_merging(ctx)
        st(ctx, STRONG_CHANGE_AT, ld(ld(ctx, FOREST_EPOCHS_AT), epoch))
        st(ctx, FOREST_PHASE, STAGE_MERGING)
    elif answer == SPLIT_PEELED:
        st(ctx, FOREST_PHASE, STAGE_PEELING)
    elif answer == SPLIT_TOO_MUCH:
        _start_anew(ctx)


@inner
def _merge(ctx, epoch, time):
    answer = merge_changes(ctx, epoch, time)
    if answer == MERGE_DONE:
        apply_merges(ctx)
        st(ctx, FOREST_PHASE, STAGE_MENDING)
    elif answer == MERGE_TOO_MUCH:
        _start_anew(ctx)


@task
def _advance(ctx):
    """Do the next part of the work; whether there is more of it."""
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    epochs = ld(ld(ctx, FOREST_STEP), STEP_EPOCHS)
    phase = ld(ctx, FOREST_PHASE)
    epoch = ld(ctx, FOREST_EPOCH)
    time = base + epoch
    if phase == STAGE_FINDING:
        as_of = time if ld(ctx, FOREST_LOUD) != 0 else base
        if tarjan(ctx, as_of) != 0:
            _found(ctx, base, as_of)
    elif phase == STAGE_OPENING:
        if epoch > epochs:
            publish(ctx)
            return 0
        _open(ctx, epoch, time)
    elif phase == STAGE_HOPPING:
        if make_hops(ctx, time - 1) != 0:
            cut_hops(ctx)
            st(ctx, STRONG_WORK, 0)
            st(ctx, FOREST_PHASE, STAGE_SPLITTING)
    elif phase == STAGE_SPLITTING:
        _split(ctx, epoch, time)
    elif phase == STAGE_PEELING:
        if tarjan(ctx, time) != 0:
            st(ctx, FOREST_PHASE, STAGE_SPLITTING)
    elif phase == STAGE_MERGING:
        _merge(ctx, epoch, time)
    elif phase == STAGE_MENDING:
        answer = mend(ctx, time)
        if answer == SPLIT_DONE:
            st(ctx, FOREST_PHASE, STAGE_NAMING)
        elif answer == SPLIT_TOO_MUCH:
            _start_anew(ctx)
    elif phase == STAGE_STARTING_ANEW:
        if tarjan(ctx, time) != 0:
            st(ctx, FOREST_PHASE, STAGE_NAMING)
    elif phase == STAGE_NAMING:
        if name_components(ctx, time) != 0:
            st(ctx, FOREST_PHASE, STAGE_CLOSING)
    else:
        label_logged(ctx)
        say_changes(ctx, time)
        st(ctx, FOREST_EPOCH, epoch + 1)
        st(ctx, FOREST_PHASE, STAGE_OPENING)
    return 1


@task
def _begin(ctx):
    """The step begins. 0: there is nothing to do."""
    fresh = ld(ctx, FOREST_FRESH) != 0
    changed = fresh
    for s in range(ld(ctx, FOREST_NRULES) + SOURCES):
        changed = changed or delta_of(ctx, source(ctx, s)) != 0
    if not changed:
        clear_delta(ld(ctx, FOREST_OUTPUT))
        return 0
    known = trace_rows(ld(ctx, FOREST_START)) + trace_rows(edges_at(ctx, 1))
    if ld(ctx, FOREST_ENTRIES_N) > WASTE * known + FEW_SLOTS:
        st(ctx, FOREST_BUILT, 0)
    base = ld(ld(ctx, FOREST_STEP), STEP_BASE)
    st(ctx, FOREST_EPOCH, 1)
    if fresh:
        _enter(ctx, base + 1)
        st(ctx, FOREST_LOUD, 1)
        st(ctx, FOREST_PHASE, STAGE_FINDING)
    elif ld(ctx, FOREST_BUILT) == 0:
        _enter(ctx, base)
        st(ctx, FOREST_PHASE, STAGE_FINDING)
    else:
        compact(ctx)
        st(ctx, FOREST_PHASE, STAGE_OPENING)
    gather(ctx)
    return 1


@operator
def keep_components(ctx):
    """Compiled operator; see the module."""
    return in_phases(ctx, _begin(), _advance())


COMPONENTS_BYTES, DROP_COMPONENTS = range(2)


@entry("int", "int", brief=True)
def about_components(what, ctx):
    """What Python asks of the operator: its size, or to give its memory back."""
    if what == COMPONENTS_BYTES:
        return 8 * components_words(ctx)
    free_components(ctx)
    return 0
