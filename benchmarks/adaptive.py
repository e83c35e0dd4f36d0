"""Plans that follow against plans that stay (LI-F28, F29, table 3): CPU of the same stream of changes by each.

    segtolls   Linear Road's SegTollS (liu-2016, table 2) over five windows of one stream of cars, from a generator:
               2 expressways, 100 segments, each car reports every 30 s, rush hours and accidents. Slices of 1, 5 and
               10 s are transactions. `pairs` is the plan of somebody who knows the data: cars with cars and segments
               with segments first
    six        ten joins of six tables, chains and stars, over skewed data; in each phase another table is very small
    moving     a stream of orders joined with three tables of offers, four for each key. In every quarter another of the
               three has offers for a hundredth of its keys only (the last quarter is as the first). The best order
               starts with that one, so it is another in every quarter. All six orders run
    steady     nothing changes: what looking and following cost then, by turns with a session that does neither

Every static plan runs the whole stream from an empty session: as written, backwards, delta, wco. The best of them in
hindsight is what an oracle would have chosen once (`to_best_unaware`: without `pairs`); `bound_to_best` is what one
would need that changed plans at every quarter of the stream for nothing, so how much there is to win. Answers are
compared at the end. Prints JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, pairwise, permutations
from typing import Any

import common  # noqa: F401  (finds a checkout)

import everview as ev
from everview.optimiser.best_plans import optimiser_of
from everview.session.core import core_of

Row = tuple[int, ...]
Changes = dict[str, tuple[list[Row], list[Row]]]
"""Rows that come and rows that go, by table."""

Stream = Callable[[], Iterator[Changes]]


def run(make: Callable[[ev.Session, str], ev.View], stream: Stream, way: str, **options: Any) -> dict[str, Any]:
    """The whole stream by one plan, or by plans that follow: CPU seconds, rows, and the answer."""
    with ev.connect(history=0) as db:
        view = make(db, way)
        begun = time.process_time()
        if way == "adaptive":
            db.adapt(**options)
            optimiser_of(core_of(db))
        installing = time.process_time() - begun
        made = list(stream())  # what makes the stream is not what is measured
        gc.freeze()  # or the collector walks all of it, 0.1 s each time, perhaps in a look
        rows, start = 0, time.process_time()
        marks = [start]
        for number, changes in enumerate(made):
            if number in (len(made) * quarter // 4 for quarter in (1, 2, 3)):
                marks.append(time.process_time())
            with db.transaction():
                for table, (come, gone) in changes.items():
                    if gone:
                        db[table].delete(gone)
                    if come:
                        db[table].insert(come)
                    rows += len(come) + len(gone)
        marks.append(time.process_time())
        spent = marks[-1] - start
        found: dict[str, Any] = {
            "cpu_s": round(spent, 3),
            "us_per_row": round(1e6 * spent / max(rows, 1), 2),
            "rows": rows,
            "quarters_s": [round(b - a, 4) for a, b in pairwise(marks)],
        }
        adaptive = core_of(db).attached.get("adaptive")
        if adaptive is not None:
            found |= {
                "switches": adaptive.switches,
                "returns": adaptive.returns,
                "deciding_s": round(adaptive.seconds, 3),
                "optimiser_cpu_s": round(installing, 3),
            }
        gc.unfreeze()
        found["answer"] = Counter(view.rows())
        return found


def compare(
    make: Callable[[ev.Session, str], ev.View], stream: Stream, ways: list[str], **options: Any
) -> dict[str, Any]:
    """All static plans and the one that follows, over the same stream."""
    found = {way: run(make, stream, way, **options) for way in (*ways, "adaptive")}
    answers = [each.pop("answer") for each in found.values()]
    if any(answer != answers[0] for answer in answers):
        raise SystemExit("plans disagree")
    static = [found[way]["cpu_s"] for way in ways]
    ours = found["adaptive"]["cpu_s"]
    # what could be won at all: the best static plan of each quarter, switched for nothing
    bound = sum(map(min, zip(*(found[way]["quarters_s"] for way in ways), strict=True)))
    unaware = [found[way]["cpu_s"] for way in ways if way != "pairs"]
    return {
        **found,
        "to_best": round(ours / min(static), 2),
        "to_best_unaware": round(ours / min(unaware), 2),
        "worst_to_ours": round(max(static) / ours, 2),
        "bound_to_best": round(bound / min(static), 2),
    }


def planned(db: ev.Session, query: str, back: str, way: str) -> ev.View:
    """The view of a query, joined in one of the ways."""
    text = back if way == "backwards" else query
    if way in ("delta", "wco", "binary"):
        text = f"SET plan = '{way}'; CREATE VIEW v AS {text}"
    else:
        text = f"CREATE VIEW v AS {text}"
    db.sql(text)
    found = db["v"]
    assert isinstance(found, ev.View)
    return found


# ---------------------------------------------------------------------------------------- Linear Road

REPORT = "(car int, xway int, dir int, seg int, pos int)"
SELECT = "SELECT r2.xway, r2.dir, r2.seg, count(DISTINCT r5.pos) AS n FROM "
ON = {
    "r1": "r1.xway = r2.xway AND r1.dir = r2.dir AND r1.seg = r2.seg",
    "r3": "r2.xway = r3.xway AND r3.dir = 0 AND r2.seg < r3.seg AND r2.seg > r3.seg - 10",
}
GROUP = " WHERE r2.dir = 0 GROUP BY r2.xway, r2.dir, r2.seg"
CARS = "r3.car = r4.car JOIN r5 ON r3.car = r5.car"
FORWARD = f"{SELECT} r1 JOIN r2 ON {ON['r1']} JOIN r3 ON {ON['r3']} JOIN r4 ON {CARS}{GROUP}"
PAIRS = (
    f"{SELECT} (r3 JOIN r4 ON r3.car = r4.car) JOIN (r1 JOIN r2 ON {ON['r1']}) ON {ON['r3']} "
    f"JOIN r5 ON r3.car = r5.car{GROUP}"
)
BACKWARD = (
    f"{SELECT} r5 JOIN r3 ON r3.car = r5.car JOIN r4 ON r3.car = r4.car JOIN r2 ON {ON['r3']} "
    f"JOIN r1 ON {ON['r1']}{GROUP}"
)


def segtolls(db: ev.Session, way: str) -> ev.View:
    """SegTollS; grouped by segment, where the thesis' text groups by car and selects segments."""
    for number in range(1, 6):
        db.sql(f"CREATE TABLE r{number} {REPORT}")
    return planned(db, PAIRS if way == "pairs" else FORWARD, BACKWARD, way)


