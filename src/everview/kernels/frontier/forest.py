"""The forest: for each vertex of each question its value and its parent, in memory that changes in place.

A forest is *derived*. What the operator has said is in its output's trace, durable as any other, and the forest can be
grown again from the edges and the sources as of any time (see `trees`): so nothing of it is ever written, and a session
that opens a directory grows it when the first change comes. What it needs is a way back: a step that fails must leave
it as it was. Every entry that an epoch is about to change is copied to the *log* first, once per epoch (`touch`);
`undo` copies back, from the end. It allocates nothing, and neither does `forget`, which a commit calls.

Entries have numbers that stay while they live; two tables of hashes find them:

    table   (question, node) -> entry
    heads   node -> the entries of that node in all questions, linked by VERTEX_NEXT; only for questions

An entry that no path leads to any more stays, with the parent NO_PARENT. When most are like that the forest is grown
again.

Values are *internal*: codes as they are if the least is wanted, all bits turned if the largest is (FOREST_FLIP), so
that less is better everywhere.

Hazards. A kernel may leave at every allocation (see `everview.kernels.leaving`): room is made before anything is
changed. And making room moves blocks: an address of one must be read anew after `new_entry`, `touch` or a push.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.memory import free, ld, reserve, st, zeros

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
    FOREST_HEADS,
    FOREST_HEADS_SIZE,
    FOREST_HEADS_N,
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
    FOREST_BALL_LOG,
    FOREST_BALL_LOG_N,
    FOREST_STATE,
    FOREST_WORDS,
) = range(56)
"""A context, what follows without its prefix. RULES: RULE_WORDS for each rule. START: the trace of the sources, by
question, node and value; START_VALUE: whether they have one. OUT_MAP: which word of an entry each column of the output
is. KEY and NODE: blocks with the key that is sought. PHASE, EPOCH, CURSOR, FUEL: where the work is (see `trees`).
BUILT: the forest is grown; LOUD: it was in the step under way, with everything said. SERIAL: the number of the epoch,
never used again; 0 while growing. WILD: edges with weights that trees cannot have (see `repair`). FORM: FORM_TREES or
FORM_HISTORIES or FORM_PAIRS, whose contexts begin with the same words and go on with their own (see `history`,
`pairs`); INITIAL and ASKED: traces that only those have. BALLS: the registry of balls, if its trees are such (`balls`).
STATE: which column of the question is a state that rules change, plus one; 0: none. The rest are growing
blocks with their sizes in word 0, and how many rows they have.
"""

FORM_TREES, FORM_HISTORIES, FORM_PAIRS, FORM_OTHER = range(4)
"""FORM_OTHER: memory of another kind that changes in place; `undoing` calls its own kernels."""

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
of values beyond MOST_OUT. TIMES and OF: of shares (see `recall`). TURNS: it is for vertices in the state FROM, and
leads to those in the state TO (FOREST_STATE).
"""

ALONG_SAME, ALONG_ADD, ALONG_WORST, ALONG_SHARE = range(4)
"""RULE_KIND: the value itself, value + weight, the worse of value and weight; a share of the value (see `recall`, trees
have none).
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
line of the cache. DEPTH counts edges on which the value stays the same. BASE is the source's own value if FLAGS has
FLAG_BASED. STAMP is the SERIAL under which it was last copied to the log.
"""

FLAG_BASED, FLAG_SUSPECT = 1, 2

NO_PARENT, OWN_VALUE = -1, -2
"""Parents that are none: nothing leads here; the source's own value counts."""

WORST_VALUE = 2**63 - 1

LOGGED = 6
"""Words of a copy: the entry's number and its five words from VERTEX_VALUE on."""

KEPT = 1 << 16
"""Words up to which a block that only a step needs is kept for the next one."""

_MIX = -7046029254386353131
_ID = (1 << 40) - 1


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
def _hash_node(node):
    h = node * _MIX
    return h ^ (h >> 29)


@inner
def _hash(ctx, node):
    h = _hash_node(node)
    questions = ld(ctx, FOREST_QUESTIONS)
    if questions > 0:
        key = ld(ctx, FOREST_KEY)
        for c in range(questions):
            h = (h ^ ld(key, c)) * _MIX
            h ^= h >> 31
    return h


@inner
def _tag(h):
    """The part of a word of the tables that comes from the hash: most keys that differ, differ here."""
    return ((h >> 40) & 0x7FFFFF) << 40


