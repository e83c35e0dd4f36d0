"""The evaluation of Ammar's thesis (2023, chapter 2) made again: table 1.1 and figures 2.4 to 2.11, with plots.

    python benchmarks/questions.py --quick
    python benchmarks/questions.py --plots benchmarks/plots

Live questions over a graph that changes by single edges. *Forms*: "scratch" (compiled, stops at the target, keeps
nothing), "rounds" (an ordinary loop), "lean" (histories), "dropped" (histories within 85 % of what they take), "trees",
for pairs also "halves", for K-hop "levels" (four bits for each node and question). A random graph with weights 1 to 10;
`--degree` and `--nodes` say which. No form keeps past versions of its answers (`history=0`).

    table_1_1    pairs: CPU for 100 insertions by the number of live questions
    figure_2_4   pairs, K-hop, components, ranks: bytes of a question, CPU of a change that inserts
    figure_2_6   pairs: CPU of a change by the share of deletions (25 % and 50 % are figure 2.5)
    figure_2_7   pairs and K-hop: rounds against lean by the average degree
    figure_2_8   K-hop: CPU of a change and rows worked out again by the chance to be dropped; exact or by filters, all
                 vertices or only those of few edges
    figure_2_9   pairs and K-hop: how many questions fit into a gigabyte (from bytes of one more), and CPU of a change
                 for all of them if it grows with their number
    figure_2_10  components and ranks within a budget of 85 %
    figure_2_11  a hundred one-off questions after each change, with ten landmarks, maintenance included, or none
    controller   the chance to be dropped that a budget has led to, beside the least that would do, found by search

A change's CPU is for all live questions together. What fits into a gigabyte is worked out from the bytes of one more
question, not filled up: `fits` says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import lean
import numpy as np
import plot

import everview as ev
from everview.graph import Graph
from everview.kernels import structures
from everview.kernels.frontier import histories as histories_k
from everview.kernels.frontier import history as history_k

GIGABYTE = 10**9
HOPS = 5
MORE = {"levels": 40}
"""What one more question takes is worked out from so many times as many; twice as many by default."""

PART, AIM = 0.85, 0.85
"""The budget of "dropped", of what histories take; and what of a budget the controller fills (`kernels.frontier`)."""
PLANS: dict[str, Any] = {"rounds": "rounds", "halves": None}
Question = Callable[[ev.Table, ev.Table, dict[str, Any]], ev.Collection]


def _pairs(edge: ev.Table, asked: ev.Table, how: dict[str, Any]) -> ev.Collection:
    return Graph(edge, weight="w", **how).distance(asked)


def _k_hop(edge: ev.Table, asked: ev.Table, how: dict[str, Any]) -> ev.Collection:
    return Graph(edge, **how).within(HOPS, asked.select(node=asked.a))


def _components(edge: ev.Table, asked: ev.Table, how: dict[str, Any]) -> ev.Collection:
    return Graph(edge, **how).wcc()


def _ranks(edge: ev.Table, asked: ev.Table, how: dict[str, Any]) -> ev.Collection:
    return Graph(edge, **how).pagerank(10)


QUESTIONS: dict[str, Question] = {"pairs": _pairs, "K-hop": _k_hop, "components": _components, "ranks": _ranks}
ALONE = ("components", "ranks")
"""Kinds that are one question, about the whole graph: with them come the indexes that they need."""


class Live:
    """Questions of one kind, in one form, over one graph; and what they take."""

    def __init__(self, kind: str, form: str, edges: np.ndarray, questions: int, *, asked: bool = True) -> None:
        how: dict[str, Any] = {"memory": "lean"} if form in ("lean", "levels") else {}
        if form == "lean" and kind == "K-hop":
            how = {"budget": 1000 * GIGABYTE}  # without one, levels are kept
        if form == "dropped":
            how = {"budget": int(PART * Live(kind, "lean", edges, questions).used)}
        self.nodes, self.edges = int(edges[:, :2].max()) + 1, edges
        self.db, self.edge, self.asked, _ = lean._made(edges, history=0)
        bare = self.db.stats()["bytes"]
        self.db.view("answers", QUESTIONS[kind](self.edge, self.asked, how), plan=PLANS.get(form, "whole"))
        self.number = 0
        if not asked:
            return
        before = bare if kind in ALONE else self.db.stats()["bytes"]
        self.asked.insert(lean._pairs(self.nodes, questions))
        self.bytes = (self.db.stats()["bytes"] - before) / (1 if kind in ALONE else questions)
        self.used = self.taken()

    def taken(self) -> int:
        """Bytes of histories."""
        return sum(o.about(histories_k.HISTORIES_BYTES) for o in self.operators())

    def operators(self) -> list[Any]:
        return [o for o in self.db._core.runtime.dataflow.operators() if o.kind == "histories"]

    def change(self, changes: int, deletions: float = 0.5) -> float:
        """Microseconds of CPU of a change: an edge comes, or (a share of all) one goes."""
        begin = time.process_time()
        for _ in range(changes):
            self.number += 1
            n = self.number
            if n * deletions % 1 + deletions >= 1:
                self.edge.delete([tuple(self.edges[n].tolist())])
            else:
                self.edge.insert([((n * 7919) % self.nodes, (n * 104729) % self.nodes, 1 + n % 10)])
        return (time.process_time() - begin) / changes * 1e6


def _scratch(edges: np.ndarray, questions: int) -> float:
    """Microseconds of CPU to answer all pairs from scratch once."""
    db, _, _, g = lean._made(edges)
    pairs = lean._pairs(int(edges[:, :2].max()) + 1, questions)
    g.ask(pairs[:1])
    begin = time.process_time()
    g.ask(pairs)
    found = (time.process_time() - begin) * 1e6
    db.close()
    return found


def run(options: Any) -> dict[str, Any]:
    """All of it; tiny with `--quick`."""
    nodes, degree, few, changes = (300, 4, 2, 4) if options.quick else (options.nodes, options.degree, 10, 60)
    edges = lean._edges(nodes, nodes * degree)
    found: dict[str, Any] = {"benchmark": "questions", "nodes": nodes, "edges": len(edges), "questions": few}
    found["table_1_1"] = _table(edges, (1, 2) if options.quick else (10, 20, 30, 40), changes)
    found["figure_2_4"] = {
        kind: {form: _measured(kind, form, edges, few, changes) for form in _forms(kind)} for kind in QUESTIONS
    }
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    found["figure_2_6"] = {
        form: [Live("pairs", form, edges, few).change(changes, share) for share in shares]
        for form in ("rounds", "lean", "trees", "halves")
    }
    small = max(nodes // 8, 100)
    found["figure_2_7"] = {
        kind: {
            form: [Live(kind, form, lean._edges(small, small * d), few).change(changes) for d in _degrees(options)]
            for form in ("rounds", "lean")
        }
        for kind in ("pairs", "K-hop")
    }
    found["figure_2_8"] = _dropping(edges, few, max(changes // 6, 2))
    found["figure_2_9"] = {kind: _fits(found["figure_2_4"][kind], edges, few) for kind in ("pairs", "K-hop")}
    found["figure_2_10"] = {kind: found["figure_2_4"][kind]["dropped"] for kind in ("components", "ranks")}
    together = 5 if options.quick else 100
    found["figure_2_11"] = {str(k): lean._one_off(nodes, edges, k, changes, together) for k in (0, 10)}
    found["controller"] = _controller(edges, few, 3 if options.quick else 9)
    if options.plots:
        _draw(options.plots, found, _degrees(options))
    return found


def _forms(kind: str) -> tuple[str, ...]:
    trees = {"pairs": ("trees", "halves"), "K-hop": ("trees", "levels"), "ranks": ()}.get(kind, ("trees",))
    return ("rounds", "lean", "dropped", *trees)


def _degrees(options: Any) -> tuple[int, ...]:
    return (3, 6) if options.quick else (5, 20, 100, 500)


def _measured(kind: str, form: str, edges: np.ndarray, questions: int, changes: int) -> dict[str, float]:
    live = Live(kind, form, edges, questions)
    found = {
        "bytes": live.bytes,
        "one_more": _one_more(live, kind, form, edges, questions),
        "change_us": live.change(max(changes // 10, 2) if form == "dropped" else changes, 0.0),
    }
    live.db.close()
    return found


def _one_more(live: Live, kind: str, form: str, edges: np.ndarray, questions: int) -> float:
    """Bytes of one more question: what they share, like levels their table of nodes, is not counted."""
    if kind in ALONE or form == "dropped":
        return live.bytes
    many = MORE.get(form, 2) * questions
    return (Live(kind, form, edges, many).bytes * many - live.bytes * questions) / (many - questions)


def _table(edges: np.ndarray, counts: tuple[int, ...], changes: int) -> dict[str, list[float]]:
    """Seconds of CPU for 100 insertions, by the number of live pairs."""
    found: dict[str, list[float]] = {"scratch": [_scratch(edges, n) * 100 / 1e6 for n in counts]}
    for form in ("rounds", "lean", "trees", "halves"):
        found[form] = [Live("pairs", form, edges, n).change(changes, 0.0) * 100 / 1e6 for n in counts]
    return {"questions": [float(n) for n in counts], **found}


def _dropping(edges: np.ndarray, questions: int, changes: int) -> dict[str, list[dict[str, float]]]:
    """By the chance to be dropped (0, 25 ... 100 %), for all vertices ("random") or only those of few edges."""
    middle = int(np.percentile(np.bincount(edges[:, :2].ravel()), 80))
    found: dict[str, list[dict[str, float]]] = {}
    for exact in (True, False):
        for name, most in (("random", 1 << 30), ("degree", middle)):
            found[f"{'exact' if exact else 'filters'}, {name}"] = [
                _dropped(edges, questions, changes, part, exact, most) for part in (0.0, 0.25, 0.5, 0.75, 1.0)
            ]
    return found


def _dropped(edges: np.ndarray, questions: int, changes: int, part: float, exact: bool, most: int) -> dict[str, float]:
    live = Live("K-hop", "lean", edges, questions)
    for operator in live.operators():
        for word, value in (
            (history_k.HISTORY_CHANCE, int(part * 2**32)),
            (history_k.HISTORY_EXACT, int(exact)),
            (history_k.HISTORY_MOST_DEGREE, most),
        ):
            structures.poke(operator.context, word, value)
    live.asked.insert([(a + 1, b) for a, b in lean._pairs(live.nodes - 1, questions)])  # what is written now is dropped
    before = sum(structures.peek(o.context, history_k.HISTORY_RECALLED) for o in live.operators())
    taken = live.change(changes)
    again = sum(structures.peek(o.context, history_k.HISTORY_RECALLED) for o in live.operators()) - before
    live.db.close()
    return {"part": part, "change_us": taken, "worked_out_again": again / changes}


def _controller(edges: np.ndarray, questions: int, halvings: int) -> dict[str, float]:
    """The chance that a budget for pairs has led to, and the least with which as little is taken, found by halving."""
    words = (history_k.HISTORY_EXACT, history_k.HISTORY_LEAST_DEGREE, history_k.HISTORY_MOST_DEGREE)
    live = Live("pairs", "dropped", edges, questions)
    (operator,) = live.operators()
    chosen = structures.peek(operator.context, history_k.HISTORY_CHANCE)
    same = [structures.peek(operator.context, word) for word in words]
    most = max(live.used, int(AIM * PART * Live("pairs", "lean", edges, questions).used))
    live.db.close()
    low, high = 0, 2**32
    for _ in range(halvings):
        middle = (low + high) // 2
        tried = Live("pairs", "lean", edges, questions, asked=False)
        (operator,) = tried.operators()
        for word, value in ((history_k.HISTORY_CHANCE, middle), *zip(words, same, strict=True)):
            structures.poke(operator.context, word, value)
        tried.asked.insert(lean._pairs(tried.nodes, questions))
        low, high = (low, middle) if tried.taken() <= most else (middle, high)
        tried.db.close()
    return {"chosen": chosen / 2**32, "least": high / 2**32, "times": chosen / high}


def _fits(forms: dict[str, dict[str, float]], edges: np.ndarray, questions: int) -> dict[str, dict[str, float]]:
    """How many questions a gigabyte holds, beside rounds, and a change for all of them, beside searching for as many
    pairs from scratch.
    """
    each = _scratch(edges, questions) / questions
    found = {}
    for form, one in forms.items():
        fits = GIGABYTE / one["one_more"]
        found[form] = {
            "fits": fits,
            "times_rounds": forms["rounds"]["one_more"] / one["one_more"],
            "change_ms": one["change_us"] / questions * fits / 1e3,
            "scratch_pairs_ms": each * fits / 1e3,
        }
    return found


def _draw(folder: Path, found: dict[str, Any], degrees: tuple[int, ...]) -> None:
    """A line chart for each figure that has a row of points."""
    counts = ", ".join(f"{n:.0f}" for n in found["table_1_1"]["questions"])
    table = {k: [1e3 * x for x in v] for k, v in found["table_1_1"].items() if k != "questions"}
    charts: dict[str, tuple[str, str, str, dict[str, Any]]] = {
        "table-1-1": ("100 insertions, by the number of live pairs", f"{counts} questions", "ms of CPU", table),
        "figure-2-6": (
            "a change of all pairs, by the share of deletions",
            "0, 25, 50, 75, 100 % deletions",
            "us of CPU",
            found["figure_2_6"],
        ),
        "figure-2-8": (
            "a change of K-hop questions, by what is dropped",
            "0, 25, 50, 75, 100 % dropped",
            "us of CPU",
            {k: [p["change_us"] for p in v] for k, v in found["figure_2_8"].items()},
        ),
    }
    for kind, forms in found["figure_2_7"].items():
        label = ", ".join(str(d) for d in degrees)
        title = f"a change of {kind} questions, by the average degree"
        charts[f"figure-2-7-{kind.lower()}"] = (title, f"degree {label}", "us of CPU", forms)
    for name, (title, x_label, y_label, series) in charts.items():
        plot.line_chart(folder / f"questions-{name}.svg", title, x_label, y_label, series)
    for name, (title, y_label, groups) in _bars(found).items():
        plot.bar_chart(folder / f"questions-{name}.svg", title, y_label, groups)


def _bars(found: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, dict[str, float]]]]:
    """The charts of figures that compare forms: (title, what is measured, values)."""

    def of(figure: str, what: str, scale: float = 1.0) -> dict[str, dict[str, float]]:
        return {kind: {f: one[what] * scale for f, one in forms.items()} for kind, forms in found[figure].items()}

    within = {
        kind: {"rounds": found["figure_2_4"][kind]["rounds"]["change_us"], "within 85 %": one["change_us"]}
        for kind, one in found["figure_2_10"].items()
    }
    marks = {"none": found["figure_2_11"]["0"], "ten landmarks": found["figure_2_11"]["10"]}
    parts = {"a question": "ask_ms", "a change": "change_ms", "a change, a hundred questions": "all_ms"}
    asked = {part: {k: 1e3 * one[what] for k, one in marks.items()} for part, what in parts.items()}
    return {
        "figure-2-4-memory": ("what a question keeps", "bytes", of("figure_2_4", "bytes")),
        "figure-2-4-time": ("a change of ten questions", "us of CPU", of("figure_2_4", "change_us")),
        "figure-2-9": ("questions that fit into a gigabyte", "questions", of("figure_2_9", "fits")),
        "figure-2-9-time": ("a change of all that fit", "us of CPU", of("figure_2_9", "change_ms", 1e3)),
        "figure-2-10": ("a change within a budget", "us of CPU", within),
        "figure-2-11": ("one-off questions with landmarks", "us of CPU", asked),
    }


if __name__ == "__main__":
    parser = common.arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--degree", type=int, default=5)
    parser.add_argument("--plots", type=Path, help="a folder for the charts")
    chosen = parser.parse_args()
    common.report(run(chosen), chosen)
