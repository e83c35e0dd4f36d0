"""Histories: for each vertex of each query, the rounds at which its value changed, and the new values.

This is the lean form of a loop (Ammar's *join on demand* with *eager merging*). A loop stores what every edge
contributes in every round, and differences of that; here nothing of the edges is stored. The state of a vertex after
round i is the value of its latest *row* at or before i; contributions of edges are read from the edges' arrangements on
demand (`edge_contributions`), and the rows that a change can affect are found by four rules (`reevaluation`).

    ids        node -> a small number, the same in all questions
    questions  a record for each, found by its columns
    rows       a table of hashes in each question: (id, round) -> value, 16 bytes a row

Rows of one id are in one run of the table, from the id's home to the next empty slot, unordered; scanning the run finds
the latest before a round and the first after it. Tables grow by a quarter, not by doubling: saving memory is the
purpose of this form. Some rows may be *dropped* (`dropped`): then only their existence is recorded, and they are
recomputed on demand.

Like a forest, a history is derived: from the edges and the initial values, as of any time. It is never written. A step
is undone by a log: before a row changes, its previous state is recorded. `undo` restores it from the end and needs no
memory, because a table that had room for a row still has it; tables shrink between steps only (`tidy`).

Hazard: a query's record moves when another is created; call `question_at` again afterwards.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FOREST_BUILT,
    FOREST_CHANGES,
    FOREST_CHANGES_N,
    FOREST_EPOCHS_AT,
    FOREST_FRESH,
    FOREST_KEY,
    FOREST_LOUD,
    FOREST_OUT,
    FOREST_OUT_N,
    FOREST_PHASE,
    FOREST_QUESTIONS,
    FOREST_WORDS,
)
from everview.kernels.memory import alloc, free, ld, reserve, st, zeros

(
    HISTORY_ABSENT,
    HISTORY_TOTAL,
    HISTORY_LIMIT,
    HISTORY_IDS,
    HISTORY_IDS_SIZE,
    HISTORY_NODES,
    HISTORY_NODES_N,
    HISTORY_RECORDS,
    HISTORY_RECORDS_N,
    HISTORY_FIND,
    HISTORY_FIND_SIZE,
    HISTORY_LOGGING,
    HISTORY_LOG,
    HISTORY_LOG_N,
    HISTORY_AGENDA,
    HISTORY_AGENDA_N,
    HISTORY_LAST_POPPED,
    HISTORY_TOUCHED,
    HISTORY_TOUCHED_N,
    HISTORY_NEEDS,
    HISTORY_NEEDS_N,
    HISTORY_EDGES,
    HISTORY_EDGES_N,
    HISTORY_CHAIN,
    HISTORY_CHAIN_N,
    HISTORY_MEMO,
    HISTORY_MEMO_SIZE,
    HISTORY_MEMO_N,
    HISTORY_REPORTED,
    HISTORY_REPORTED_N,
    HISTORY_REPORTED_FIND,
    HISTORY_REPORTED_SIZE,
    HISTORY_QUESTION,
    HISTORY_STAGE,
    HISTORY_UNTIDY,
    HISTORY_OUT_KEY,
    HISTORY_NEW,
    HISTORY_RERUNS,
    HISTORY_RECALLED,
    HISTORY_DROPPING,
    HISTORY_CHANCE,
    HISTORY_EXACT,
    HISTORY_LEAST_DEGREE,
    HISTORY_MOST_DEGREE,
    HISTORY_FILTERS,
    HISTORY_FILTERS_N,
    HISTORY_FIXED_FILTER,
    HISTORY_STALE,
    HISTORY_GROWN_KEYS,
    HISTORY_CLOSED,
    HISTORY_BUDGET,
    HISTORY_USED,
    HISTORY_DEGREES,
    HISTORY_WORDS,
) = range(FOREST_WORDS, FOREST_WORDS + 54)
"""Words behind those of a forest. ABSENT: the word that no value is, for vertices that nothing is known of. TOTAL:
values are added up instead of the best being taken. LIMIT: how many rounds there are. LOGGING: whether changes are
noted. AGENDA: a heap of (round, id) in one word; LAST_POPPED: the one before. TOUCHED: ids whose rows have changed in
the question under way. NEEDS, MEMO: see `edge_contributions`. EDGES, CHAIN: see `reevaluation`. REPORTED: what was said
in this step, if it has several epochs. QUESTION, STAGE: where the work is (see `histories`). UNTIDY: questions that
have lost all rows, or tables most of theirs. RERUNS, RECALLED: how often a vertex was worked out because of a change,
and because it was dropped, since the beginning. DROPPING: whether rows may be dropped; CHANCE (of 2**32), EXACT,
LEAST_DEGREE, MOST_DEGREE, FILTERS, FIXED_FILTER, STALE, GROWN_KEYS, CLOSED: see `dropped`; BUDGET,
USED, NEW, DEGREES: see `budget`.
"""

(
    QUESTION_ROWS,
    QUESTION_SIZE,
    QUESTION_COUNT,
    QUESTION_GONE,
    QUESTION_GONE_SIZE,
    QUESTION_GONE_N,
    QUESTION_LAST,
    QUESTION_CHAIN,
    QUESTION_LOGGED,
    QUESTION_COLUMNS,
) = range(10)
"""A question's record: its table of rows (two words a slot), their number; the table of the rows that were dropped, if
they are kept exactly; the last round that a row was ever written at; the first of its changed sources in this epoch;
how many rows the log may put back; from COLUMNS on, what tells it apart.
"""

BUDGET_LIMIT, BUDGET_USED, BUDGET_WORDS = range(3)
"""A budget, see `budget`."""

NEVER = 2**31 - 1
"""A round that is not reached."""

HASH_FACTOR = -7046029254386353131
LOW_HALF = (1 << 32) - 1

SCRATCH = 512
"""Words up to which a block that only a step needs is kept for the next one."""

LOG_WIDTH = 5
"""Words of the log: question, id, round, what was there (NOTHING, STORED, DROPPED), value."""

NOTHING, STORED, DROPPED = range(3)


# tables of rows: `block` has three words from `at` on, the table, its slots, its rows; a slot is (id + 1, round), value


@inner
def home(one, size):
    """Where the rows of an id begin in a table."""
    return ((((one + 1) * HASH_FACTOR >> 31) & LOW_HALF) * size) >> 32


@inner
def word_of(one, at_round):
    return ((one + 1) << 32) | at_round


@inner
def look(block, at, one, at_round):
    """(round of the latest row up to a round or -1, its value, round of the first row after it or NEVER)."""
    latest, value, following = -1, 0, NEVER
    size = ld(block, at + 1)
    if size > 0:
        rows = ld(block, at)
        slot = home(one, size)
        word = ld(rows, 2 * slot)
        while word != 0:
            if (word >> 32) - 1 == one:
                when = word & LOW_HALF
                if when > at_round:
                    following = min(following, when)
                elif when > latest:
                    latest = when
                    value = ld(rows, 2 * slot + 1)
            slot += 1
            if slot == size:
                slot = 0
            word = ld(rows, 2 * slot)
    return latest, value, following


@inner
def slot_of(block, at, one, at_round):
    """The slot of a row; -1 if it is not there."""
    size = ld(block, at + 1)
    if size == 0:
        return -1
    rows = ld(block, at)
    wanted = word_of(one, at_round)
    slot = home(one, size)
    word = ld(rows, 2 * slot)
    while word != 0 and word != wanted:
        slot += 1
        if slot == size:
            slot = 0
        word = ld(rows, 2 * slot)
    return slot if word == wanted else -1


@inner
def slots_for(rows):
    """Slots of a table for a number of rows."""
    return rows + (rows >> 1) + 4


@shared
def resize(block, at, size):
    """Give a table another number of slots, more than it has rows."""
    old = ld(block, at)
    before = ld(block, at + 1)
    rows = zeros(2 * size)
    for i in range(before):
        word = ld(old, 2 * i)
        if word != 0:
            slot = home((word >> 32) - 1, size)
            while ld(rows, 2 * slot) != 0:
                slot += 1
                if slot == size:
                    slot = 0
            st(rows, 2 * slot, word)
            st(rows, 2 * slot + 1, ld(old, 2 * i + 1))
    st(block, at, rows)
    st(block, at + 1, size)
    free(old)
    return 0


@inner
def make_room(block, at):
    """Room for one more row: a quarter stays empty, so that runs are short."""
    rows = ld(block, at + 2) + 1
    if 4 * rows > 3 * ld(block, at + 1):
        resize(block, at, slots_for(rows + (rows >> 3)))


@inner
def put(block, at, one, at_round, value):
    """Write a row for which there is room; it may be there."""
    slot = slot_of(block, at, one, at_round)
    rows = ld(block, at)
    if slot < 0:
        size = ld(block, at + 1)
        slot = home(one, size)
        while ld(rows, 2 * slot) != 0:
            slot += 1
            if slot == size:
                slot = 0
        st(rows, 2 * slot, word_of(one, at_round))
        st(block, at + 2, ld(block, at + 2) + 1)
    st(rows, 2 * slot + 1, value)


@inner
def take_out(block, at, slot):
    """Empty a slot; what lies behind it in its run moves up where it may."""
    rows = ld(block, at)
    size = ld(block, at + 1)
    hole = slot
    i = slot
    while True:
        i = i + 1 if i + 1 < size else 0
        word = ld(rows, 2 * i)
        if word == 0:
            break
        begin = home((word >> 32) - 1, size)
        stays = begin > hole and begin <= i if hole <= i else begin > hole or begin <= i
        if not stays:
            st(rows, 2 * hole, word)
            st(rows, 2 * hole + 1, ld(rows, 2 * i + 1))
            hole = i
    st(rows, 2 * hole, 0)
    st(block, at + 2, ld(block, at + 2) - 1)


@inner
def empty_table(block, at):
    """No rows; a large table is given back."""
    if ld(block, at + 2) > 0:
        if ld(block, at + 1) > SCRATCH:
            free_table(block, at)
        else:
            rows = ld(block, at)
            for i in range(ld(block, at + 1)):
                st(rows, 2 * i, 0)
    st(block, at + 2, 0)


@inner
def free_table(block, at):
    table = ld(block, at)
    st(block, at, 0)
    st(block, at + 1, 0)
    st(block, at + 2, 0)
    free(table)


# ids of nodes


@inner
def _hash_word(word):
    h = word * HASH_FACTOR
    return h ^ (h >> 29)


@inner
def id_of(ctx, node):
    """The id of a node; -1 if it has none."""
    ids = ld(ctx, HISTORY_IDS)
    mask = ld(ctx, HISTORY_IDS_SIZE) - 1
    nodes = ld(ctx, HISTORY_NODES)
    slot = _hash_word(node) & mask
    while True:
        one = ld(ids, slot) - 1
        if one < 0 or ld(nodes, 1 + one) == node:
            return one
        slot = (slot + 1) & mask


@inner
def _widen_ids(ctx, n):
    size = max(2 * ld(ctx, HISTORY_IDS_SIZE), 64)
    ids = zeros(size)
    nodes = ld(ctx, HISTORY_NODES)
    for i in range(n):
        slot = _hash_word(ld(nodes, 1 + i)) & (size - 1)
        while ld(ids, slot) != 0:
            slot = (slot + 1) & (size - 1)
        st(ids, slot, i + 1)
    free(ld(ctx, HISTORY_IDS))
    st(ctx, HISTORY_IDS, ids)
    st(ctx, HISTORY_IDS_SIZE, size)


@shared
def new_id(ctx, node):
    """The id of a node, which it gets if it has none."""
    one = id_of(ctx, node)
    if one >= 0:
        return one
    n = ld(ctx, HISTORY_NODES_N)
    nodes = reserve(ctx, HISTORY_NODES, HISTORY_NODES_N, 1, 1)
    if 2 * (n + 1) > ld(ctx, HISTORY_IDS_SIZE):
        _widen_ids(ctx, n)
    st(nodes, 1 + n, node)
    mask = ld(ctx, HISTORY_IDS_SIZE) - 1
    slot = _hash_word(node) & mask
    while ld(ld(ctx, HISTORY_IDS), slot) != 0:
        slot = (slot + 1) & mask
    st(ld(ctx, HISTORY_IDS), slot, n + 1)
    st(ctx, HISTORY_NODES_N, n + 1)
    return n


@inner
def node_of(ctx, one):
    return ld(ld(ctx, HISTORY_NODES), 1 + one)


# questions


@inner
def question_at(ctx, number):
    """The first word of a question's record in HISTORY_RECORDS."""
    return 1 + number * (QUESTION_COLUMNS + ld(ctx, FOREST_QUESTIONS))


