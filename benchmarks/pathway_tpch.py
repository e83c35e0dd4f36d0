"""TPC-H queries in Pathway, in a Python of its own: what `tpch.py --pathway PYTHON` compares with.

    PYTHON pathway_tpch.py q03 FOLDER

FOLDER has the tables as CSV files, with the columns that the query reads. They come in through a connector, row by
row, because that is how Pathway takes changes; then ten rows of lineitem come one at a time. Dates are texts, which
compare as dates do; sums are floats.

Prints JSON: CPU seconds of the engine's and the connector's threads together from the first row to the answer, of the
same rows without a query (`load_cpu_s`), wall and CPU milliseconds per change, and the answer.
"""

from __future__ import annotations

import csv
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pathway as pw

CHANGES = 10
Tables = dict[str, Any]


def q01(t: Tables) -> Any:
    item = t["lineitem"]
    item = item.filter(item.l_shipdate <= "1998-09-02")
    item = item.with_columns(price=item.l_extendedprice * (1 - item.l_discount))
    item = item.with_columns(charge=item.price * (1 + item.l_tax))
    return item.groupby(item.l_returnflag, item.l_linestatus).reduce(
        item.l_returnflag,
        item.l_linestatus,
        quantity=pw.reducers.sum(item.l_quantity),
        base=pw.reducers.sum(item.l_extendedprice),
        price=pw.reducers.sum(item.price),
        charge=pw.reducers.sum(item.charge),
        average_quantity=pw.reducers.avg(item.l_quantity),
        average_price=pw.reducers.avg(item.l_extendedprice),
        average_discount=pw.reducers.avg(item.l_discount),
        count=pw.reducers.count(),
    )


def q03(t: Tables) -> Any:
    """Without the limit: all groups."""
    customer, orders, item = t["customer"], t["orders"], t["lineitem"]
    customer = customer.filter(customer.c_mktsegment == "BUILDING")
    orders = orders.filter(orders.o_orderdate < "1995-03-15")
    item = item.filter(item.l_shipdate > "1995-03-15")
    theirs = orders.join(customer, orders.o_custkey == customer.c_custkey).select(
        orders.o_orderkey, orders.o_orderdate, orders.o_shippriority
    )
    rows = item.join(theirs, item.l_orderkey == theirs.o_orderkey).select(
        item.l_orderkey,
        theirs.o_orderdate,
        theirs.o_shippriority,
        revenue=item.l_extendedprice * (1 - item.l_discount),
    )
    return rows.groupby(rows.l_orderkey, rows.o_orderdate, rows.o_shippriority).reduce(
        rows.l_orderkey, revenue=pw.reducers.sum(rows.revenue), o_orderdate=rows.o_orderdate, o=rows.o_shippriority
    )


def q05(t: Tables) -> Any:
    region, nation, supplier = t["region"], t["nation"], t["supplier"]
    customer, orders, item = t["customer"], t["orders"], t["lineitem"]
    region = region.filter(region.r_name == "ASIA")
    orders = orders.filter((orders.o_orderdate >= "1994-01-01") & (orders.o_orderdate < "1995-01-01"))
    nations = nation.join(region, nation.n_regionkey == region.r_regionkey).select(nation.n_nationkey, nation.n_name)
    sellers = supplier.join(nations, supplier.s_nationkey == nations.n_nationkey).select(
        supplier.s_suppkey, supplier.s_nationkey, nations.n_name
    )
    buyers = orders.join(customer, orders.o_custkey == customer.c_custkey).select(
        orders.o_orderkey, customer.c_nationkey
    )
    sold = item.join(buyers, item.l_orderkey == buyers.o_orderkey).select(
        item.l_suppkey, buyers.c_nationkey, revenue=item.l_extendedprice * (1 - item.l_discount)
    )
    rows = sold.join(sellers, sold.l_suppkey == sellers.s_suppkey, sold.c_nationkey == sellers.s_nationkey).select(
        sellers.n_name, sold.revenue
    )
    return rows.groupby(rows.n_name).reduce(rows.n_name, revenue=pw.reducers.sum(rows.revenue))


