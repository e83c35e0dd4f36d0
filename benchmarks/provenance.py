"""The experiments of liu-2016 §3.7, in short: what provenance costs, against DRed and against keeping rounds.

All pairs that are reachable in a transit-stub network whose rows live on logical nodes: a row belongs to the node of
its source, link(x, z) and reachable(z, y) meet at z's, and what they make is shipped to x's. Counted are the bytes that
cross between nodes (16 for a pair, 16 more for each node of its provenance) and CPU seconds.

    results   all links come, and a fifth of them goes, one by one, in a sparse and a dense network (LI-F12, F13, F15)
    shards    the same on 1, 4 and 12 logical nodes (LI-F16)
    order     depth-first or arrival order of variables (LI-F17)
    selection shortest and cheapest paths with no, one or both selections (LI-F18)

`provenance_series.py` has the figures' series: by the part of the links, by links, by logical nodes; and the region
query (LI-F14, `provenance_region.py`).

The methods: *dred* (delete too much, derive again), *relative* (rows know their immediate derivations; what no base row
supports is found by search), *eager* and *lazy* absorption (a decision diagram for each row; every derivation, or the
first and others when it goes), and *ours*: the engine itself, in shards, without provenance, whose messages are counted
where they leave a shard; *frugal* is the same with `plan="frugal"` (MinShip without expressions), *column_lazy* and
*column_bdd* keep provenance in a column (nodes that are sent are counted too). The first four are models in Python, so
their seconds compare among each other only. A method that passes its budget of nodes, or 60 seconds, is *not finished*,
which is a result.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import common  # noqa: F401 (finds Everview in a checkout)
import plot

import everview as ev
from everview.session.core import core_of
from everview.session.local_shards import local_shards
from everview.why.bdd import FALSE, Diagrams, Exhausted

Pair = tuple[int, int]


def transit_stub(stubs: int, per: int, extra: float, seed: int = 0) -> list[Pair]:
    """Four transit nodes, each with stubs of some nodes: links in both directions, in random order."""
    rng = random.Random(seed)
    links: set[Pair] = set()
    count = 0

    def connected(number: int, p: float) -> list[int]:
        nonlocal count
        nodes = list(range(count, count + number))
        count += number
        for i in range(1, number):
            links.add((nodes[i], nodes[rng.randrange(i)]))
            links.update((nodes[i], nodes[j]) for j in range(i) if rng.random() < p)
        return nodes

    for transit in connected(4, 0.6):
        for _ in range(stubs):
            links.add((transit, rng.choice(connected(per, extra))))
    both = sorted(links | {(b, a) for a, b in links})
    rng.shuffle(both)
    return both


def depth_first(links: Iterable[Pair]) -> list[Pair]:
    """The links in the order in which a depth-first search meets them."""
    out: dict[int, list[Pair]] = {}
    for link in links:
        out.setdefault(link[0], []).append(link)
    found: dict[Pair, None] = {}
    seen: set[int] = set()
    for start in sorted(out):
        todo = [iter(out[start])] if start not in seen else []
        seen.add(start)
        while todo:
            following = next(todo[-1], None)
            if following is None:
                todo.pop()
                continue
            found.setdefault(following)
            if following[1] not in seen:
                seen.add(following[1])
                todo.append(iter(out.get(following[1], ())))
    return list(found)


class Model:
    """Links and reachable pairs on logical nodes."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.into: dict[int, set[int]] = {}
        self.rows: dict[Pair, Any] = {}
        self.shipped = 0

    def ship(self, origin: int, target: int, provenance: int = 0) -> None:
        """Count a row that goes from the node of one source to that of another."""
        if origin % self.shards != target % self.shards:
            self.shipped += 16 + 16 * provenance

    def link(self, link: Pair) -> None:
        self.into.setdefault(link[1], set()).add(link[0])

    def unlink(self, link: Pair) -> None:
        self.into[link[1]].discard(link[0])

    def state(self) -> int:
        """Bytes of all rows."""
        return 16 * len(self.rows)


class DRed(Model):
    """Rows as a set."""

    def insert(self, link: Pair) -> None:
        self.link(link)
        self._derive([link, *((link[0], y) for x, y in list(self.rows) if x == link[1])], link[1])

    def _derive(self, new: list[Pair], origin: int) -> None:
        todo = [(row, origin) for row in new]
        while todo:
            (x, y), at = todo.pop()
            self.ship(at, x)
            if (x, y) not in self.rows:
                self.rows[x, y] = None
                todo += [((w, y), x) for w in self.into.get(x, ())]

    def delete(self, link: Pair) -> None:
        over = [(link[0], y) for x, y in self.rows if x == link[1]] + [link]
        gone: set[Pair] = set()
        while over:
            x, y = over.pop()
            if (x, y) in self.rows:
                del self.rows[x, y]
                gone.add((x, y))
                for w in self.into.get(x, ()):
                    self.ship(x, w)
                    over.append((w, y))
        self.unlink(link)
        for z, sources in self.into.items():
            for x in sources:
                again = [(x, y) for a, y in list(self.rows) if a == z and (x, y) in gone]
                self._derive([*again, *([(x, z)] if (x, z) in gone else [])], z)


