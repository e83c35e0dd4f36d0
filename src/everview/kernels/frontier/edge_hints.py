"""Fetching ahead: the edges of vertices that are about to be repaired, and the entries at their other ends.

Whoever reads the edges of a vertex waits three times: for words of the batches' indexes, for rows, and for the entries
that these name. Nearly all the time of a repair is such waiting. So all that can be named is asked for at once, and
where the next vertices are known, each stage is done some vertices ahead of the next (see `trace.prefetch`).

    STAGE_INDEX   words of the indexes                 FAR_AHEAD vertices ahead
    STAGE_ROWS    rows, by these words                 NEAR_AHEAD
    STAGE_ENDS    entries at the other ends of these   ENDS_AHEAD

The last stage is for entries that are found by number (`vertex_lookup`), and for rows of large batches: smaller ones
have few rows of a vertex.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.frontier.forest import (
    FOREST_DIRECT,
    FOREST_ENTRIES,
    FOREST_NRULES,
    FOREST_RULES,
    RULE_BACKWARD,
    RULE_FORWARD,
    RULE_WORDS,
    VERTEX_NODE,
    place,
)
from everview.kernels.frontier.vertex_lookup import hint
from everview.kernels.memory import ld
from everview.kernels.trace.batch import BATCH_CAP, BATCH_DATA, BATCH_INDEX, BATCH_PARTS
from everview.kernels.trace.prefetch import FAR_AHEAD, NEAR_AHEAD, bucket_word, hint_index, hint_rows
from everview.kernels.trace.trace import TRACE_COUNT, TRACE_TABLE

STAGE_INDEX, STAGE_ROWS, STAGE_ENDS = range(3)

ENDS_AHEAD = 2

MOST_ENDS = 32
"""Rows of a bucket that are looked at for their other ends."""


@inner
def _hint_ends(ctx, trace, node):
    """Ask for the entries at the other ends of a node's edges, whose rows are here."""
    table = ld(trace, TRACE_TABLE)
    for b in range(ld(trace, TRACE_COUNT)):
        batch = ld(table, b)
        index = ld(batch, BATCH_INDEX)
        if index != 0:
            word = bucket_word(batch, node)
            if word >= 0:
                data = ld(batch, BATCH_DATA)
                cap = ld(batch, BATCH_CAP)
                i = ld(index, word)
                end = min(ld(index, word + ld(batch, BATCH_PARTS)), i + MOST_ENDS)
                while i < end and ld(data, i) < node:
                    i += 1
                while i < end and ld(data, i) == node:
                    hint(ctx, ld(data, cap + i))
                    i += 1


@shared
def hint_edges(ctx, node, ahead, stage):
    """The edges of a node will be read, from near to far (`ahead`) or back: do one of the stages."""
    rules = ld(ctx, FOREST_RULES)
    for r in range(ld(ctx, FOREST_NRULES)):
        trace = ld(rules, r * RULE_WORDS + (RULE_FORWARD if ahead != 0 else RULE_BACKWARD))
        if stage == STAGE_INDEX:
            hint_index(trace, node)
        elif stage == STAGE_ROWS:
            hint_rows(trace, node)
        elif ld(ctx, FOREST_DIRECT) > 0:
            _hint_ends(ctx, trace, node)
    return 0


@inner
def hint_entry(ctx, entry, ahead, stage):
    """The same for the edges of an entry."""
    hint_edges(ctx, ld(ld(ctx, FOREST_ENTRIES), place(ctx, entry) + VERTEX_NODE), ahead, stage)


@shared
def hint_first(ctx, block, at, step, n, ahead):
    """The n entries that words `at`, `at + step` ... of a block name will be worked on, in that order."""
    for k in range(min(n, FAR_AHEAD)):
        hint_entry(ctx, ld(block, at + k * step), ahead, STAGE_INDEX)
    for k in range(min(n, NEAR_AHEAD)):
        hint_entry(ctx, ld(block, at + k * step), ahead, STAGE_ROWS)
    for k in range(min(n, ENDS_AHEAD)):
        hint_entry(ctx, ld(block, at + k * step), ahead, STAGE_ENDS)
    return 0


@inner
def hint_on(ctx, block, at, step, n, ahead):
    """The first of n such entries is worked on now; this was called for those before, after `hint_first`."""
    if n > FAR_AHEAD:
        hint_entry(ctx, ld(block, at + FAR_AHEAD * step), ahead, STAGE_INDEX)
    if n > NEAR_AHEAD:
        hint_entry(ctx, ld(block, at + NEAR_AHEAD * step), ahead, STAGE_ROWS)
    if n > ENDS_AHEAD:
        hint_entry(ctx, ld(block, at + ENDS_AHEAD * step), ahead, STAGE_ENDS)
