"""The harness must notice an engine that is wrong: a stand-in session made of the oracle, with faults built in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from everview.codes.type_declarations import data_type
from everview.expr.language import col
from everview.language.collection import Collection, Column
from everview.language.relation import relation_of
from everview.plan.nodes import Table
from tests.oracle import graphs
from tests.oracle.harness import Runtime, Scenario, ViewPlan, random_steps, run
from tests.oracle.reference import Oracle, added
from tests.oracle.test_graphs import EDGE, NODE, edge, node


class StandIn:
    """The session's interface, computed from scratch; `fault(kind, time, rows)` may change what it says."""

    def __init__(self, fault: Callable[[str, int, Counter], Counter] = lambda kind, time, bag: bag) -> None:
        self.oracle = Oracle()
        self.fault = fault
        self.views: list[StandInView] = []
        self.pending: dict[int, Counter] = {}
        self.tables = 0

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    @property
    def time(self) -> int:
        return self.oracle.time

    def table(self, name: str, schema: Mapping[str, Any]) -> StandInTable:
        types = [data_type(t) for t in schema.values()]
        self.tables += 1
        columns = [Column(n, t) for n, t in zip(schema, types, strict=True)]
        return StandInTable(Table(self.tables, tuple(types)), columns, self, label=name)

    def view(self, name: str, collection: Collection) -> StandInView:
        self.views.append(StandInView(self, collection))
        return self.views[-1]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.pending = {}
        yield
        self.oracle.commit(self.pending)
        for view in self.views:
            view.tell()

    @contextmanager
    def batch(self) -> Iterator[None]:
        yield


class StandInTable(Collection):
    def insert(self, rows: list) -> None:
        self._relation.owner.pending.setdefault(self._relation.node.id, Counter()).update(rows)  # type: ignore[attr-defined]

    def delete(self, rows: list) -> None:
        self._relation.owner.pending.setdefault(self._relation.node.id, Counter()).subtract(rows)  # type: ignore[attr-defined]


class StandInView:
    def __init__(self, db: StandIn, collection: Collection, time: int | None = None) -> None:
        self.db, self.node, self.at = db, relation_of(collection).node, time
        self.since = db.time
        self.subscriber: Any = None

    def contents(self, kind: str, time: int) -> Counter:
        return self.db.fault(kind, time, Counter(self.db.oracle.contents(self.node, time)))

    def rows(self) -> list:
        return list(self.contents("rows", self.db.time).elements())

    def lookup(self, key: Any) -> list:
        return [row for row in self.contents("lookup", self.db.time).elements() if row[0] == key]

    def as_of(self, time: int) -> Any:
        view = self

        class At:
            def rows(self) -> list:
                return list(view.contents("as_of", time).elements())

        return At()

    def _diffs(self, kind: str, time: int) -> dict:
        before = {row: -n for row, n in self.contents(kind, time - 1).items()} if time > self.since else {}
        return added(self.contents(kind, time), before)

    def changes(self, since: int) -> list:
        return [(row, t, n) for t in range(since + 1, self.db.time + 1) for row, n in self._diffs("changes", t).items()]

    def subscribe(self, function: Any) -> None:
        self.subscriber = function
        self.tell()

    def tell(self) -> None:
        changes = self._diffs("heard", self.db.time)

        class Batch:
            time = self.db.time

            def rows(self) -> list:
                return list(changes.items())

        self.subscriber(Batch())

    def drop(self) -> None:
        self.db.views.remove(self)


def scenario() -> Scenario:
    steps = random_steps(1, 6, {"edge": edge(8), "root": node(8)}, first=5)
    views = [
        ViewPlan("reach", lambda t: graphs.reach(t["edge"], t["root"])),
        ViewPlan("sums", lambda t: t["edge"].group_by("src").agg(total=col.dst.sum()), at=2, until=4),
    ]
    return Scenario({"edge": EDGE, "root": NODE}, views, steps)


def test_the_truth_passes() -> None:
    run(scenario(), Runtime("stand-in", StandIn))


@pytest.mark.parametrize("kind", ["rows", "lookup", "as_of", "changes", "heard"])
def test_a_fault_is_noticed(kind: str) -> None:
    def fault(where: str, time: int, bag: Counter) -> Counter:
        wrong = {"rows": time == 4, "as_of": True, "lookup": True}.get(kind, time == 3)
        return bag + bag if where == kind and wrong else bag

    def connect() -> StandIn:
        return StandIn(fault)

    with pytest.raises(AssertionError, match="is wrong in"):
        run(scenario(), Runtime("stand-in", connect))
