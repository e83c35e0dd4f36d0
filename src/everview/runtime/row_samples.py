"""Samples of tables' rows, kept by the driver of shards to detect hot keys.

Rows pass through the driver on their way to the shards and are not kept, except for a reservoir sample of some hundred
per table. Of rows that Spark's tasks encode themselves, the tasks send some.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from everview.plan import nodes as plan
from everview.plan.hot_keys import Hot
from everview.types import NULL

SAMPLE_ROWS = 1024
"""Sample size per table."""

LEAST_ROWS = 10_000
"""Minimum number of rows of a table before its keys count as hot: below that, one shard is fast enough."""

DRAWN_ROWS = 1_000_000_000
"""Number of rows up to which NumPy draws from a hypergeometric distribution."""

MOST_KEYS = 16
"""Maximum number of hot keys per column: each is on every shard."""


@dataclass
class _Sample:
    rows: np.ndarray
    came: int = 0
    looked: int = 0
    """how many had come when hot keys were last looked for"""


class RowSamples:
    """Row samples by table number.

    >>> seen = RowSamples()
    >>> rows = np.array([[7] * 6000 + [*range(6000)], [*range(12000)]])
    >>> seen.note(0, rows)
    >>> from everview.types import INT
    >>> [(table, column, [code for code, _ in keys]) for table, column, keys in seen.hot(plan.Table(0, (INT, INT)), 2)]
    [(0, 0, [7])]
    >>> seen.hot(plan.Table(1, (INT, INT)), 2)
    ()
    """

    grown = False
    """whether a table has doubled since hot keys were last looked for: its keys may have become hot"""

    def __init__(self) -> None:
        self._samples: dict[int, _Sample] = {}
        self._draw = np.random.default_rng(0)

    def note(self, table: int, columns: np.ndarray, rows: int = 0) -> None:
        """Add rows of a table: a matrix with a row for each column; or a sample of `rows` new rows."""
        width, n = columns.shape
        if rows > n > 0:  # each stands for several
            columns = columns[:, self._draw.integers(0, n, min(rows, LEAST_ROWS + SAMPLE_ROWS))]
            n = columns.shape[1]
        sample = self._samples.get(table)
        if sample is None or len(sample.rows) != width:
            sample = self._samples[table] = _Sample(np.empty((width, SAMPLE_ROWS), dtype=np.int64))
        room = min(max(SAMPLE_ROWS - sample.came, 0), n)
        if room:
            sample.rows[:, sample.came : sample.came + room] = columns[:, :room]
        if n > room:
            self._mix(sample.rows, sample.came + room, columns[:, room:])
        sample.came += max(n, rows)
        if sample.came >= max(LEAST_ROWS, 2 * sample.looked):
            self.grown = True

    def _mix(self, sample: np.ndarray, came: int, columns: np.ndarray) -> None:
        """Turn a full sample of `came` rows into one of these and more. How many of the new ones are in it is drawn
        first, so the cost depends on that, not on how many there are.
        """
        n = columns.shape[1]
        if n == 1:
            kept = int(self._draw.random() * (came + 1) < SAMPLE_ROWS)
        elif came + n < DRAWN_ROWS:
            kept = int(self._draw.hypergeometric(n, came, SAMPLE_ROWS))
        else:
            kept = min(n, int(self._draw.binomial(SAMPLE_ROWS, n / (came + n))))
        if kept:
            places = self._draw.choice(SAMPLE_ROWS, kept, replace=False, shuffle=False)
            sample[:, places] = columns[:, self._draw.choice(n, kept, replace=False, shuffle=False)]

    def looked(self) -> None:
        """Hot keys have been looked for."""
        self.grown = False
        for sample in self._samples.values():
            sample.looked = sample.came

    def hot(self, node: plan.Node, shards: int) -> Hot:
        """The hot keys of the tables that a plan reads: those with at least half of a shard's share of the rows."""
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