@inner
def hash_key(block, at, columns):
    h = 1
    for c in range(columns):
        h = (h ^ ld(block, at + c)) * HASH_FACTOR
        h ^= h >> 31
    return h


@inner
def question_of(ctx):
    """The number of the question whose columns are in FOREST_KEY; -1 if there is none."""
    columns = ld(ctx, FOREST_QUESTIONS)
    key = ld(ctx, FOREST_KEY)
    found = ld(ctx, HISTORY_FIND)
    mask = ld(ctx, HISTORY_FIND_SIZE) - 1
    records = ld(ctx, HISTORY_RECORDS)
    slot = hash_key(key, 0, columns) & mask
    while True:
        number = ld(found, slot) - 1
        if number < 0:
            return number
        at = question_at(ctx, number) + QUESTION_COLUMNS
        same = True
        for c in range(columns):
            same = same and ld(records, at + c) == ld(key, c)
        if same:
            return number
        slot = (slot + 1) & mask


@inner
def _index(ctx, found, size, number):
    at = question_at(ctx, number) + QUESTION_COLUMNS
    slot = hash_key(ld(ctx, HISTORY_RECORDS), at, ld(ctx, FOREST_QUESTIONS)) & (size - 1)
    while ld(found, slot) != 0:
        slot = (slot + 1) & (size - 1)
    st(found, slot, number + 1)


