"""What operators in lean form hold: their histories, read from memory; and the same worked out from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import everview as ev
from everview.kernels import structures
from everview.kernels.frontier import forest as forest_k
from everview.kernels.frontier import history as k
from tests.inside import inside

Histories = dict[tuple[int, ...], dict[int, list[tuple[int, int]]]]
"""For each question, for each node: (round, value) in order."""


def lean_operators(db: ev.Session) -> list[Any]:
    return [o for o in inside(db).runtime.dataflow.operators() if o.kind == "histories"]


def held(operator: Any) -> Histories:
    """The rows that an operator keeps."""
    ctx = operator.context
    columns = structures.peek(ctx, forest_k.FOREST_QUESTIONS)
    records, nodes = structures.peek(ctx, k.HISTORY_RECORDS), structures.peek(ctx, k.HISTORY_NODES)
    flip = structures.peek(ctx, forest_k.FOREST_FLIP)
    found: Histories = {}
    for number in range(structures.peek(ctx, k.HISTORY_RECORDS_N)):
        at = 1 + number * (k.QUESTION_COLUMNS + columns)
        question = tuple(structures.peek(records, at + k.QUESTION_COLUMNS + c) for c in range(columns))
        table = structures.peek(records, at + k.QUESTION_ROWS)
        rows: dict[int, list[tuple[int, int]]] = {}
        for slot in range(structures.peek(records, at + k.QUESTION_SIZE)):
            word = structures.peek(table, 2 * slot)
            if word:
                node = structures.peek(nodes, 1 + (word >> 32) - 1)
                rows.setdefault(node, []).append((word & 0xFFFFFFFF, structures.peek(table, 2 * slot + 1) ^ flip))
        if rows:
            found[question] = {node: sorted(some) for node, some in rows.items()}
    return found


def from_scratch(
    edges: Iterable[tuple[int, int, int]], start: dict[int, int], along: Callable[[int, int], int]
) -> dict[int, list[tuple[int, int]]]:
    """The history of the least values: rounds over all edges until nothing changes."""
    edges = list(edges)
    values = dict(start)
    found = {node: [(0, value)] for node, value in start.items()}
    rounds = 0
    while True:
        rounds += 1
        after = dict(start)
        for near, far, weight in edges:
            if near in values:
                offer = along(values[near], weight)
                after[far] = min(after.get(far, offer), offer)
        changed = {node: value for node, value in after.items() if values.get(node) != value}
        if not changed:
            return found
        for node, value in changed.items():
            found.setdefault(node, []).append((rounds, value))
        values = after


def drop_rows(db: ev.Session, part: float, *, exact: bool = False, filter_words: int = 0, most: int = 1 << 30) -> None:
    """Let all lean operators of a session drop a part of the rows they write from now on."""
    for operator in lean_operators(db):
        for word, value in (
            (k.HISTORY_CHANCE, int(part * 2**32)),
            (k.HISTORY_EXACT, int(exact)),
            (k.HISTORY_FIXED_FILTER, filter_words),
            (k.HISTORY_MOST_DEGREE, most),
        ):
            structures.poke(operator.context, word, value)
