"""A million epochs on a table of constant size: memory must stay flat (within 10 % after warm-up)."""

from __future__ import annotations

import time
from typing import Any

import common
import numpy as np

from everview import col


def run(options: Any) -> dict[str, Any]:
    """Replace one of 10,000 rows a million times under a group-by, a join and a small loop; watch memory."""
    epochs, rows = (2_000, 100) if options.quick else (options.epochs, 10_000)
    rng = np.random.default_rng(12)
    table_rows = np.stack([rng.integers(0, 100, rows), np.arange(rows)], axis=1)
    held = [tuple(row) for row in table_rows.tolist()]
    samples: list[float] = []
    every = max(epochs // 50, 1)
    with common.connect(options) as db:
        table = db.table("t", {"k": int, "v": int})
        name = db.table("name", {"k": int, "label": int})
        name.insert([(k, k % 7) for k in range(100)])
        sums = db.view("sums", table.group_by("k").agg(n=col.v.count(), total=col.v.sum(), low=col.v.min()))
        named = table.join(name, table.k == name.k).select(label=name.label)
        db.view("labels", named.group_by("label").agg(n=col.label.count()))
        table.insert(common.columns(("k", "v"), table_rows))
        slots = rng.integers(0, rows, epochs).tolist()
        keys = rng.integers(0, 100, epochs).tolist()
        wall, cpu = time.perf_counter(), time.process_time()
        for i in range(epochs):
            new = (keys[i], rows + i)
            with db.transaction():
                table.delete([held[slots[i]]])
                table.insert([new])
            held[slots[i]] = new
            if i % every == every - 1:
                samples.append(common.memory_mb())
        seconds = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
        maintained = common.sorted_rows(sums)
    after_warm_up = samples[len(samples) // 10]
    return {
        "benchmark": "epochs",
        "epochs": epochs,
        **seconds,
        "cpu_us_per_epoch": seconds["cpu_s"] / epochs * 1e6,
        "rss_after_tenth_mb": after_warm_up,
        "rss_at_end_mb": samples[-1],
        "growth": max(samples[len(samples) // 10 :]) / after_warm_up - 1,
        "growth_bar": 0.10,
        "samples_mb": samples,
        "check": common.compare(maintained, _expected(np.array(held))),
    }


def _expected(rows: common.Ints) -> common.Ints:
    groups = [(k, rows[rows[:, 0] == k, 1]) for k in np.unique(rows[:, 0])]
    return np.array([(k, len(v), v.sum(), v.min()) for k, v in groups], dtype=np.int64)


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--epochs", type=int, default=1_000_000)
    chosen = parser.parse_args()
    common.report(run(chosen), chosen)