@shared
def index_questions(ctx, size):
    """Make the table by which questions are found anew."""
    found = zeros(size)
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        _index(ctx, found, size, number)
    free(ld(ctx, HISTORY_FIND))
    st(ctx, HISTORY_FIND, found)
    st(ctx, HISTORY_FIND_SIZE, size)
    return 0


@inner
def find_again(ctx):
    """Records have moved: fill the table by which questions are found again, without memory."""
    found = ld(ctx, HISTORY_FIND)
    for i in range(ld(ctx, HISTORY_FIND_SIZE)):
        st(found, i, 0)
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        _index(ctx, found, ld(ctx, HISTORY_FIND_SIZE), number)


@shared
def new_question(ctx):
    """The number of the question whose columns are in FOREST_KEY, which gets a record if it has none."""
    number = question_of(ctx)
    if number >= 0:
        return number
    n = ld(ctx, HISTORY_RECORDS_N)
    columns = ld(ctx, FOREST_QUESTIONS)
    records = reserve(ctx, HISTORY_RECORDS, HISTORY_RECORDS_N, QUESTION_COLUMNS + columns, 1)
    if 2 * (n + 1) > ld(ctx, HISTORY_FIND_SIZE):
        index_questions(ctx, max(2 * ld(ctx, HISTORY_FIND_SIZE), 16))
    at = question_at(ctx, n)
    for w in range(QUESTION_COLUMNS):
        st(records, at + w, 0)
    st(records, at + QUESTION_CHAIN, -1)
    for c in range(columns):
        st(records, at + QUESTION_COLUMNS + c, ld(ld(ctx, FOREST_KEY), c))
    _index(ctx, ld(ctx, HISTORY_FIND), ld(ctx, HISTORY_FIND_SIZE), n)
    st(ctx, HISTORY_RECORDS_N, n + 1)
    return n


