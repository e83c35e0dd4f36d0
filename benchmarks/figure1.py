"""Figure 1 of the differential dataflow paper (CIDR 2013) again: differences per iteration of connected components.

The graph is a window over a mention stream. Four ways to compute its components by label propagation:

- *stateless*: every label is computed anew in every iteration;
- *incremental*: only labels that changed in the last iteration matter;
- *prioritized*: small labels spread first;
- *differential*: the window slides by one second, and the prioritized computation is corrected.

The last three are counted in the engine itself: the trace of the loop's minimum holds every difference with its round,
and a slide's differences are what the trace has more, and less, afterwards. Rounds of a prioritized loop are pairs
(priority, round); they are shown in their order. Most seconds have no mention at all: only slides that change the
window are counted, and how many do is reported.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import common
import numpy as np
import plot
import real
import recursive

from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.scopes import EPOCH_BITS
from everview.kernels.trace import read
from everview.kernels.trace.trace import NO_SINCE
from everview.session.core import core_of

PICTURE = Path(__file__).resolve().parent / "results" / "figure1.svg"
WINDOW = 0.9
"""The part of all time that is in the window."""
Labels = dict[tuple[int, int, int], int]
"""(node, label, round) -> how often: the differences a loop holds"""


def label_differences(db: Any) -> Labels:
    """What the loop that spreads labels holds. It is the only minimum in a loop (a tree would hold no rounds)."""
    (reduce,) = (
        o for o in core_of(db).runtime.dataflow.operators() if o.trace is not None and o.label.startswith("min by")
    )
    batch = read.collect(reduce.trace.address, NO_SINCE, 2**62, 1)
    (nodes, labels), times, diffs = batch_arrays(batch, 2)
    read.release(batch)
    rounds = times >> EPOCH_BITS
    keys = zip(nodes.tolist(), labels.tolist(), rounds.tolist(), strict=True)
    return dict(zip(keys, diffs.tolist(), strict=True))


def changed(before: Labels, after: Labels) -> Counter[int]:
    """How many differences one has more than the other, by round."""
    found: Counter[int] = Counter()
    for key in before.keys() | after.keys():
        if (more := abs(after.get(key, 0) - before.get(key, 0))) > 0:
            found[key[2]] += more
    return found


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything and write the plot."""
    name, rows = real.mentions(options.quick)
    window = rows[0, 2], rows[0, 2] + int((rows[-1, 2] - rows[0, 2]) * WINDOW)
    held = rows[(rows[:, 2] >= window[0]) & (rows[:, 2] < window[1])]
    slides = _slides(rows, window, 5 if options.quick else options.slides)
    found: dict[str, Any] = {"benchmark": "figure1", "graph": name, "mentions": len(held)}

    plain = _evaluate(options, held, False)
    incremental = [n for _, n in sorted(plain["rounds"].items())]
    found["nodes"] = plain["nodes"]
    found["stateless"] = {"iterations": len(incremental), "differences": plain["nodes"] * len(incremental)}
    found["incremental"] = plain["report"] | {"per_iteration": incremental}

    first = _evaluate(options, held, True, slides)
    found["prioritized"] = first["report"] | {"per_iteration": [n for _, n in sorted(first["rounds"].items())]}
    found["one_second"] = _one_second(first, _timed(options, held, slides), rows)
    largest = max(first["profiles"], key=lambda profile: sum(profile.values()))
    order = {at: i for i, at in enumerate(sorted(first["rounds"].keys() | largest.keys()))}
    series = {
        "stateless": [plain["nodes"]] * len(incremental),
        "incremental": incremental,
        "prioritized": _in_order(order, first["rounds"]),
        f"differential, 1 s slide (largest of {len(slides)})": _in_order(order, largest),
    }
    title = f"Connected components of {len(held):,} mentions ({name}): label differences per iteration"
    plot.line_chart(options.plot, title, "iteration", "differences", series)
    found["plot"] = str(options.plot)
    return found


def _in_order(order: dict[int, int], rounds: Counter[int]) -> list[int]:
    values = [0] * len(order)
    for at, n in rounds.items():
        values[order[at]] = n
    return values


def _slides(rows: common.Ints, window: tuple[int, int], count: int) -> list[tuple[common.Ints, common.Ints]]:
    """(edges that go, edges that come) of slides by one second in which something happens, from the window on."""
    time = rows[:, 2]
    later = np.unique(np.concatenate([time[time >= window[0]] - window[0], time[time >= window[1]] - window[1]]))
    found = []
    for second in later[later < time[-1] - window[1]][:count].tolist():
        gone, come = (rows[time == edge + second][:, :2] for edge in window)
        found.append((gone, come))
    return found


def _evaluate(options: argparse.Namespace, held: common.Ints, prioritized: bool, slides: Any = ()) -> dict[str, Any]:
    """Load the window, then slide, and count."""
    with common.connect(options) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        view = db.view("wcc", recursive.components(edge, "iterate", prioritized), plan="rounds")
        load, _ = common.once(lambda: edge.insert(common.columns(("src", "dst"), held[:, :2])))
        labels = label_differences(db)
        rounds = changed({}, labels)
        profiles = []
        for gone, come in slides:
            _slide(db, edge, gone, come)
            before, labels = labels, label_differences(db)
            profiles.append(changed(before, labels))
        report = load | {"differences": sum(rounds.values()), "iterations": len(rounds)}
        return {"report": report, "rounds": rounds, "nodes": len(view), "profiles": profiles}


def _timed(options: argparse.Namespace, held: common.Ints, slides: Any) -> common.Clock:
    """The same slides in a session of their own: reading whole traces in between would empty the processor's caches."""
    clock = common.Clock()
    with common.connect(options) as db:
        edge = db.table("edge", {"src": int, "dst": int})
        db.view("wcc", recursive.components(edge, "iterate", True))
        edge.insert(common.columns(("src", "dst"), held[:, :2]))
        for gone, come in slides:
            with clock.measured():
                _slide(db, edge, gone, come)
    return clock


def _slide(db: Any, edge: Any, gone: common.Ints, come: common.Ints) -> None:
    with db.transaction():
        edge.insert([tuple(row) for row in come.tolist()])
        edge.delete([tuple(row) for row in gone.tolist()])


def _one_second(first: dict[str, Any], clock: common.Clock, rows: common.Ints) -> dict[str, Any]:
    """A slide next to the full evaluation, in differences and in CPU time."""
    counts, cpu = np.array([sum(p.values()) for p in first["profiles"]]), np.array(clock.cpu)
    full = first["report"]
    return {
        "slides": len(counts),
        "seconds_with_a_mention": len(np.unique(rows[:, 2])) / float(rows[-1, 2] - rows[0, 2]),
        "slides_with_no_difference": int((counts == 0).sum()),
        "differences_mean": float(counts.mean()),
        "differences_max": int(counts.max()),
        **clock.latencies(),
        "mean_percent_of_differences": 100 * float(counts.mean()) / full["differences"],
        "mean_percent_of_cpu": 100 * float(cpu.mean()) / full["cpu_s"],
        "median_percent_of_cpu": 100 * float(np.median(cpu)) / full["cpu_s"],
        "bar_percent": 0.1,
    }


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--slides", type=int, default=200, help="slides by one second that are measured")
    parser.add_argument("--plot", type=Path, default=PICTURE, help="where the picture goes")
    arguments = parser.parse_args()
    common.report(run(arguments), arguments)
