"""Closures in other Datalog engines: Cozo and egglog, in a Python of their own.

`rules.py --engines PYTHON` runs this file with a Python that has `pycozo[embedded]` or `egglog` installed, because the
project's has neither:

    PYTHON engines.py cozo tc edges.npy

Prints JSON: CPU seconds of evaluating and counting, with the facts loaded before, and how many rows there are.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np

COZO = {
    "tc": "r[x, y] := *e[x, y]\nr[x, z] := r[x, y], *e[y, z]",
    "sg": "r[x, y] := *e[p, x], *e[p, y]\nr[x, y] := *e[p, x], r[p, q], *e[q, y]",
}
EGGLOG = {
    "tc": "(rule ((e x y)) ((r x y)))\n(rule ((r x y) (e y z)) ((r x z)))",
    "sg": "(rule ((e p x) (e p y)) ((r x y)))\n(rule ((e p x) (r p q) (e q y)) ((r x y)))",
}


def cozo(program: str, edges: list[list[int]]) -> Callable[[], int]:
    from pycozo.client import Client

    db = Client(dataframe=False)
    db.run(":create e {a: Int, b: Int}")
    db.run("?[a, b] <- $rows :put e {a, b}", {"rows": edges})
    return lambda: int(db.run(f"{COZO[program]}\n?[count(x)] := r[x, y]")["rows"][0][0])


def egglog(program: str, edges: list[list[int]]) -> Callable[[], int]:
    from egglog.bindings import EGraph

    engine = EGraph()
    facts = "".join(f"(e {a} {b})" for a, b in edges)
    engine.run_program(*engine.parse_program(f"(relation e (i64 i64))(relation r (i64 i64)){EGGLOG[program]}{facts}"))

    def evaluate() -> int:
        engine.run_program(*engine.parse_program("(run-schedule (saturate (run)))"))
        (answer,) = engine.run_program(*engine.parse_program("(print-size r)"))
        return int("".join(c for c in str(answer) if c.isdigit()))

    return evaluate


def main(engine: str, program: str, path: str) -> None:
    evaluate = {"cozo": cozo, "egglog": egglog}[engine](program, np.load(path).tolist())
    start = time.process_time(), time.perf_counter()
    rows = evaluate()
    found = {"cpu_s": time.process_time() - start[0], "wall_s": time.perf_counter() - start[1], "rows": rows}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