@shared
def tidy(ctx):
    """Give back what questions without rows, and tables that have lost most of theirs, take up. Between steps only."""
    st(ctx, HISTORY_UNTIDY, 0)
    records = ld(ctx, HISTORY_RECORDS)
    width = QUESTION_COLUMNS + ld(ctx, FOREST_QUESTIONS)
    kept = 0
    n = ld(ctx, HISTORY_RECORDS_N)
    for number in range(n):
        at = question_at(ctx, number)
        rows = ld(records, at + QUESTION_COUNT)
        if ld(records, at + QUESTION_SIZE) > 4 * rows + 64:
            resize(records, at + QUESTION_ROWS, slots_for(rows))
    for number in range(n):
        at = question_at(ctx, number)
        empty = ld(records, at + QUESTION_COUNT) + ld(records, at + QUESTION_GONE_N) == 0
        if empty and ld(ctx, HISTORY_FILTERS_N) == 0:
            free(ld(records, at + QUESTION_ROWS))
            free(ld(records, at + QUESTION_GONE))
        else:
            to = question_at(ctx, kept)
            if to != at:
                for w in range(width):
                    st(records, to + w, ld(records, at + w))
            kept += 1
    st(ctx, HISTORY_RECORDS_N, kept)
    find_again(ctx)
    return 0


