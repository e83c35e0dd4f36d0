"""Which vertices a change re-evaluates, and in which rounds.

There is an *agenda* of (round, vertex), earliest first. To *run* (v, i) is to compute the value of v after round i + 1
from the current edges (`edge_contributions`), compare it with the value after round i, and write the row at i + 1, or
none if they are equal. Rows up to i are those of the new version by then: no earlier version is ever read. What must be
run:

    1  an edge (u, v) came: v, in the first round that u has a row at; an edge went: v, in every round that u has one at
    2  what v begins with changed: v and its out-neighbours, in round 0
    3  the row of v at i + 1 changed: its out-neighbours and v itself, in round i + 1
    4  v was run in round i: v again, in the next round that it or an in-neighbour has a row at

Rule 4 proceeds from row to row, and so reaches all of them without a list. Sources of deleted edges are no longer
in-neighbours, so their rows must be scheduled by rule 1 at once; otherwise unsupported rows would remain.

For the best value most inserted or deleted edges change nothing, which rule 1 detects cheaply: an edge that offers v no
better value than it has after any round adds nothing, and one that offered a worse one supported nothing. (Values only
improve from round to round, so only the rounds of u's rows matter.)

A dropped row is assumed to have changed, because its value is unknown. If most rows of most vertices are dropped, a
relevant change therefore visits everything reachable: correct, but as slow as recomputing it all.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.dropped import (
    chosen,
    degree,
    drop_row,
    gone_slot,
    gone_take_out,
    maybe_dropped,
    next_dropped,
    room_to_drop,
)
from everview.kernels.frontier.edge_contributions import recall, value_at, work_out
from everview.kernels.frontier.forest import (
    FOREST_CHANGES,
    FOREST_EPOCHS_AT,
    FOREST_FUEL,
    FOREST_INITIAL,
    FOREST_KEY,
    FOREST_NRULES,
    FOREST_QUESTIONS,
    FOREST_RULES,
    FOREST_START,
    FOREST_STEP,
    RULE_FORWARD,
    RULE_FORWARD_WEIGHT,
    RULE_WORDS,
)
from everview.kernels.frontier.history import (
    DROPPED,
    HISTORY_ABSENT,
    HISTORY_AGENDA,
    HISTORY_AGENDA_N,
    HISTORY_CHAIN,
    HISTORY_CHAIN_N,
    HISTORY_CHANCE,
    HISTORY_DROPPING,
    HISTORY_EDGES,
    HISTORY_EDGES_N,
    HISTORY_FILTERS_N,
    HISTORY_LAST_POPPED,
    HISTORY_LIMIT,
    HISTORY_MEMO,
    HISTORY_NEEDS_N,
    HISTORY_NEW,
    HISTORY_NODES_N,
    HISTORY_RECORDS,
    HISTORY_RERUNS,
    HISTORY_STALE,
    HISTORY_TOTAL,
    HISTORY_TOUCHED,
    HISTORY_TOUCHED_N,
    HISTORY_UNTIDY,
    LOW_HALF,
    NEVER,
    NOTHING,
    QUESTION_CHAIN,
    QUESTION_COLUMNS,
    QUESTION_COUNT,
    QUESTION_LAST,
    QUESTION_ROWS,
    QUESTION_SIZE,
    STORED,
    empty_table,
    id_of,
    look,
    make_room,
    new_id,
    new_question,
    node_of,
    note,
    put,
    question_at,
    slot_of,
    take_out,
)
from everview.kernels.frontier.offers import FAULT_CYCLE, adds, base_in, edges_of, first_row, offered, there, weight_of
from everview.kernels.memory import ld, reserve, st
from everview.kernels.run.step import STEP_FAULT
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_ROWS, compare_rows, diff_at
from everview.kernels.trace.search import find_key
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_DELTA, TRACE_TABLE

# the agenda


@shared
def push_word(ctx, word):
    """Put a word into the heap that gives the smallest first."""
    heap = reserve(ctx, HISTORY_AGENDA, HISTORY_AGENDA_N, 1, 1)
    i = ld(ctx, HISTORY_AGENDA_N)
    st(ctx, HISTORY_AGENDA_N, i + 1)
    while i > 0:
        up = (i - 1) >> 1
        if ld(heap, 1 + up) <= word:
            break
        st(heap, 1 + i, ld(heap, 1 + up))
        i = up
    st(heap, 1 + i, word)
    return 0


@shared
def pop_word(ctx):
    """Take the smallest from the heap."""
    heap = ld(ctx, HISTORY_AGENDA)
    first = ld(heap, 1)
    n = ld(ctx, HISTORY_AGENDA_N) - 1
    st(ctx, HISTORY_AGENDA_N, n)
    word = ld(heap, 1 + n)
    i = 0
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and ld(heap, 2 + down) < ld(heap, 1 + down):
            down += 1
        if ld(heap, 1 + down) >= word:
            break
        st(heap, 1 + i, ld(heap, 1 + down))
        i = down
    st(heap, 1 + i, word)
    return first


@inner
def schedule(ctx, one, at_round):
    """Run a vertex in a round, if there are so many."""
    if at_round < ld(ctx, HISTORY_LIMIT):
        push_word(ctx, (at_round << 32) | one)


@inner
def touched(ctx, one):
    """A row of a vertex has changed: what it says at last may have, too."""
    found = reserve(ctx, HISTORY_TOUCHED, HISTORY_TOUCHED_N, 1, 1)
    n = ld(ctx, HISTORY_TOUCHED_N)
    st(found, 1 + n, one)
    st(ctx, HISTORY_TOUCHED_N, n + 1)


@inner
def schedule_around(ctx, one, at_round, time):
    """Rules 2 and 3: run the out-neighbours of a vertex, and itself, in a round."""
    if at_round >= ld(ctx, HISTORY_LIMIT):
        return
    schedule(ctx, one, at_round)
    rules = ld(ctx, FOREST_RULES)
    node = node_of(ctx, one)
    seen = 0
    for r in range(ld(ctx, FOREST_NRULES)):
        trace, _ = edges_of(rules, r * RULE_WORDS, True)
        for b in range(ld(trace, TRACE_COUNT)):
            batch = ld(ld(trace, TRACE_TABLE), b)
            data = ld(batch, BATCH_DATA)
            cap = ld(batch, BATCH_CAP)
            rows = ld(batch, BATCH_ROWS)
            i = first_row(ctx, batch, node)
            begin = i
            while i < rows and ld(data, i) == node:
                if adds(batch, data, i, time):
                    schedule(ctx, new_id(ctx, ld(data, cap + i)), at_round)
                i += 1
            seen += i - begin + 1
    st(ctx, FOREST_FUEL, ld(ctx, FOREST_FUEL) - seen)


# rows


@shared
def write_row(ctx, number, one, at_round, there_is, value):
    """Write the row of a vertex at a round, or (`there_is` 0) none, or drop it if it is one to be dropped."""
    at = question_at(ctx, number)
    records = ld(ctx, HISTORY_RECORDS)
    dropped = there_is != 0 and ld(ctx, HISTORY_CHANCE) != 0
    dropped = dropped and chosen(ctx, at, one, at_round, degree(ctx, node_of(ctx, one)))
    if dropped:
        room_to_drop(ctx, at, at_round)
    elif there_is != 0:
        make_room(records, at + QUESTION_ROWS)
    slot = slot_of(records, at + QUESTION_ROWS, one, at_round)
    gone = gone_slot(records, at, one, at_round) if ld(ctx, HISTORY_DROPPING) != 0 else -1
    if slot >= 0:
        note(ctx, number, one, at_round, STORED, ld(ld(records, at + QUESTION_ROWS), 2 * slot + 1))
    else:
        note(ctx, number, one, at_round, DROPPED if gone >= 0 else NOTHING, 0)
    if gone >= 0:
        gone_take_out(records, at, gone)
    if slot >= 0 and (there_is == 0 or dropped):
        take_out(records, at + QUESTION_ROWS, slot)
        rows = ld(records, at + QUESTION_COUNT)
        if rows == 0 or ld(records, at + QUESTION_SIZE) > 4 * rows + 64:
            st(ctx, HISTORY_UNTIDY, 1)
    if dropped:
        drop_row(ctx, at, one, at_round)
    elif there_is != 0:
        put(records, at + QUESTION_ROWS, one, at_round, value)
    if there_is != 0:
        st(records, at + QUESTION_LAST, max(ld(records, at + QUESTION_LAST), at_round))
    return 0


@inner
def next_row(ctx, at, one, at_round):
    """The first round after one at which a vertex has, or may have, a row; NEVER if there is none."""
    _, _, following = look(ld(ctx, HISTORY_RECORDS), at + QUESTION_ROWS, one, at_round)
    if ld(ctx, HISTORY_DROPPING) != 0:
        following = min(following, next_dropped(ctx, at, one, at_round))
    return following


@inner
def _run(ctx, number, one, at_round, time):
    """Run a vertex in a round."""
    at = question_at(ctx, number)
    records = ld(ctx, HISTORY_RECORDS)
    st(ctx, HISTORY_RERUNS, ld(ctx, HISTORY_RERUNS) + 1)
    while True:
        known, value, following = work_out(ctx, at, one, at_round, time, True)
        told, before, _ = value_at(ctx, at, one, at_round, False)
        if known and told:
            break
        recall(ctx, at, time)
    slot = slot_of(records, at + QUESTION_ROWS, one, at_round + 1)
    there_is = value != before
    if slot >= 0:
        changed = not there_is or ld(ld(records, at + QUESTION_ROWS), 2 * slot + 1) != value
    else:
        unknown = maybe_dropped(ctx, at, one, at_round + 1)
        changed = there_is or unknown
        if unknown and not there_is and ld(ctx, HISTORY_FILTERS_N) > 0:
            st(ctx, HISTORY_STALE, ld(ctx, HISTORY_STALE) + 1)
    if changed:
        if ld(ctx, HISTORY_LIMIT) == NEVER and there_is and at_round > ld(ctx, HISTORY_NODES_N):
            st(ld(ctx, FOREST_STEP), STEP_FAULT, FAULT_CYCLE)
            st(ctx, HISTORY_AGENDA_N, 0)
            return
        write_row(ctx, number, one, at_round + 1, 1 if there_is else 0, value)
        touched(ctx, one)
        schedule_around(ctx, one, at_round + 1, time)
    if following < NEVER:
        schedule(ctx, one, following)


@shared
def run_agenda(ctx, number, time):
    """Work the agenda of a question off; 0 if there is no fuel left."""
    while ld(ctx, HISTORY_AGENDA_N) > 0:
        if ld(ctx, FOREST_FUEL) < 0:
            return 0
        word = pop_word(ctx)
        if word != ld(ctx, HISTORY_LAST_POPPED):
            st(ctx, HISTORY_LAST_POPPED, word)
            _run(ctx, number, word & LOW_HALF, word >> 32, time)
    st(ctx, HISTORY_LAST_POPPED, -1)
    st(ctx, HISTORY_NEEDS_N, 0)
    return 1


# rules 1 and 2: what an epoch changes


@inner
def _change(ctx, i):
    """Change number i of the step: (number of its source, its delta, row)."""
    changes = ld(ctx, FOREST_CHANGES)
    source = ld(changes, 1 + 2 * i)
    rules = ld(ctx, FOREST_NRULES)
    if source < rules:
        trace = ld(ld(ctx, FOREST_RULES), source * RULE_WORDS + RULE_FORWARD)
    else:
        trace = ld(ctx, FOREST_START) if source == rules else ld(ctx, FOREST_INITIAL)
    return source, ld(trace, TRACE_DELTA), ld(changes, 2 + 2 * i)


@shared
def sort_out(ctx, epoch):
    """List an epoch's changed edges, and chain its changed sources to their questions."""
    bounds = ld(ctx, FOREST_EPOCHS_AT)
    first = ld(bounds, epoch)
    many = ld(bounds, epoch + 1) - first
    st(ctx, HISTORY_EDGES_N, 0)
    st(ctx, HISTORY_CHAIN_N, 0)
    edges = reserve(ctx, HISTORY_EDGES, HISTORY_EDGES_N, 1, many)
    chain = reserve(ctx, HISTORY_CHAIN, HISTORY_CHAIN_N, 2, many)
    rules = ld(ctx, FOREST_NRULES)
    columns = ld(ctx, FOREST_QUESTIONS)
    for i in range(first, first + many):
        source = ld(ld(ctx, FOREST_CHANGES), 1 + 2 * i)
        if source < rules:
            n = ld(ctx, HISTORY_EDGES_N)
            st(edges, 1 + n, i)
            st(ctx, HISTORY_EDGES_N, n + 1)
        elif source <= rules + 1:
            _, delta, row = _change(ctx, i)
            data = ld(delta, BATCH_DATA)
            for c in range(columns):
                st(ld(ctx, FOREST_KEY), c, ld(data, c * ld(delta, BATCH_CAP) + row))
            number = new_question(ctx)
            at = question_at(ctx, number)
            n = ld(ctx, HISTORY_CHAIN_N)
            st(chain, 1 + 2 * n, i)
            st(chain, 2 + 2 * n, ld(ld(ctx, HISTORY_RECORDS), at + QUESTION_CHAIN))
            st(ctx, HISTORY_CHAIN_N, n + 1)
            st(ld(ctx, HISTORY_RECORDS), at + QUESTION_CHAIN, n)
            asked_for = ld(ld(ctx, HISTORY_RECORDS), at + QUESTION_COUNT) > 0  # another source is no other question
            if diff_at(delta, data, row, 0) > 0 and not asked_for:
                st(ctx, HISTORY_NEW, 1)
    return 0


