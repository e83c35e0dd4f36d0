"""The forest: for each vertex of each query its value and its parent, in memory that changes in place.

A forest is *derived* state. The operator's output is in its trace, durable like any other, and the forest can be
rebuilt from the edges and the sources as of any time (see `trees`). It is therefore never written, and a session that
opens a directory rebuilds it at the first change. What it needs is undo: a failed step must restore it. Every entry
that an epoch is about to change is first copied to the *log*, once per epoch (`touch`); `undo` copies back, from the
end. It allocates nothing, and neither does `forget`, which a commit calls.

Entries have stable numbers while they live, and are found by hash tables (`vertex_lookup`). An unreachable entry stays,
with the parent NO_PARENT. When most are like that the forest is rebuilt; those of balls are swept incrementally
(`ball_garbage`).

Values are *internal*: the codes themselves if the least is wanted, all bits inverted if the largest is (FOREST_FLIP),
so that less is better everywhere.

Hazards: a kernel may exit at every allocation (see `everview.kernels.early_exit`), so room is made before anything is
changed. And making room moves blocks: an address of one must be read again after `new_entry`, `touch` or a push.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import free, ld, reserve, size_of, st

(
    FOREST_RULES,
    FOREST_NRULES,
    FOREST_START,
    FOREST_START_VALUE,
    FOREST_QUESTIONS,
    FOREST_FLIP,
    FOREST_OUTPUT,
    FOREST_OUT_MAP,
    FOREST_SCOPE,
    FOREST_STEP,
    FOREST_STREAM,
    FOREST_FRESH,
    FOREST_KEY,
    FOREST_NODE,
    FOREST_PHASE,
    FOREST_BUILT,
    FOREST_LOUD,
    FOREST_EPOCH,
    FOREST_SERIAL,
    FOREST_SERIALS,
    FOREST_WILD,
    FOREST_WILD_BEFORE,
    FOREST_ENTRIES,
    FOREST_ENTRIES_N,
    FOREST_TABLE,
    FOREST_TABLE_SIZE,
    FOREST_TABLE_OLD,
    FOREST_TABLE_OLD_SIZE,
    FOREST_TABLE_OLD_AT,
    FOREST_HEADS,
    FOREST_HEADS_SIZE,
    FOREST_HEADS_OLD,
    FOREST_HEADS_OLD_SIZE,
    FOREST_HEADS_OLD_AT,
    FOREST_HEADS_N,
    FOREST_FREE,
    FOREST_FREE_N,
    FOREST_DIRECT,
    FOREST_LOW,
    FOREST_SWEPT_BALL,
    FOREST_SWEPT_AT,
    FOREST_LOG,
    FOREST_LOG_N,
    FOREST_LOG_FROM,
    FOREST_HEAP,
    FOREST_HEAP_N,
    FOREST_STACK,
    FOREST_STACK_N,
    FOREST_BAD,
    FOREST_BAD_N,
    FOREST_CURSOR,
    FOREST_CHANGES,
    FOREST_CHANGES_N,
    FOREST_EPOCHS_AT,
    FOREST_OUT,
    FOREST_OUT_N,
    FOREST_FUEL,
    FOREST_FORM,
    FOREST_INITIAL,
    FOREST_ASKED,
    FOREST_BALLS,
    FOREST_BALLS_N,
    FOREST_BALLS_FIND,
    FOREST_BALLS_FIND_SIZE,
    FOREST_BALLS_FREE,
    FOREST_BALL_LOG,
    FOREST_BALL_LOG_N,
    FOREST_STATE,
    FOREST_LOAD,
    FOREST_REGROWN,
    FOREST_WORDS,
) = range(71)
"""A context, what follows without its prefix. RULES: RULE_WORDS for each rule. START: the trace of the sources, by
question, node and value; START_VALUE: whether they have one. OUT_MAP: which word of an entry each column of the output
is. KEY and NODE: blocks with the key that is sought. PHASE, EPOCH, CURSOR, FUEL: where the work is (see `trees`).
BUILT: the forest is grown; LOUD: it was in the step under way, with everything said. SERIAL: the number of the epoch,
never used again; 0 while growing. WILD: edges with weights that trees cannot have (see `repair`). FORM: FORM_TREES or
FORM_HISTORIES, FORM_PAIRS or FORM_LEVELS, whose contexts begin with the same words and go on with their own (see
`history`, `pairs`, `levels`); INITIAL and ASKED: traces that only those have. BALLS: the registry of balls, if its
trees are such (`balls`).
TABLE, HEADS, DIRECT and LOW: see `vertex_lookup`; SWEPT: see `ball_garbage`. FREE: an entry that nobody has (plus one),
the others follow by VERTEX_NEXT, and how many there are. STATE: which column of the question is a state that rules
change, plus one; 0: none. LOAD: a block for growing at once (see `bulk_load`); REGROWN: whether an epoch of the step
started anew (see `trees`). The rest are growing blocks with their sizes in word 0, and how many rows they have.
"""

FORM_TREES, FORM_HISTORIES, FORM_PAIRS, FORM_LEVELS, FORM_OTHER = range(5)
"""FORM_OTHER: memory of another kind that changes in place; `rollback` calls its own kernels."""

(
    RULE_FORWARD,
    RULE_BACKWARD,
    RULE_KIND,
    RULE_FORWARD_WEIGHT,
    RULE_BACKWARD_WEIGHT,
    RULE_MOST_IN,
    RULE_MOST_OUT,
    RULE_TIMES,
    RULE_OF,
    RULE_TURNS,
    RULE_FROM,
    RULE_TO,
    RULE_WORDS,
) = range(13)
"""A rule: the traces of its edges by (near, far, ...) and by (far, near, ...), what an edge makes of a value, the
columns of the weight (below 0: there is none, and ~column is the constant); no offers from values beyond MOST_IN, nor
of values beyond MOST_OUT. TIMES and OF: of shares (see `edge_contributions`). TURNS: it is for vertices in the state
FROM, and leads to those in the state TO (FOREST_STATE).
"""

ALONG_SAME, ALONG_ADD, ALONG_WORST, ALONG_SHARE, ALONG_ADD_FLOAT = range(5)
"""RULE_KIND: the value itself, value + weight, the worse of value and weight; a share of the value (see
`edge_contributions`, trees have none); value + weight where both are floats (trees only).
"""

(
    VERTEX_NODE,
    VERTEX_VALUE,
    VERTEX_PARENT,
    VERTEX_DEPTH,
    VERTEX_BASE,
    VERTEX_FLAGS,
    VERTEX_STAMP,
    VERTEX_NEXT,
    VERTEX_QUESTION,
) = range(9)
"""Words of an entry, from QUESTION on the columns of the question. NODE and what neighbours ask for come first: one
line of the cache. DEPTH orders vertices with the same value (`depth_below`). BASE is the source's own value if FLAGS
has FLAG_BASED. STAMP is the SERIAL under which it was last copied to the log.
"""

FLAG_BASED, FLAG_SUSPECT, FLAG_DOUBT, FLAG_BESIDE = 1, 2, 4, 8
"""DOUBT: whether the source's own value is still there must be read again before it is used (`offers.settle_base`).
BESIDE: others of the same level may hang here (`hold_beside`). Both may be set for longer than they are true: a step
that is undone need not clear them.
"""

BESIDE_BITS = 20
"""Bits of a depth below the level."""

NO_PARENT, OWN_VALUE = -1, -2
"""Parents that are none: nothing leads here; the source's own value counts."""