@inner
def find(ctx, node):
    """The entry of a node in the question of FOREST_KEY; NO_PARENT if there is none."""
    h = _hash(ctx, node)
    table = ld(ctx, FOREST_TABLE)
    mask = ld(ctx, FOREST_TABLE_SIZE) - 1
    tag = _tag(h)
    slot = h & mask
    while True:
        word = ld(table, slot)
        if word == 0:
            return NO_PARENT
        if word & ~_ID == tag:
            entry = (word & _ID) - 1
            if _is(ctx, entry, node):
                return entry
        slot = (slot + 1) & mask


@inner
def _is(ctx, entry, node):
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    if ld(entries, at + VERTEX_NODE) != node:
        return False
    questions = ld(ctx, FOREST_QUESTIONS)
    if questions > 0:
        key = ld(ctx, FOREST_KEY)
        for c in range(questions):
            if ld(entries, at + VERTEX_QUESTION + c) != ld(key, c):
                return False
    return True


@inner
def first_of(ctx, node):
    """The first entry of a node, in whatever question; NO_PARENT if there is none. The others follow by `next_of`."""
    if ld(ctx, FOREST_QUESTIONS) == 0:
        return find(ctx, node)
    heads = ld(ctx, FOREST_HEADS)
    slot = _head_slot(ctx, heads, ld(ctx, FOREST_HEADS_SIZE), node)
    return (ld(heads, slot) & _ID) - 1


@inner
def next_of(ctx, entry):
    return ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NEXT)


@inner
def _head_slot(ctx, heads, size, node):
    """Where the node is among the heads, or may be put."""
    h = _hash_node(node)
    tag = _tag(h)
    slot = h & (size - 1)
    while True:
        word = ld(heads, slot)
        if word == 0:
            return slot
        if word & ~_ID == tag and ld(ld(ctx, FOREST_ENTRIES), place(ctx, (word & _ID) - 1) + VERTEX_NODE) == node:
            return slot
        slot = (slot + 1) & (size - 1)


@inner
def _hash_of(ctx, entry):
    """The hash of an entry's own key."""
    entries = ld(ctx, FOREST_ENTRIES)
    at = place(ctx, entry)
    h = _hash_node(ld(entries, at + VERTEX_NODE))
    for c in range(ld(ctx, FOREST_QUESTIONS)):
        h = (h ^ ld(entries, at + VERTEX_QUESTION + c)) * _MIX
        h ^= h >> 31
    return h


@inner
def _widen(ctx, field, size_field, by_node):
    """Twice the table of a field, whose words stay: found by the entries' nodes alone, or by their questions too."""
    old = ld(ctx, field)
    before = ld(ctx, size_field)
    size = max(2 * before, 1024)
    table = zeros(size)
    for i in range(before):
        word = ld(old, i)
        if word != 0:
            entry = (word & _ID) - 1
            if by_node:
                h = _hash_node(ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NODE))
            else:
                h = _hash_of(ctx, entry)
            slot = h & (size - 1)
            while ld(table, slot) != 0:
                slot = (slot + 1) & (size - 1)
            st(table, slot, word)
    st(ctx, field, table)
    st(ctx, size_field, size)
    free(old)


@shared
def _widen_tables(ctx, heads):
    """Twice the table of all entries, or (`heads`) that of the first ones of each node."""
    if heads != 0:
        _widen(ctx, FOREST_HEADS, FOREST_HEADS_SIZE, True)
    else:
        _widen(ctx, FOREST_TABLE, FOREST_TABLE_SIZE, False)
    return 0