@inner
def begun_with(ctx, at, node, time):
    """(whether a vertex begins with a value, the best one)."""
    trace = ld(ctx, FOREST_INITIAL)
    if trace == 0:
        trace = ld(ctx, FOREST_START)
    key = ld(ctx, FOREST_KEY)
    columns = ld(ctx, FOREST_QUESTIONS)
    for c in range(columns):
        st(key, c, ld(ld(ctx, HISTORY_RECORDS), at + QUESTION_COLUMNS + c))
    st(key, columns, node)
    found, best = False, 0
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(ld(trace, TRACE_TABLE), b)
        data = ld(batch, BATCH_DATA)
        cap = ld(batch, BATCH_CAP)
        rows = ld(batch, BATCH_ROWS)
        i = find_key(batch, key, 1, 0, columns + 1)
        while i < rows and compare_rows(data, cap, i, key, 1, 0, columns + 1) == 0:
            if adds(batch, data, i, time):
                value = base_in(ctx, data, cap, i)
                if (not found or value < best) and there(trace, batch, i, time) != 0:
                    best = value
                    found = True
            i += 1
    return found, best


@inner
def _begin_again(ctx, number, node, time):
    """Rule 2: what a vertex begins with may have changed."""
    one = new_id(ctx, node)
    at = question_at(ctx, number)
    records = ld(ctx, HISTORY_RECORDS)
    found, value = begun_with(ctx, at, node, time)
    slot = slot_of(records, at + QUESTION_ROWS, one, 0)
    same = (slot >= 0) == found and (slot < 0 or ld(ld(records, at + QUESTION_ROWS), 2 * slot + 1) == value)
    if not same:
        write_row(ctx, number, one, 0, 1 if found else 0, value)
        touched(ctx, one)
        schedule_around(ctx, one, 0, time)
    elif ld(ctx, HISTORY_TOTAL) != 0:  # what is added in every round may have changed
        schedule(ctx, one, 0)