WORST_VALUE = 2**63 - 1

LOGGED = 6
"""Words of a copy: the entry's number and its five words from VERTEX_VALUE on."""

KEPT = 1 << 16
"""Words up to which a block that only a step needs is kept for the next one."""


@inner
def place(ctx, entry):
    """The first word of an entry in FOREST_ENTRIES."""
    return 1 + entry * (VERTEX_QUESTION + ld(ctx, FOREST_QUESTIONS))


@inner
def ask(ctx, entry):
    """From now on look for vertices in the question of this entry."""
    questions = ld(ctx, FOREST_QUESTIONS)
    if questions > 0:
        key = ld(ctx, FOREST_KEY)
        entries = ld(ctx, FOREST_ENTRIES)
        at = place(ctx, entry) + VERTEX_QUESTION
        for c in range(questions):
            st(key, c, ld(entries, at + c))


@inner
def turned(ctx, rules, rule, at, ahead):
    """Whether a rule is for the entry at a place (`ahead`: its edges lead away from it, else to it); if so, look for
    vertices in the state that its edges lead to, or come from.
    """
    state = ld(ctx, FOREST_STATE)
    if state == 0:
        return True
    own = ld(ld(ctx, FOREST_ENTRIES), at + VERTEX_QUESTION + state - 1)
    other = own
    if ld(rules, rule + RULE_TURNS) != 0:
        if own != ld(rules, rule + (RULE_FROM if ahead else RULE_TO)):
            return False
        other = ld(rules, rule + (RULE_TO if ahead else RULE_FROM))
    st(ld(ctx, FOREST_KEY), state - 1, other)
    return True


@inner
def touch(ctx, entry):
    """An entry is about to change: copy it to the log, unless that was done in this epoch."""
    at = place(ctx, entry)
    serial = ld(ctx, FOREST_SERIAL)
    if ld(ld(ctx, FOREST_ENTRIES), at + VERTEX_STAMP) != serial:
        _copy(ctx, entry)