class Relative(Model):
    """Every row has the derivations that make it: the link's target, of which the other row is."""

    def insert(self, link: Pair) -> None:
        self.link(link)
        x, z = link
        todo = [((x, z), -1, z)] + [((x, y), z, z) for a, y in list(self.rows) if a == z]
        while todo:
            (a, y), through, at = todo.pop()
            self.ship(at, a, 1)
            known = self.rows.setdefault((a, y), set())
            if through not in known:
                first = not known
                known.add(through)
                if first:
                    todo += [((w, y), a, a) for w in self.into.get(a, ())]

    def delete(self, link: Pair) -> None:
        self.unlink(link)
        x, z = link
        self.rows.get((x, z), set()).discard(-1)
        for (a, _), known in self.rows.items():
            if a == x and z in known:
                known.discard(z)
                self.ship(z, x, 1)
        supported = {row for row, known in self.rows.items() if -1 in known}
        todo = list(supported)
        while todo:
            a, y = todo.pop()
            for w in self.into.get(a, ()):
                if (w, y) not in supported and a in self.rows.get((w, y), ()):
                    supported.add((w, y))
                    self.ship(a, w)
                    todo.append((w, y))
        for a, y in [row for row in self.rows if row not in supported]:
            del self.rows[a, y]
            for w in self.into.get(a, ()):
                self.rows.get((w, y), set()).discard(a)
                self.ship(a, w)

    def state(self) -> int:
        return sum(16 + 16 * len(known) for known in self.rows.values())


class Absorption(Model):
    """Every row has a decision diagram of links. Lazy: a derivation of a row that is there is only remembered."""

    def __init__(self, shards: int, order: list[Pair], *, lazy: bool, budget: int) -> None:
        super().__init__(shards)
        self.level = {link: i for i, link in enumerate(order)}
        self.table = Diagrams(budget)
        self.lazy = lazy

    def insert(self, link: Pair) -> None:
        self.link(link)
        self._derive([(link, self._of(link), link[1]), *self._along(link)])

    def _of(self, link: Pair) -> int:
        return self.table.variable(self.level[link])

    def _along(self, link: Pair) -> list[tuple[Pair, int, int]]:
        x, z = link
        mine = self._of(link)
        return [((x, y), self.table.both(mine, p), z) for (a, y), p in list(self.rows.items()) if a == z]

    def _derive(self, todo: list[tuple[Pair, int, int]]) -> None:
        while todo:
            (x, y), p, at = todo.pop()
            old = self.rows.get((x, y), FALSE)
            if self.lazy and old != FALSE:
                continue
            self.ship(at, x, len(self.table.below(p)))
            new = self.table.either(old, p)
            if new != old:
                self.rows[x, y] = new
                todo += [((w, y), self.table.both(self._of((w, x)), new), x) for w in self.into.get(x, ())]

    def delete(self, link: Pair) -> None:
        self.unlink(link)
        self.shipped += 8 * (self.shards - 1)
        for row, p in list(self.rows.items()):
            left = self.table.without(p, self.level[link])
            self.rows[row] = left
            if left == FALSE:
                del self.rows[row]
        if self.lazy:
            for z in sorted(self.into):
                for x in sorted(self.into[z]):
                    todo = [t for t in [((x, z), self._of((x, z)), z), *self._along((x, z))] if t[0] not in self.rows]
                    self._derive(todo)

    def state(self) -> int:
        return sum(16 + 16 * len(self.table.below(p)) for p in self.rows.values())


def pairs(link: Any) -> Any:
    """All pairs that are reachable, as the thesis' query has it: link(x, z) meets reachable(z, y) at z."""
    before = link.rename(x="src", src="dst")
    return link.iterate(
        lambda found: found.join(before, on="src").select(src=ev.col.x, dst=ev.col.dst).union_all(link).distinct()
    )


class Ours:
    """The engine, in shards, which count what leaves one for another."""

    def __init__(self, shards: int, method: str = "ours", budget: int = 1000) -> None:
        self.db = local_shards(shards, history=0)
        self.edge = self.db.table("link", {"src": int, "dst": int})
        self.view = self.db.view("reachable", pairs(self.edge), **kept(method, budget))

    @property
    def shipped(self) -> int:
        return int(core_of(self.db).runtime.cluster.sent().bytes)  # type: ignore[attr-defined]

    def insert(self, link: Pair) -> None:
        self.edge.insert([link])

    def delete(self, link: Pair) -> None:
        self.edge.delete([link])

    @property
    def rows(self) -> Any:
        return list(self.view.rows())

    def state(self) -> int:
        return int(self.view.stats()["bytes"])

    def close(self) -> None:
        self.db.close()