@inner
def _value_before(ctx, at, one, at_round, time):
    """What a vertex had after a round before the epoch: its rows are as they were."""
    while True:
        known, value, _ = value_at(ctx, at, one, at_round, False)
        if known:
            return value
        recall(ctx, at, time - 1)


@inner
def _matters(ctx, at, rules, rule, near, far, when, weight, came, time):
    """Whether an edge that came or went may change what its far end has after the round behind `when`."""
    if ld(ctx, HISTORY_TOTAL) != 0:
        return True
    absent = ld(ctx, HISTORY_ABSENT)
    x = _value_before(ctx, at, near, when, time)
    if x == absent:
        return False
    offers, y = offered(rules, rule, x, weight)
    if not offers:
        return came  # it may be one that cannot be added up
    value = _value_before(ctx, at, far, when + 1, time)
    if came:
        return value == absent or y < value
    return y == value


@inner
def _edge_changed(ctx, number, i, time):
    """Rule 1."""
    source, delta, row = _change(ctx, i)
    data = ld(delta, BATCH_DATA)
    cap = ld(delta, BATCH_CAP)
    near = id_of(ctx, ld(data, row))
    if near < 0:
        return
    at = question_at(ctx, number)
    when = next_row(ctx, at, near, -1)
    if when == NEVER:
        return
    far = new_id(ctx, ld(data, cap + row))
    rules = ld(ctx, FOREST_RULES)
    rule = source * RULE_WORDS
    weight = weight_of(ctx, data, cap, row, ld(rules, rule + RULE_FORWARD_WEIGHT))
    came = diff_at(delta, data, row, 0) > 0
    every = not came or ld(ctx, HISTORY_TOTAL) == 0
    while when < NEVER:
        if _matters(ctx, at, rules, rule, near, far, when, weight, came, time):
            schedule(ctx, far, when)
            if not every:
                return
        when = next_row(ctx, at, near, when)


@shared
def schedule_changes(ctx, number, time):
    """Rules 1 and 2 for a question. Edges first: rule 1 looks at rows as they were."""
    at = question_at(ctx, number)
    records = ld(ctx, HISTORY_RECORDS)
    if ld(records, at + QUESTION_COUNT) > 0 or ld(ctx, HISTORY_DROPPING) != 0:
        for i in range(ld(ctx, HISTORY_EDGES_N)):
            _edge_changed(ctx, number, ld(ld(ctx, HISTORY_EDGES), 1 + i), time)
        empty_table(ctx, HISTORY_MEMO)  # what was worked out is of the version before
    n = ld(records, at + QUESTION_CHAIN)
    while n >= 0:
        chain = ld(ctx, HISTORY_CHAIN)
        _, delta, row = _change(ctx, ld(chain, 1 + 2 * n))
        node = ld(ld(delta, BATCH_DATA), ld(ctx, FOREST_QUESTIONS) * ld(delta, BATCH_CAP) + row)
        n = ld(chain, 2 + 2 * n)
        _begin_again(ctx, number, node, time)
    st(ld(ctx, HISTORY_RECORDS), at + QUESTION_CHAIN, -1)
    return 0