@shared
def new_entry(ctx, node):
    """An entry for a node in the question of FOREST_KEY, which has none."""
    n = ld(ctx, FOREST_ENTRIES_N)
    questions = ld(ctx, FOREST_QUESTIONS)
    entries = reserve(ctx, FOREST_ENTRIES, FOREST_ENTRIES_N, VERTEX_QUESTION + questions, 1)
    if 2 * (n + 1) > ld(ctx, FOREST_TABLE_SIZE):
        _widen_tables(ctx, 0)
    if questions > 0 and 2 * (ld(ctx, FOREST_HEADS_N) + 1) > ld(ctx, FOREST_HEADS_SIZE):
        _widen_tables(ctx, 1)
    at = place(ctx, n)
    st(entries, at + VERTEX_VALUE, WORST_VALUE)
    st(entries, at + VERTEX_PARENT, NO_PARENT)
    st(entries, at + VERTEX_DEPTH, 0)
    st(entries, at + VERTEX_BASE, 0)
    st(entries, at + VERTEX_FLAGS, 0)
    st(entries, at + VERTEX_STAMP, 0)
    st(entries, at + VERTEX_NEXT, NO_PARENT)
    st(entries, at + VERTEX_NODE, node)
    for c in range(questions):
        st(entries, at + VERTEX_QUESTION + c, ld(ld(ctx, FOREST_KEY), c))
    st(ctx, FOREST_ENTRIES_N, n + 1)
    h = _hash(ctx, node)
    table = ld(ctx, FOREST_TABLE)
    mask = ld(ctx, FOREST_TABLE_SIZE) - 1
    slot = h & mask
    while ld(table, slot) != 0:
        slot = (slot + 1) & mask
    st(table, slot, _tag(h) | (n + 1))
    if questions > 0:
        heads = ld(ctx, FOREST_HEADS)
        slot = _head_slot(ctx, heads, ld(ctx, FOREST_HEADS_SIZE), node)
        word = ld(heads, slot)
        if word == 0:
            st(ctx, FOREST_HEADS_N, ld(ctx, FOREST_HEADS_N) + 1)
        else:
            st(entries, at + VERTEX_NEXT, (word & _ID) - 1)
        st(heads, slot, _tag(_hash_node(node)) | (n + 1))
    return n


@inner
def found_or_new(ctx, node):
    entry = find(ctx, node)
    return new_entry(ctx, node) if entry == NO_PARENT else entry


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
def forget(ctx):
    """The step is committed: there is no way back any more."""
    st(ctx, FOREST_LOG_N, 0)
    st(ctx, FOREST_LOG_FROM, 0)
    st(ctx, FOREST_HEAP_N, 0)
    st(ctx, FOREST_STACK_N, 0)
    st(ctx, FOREST_BAD_N, 0)
    st(ctx, FOREST_CHANGES_N, 0)
    st(ctx, FOREST_OUT_N, 0)
    st(ctx, FOREST_PHASE, 0)
    st(ctx, FOREST_LOUD, 0)
    st(ctx, FOREST_WILD_BEFORE, ld(ctx, FOREST_WILD))
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
    st(ctx, FOREST_WILD, ld(ctx, FOREST_WILD_BEFORE))
    forget(ctx)


@shared
def empty_forest(ctx):
    """Forget all entries, keeping the memory they had."""
    st(ctx, FOREST_BUILT, 0)
    st(ctx, FOREST_ENTRIES_N, 0)
    st(ctx, FOREST_HEADS_N, 0)
    st(ctx, FOREST_SERIAL, 0)
    forget(ctx)
    if ld(ctx, FOREST_TABLE_SIZE) == 0:
        _widen_tables(ctx, 0)
    if ld(ctx, FOREST_QUESTIONS) > 0 and ld(ctx, FOREST_HEADS_SIZE) == 0:
        _widen_tables(ctx, 1)
    for i in range(ld(ctx, FOREST_TABLE_SIZE)):
        st(ld(ctx, FOREST_TABLE), i, 0)
    for i in range(ld(ctx, FOREST_HEADS_SIZE)):
        st(ld(ctx, FOREST_HEADS), i, 0)
    return 0


@shared
def standing(ctx):
    """How many entries have a value."""
    total = 0
    for entry in range(ld(ctx, FOREST_ENTRIES_N)):
        if ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_PARENT) != NO_PARENT:
            total += 1
    return total


@inner
def forest_words(ctx):
    """Words of memory that a forest takes."""
    words = FOREST_WORDS + ld(ctx, FOREST_TABLE_SIZE) + ld(ctx, FOREST_HEADS_SIZE)
    for field in (FOREST_ENTRIES, FOREST_LOG, FOREST_HEAP, FOREST_STACK, FOREST_BAD, FOREST_CHANGES, FOREST_OUT):
        block = ld(ctx, field)
        words += 0 if block == 0 else ld(block, 0)
    return words


@inner
def free_forest(ctx):
    """Give back what a forest has allocated."""
    for field in (FOREST_ENTRIES, FOREST_TABLE, FOREST_HEADS, FOREST_EPOCHS_AT):
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)
    for field in (FOREST_ENTRIES_N, FOREST_TABLE_SIZE, FOREST_HEADS_SIZE, FOREST_HEADS_N):
        st(ctx, field, 0)
    for field in (FOREST_LOG, FOREST_HEAP, FOREST_STACK, FOREST_BAD, FOREST_CHANGES, FOREST_OUT):
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)