FREE = 100
"""Feet that a car covers in a second on an empty road."""

ROOM = 60
"""Cars in one direction of a segment, a mile of three lanes, with which traffic stands still."""


class Traffic:
    """Two expressways with 100 segments, both directions; each car reports every 30 s, as in Linear Road.

    A day in short: midday, rush hour, midday, rush hour. At midday half as many cars are on the road at a time. They
    are fast, leave after a few reports, and others come. In a rush hour all stay, and the denser a segment is, the
    slower it moves (Greenshields: speed falls in proportion to density). In its middle an accident stops the cars of
    one segment for four reports, and those of the five segments behind it crawl.
    """

    def __init__(self, seconds: int, cars: int, seed: int) -> None:
        self.seconds, self.cars = seconds, cars
        self.rng = random.Random(seed)
        self.new = count()
        self.on_road: list[list[int]] = []

    def rush(self, second: int) -> bool:
        """Whether it is a rush hour."""
        return second * 4 // self.seconds % 2 == 1

    def comes(self, second: int) -> list[int]:
        """[car, expressway, direction, place in feet, second of 30 in which it reports, reports until it leaves]."""
        rng, rush = self.rng, self.rush(second)
        trip = self.seconds if rush else rng.randrange(2, 6)
        at = rng.randrange(528_000)
        return [next(self.new), rng.randrange(2), rng.randrange(2), at, rng.randrange(30), trip]

    def reports(self) -> Iterator[tuple[int, Row]]:
        """(second, report)."""
        for second in range(self.seconds):
            wanted = self.cars if self.rush(second) else self.cars // 2
            if second and not self.rush(second) and self.rush(second - 1):
                self.on_road = []  # everybody is home
            self.on_road += [self.comes(second) for _ in range(wanted - len(self.on_road))]
            dense = Counter((xway, way, place // 5280) for _, xway, way, place, _, _ in self.on_road)
            for at, car in enumerate(self.on_road):
                if second % 30 != car[4]:
                    continue
                if car[5] == 0:
                    self.on_road[at] = self.comes(second)
                    continue
                car[5] -= 1
                car[3] = (car[3] + 30 * self.speed(second, car, dense)) % 528_000
                yield second, (car[0], car[1], car[2], car[3] // 5280, car[3])

    def speed(self, second: int, car: list[int], dense: Counter[Row]) -> int:
        """Feet in a second."""
        segment = car[3] // 5280
        if self.accident(second) and car[1:3] == [0, 0] and 45 <= segment <= 50:
            return 0 if segment == 50 else 5
        return max(FREE * (ROOM - dense[car[1], car[2], segment]) // ROOM, 5)

    def accident(self, second: int) -> bool:
        """Whether a segment is closed: for four reports in the middle of a rush hour."""
        quarter = self.seconds // 4
        return self.rush(second) and quarter // 2 <= second % quarter < quarter // 2 + 120


def road(seconds: int, cars: int, slice_s: int, seed: int = 1) -> Iterator[Changes]:
    """The five windows, changed slice by slice."""
    long: deque[tuple[int, Row]] = deque()
    short: deque[tuple[int, Row]] = deque()
    by_segment: dict[Row, Row] = {}
    by_car: dict[int, Row] = {}
    four: dict[int, deque[Row]] = {}
    changes: Changes = {f"r{n}": ([], []) for n in range(1, 6)}
    upto = slice_s
    for second, row in Traffic(seconds, cars, seed).reports():
        if second >= upto:
            yield _netted(changes)
            changes, upto = {f"r{n}": ([], []) for n in range(1, 6)}, upto + slice_s
        for name, window, size in (("r1", long, 300), ("r4", short, 30)):
            window.append((second, row))
            changes[name][0].append(row)
            while window[0][0] <= second - size:
                changes[name][1].append(window.popleft()[1])
        for name, latest, key in (("r2", by_segment, row[1:4]), ("r3", by_car, row[0])):
            if key in latest:  # type: ignore[operator]
                changes[name][1].append(latest[key])  # type: ignore[index]
            latest[key] = row  # type: ignore[index]
            changes[name][0].append(row)
        last = four.setdefault(row[0], deque())
        last.append(row)
        changes["r5"][0].append(row)
        if len(last) > 4:
            changes["r5"][1].append(last.popleft())
    yield _netted(changes)


def _netted(changes: Changes) -> Changes:
    """Without what comes and goes in the same slice."""
    found: Changes = {}
    for name, (come, gone) in changes.items():
        new, old = Counter(come), Counter(gone)
        found[name] = (list((new - old).elements()), list((old - new).elements()))
    return found


# ------------------------------------------------------------------------------------------- six-way joins


def six(seed: int, transactions: int = 1000) -> tuple[Callable[[ev.Session, str], ev.View], Stream]:
    """A join of six tables, and a stream in which another of them is very small in each of four phases."""
    star = bool(seed % 2)
    order = list(range(6))
    random.Random(seed).shuffle(order)
    on = (
        [f"t{i}.b = t{i + 1}.a" for i in range(5)]
        if not star
        else [f"t0.{c} = t{i + 1}.a" for i, c in enumerate("bcdef")]
    )

    def query(names: list[int]) -> str:
        """Joined from left to right along the conditions."""
        joined, text, left = {names[0]}, f"t{names[0]}", list(range(5))
        while left:
            at = next(c for c in left if _ends(star, c)[0] in joined or _ends(star, c)[1] in joined)
            new = next(e for e in _ends(star, at) if e not in joined)
            text += f" JOIN t{new} ON {on[at]}"
            joined.add(new)
            left.remove(at)
        return f"SELECT t0.a AS x, count(*) AS n FROM {text} GROUP BY t0.a"

    def make(db: ev.Session, way: str) -> ev.View:
        for i in range(6):
            columns = "a b c d e f" if star and i == 0 else "a b"
            db.sql(f"CREATE TABLE t{i} ({', '.join(f'{c} int NOT NULL' for c in columns.split())})")
        return planned(db, query([0]), query([5]), way)

    def stream() -> Iterator[Changes]:
        rng = random.Random(100 + seed)
        held: list[list[Row]] = [[] for _ in range(6)]
        width = [6 if star and i == 0 else 2 for i in range(6)]
        for _ in range(4):
            small = rng.choice([0, 5] if not star else range(1, 6))
            for _ in range(transactions):
                changes: Changes = {}
                for i in range(6):
                    size, many = (2, 1) if i == small else (240, 6)
                    skew = 1.0 + i / 5
                    come = [tuple(int(50 * rng.random() ** skew) for _ in range(width[i])) for _ in range(many)]
                    gone = [held[i].pop(rng.randrange(len(held[i]))) for _ in range(max(len(held[i]) + many - size, 0))]
                    held[i] += come
                    changes[f"t{i}"] = (come, gone)
                yield _netted(changes)

    return make, stream


def _ends(star: bool, condition: int) -> tuple[int, int]:
    return (0, condition + 1) if star else (condition, condition + 1)


# --------------------------------------------------------------------------------------------------- moving


OFFERS = ("product", "customer", "shop")
"""What offers are for; the number of one is its place."""

KEYS, FEW, OF_EACH = 500, 5, 4
"""Keys of each kind, those that have offers while there are few, and offers of a key."""

ORDERS = ["".join(order) for order in permutations("012")]
"""Names of the orders of joining: those of the tables of offers."""


def offers(db: ev.Session, way: str) -> ev.View:
    """The offers that apply to orders, by day of the week: what they save together."""
    columns = ", ".join(f"{name} int NOT NULL" for name in OFFERS)
    db.sql(f"CREATE TABLE orders (id int NOT NULL, day int NOT NULL, {columns})")
    for name in OFFERS:
        db.sql(f"CREATE TABLE {name}s (id int NOT NULL, saves int NOT NULL)")
    order = [OFFERS[int(number)] for number in (way if way in ORDERS else ORDERS[0])]
    saved = " + ".join(f"{name}s.saves" for name in OFFERS)
    joins = " ".join(f"JOIN {name}s ON orders.{name} = {name}s.id" for name in order)
    return planned(db, f"SELECT day, sum({saved}) AS saved FROM orders {joins} GROUP BY day", "", way)


def trade(transactions: int, seed: int = 1) -> Iterator[Changes]:
    """In each transaction 20 orders come and 20 go, of 2,000. At the beginning of a quarter offers come and go, some in
    each transaction.
    """
    rng, numbers = random.Random(seed), count()
    held: deque[Row] = deque()
    with_offers: list[set[int]] = [set() for _ in OFFERS]
    for few in (0, 1, 2, 0):
        wanted = [set(rng.sample(range(KEYS), FEW if kind == few else KEYS)) for kind in range(len(OFFERS))]
        for _ in range(transactions):
            changes: Changes = {"orders": ([], [])}
            for kind, name in enumerate(OFFERS):
                some = rng.sample(range(KEYS), 5)
                come = [key for key in some if key in wanted[kind] - with_offers[kind]]
                gone = [key for key in some if key in with_offers[kind] - wanted[kind]]
                with_offers[kind] = (with_offers[kind] | set(come)) - set(gone)
                changes[f"{name}s"] = (_offered(come), _offered(gone))
            come_in = [(next(numbers), rng.randrange(7), *(rng.randrange(KEYS) for _ in OFFERS)) for _ in range(20)]
            held.extend(come_in)
            changes["orders"] = (come_in, [held.popleft() for _ in range(len(held) - 2000)])
            yield changes


def _offered(keys: list[int]) -> list[Row]:
    return [(key, saves) for key in keys for saves in range(OF_EACH)]


# --------------------------------------------------------------------------------------------------- steady


STEADY_ROWS = 50
"""Rows of a round: few, so that some rounds are not interrupted on a busy machine."""


def steady(rounds: int) -> dict[str, Any]:
    """Single rows that come and go below a join of three, by turns in three sessions: one whose plans stay, one that
    looks at statistics but finds no plan good enough (the plans are the same, so the difference is what looking costs),
    and one whose plans follow.

    What a step costs more is told from many equal rounds, each beside those of the other sessions. What looks cost is
    not in the median of those ratios, and is told by their own clock, as a share of all work after the first quarter:
    by then the optimiser is there.
    """
    sides = {
        name: _three_tables(options)
        for name, options in {"without": None, "looking": {"margin": 1e9}, "following": {}}.items()
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    looked = dict.fromkeys(sides, 0.0)
    orders = list(permutations(sides))
    for number in range(rounds):
        if number == rounds // 4:
            times = {name: [] for name in sides}
            looked = {name: _looked(db) for name, (db, _) in sides.items()}
        for name in orders[number % len(orders)]:
            table = sides[name][1]
            start = time.thread_time()
            for i in range(STEADY_ROWS):
                table.insert([(i, i + 1)])
                table.delete([(i, i + 1)])
            times[name].append((time.thread_time() - start) / (2 * STEADY_ROWS) * 1e6)
    found: dict[str, Any] = {"us_without": round(min(times["without"]), 2)}
    for name in ("looking", "following"):
        looks = (_looked(sides[name][0]) - looked[name]) / (sum(times[name]) * 2 * STEADY_ROWS / 1e6)
        steps = statistics.median(a / b for a, b in zip(times[name], times["without"], strict=True))
        found[name] = {
            "us": round(min(times[name]), 2),
            "ratio_of_best": round(min(times[name]) / min(times["without"]), 3),
            "median_of_ratios": round(steps, 3),
            "share_of_looks": round(looks, 4),
            "cost": round(steps / (1 - looks) - 1, 4),
            "switches": core_of(sides[name][0]).attached["adaptive"].switches,
        }
    return found


def _three_tables(options: dict[str, Any] | None) -> tuple[ev.Session, ev.Table]:
    """A session with a join of three tables, and the table that changes."""
    db = ev.connect()
    a, b, c = (db.table(name, {"x": int, "y": int}) for name in "abc")
    db.view("v", a.join(b, a.y == b.x).join(c, b.y == c.x).select(x=a.x, y=c.y))
    if options is not None:
        db.adapt(**options)
    for table in (a, b, c):
        table.insert([(i, i) for i in range(1000)])
    return db, a


def _looked(db: ev.Session) -> float:
    adaptive = core_of(db).attached.get("adaptive")
    return 0.0 if adaptive is None else float(adaptive.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["segtolls", "six", "moving", "steady"])
    parser.add_argument("--seconds", type=int, default=480, help="of Linear Road")
    parser.add_argument("--cars", type=int, default=4000)
    parser.add_argument("--joins", type=int, default=10)
    parser.add_argument("--transactions", type=int, default=1000, help="of each phase of the joins")
    parser.add_argument("--quarter", type=int, default=10000, help="transactions of each quarter of what is moving")
    parser.add_argument("--rounds", type=int, default=30000, help="of what is steady")
    parser.add_argument("--ways", nargs="*", default=["written", "backwards", "delta", "wco"])
    given = parser.parse_args()
    ways = given.ways
    quick = {"every": 0.05, "trial": 20, "ahead": 20, "margin": 1.2}  # streams take a second or so
    if "segtolls" in given.what:
        for slice_s in (1, 5, 10):
            stream = partial(road, given.seconds, given.cars, slice_s)
            trial = {1: 20, 5: 10, 10: 5}[slice_s]  # transactions of 550 to 5,000 rows
            found = compare(segtolls, stream, [*ways, "pairs"], **quick | {"trial": trial})
            print(json.dumps({"benchmark": "segtolls", "slice_s": slice_s, **found}), flush=True)
    totals: Counter[str] = Counter()
    for seed in range(given.joins if "six" in given.what else 0):
        make, stream = six(seed, given.transactions)
        found = compare(make, stream, ways, **quick)
        static = [found[way]["cpu_s"] for way in ways]
        totals.update({"best": min(static), "worst": max(static), "adaptive": found["adaptive"]["cpu_s"]})
        print(json.dumps({"benchmark": "six", "seed": seed, **found}), flush=True)
    if totals:
        shown = {name: round(spent, 2) for name, spent in totals.items()}
        to_best, better = totals["adaptive"] / totals["best"], totals["worst"] / totals["adaptive"]
        print(
            json.dumps(
                {"benchmark": "six", "total": shown, "to_best": round(to_best, 2), "worst_to_ours": round(better, 2)}
            )
        )
    if "moving" in given.what:
        found = compare(offers, partial(trade, given.quarter), [*ORDERS, "delta", "wco"], **quick)
        print(json.dumps({"benchmark": "moving", **found}), flush=True)
    if "steady" in given.what:
        print(json.dumps({"benchmark": "steady", **steady(given.rounds)}))


if __name__ == "__main__":
    main()
