"""Deletions of a base table are accepted exactly if the rows are there (`everview.kernels.trace.deletions`).

Random histories against a counter. Rows come in batches that get an index and in ones that do not; first columns have
many values or few, so that buckets are short, long, and divided by the second column; rows occur several times.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

import everview as ev
from tests.inside import inside

LOADED_ROWS = 3_000  # more than a batch needs to get an index
STEPS = 60


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("firsts", [3, 40, 10**6])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_60_bulk_changes_of_3000_rows(columns: int, firsts: int, threads: int) -> None:
    chance = random.Random(f"{columns} {firsts}")
    with ev.connect(threads=threads) as db:
        if threads > 1:
            inside(db).runtime.dataflow.threads.share_from(1)
        table = db.table("t", {f"c{i}": int for i in range(columns)})
        there: Counter[tuple[int, ...]] = Counter()
        _insert(table, there, [_row(chance, columns, firsts) for _ in range(LOADED_ROWS)])
        refused = 0
        for _ in range(STEPS):
            come = [_row(chance, columns, firsts) for _ in range(chance.choice([0, 1, 60, 400]))]
            present = sorted(there.elements())
            gone = chance.sample(present, min(chance.choice([1, 17, 40, 400]), len(present)))
            if chance.random() < 0.4:  # one copy more than there is, among others
                row = chance.choice([_row(chance, columns, firsts), chance.choice(present)])
                gone += [row] * (there[row] + come.count(row) - gone.count(row) + 1)
            chance.shuffle(gone)
            after = there.copy()
            after.update(come)
            after.subtract(gone)
            if min(after.values()) < 0:
                refused += 1
                with pytest.raises(ev.InputError) as caught:
                    _change(db, table, come, gone)
                assert caught.value.code == "E_ABSENT"
            else:
                _change(db, table, come, gone)
                there = +after
            assert table.rows() == sorted(there.elements())
        assert 0 < refused < STEPS


def _row(chance: random.Random, columns: int, firsts: int) -> tuple[int, ...]:
    return (chance.randrange(firsts), *(chance.choice([chance.randrange(9), 2**40]) for _ in range(columns - 1)))


def _insert(table: ev.Table, there: Counter[tuple[int, ...]], rows: list[tuple[int, ...]]) -> None:
    table.insert(np.array(rows))
    there.update(rows)


def _change(db: ev.Session, table: ev.Table, come: list[tuple[int, ...]], gone: list[tuple[int, ...]]) -> None:
    with db.transaction():
        if come:
            table.insert(np.array(come))
        table.delete(np.array(gone))