def kept(method: str, budget: int) -> dict[str, Any]:
    """How a view of the engine is kept."""
    if method.startswith("column"):
        return {"provenance": ev.Provenance("lazy" if method == "column_lazy" else "bdd", nodes=budget)}
    return {"plan": "frugal" if method == "frugal" else "rounds"}


KEPT_NODES = 2000
"""Nodes that an expression of a kept column may have."""

ENGINE = ("ours", "frugal", "column_lazy", "column_bdd")


def made(method: str, shards: int, links: list[Pair], budget: int) -> Any:
    """A method, with nothing in it."""
    if method in ENGINE:
        return Ours(shards, method, min(budget, KEPT_NODES))
    if method in ("dred", "relative"):
        return (DRed if method == "dred" else Relative)(shards)
    return Absorption(shards, depth_first(links), lazy=method == "lazy", budget=budget)


METHODS = ("dred", "relative", "eager", "lazy", *ENGINE)


class TooLong(Exception):
    """A method has had its time."""


def measure(
    method: str, shards: int, links: list[Pair], gone: list[Pair], budget: int, limit: float = 60.0
) -> dict[str, Any]:
    """Insert all links, delete some one by one; CPU seconds, bytes, and what is left."""
    model = made(method, shards, links, budget)
    found: dict[str, Any] = {"method": method, "shards": shards, "links": len(links)}
    try:
        for phase, some in (("insert", links), ("delete", gone)):
            before, start = model.shipped, time.process_time()
            for link in some:
                (model.insert if phase == "insert" else model.delete)(link)
                if time.process_time() - start > limit:
                    raise TooLong
            found[f"{phase}_s"] = round(time.process_time() - start, 3)
            found[f"{phase}_bytes"] = model.shipped - before
        found |= {"rows": len(model.rows), "state_bytes": model.state(), "finished": True}
    except (Exhausted, TooLong, ev.MemoryLimitError, ev.RowErrors):
        found["finished"] = False
    finally:
        if method in ENGINE:
            model.close()
    return found


def orders(links: list[Pair], budget: int) -> dict[str, float | None]:
    """Nodes of diagrams per row, in depth-first order and in the order of arrival; None: not finished. (First
    derivations are paths, whose diagrams are the same size in any order.)
    """
    sizes: dict[str, float | None] = {}
    for name, order in (("depth_first", depth_first(links)), ("arrival", links)):
        model = Absorption(1, order, lazy=False, budget=budget)
        try:
            for link in links:
                model.insert(link)
            nodes = sum(len(model.table.below(p)) for p in model.rows.values())
            sizes[name] = round(nodes / len(model.rows), 2)
        except Exhausted:
            sizes[name] = None
    return sizes


def kept_orders(links: list[Pair], budget: int) -> dict[str, float | None]:
    """The same in the engine: the order it keeps along a walk as links come one by one, and the order of arrival."""
    sizes: dict[str, float | None] = {}
    orders: tuple[Any, ...] = ("depth-first", "arrival")
    for order in orders:
        with ev.connect(history=0) as db:
            link = db.table("link", {"src": int, "dst": int})
            kept = ev.Provenance("bdd", nodes=min(budget, KEPT_NODES), order=order)
            view = db.view("reachable", pairs(link), provenance=kept)
            try:
                for one in links:
                    link.insert([one])
                found = [e.size for e in view.provenances().values()]
                sizes[order] = round(sum(found) / len(found), 2)
            except (ev.MemoryLimitError, ev.RowErrors):
                sizes[order] = None
    return sizes


PATHS = """WITH RECURSIVE path(src, dst, cost, hops) AS (SELECT src, dst, cost, 1 FROM net UNION
    SELECT n.src, p.dst, n.cost + p.cost, p.hops + 1 FROM net n JOIN path p ON n.dst = p.src)"""
LEAST = "(SELECT src, dst, min({0}) AS {0} FROM path GROUP BY src, dst)"
BEST = f"SELECT p.* FROM path p JOIN {LEAST} b ON p.src = b.src AND p.dst = b.dst AND p.{{0}} = b.{{0}}"
QUERIES = {
    "none": [f"{PATHS} SELECT * FROM path"],
    "single": [f"{PATHS} {BEST.format(value)}" for value in ("cost", "hops")],
    "multi": [f"{PATHS} {BEST.format('cost')} UNION ALL {BEST.format('hops')}"],
}