@shared
def _copy(ctx, entry):
    log = reserve(ctx, FOREST_LOG, FOREST_LOG_N, LOGGED, 1)
    n = ld(ctx, FOREST_LOG_N)
    to = 1 + n * LOGGED
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    st(log, to, entry)
    for w in range(LOGGED - 1):
        st(log, to + 1 + w, ld(entries, at + VERTEX_VALUE + w))
    st(ctx, FOREST_LOG_N, n + 1)
    st(entries, at + VERTEX_STAMP, ld(ctx, FOREST_SERIAL))
    return 0


@inner
def suspect(ctx, entry):
    """The tree edge to an entry is gone: put it on the stack, once."""
    at = place(ctx, entry)
    stack = reserve(ctx, FOREST_STACK, FOREST_STACK_N, 1, 1)
    entries = ld(ctx, FOREST_ENTRIES)
    flags = ld(entries, at + VERTEX_FLAGS)
    if flags & FLAG_SUSPECT == 0:
        n = ld(ctx, FOREST_STACK_N)
        st(stack, 1 + n, entry)
        st(ctx, FOREST_STACK_N, n + 1)
        st(entries, at + VERTEX_FLAGS, flags | FLAG_SUSPECT)


@inner
def next_suspect(ctx):
    """Take one from the stack."""
    n = ld(ctx, FOREST_STACK_N) - 1
    entry = ld(ld(ctx, FOREST_STACK), 1 + n)
    st(ctx, FOREST_STACK_N, n)
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry) + VERTEX_FLAGS
    st(entries, at, ld(entries, at) & ~FLAG_SUSPECT)
    return entry


@inner
def hold(ctx, entry, value, parent, depth):
    """Give an entry a value, a parent and a depth; it was touched."""
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    st(entries, at + VERTEX_VALUE, value)
    st(entries, at + VERTEX_PARENT, parent)
    st(entries, at + VERTEX_DEPTH, depth)


@inner
def depth_below(x, y, depth):
    """The depth of a child that takes the value y from a parent with the value x.

    A depth is a *level*, which counts the edges on which the value stays the same, and below that a place within the
    level: 0, or one more than the parent's for those that hang beside others of their level.
    """
    return ((depth >> BESIDE_BITS) + 1) << BESIDE_BITS if x == y else 0


@inner
def is_level_before(depth, other):
    """Whether a depth is of an earlier level than another."""
    return depth >> BESIDE_BITS < other >> BESIDE_BITS


@inner
def may_stand_beside(depth, other, beside):
    """Whether a vertex at a depth may hang from another one with the same value and level, without getting a level
    more. That one is earlier already; or nobody of the level hangs from the vertex (`beside`: its BESIDE flag), so that
    all below it stay behind it.
    """
    same = depth >> BESIDE_BITS == other >> BESIDE_BITS
    return same and (other < depth or beside == 0) and (other + 1) >> BESIDE_BITS == other >> BESIDE_BITS


@inner
def hold_beside(ctx, entry, value, parent):
    """Hang an entry from another one of its value and level."""
    entries = ld(ctx, FOREST_ENTRIES)
    up = place(ctx, parent)
    st(entries, up + VERTEX_FLAGS, ld(entries, up + VERTEX_FLAGS) | FLAG_BESIDE)
    hold(ctx, entry, value, parent, ld(entries, up + VERTEX_DEPTH) + 1)


@inner
def _before(heap, i, first, second):
    """Whether row i of the heap comes before a pair, or with it."""
    x = ld(heap, 1 + 3 * i)
    return x < first or (x == first and ld(heap, 2 + 3 * i) <= second)


@shared
def push(ctx, first, second, entry):
    """Put an entry into the heap, which gives the smallest (first, second) first."""
    heap = reserve(ctx, FOREST_HEAP, FOREST_HEAP_N, 3, 1)
    i = ld(ctx, FOREST_HEAP_N)
    st(ctx, FOREST_HEAP_N, i + 1)
    while i > 0:
        up = (i - 1) >> 1
        if _before(heap, up, first, second):
            break
        for w in range(3):
            st(heap, 1 + 3 * i + w, ld(heap, 1 + 3 * up + w))
        i = up
    st(heap, 1 + 3 * i, first)
    st(heap, 2 + 3 * i, second)
    st(heap, 3 + 3 * i, entry)
    return 0


@inner
def pop(ctx):
    """The first of the heap: (first, entry)."""
    heap = ld(ctx, FOREST_HEAP)
    first = ld(heap, 1)
    entry = ld(heap, 3)
    n = ld(ctx, FOREST_HEAP_N) - 1
    st(ctx, FOREST_HEAP_N, n)
    x = ld(heap, 1 + 3 * n)
    y = ld(heap, 2 + 3 * n)
    z = ld(heap, 3 + 3 * n)
    i = 0
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and _before(heap, down + 1, ld(heap, 1 + 3 * down), ld(heap, 2 + 3 * down)):
            down += 1
        if not _before(heap, down, x, y):
            break
        for w in range(3):
            st(heap, 1 + 3 * i + w, ld(heap, 1 + 3 * down + w))
        i = down
    st(heap, 1 + 3 * i, x)
    st(heap, 2 + 3 * i, y)
    st(heap, 3 + 3 * i, z)
    return first, entry


