"""What the driver of shards has seen of tables' rows: a sample of each, from which hot keys are told.

Rows pass through here on their way to their shards and are not kept; some hundred of them are (a reservoir: each row
that came is in it with about the same chance). Of rows that Spark's tasks code themselves, the tasks send some.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from everview.plan import nodes as plan
from everview.plan.hot import Hot
from everview.types import NULL

SAMPLE_ROWS = 1024
"""Rows of each table that are kept."""

LEAST_ROWS = 10_000
"""Rows that a table must have had before keys of it count as hot: below, one shard does it all soon enough."""

MOST_KEYS = 16
"""Hot keys of a column at most: each is on every shard."""


@dataclass
class _Sample:
    rows: np.ndarray
    came: int = 0


class Seen:
    """Samples of tables' rows, by the table's number.

    >>> seen = Seen()
    >>> rows = np.array([[7] * 6000 + [*range(6000)], [*range(12000)]])
    >>> seen.note(0, rows)
    >>> from everview.types import INT
    >>> [(table, column, [code for code, _ in keys]) for table, column, keys in seen.hot(plan.Table(0, (INT, INT)), 2)]
    [(0, 0, [7])]
    >>> seen.hot(plan.Table(1, (INT, INT)), 2)
    ()
    """

    def __init__(self) -> None:
        self._samples: dict[int, _Sample] = {}
        self._draw = np.random.default_rng(0)

    def note(self, table: int, columns: np.ndarray, rows: int = 0) -> None:
        """Rows that came into a table: a matrix with a row for each column; or some of `rows` that came."""
        width, n = columns.shape
        if rows > n > 0:  # each stands for several
            columns = columns[:, self._draw.integers(0, n, min(rows, LEAST_ROWS + SAMPLE_ROWS))]
            n = columns.shape[1]
        sample = self._samples.get(table)
        if sample is None or len(sample.rows) != width:
            sample = self._samples[table] = _Sample(np.empty((width, SAMPLE_ROWS), dtype=np.int64))
        places = np.arange(sample.came, sample.came + n)
        late = places >= SAMPLE_ROWS
        places[late] = self._draw.integers(0, places[late] + 1)
        kept = np.flatnonzero(places < SAMPLE_ROWS)
        sample.rows[:, places[kept]] = columns[:, kept]
        sample.came += max(n, rows)

    def hot(self, node: plan.Node, shards: int) -> Hot:
        """The hot keys of the tables that a plan reads: those with half of a shard's share of the rows, or more."""
        tables = {one.id: one for one in node.walk() if isinstance(one, plan.Table)} if shards > 1 else {}
        found = []
        for table in sorted(tables):
            sample = self._samples.get(table)
            if sample is None or sample.came < LEAST_ROWS:
                continue
            rows = sample.rows[:, : min(sample.came, SAMPLE_ROWS)]
            least = max(8, rows.shape[1] / (2 * shards))
            for column, codes in enumerate(rows.tolist()):
                common = Counter(codes).most_common(MOST_KEYS)
                keys = [(code, n * sample.came // len(codes)) for code, n in common if n >= least and code != NULL]
                if keys:
                    found.append((table, column, tuple(sorted(keys))))
        return tuple(found)