# the way back, and the end


@shared
def note(ctx, number, one, at_round, what, value):
    """A row is about to change: write down what is there."""
    if ld(ctx, HISTORY_LOGGING) != 0:
        log = reserve(ctx, HISTORY_LOG, HISTORY_LOG_N, LOG_WIDTH, 1)
        n = ld(ctx, HISTORY_LOG_N)
        to = 1 + n * LOG_WIDTH
        st(log, to, number)
        st(log, to + 1, one)
        st(log, to + 2, at_round)
        st(log, to + 3, what)
        st(log, to + 4, value)
        st(ctx, HISTORY_LOG_N, n + 1)
    return 0


@inner
def forget_history(ctx):
    """The step is committed: there is no way back any more."""
    for field in (
        HISTORY_LOG_N, HISTORY_AGENDA_N, HISTORY_TOUCHED_N, HISTORY_NEEDS_N, HISTORY_EDGES_N, HISTORY_CHAIN_N,
        HISTORY_REPORTED_N, HISTORY_QUESTION, HISTORY_STAGE, HISTORY_LOGGING, HISTORY_NEW, HISTORY_CLOSED,
        FOREST_CHANGES_N, FOREST_OUT_N, FOREST_PHASE, FOREST_LOUD,
    ):  # fmt: skip
        st(ctx, field, 0)
    st(ctx, HISTORY_LAST_POPPED, -1)
    empty_table(ctx, HISTORY_MEMO)
    for field in (
        HISTORY_LOG, HISTORY_AGENDA, HISTORY_TOUCHED, HISTORY_NEEDS, HISTORY_EDGES, HISTORY_CHAIN, HISTORY_REPORTED,
        FOREST_CHANGES, FOREST_OUT,
    ):  # fmt: skip
        block = ld(ctx, field)
        if block != 0 and ld(block, 0) > SCRATCH:
            st(ctx, field, 0)
            free(block)
    block = ld(ctx, HISTORY_DEGREES)
    st(ctx, HISTORY_DEGREES, 0)
    free(block)


@inner
def unbuild(ctx):
    """The history is not there, and is grown again before the next change; a newcomer then says it all."""
    if ld(ctx, FOREST_LOUD) != 0:
        st(ctx, FOREST_FRESH, 1)
    st(ctx, FOREST_BUILT, 0)