@inner
def free_load(ctx):
    """Give back what growing at once needed."""
    load = ld(ctx, FOREST_LOAD)
    st(ctx, FOREST_LOAD, 0)
    free(load)


@inner
def forget(ctx):
    """The step is committed: there is no way back any more."""
    st(ctx, FOREST_LOG_N, 0)
    st(ctx, FOREST_LOG_FROM, 0)
    st(ctx, FOREST_HEAP_N, 0)
    st(ctx, FOREST_STACK_N, 0)
    st(ctx, FOREST_BAD_N, 0)
    st(ctx, FOREST_CURSOR, 0)
    st(ctx, FOREST_CHANGES_N, 0)
    st(ctx, FOREST_OUT_N, 0)
    st(ctx, FOREST_PHASE, 0)
    st(ctx, FOREST_LOUD, 0)
    st(ctx, FOREST_REGROWN, 0)
    st(ctx, FOREST_WILD_BEFORE, ld(ctx, FOREST_WILD))
    free_load(ctx)
    for field in (FOREST_LOG, FOREST_HEAP, FOREST_STACK, FOREST_BAD, FOREST_CHANGES, FOREST_OUT):
        block = ld(ctx, field)
        if block != 0 and ld(block, 0) > KEPT:
            st(ctx, field, 0)
            free(block)


@inner
def undo(ctx):
    """The step failed, wherever it was: the forest is as it was before, or, if it was being grown, not there."""
    entries = ld(ctx, FOREST_ENTRIES)
    for i in range(ld(ctx, FOREST_STACK_N)):
        at = place(ctx, ld(ld(ctx, FOREST_STACK), 1 + i)) + VERTEX_FLAGS
        st(entries, at, ld(entries, at) & ~FLAG_SUSPECT)
    log = ld(ctx, FOREST_LOG)
    i = ld(ctx, FOREST_LOG_N) - 1
    while i >= 0:
        at = place(ctx, ld(log, 1 + i * LOGGED))
        for w in range(LOGGED - 1):
            st(entries, at + VERTEX_VALUE + w, ld(log, 2 + i * LOGGED + w))
        st(entries, at + VERTEX_FLAGS, ld(entries, at + VERTEX_FLAGS) & ~FLAG_SUSPECT)
        i -= 1
    if ld(ctx, FOREST_LOUD) != 0:
        st(ctx, FOREST_BUILT, 0)
        st(ctx, FOREST_FRESH, 1)
    if ld(ctx, FOREST_REGROWN) != 0:  # nothing is left of what was: it is grown again before the next change
        st(ctx, FOREST_BUILT, 0)
    st(ctx, FOREST_WILD, ld(ctx, FOREST_WILD_BEFORE))
    forget(ctx)


@inner
def forest_words(ctx):
    """Words of memory that a forest takes."""
    words = FOREST_WORDS
    for field in (FOREST_TABLE_SIZE, FOREST_TABLE_OLD_SIZE, FOREST_HEADS_SIZE, FOREST_HEADS_OLD_SIZE):
        words += ld(ctx, field)
    for field in (FOREST_ENTRIES, FOREST_LOG, FOREST_HEAP, FOREST_STACK, FOREST_BAD, FOREST_CHANGES, FOREST_OUT):
        block = ld(ctx, field)
        words += 0 if block == 0 else ld(block, 0)
    load = ld(ctx, FOREST_LOAD)
    return words + (0 if load == 0 else size_of(load))


@inner
def free_forest(ctx):
    """Give back what a forest has allocated."""
    for field in (
        FOREST_ENTRIES_N, FOREST_TABLE_SIZE, FOREST_TABLE_OLD_SIZE, FOREST_HEADS_SIZE, FOREST_HEADS_OLD_SIZE,
        FOREST_HEADS_N, FOREST_FREE, FOREST_FREE_N, FOREST_DIRECT, FOREST_SWEPT_BALL, FOREST_SWEPT_AT,
    ):  # fmt: skip
        st(ctx, field, 0)
    for field in (FOREST_ENTRIES, FOREST_TABLE, FOREST_TABLE_OLD, FOREST_HEADS, FOREST_HEADS_OLD, FOREST_EPOCHS_AT):
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)
    free_load(ctx)
    for field in (FOREST_LOG, FOREST_HEAP, FOREST_STACK, FOREST_BAD, FOREST_CHANGES, FOREST_OUT):
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)
