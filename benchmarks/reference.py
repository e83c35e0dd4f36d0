"""What others need for the same work, copied from the specification's measured.md so that results can stand next to it.

The reference is the Rust differential-dataflow crate, one worker, release build, on this kind of machine. A range is
kept as measured, (best, worst); ratios are taken against the best, so they are never flattering.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Range = tuple[float, float]


@dataclass(frozen=True)
class Reference:
    """One row of the table: CPU s to load and finish, median ms of a single change, changes/s in batches, peak RSS."""

    load_cpu_s: Range
    single_ms: Range
    batch_per_s: Range
    rss_mb: Range

    def as_dict(self) -> dict[str, Any]:
        """For the report: one number where best and worst are equal."""
        return {k: v[0] if v[0] == v[1] else list(v) for k, v in vars(self).items()}


def _row(load: float | Range, single: float | Range, batch: float | Range, rss: float | Range) -> Reference:
    return Reference(*((v, v) if isinstance(v, int | float) else v for v in (load, single, batch, rss)))


REFERENCE: dict[tuple[str, str], Reference] = {
    ("arrange", "a"): _row(0.23, 0.005, (1.7e6, 0.6e6), 27),
    ("arrange", "b"): _row((2.2, 2.5), 0.005, (1.7e6, 0.6e6), 207),
    ("bfs", "a"): _row(0.43, 0.12, (20e3, 10e3), 65),
    ("bfs", "b"): _row(5.0, 0.15, (6.0e3, 2.5e3), 404),
    ("bfs", "c"): _row(0.63, 0.12, 57e3, 48),
    ("reach", "a"): _row(0.41, 0.12, 15e3, 59),
    ("reach", "b"): _row(4.6, 0.14, 3.4e3, 358),
    ("reach", "c"): _row(0.68, 0.18, 75e3, 57),
    ("wcc-prioritized", "a"): _row(0.69, (0.17, 0.19), (17e3, 7e3), 73),
    ("wcc-prioritized", "b"): _row(8.2, 0.21, 4.1e3, 541),
    ("wcc-prioritized", "c"): _row(1.25, 0.17, 31e3, 93),
    ("wcc-plain", "a"): _row(5.4, 1.6, 0.38e3, 739),
    ("wcc-plain", "c"): _row(3.1, 1.0, 1.4e3, 334),
    ("scc", "a"): _row(12.2, 14, 0.26e3, 1320),
    ("kcore", "a"): _row(0.92, 0.11, 119e3, 109),
    ("kcore", "c"): _row(1.64, 0.23, 39e3, 154),
    ("triangles", "c"): _row((22.7, 25), (0.32, 0.69), (10e3, 2.4e3), (134, 3100)),
    ("join3", "tpch"): _row((0.08, 0.25), (0.026, 0.033), (0.6e6, 0.2e6), (34, 63)),
}

PATHWAY: dict[tuple[str, str], dict[str, float]] = {
    ("reach", "a"): {"load_cpu_s": 12, "single_ms": 1.0, "batch_per_s": 13e3, "rss_mb": 1100},
    ("bfs", "a"): {"load_cpu_s": 29, "single_ms": 3.3, "batch_per_s": 0.8e3, "rss_mb": 1600},
    ("wcc-plain", "a"): {"load_cpu_s": 107, "single_ms": 3.4, "batch_per_s": 0.6e3, "rss_mb": 2700},
}
"""Pathway 0.33, one thread, as measured before the project; it is too large to install for every run."""


def ratios(name: str, graph: str, report: dict[str, Any]) -> dict[str, float]:
    """How many times as good as the reference's best (above 1: better), but for memory: how many times as much."""
    known = REFERENCE.get((name, graph))
    if known is None:
        return {}
    memory = report["memory"]
    return {
        "load_times_as_fast": known.load_cpu_s[0] / (report["install"]["cpu_s"] + report["load"]["cpu_s"]),
        "single_times_as_fast": known.single_ms[0] / report["single"]["cpu_ms_median"],
        "batch_times_as_fast": report["batch"]["changes_per_cpu_s"] / known.batch_per_s[0],
        "peak_memory_times_as_much": memory["peak_mb"] / known.rss_mb[0],
        "net_memory_times_as_much": memory["net_mb"] / known.rss_mb[0],
    }