@inner
def empty_history(ctx):
    """Forget all rows, ids and questions, and give back what they took."""
    records = ld(ctx, HISTORY_RECORDS)
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        at = question_at(ctx, number)
        free_table(records, at + QUESTION_ROWS)
        gone = ld(records, at + QUESTION_GONE)
        st(records, at + QUESTION_GONE, 0)
        free(gone)
    keys = 0
    for i in range(ld(ctx, HISTORY_FILTERS_N)):
        block = ld(ld(ctx, HISTORY_FILTERS), 1 + 3 * i)
        st(ld(ctx, HISTORY_FILTERS), 1 + 3 * i, 0)
        keys += ld(ld(ctx, HISTORY_FILTERS), 3 + 3 * i)
        free(block)
    if keys > 0:
        st(ctx, HISTORY_GROWN_KEYS, max(keys - ld(ctx, HISTORY_STALE), keys >> 1))
    st(ctx, HISTORY_FILTERS_N, 0)
    st(ctx, HISTORY_RECORDS_N, 0)
    st(ctx, HISTORY_NODES_N, 0)
    st(ctx, HISTORY_STALE, 0)
    for field in (HISTORY_IDS, HISTORY_FIND, HISTORY_NODES, HISTORY_RECORDS, HISTORY_MEMO, HISTORY_REPORTED_FIND):
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)
    for field in (HISTORY_IDS_SIZE, HISTORY_FIND_SIZE, HISTORY_MEMO_SIZE, HISTORY_MEMO_N, HISTORY_REPORTED_SIZE):
        st(ctx, field, 0)


@inner
def free_history(ctx):
    """Give back all that a history has allocated."""
    empty_history(ctx)
    for field in (
        HISTORY_LOG, HISTORY_AGENDA, HISTORY_TOUCHED, HISTORY_NEEDS, HISTORY_EDGES, HISTORY_CHAIN, HISTORY_REPORTED,
        HISTORY_FILTERS, FOREST_CHANGES, FOREST_OUT, FOREST_EPOCHS_AT,
    ):  # fmt: skip
        block = ld(ctx, field)
        st(ctx, field, 0)
        free(block)


@inner
def begin_history(ctx):
    """An empty history, ready for rows."""
    empty_history(ctx)
    forget_history(ctx)
    nodes = alloc(65)
    st(nodes, 0, 65)
    st(ctx, HISTORY_NODES, nodes)
    st(ctx, HISTORY_IDS, zeros(64))
    st(ctx, HISTORY_IDS_SIZE, 64)
    index_questions(ctx, 16)


@inner
def history_words(ctx):
    """Words of memory that a history takes when the step is over: large blocks that only the step needs are gone."""
    words = HISTORY_WORDS + ld(ctx, HISTORY_IDS_SIZE) + ld(ctx, HISTORY_FIND_SIZE)
    if ld(ctx, HISTORY_MEMO_SIZE) <= SCRATCH:
        words += 2 * ld(ctx, HISTORY_MEMO_SIZE)
    for field in (HISTORY_NODES, HISTORY_RECORDS):
        words += 0 if ld(ctx, field) == 0 else ld(ld(ctx, field), 0)
    for field in (
        HISTORY_LOG, HISTORY_AGENDA, HISTORY_TOUCHED, HISTORY_NEEDS, HISTORY_EDGES, HISTORY_CHAIN, HISTORY_REPORTED,
        FOREST_CHANGES, FOREST_OUT,
    ):  # fmt: skip
        block = ld(ctx, field)
        if block != 0 and ld(block, 0) <= SCRATCH:
            words += ld(block, 0)
    records = ld(ctx, HISTORY_RECORDS)
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        at = question_at(ctx, number)
        words += 2 * ld(records, at + QUESTION_SIZE) + ld(records, at + QUESTION_GONE_SIZE)
    for i in range(ld(ctx, HISTORY_FILTERS_N)):
        words += ld(ld(ctx, HISTORY_FILTERS), 2 + 3 * i)
    return words


@inner
def history_rows(ctx):
    """How many rows are kept."""
    rows = 0
    for number in range(ld(ctx, HISTORY_RECORDS_N)):
        rows += ld(ld(ctx, HISTORY_RECORDS), question_at(ctx, number) + QUESTION_COUNT)
    return rows
