"""Many live questions in little memory: the evaluation of Ammar's thesis (figures 2.4 to 2.11), in short form.

    python benchmarks/lean.py
    python benchmarks/lean.py --quick

A random graph with weights, distances of pairs (SPSP), single changes (an edge goes, another comes):

    forms      bytes of a question, seconds to ask it, and CPU of a change for all live questions together, for
               "scratch" (compiled, stops at the target, nothing kept), "rounds" (an ordinary loop), "trees", "lean",
               and "dropped": lean within a budget of 70 % of what it takes, all by whole searches; and "halves", half
               searches from both ends, which is what `distance` does by itself
    degrees    the same for lean and rounds on denser graphs: work on demand grows with the in-degree
    landmarks  one-off questions with an index of ten landmarks and without, changes of the graph between them included

Every form ends with a comparison of its answers with scratch's. Figures are CPU of this process.
"""

from __future__ import annotations

import time
from typing import Any

import common
import numpy as np

import everview as ev
from everview.graph import Graph

FORMS = ("scratch", "rounds", "trees", "lean", "dropped", "halves")
Made = tuple[ev.Session, ev.Table, ev.Table, Graph]


def run(options: Any) -> dict[str, Any]:
    """All of it; tiny with `--quick`."""
    nodes, degree, questions, changes = (500, 4, 4, 20) if options.quick else (20_000, 5, 10, 100)
    edges = _edges(nodes, nodes * degree)
    found: dict[str, Any] = {"benchmark": "lean", "nodes": nodes, "edges": len(edges), "questions": questions}
    found["forms"] = {form: _form(form, nodes, edges, questions, changes) for form in FORMS}
    few = max(nodes // 8, 300)
    found["degrees"] = {
        str(d): {f: _form(f, few, _edges(few, few * d), questions, changes)["change_us"] for f in ("rounds", "lean")}
        for d in ((4, 20) if options.quick else (5, 20, 100))
    }
    found["landmarks"] = {str(k): _one_off(nodes, edges, k, changes) for k in (0, 10)}
    return found


def _edges(nodes: int, many: int) -> np.ndarray:
    dice = np.random.default_rng(1)
    return np.column_stack([dice.integers(0, nodes, (many, 2)), dice.integers(1, 11, (many, 1))])


def _made(edges: np.ndarray, history: int = 1000, **how: Any) -> Made:
    db = ev.connect(history=history)
    edge, pair = db.table("edge", {"src": int, "dst": int, "w": int}), db.table("pair", {"a": int, "b": int})
    edge.insert(edges)
    return db, edge, pair, Graph(edge, weight="w", **how)


def _pairs(nodes: int, many: int) -> list[tuple[int, int]]:
    dice = np.random.default_rng(2)
    return [(int(a), int(b)) for a, b in dice.integers(0, nodes, (many, 2))]


def _changed(made: Made, nodes: int, edges: np.ndarray, number: int) -> None:
    """Change number n: one of the first edges goes, another comes."""
    db, edge = made[:2]
    gone, came = tuple(edges[number].tolist()), ((number * 7919) % nodes, (number * 104729) % nodes, 1 + number % 10)
    with db.transaction():
        edge.delete([gone])
        edge.insert([came])


def _form(form: str, nodes: int, edges: np.ndarray, questions: int, changes: int) -> dict[str, float]:
    """Bytes of a question, seconds to ask, microseconds of a change (mean and median) for all questions."""
    how: dict[str, Any] = {"memory": "lean"} if form == "lean" else {}
    if form == "dropped":
        how = {"budget": _most(nodes, edges, questions)}
    made = db, _, pair, g = _made(edges, **how)
    pairs = _pairs(nodes, questions)
    view = None
    if form != "scratch":
        plan: Any = {"rounds": "rounds", "halves": None}.get(form, "whole")
        view = db.view("far", g.distance(pair), plan=plan)
    before = db.stats()["bytes"]
    begin = time.process_time()
    if view is not None:
        pair.insert(pairs)
    asked = time.process_time() - begin
    taken = db.stats()["bytes"] - before
    times = []
    for number in range(max(changes // 10, 2) if form in ("scratch", "dropped") else changes):
        begin = time.process_time()
        _changed(made, nodes, edges, number)
        if view is None:
            g.ask(pairs)
        times.append(time.process_time() - begin)
    if view is not None and sorted(view.rows()) != sorted(set(g.ask(pairs))):
        raise AssertionError(f"{form}: the answers are wrong")
    db.close()
    micros = np.array(times) * 1e6
    return {
        "bytes_per_question": taken / questions,
        "ask_s": asked,
        "change_us": float(micros.mean()),
        "change_median_us": float(np.median(micros)),
    }


def _most(nodes: int, edges: np.ndarray, questions: int) -> int:
    """A part of what the questions take when nothing is dropped."""
    db, _, pair, g = _made(edges, memory="lean")
    db.view("far", g.distance(pair), plan="whole")
    pair.insert(_pairs(nodes, questions))
    used = db.budget().used
    db.close()
    return used * 7 // 10


def _one_off(nodes: int, edges: np.ndarray, landmarks: int, changes: int, together: int = 1) -> dict[str, float]:
    """Milliseconds of a one-off question, and of a change (the index is kept up to date). After each change so many are
    asked `together`.
    """
    made = db, _, _, g = _made(edges)
    index = db.view("index", g.landmarks(landmarks)) if landmarks else None
    asked = changed = 0.0
    answers = []
    pairs = _pairs(nodes, max(changes // 4, 4) * together)
    rounds = range(len(pairs) // together)
    for number in rounds:
        begin = time.process_time()
        _changed(made, nodes, edges, number)
        middle = time.process_time()
        answers += g.ask(pairs[number * together : (number + 1) * together], index=index)
        changed += middle - begin
        asked += time.process_time() - middle
    if answers and g.ask([answers[-1][:2]]) != answers[-1:]:
        raise AssertionError("landmarks: the answer is wrong")
    db.close()
    each = {"ask_ms": asked / len(pairs) * 1e3, "change_ms": changed / len(rounds) * 1e3}
    return {**each, "all_ms": (asked + changed) / len(rounds) * 1e3, "answered": len(answers)}


if __name__ == "__main__":
    chosen = common.arguments(__doc__).parse_args()
    common.report(run(chosen), chosen)