def q06(t: Tables) -> Any:
    item = t["lineitem"]
    item = item.filter((item.l_shipdate >= "1994-01-01") & (item.l_shipdate < "1995-01-01"))
    item = item.filter((item.l_discount >= 0.05) & (item.l_discount <= 0.07) & (item.l_quantity < 24))
    rows = item.select(revenue=item.l_extendedprice * item.l_discount)
    return rows.reduce(revenue=pw.reducers.sum(rows.revenue))


QUERIES: dict[str, Callable[[Tables], Any]] = {"q01": q01, "q03": q03, "q05": q05, "q06": q06}


def value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class Rows(pw.io.python.ConnectorSubject):  # type: ignore[misc]
    """A table's rows; of lineitem, the last few one at a time, each when the one before has been answered."""

    def __init__(self, rows: list[dict[str, Any]], watch: Watch | None) -> None:
        super().__init__()
        self.rows = rows
        self.watch = watch

    def run(self) -> None:
        first = self.rows if self.watch is None else self.rows[:-CHANGES]
        for row in first:
            self.next(**row)
        self.commit()
        if self.watch is None:
            return
        self.watch.loaded.wait()
        for row in self.rows[-CHANGES:]:
            start = time.perf_counter(), time.process_time()
            self.watch.seen.clear()
            self.next(**row)
            self.commit()
            self.watch.seen.wait()
            self.watch.wall.append(time.perf_counter() - start[0])
            self.watch.cpu.append(time.process_time() - start[1])


class Watch:
    """What came out, and when."""

    def __init__(self, lines: dict[str, int]) -> None:
        self.lines = lines
        self.counted = dict.fromkeys(lines, 0)
        self.answer: dict[Any, tuple[Any, ...]] = {}
        self.full = self.ended = -1
        """The engine's times when all rows were in, and up to which the answer is complete."""
        self.start, self.total = time.process_time(), 0.0
        self.loaded, self.seen = threading.Event(), threading.Event()
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            self.answer[key] = tuple(row.values())
        elif self.answer.get(key) == tuple(row.values()):
            del self.answer[key]

    def count(self, table: str) -> Callable[..., None]:
        def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
            if is_addition:
                self.counted[table] = row["n"]
            if self.counted == self.lines and self.full < 0:
                self.full = time
            self._check()

        return on_change

    def end(self, moment: int) -> None:
        """The answer of a time is complete."""
        self.ended = moment
        self._check()

    def taken(self, moment: int) -> None:
        """A time's rows have been counted. Not every row changes the answer, so this is what a change is timed by; the
        query may still be at work then.
        """
        if self.total:
            self.seen.set()

    def _check(self) -> None:
        if 0 <= self.full <= self.ended and not self.total:
            self.total = time.process_time() - self.start
            self.loaded.set()


def run(name: str, data: dict[str, list[dict[str, Any]]], *, query: bool) -> Watch:
    """All rows in and answered, then (with a query) the last few of lineitem one by one."""
    kept = CHANGES if query else 0
    watch = Watch({table: len(rows) - (kept if table == "lineitem" else 0) for table, rows in data.items()})
    tables = {}
    for table, rows in data.items():
        types = {c: type(v) for c, v in rows[0].items()}
        subject = Rows(rows, watch if query and table == "lineitem" else None)
        tables[table] = pw.io.python.read(subject, schema=pw.schema_from_types(**types), autocommit_duration_ms=None)
    for table, rows in tables.items():
        counted = rows.reduce(n=pw.reducers.count())
        pw.io.subscribe(counted, on_change=watch.count(table), on_time_end=watch.taken)
    answer = QUERIES[name](tables) if query else tables["lineitem"].reduce(n=pw.reducers.count())
    pw.io.subscribe(answer, on_change=watch.change, on_time_end=watch.end)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return watch


def main(name: str, folder: str) -> None:
    data: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(Path(folder).glob("*.csv")):
        with path.open() as file:
            data[path.stem] = [{c: value(v) for c, v in row.items()} for row in csv.DictReader(file)]
    watch = run(name, data, query=True)
    pw.internals.parse_graph.G.clear()
    found = {
        "load_and_query_cpu_s": round(watch.total, 3),
        "load_cpu_s": round(run(name, data, query=False).total, 3),
        "change_1_wall_ms": round(1000 * sorted(watch.wall)[CHANGES // 2], 3),
        "change_1_cpu_ms": round(1000 * sorted(watch.cpu)[CHANGES // 2], 3),
        "answer": sorted(watch.answer.values()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