def selection(links: list[Pair], seconds: float) -> list[dict[str, Any]]:
    """Shortest and cheapest paths: enumerated, as two recursions that keep their best rows, and as one."""
    rng = random.Random(3)
    costs = [(a, b, rng.randrange(1, 10)) for a, b in links]
    found = []
    for name, queries in QUERIES.items():
        with ev.connect() as db:
            net = db.table("net", {"src": int, "dst": int, "cost": int})
            for i, query in enumerate(queries):
                db.sql(f"CREATE MATERIALIZED VIEW best{i} AS {query}")
            start = time.process_time()
            try:
                with db.limits(seconds=seconds, memory="1GB"):
                    net.insert(costs)
                finished = True
            except (ev.StoppedError, ev.MemoryLimitError):
                finished = False
            took = round(time.process_time() - start, 3)
            found.append({"selection": name, "finished": finished, "seconds": took})
    return found


def main() -> None:
    """Print JSON; with --plot, draw bytes shipped by deletions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=400_000, help="nodes of decision diagrams")
    parser.add_argument("--seconds", type=float, default=8.0, help="for paths without selection")
    parser.add_argument("--plot", help="a directory for SVG files")
    parser.add_argument("--quick", action="store_true", help="tiny networks, for tests")
    options = parser.parse_args()
    if options.quick:
        options.budget, options.seconds = 50_000, 1.0
    stubs, per = (1, 3) if options.quick else (2, 4)
    networks = {"sparse": transit_stub(stubs, per, 0.1), "dense": transit_stub(stubs, per, 0.9)}
    results: list[dict[str, Any]] = []
    for name, links in networks.items():
        gone = random.Random(5).sample(links, len(links) // 5)
        found = [measure(m, 12, links, gone, options.budget) for m in METHODS]
        rows = {f["rows"] for f in found if f["finished"]}
        assert len(rows) == 1, found
        results += [{"network": name, **f} for f in found]
    sparse = networks["sparse"]
    some = random.Random(5).sample(sparse, len(sparse) // 5)
    compared = ("dred", "lazy", "ours", "frugal", "column_lazy")
    by_shards = [measure(m, n, sparse, some, options.budget) for n in (1, 4, 12) for m in compared]
    report: dict[str, Any] = {
        "benchmark": "provenance",
        "quick": options.quick,
        "results": results,
        "shards": by_shards,
        "order": {name: orders(links, options.budget) for name, links in networks.items()},
        "order_kept": {name: kept_orders(links, options.budget) for name, links in networks.items()},
        "selection": selection(sparse, options.seconds),
        "selection_dense": selection(networks["dense"], options.seconds),
    }
    if options.plot:
        draw(Path(options.plot), results, by_shards)
        draw_orders(Path(options.plot), report)
    print(json.dumps(report))


def draw(folder: Path, results: list[dict[str, Any]], by_shards: list[dict[str, Any]]) -> None:
    """Figures 12, 13 and 15 (bytes and seconds, sparse and dense), and 16 (by the number of shards)."""
    folder.mkdir(parents=True, exist_ok=True)
    for what in ("insert_bytes", "delete_bytes", "insert_s", "delete_s", "state_bytes"):
        series = {m: [float(r.get(what, 0)) for r in results if r["method"] == m] for m in METHODS}
        plot.line_chart(folder / f"provenance-{what}.svg", what.replace("_", " "), "sparse, dense", what, series)
    methods = dict.fromkeys(r["method"] for r in by_shards)
    sent = {m: [float(r.get("delete_bytes", 0)) for r in by_shards if r["method"] == m] for m in methods}
    plot.line_chart(folder / "provenance-shards.svg", "bytes sent by deletions", "1, 4, 12 shards", "bytes", sent)


def draw_orders(folder: Path, report: dict[str, Any]) -> None:
    """Figures 17 (nodes per row by the order of variables) and 18 (milliseconds by what is selected); what is not
    finished is a gap.
    """
    sizes = {
        f"{name} ({who})": [float(by_network[name] or 0) for by_network in report[of].values()]
        for of, who in (("order", "model"), ("order_kept", "engine"))
        for name in next(iter(report[of].values()))
    }
    plot.line_chart(folder / "provenance-order.svg", "nodes of a row's diagram", "sparse, dense", "nodes", sizes)
    took: dict[str, list[float]] = {}
    for of in ("selection", "selection_dense"):
        for found in report[of]:
            spent = 1000 * found["seconds"] if found["finished"] else 0.0
            took.setdefault(found["selection"], []).append(spent)
    plot.line_chart(folder / "provenance-selection.svg", "shortest and cheapest paths", "sparse, dense", "ms", took)


if __name__ == "__main__":
    main()
