"""Kafka in and out, with a real broker: records appended, upserts by key, Debezium's envelopes with tombstones; the
driver killed with kill -9 between batches and in the middle of writing a time to the sink. In the end tables and views
are what the topics say, and the sinks hold every change once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from tests.spark.broker import Broker, broker
from tests.spark.clusters import ROOT
from tests.spark.dying import SHORT_LIVED, run_program
from tests.spark.jars import KAFKA_CONNECTOR, jars

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import os, signal, sys
import everview as ev
from everview.spark import local_session
from everview.spark.rows import topics

work, servers, jars, half = sys.argv[1:]
spark = local_session("local[2]", **{"spark.jars": jars})

def records(topic, columns):
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    stream = stream.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 15)
    return stream.load().selectExpr(columns)

def from_json(schema):
    return f"inline(array(from_json(cast(value as string), '{schema}')))"

send, sends = topics.Topic._send, [0]

def halfway(self, table, of):
    sends[0] += 1
    if sends[0] == int(half):
        send(self, table.slice(0, max(1, len(table) // 2)), of)
        os.kill(os.getpid(), signal.SIGKILL)
    send(self, table, of)

topics.Topic._send = halfway

with ev.connect(spark, state=work + "/state", shards=2) as db:
    db.source("orders", records("orders", from_json("id long, item string, n long")))
    db.source("prices", records("prices", from_json("item string, price long")), key="item")
    db.source("stock", records("stock", "cast(value as string) as value"), mode="changes", key="id",
              schema={"id": int, "item": str, "kept": int | None})
    v = db.sql('''CREATE VIEW revenue AS SELECT o.item, count(*) AS orders, sum(o.n * p.price) AS total
                  FROM orders o JOIN prices p ON p.item = o.item GROUP BY o.item''')
    w = db.sql("CREATE VIEW kept AS SELECT item, sum(kept) AS kept FROM stock GROUP BY item")
    v.write_to(ev.io.kafka(spark, servers, "revenue", key="item"))
    w.write_to(ev.io.json(work + "/kept"))
    print("running", flush=True)
    v.subscribe(lambda batch: print("time", batch.time, flush=True))
    print(db.run(until="caught_up"), flush=True)
"""

ITEMS = ("fig", "pear", "plum", "quince")


class Shop:
    """What is sent to the topics, and what it comes to."""

    def __init__(self) -> None:
        self._draw = random.Random(5)
        self.orders: list[tuple[int, str, int]] = []
        self.prices: dict[str, int] = {}
        self.stock: dict[int, tuple[str, int | None]] = {}

    def trade(self, kafka: Broker) -> None:
        kafka.send("prices", [(item, self._price(item)) for item in ITEMS * 8])
        kafka.send("orders", [(None, self._order()) for _ in range(40)])
        kafka.send("stock", [event for _ in range(30) for event in self._event()])

    def _price(self, item: str) -> str:
        self.prices[item] = self._draw.randrange(1, 50)
        return json.dumps({"item": item, "price": self.prices[item]})

    def _order(self) -> str:
        order = (len(self.orders), self._draw.choice(ITEMS), self._draw.randrange(1, 5))
        self.orders.append(order)
        return json.dumps(dict(zip(("id", "item", "n"), order, strict=True)))

    def _event(self) -> Iterator[tuple[str, str | None]]:
        """An envelope as Debezium sends it; a deletion is followed by a tombstone."""
        number = self._draw.randrange(12)
        before = self.stock.get(number)
        after = None
        if before is None or self._draw.random() < 0.6:
            after = (self._draw.choice(ITEMS), self._draw.choice([None, 1, 2, 3]))
        op = "c" if before is None else "u" if after else "d"
        key = json.dumps({"id": number})
        body = {"op": op, "before": _stock(number, before), "after": _stock(number, after)}
        yield key, json.dumps({"schema": None, "payload": body})
        if after is None:
            del self.stock[number]
            yield key, None
        else:
            self.stock[number] = after

    def revenue(self) -> Counter[Any]:
        totals = {item: [n for _, i, n in self.orders if i == item] for item in ITEMS}
        return Counter((item, len(ns), sum(ns) * self.prices[item]) for item, ns in totals.items() if ns)

    def kept(self) -> Counter[Any]:
        known: dict[str, list[int]] = {}
        for item, n in self.stock.values():
            known.setdefault(item, []).extend([] if n is None else [n])
        return Counter((item, sum(ns) if ns else None) for item, ns in known.items())


def _stock(number: int, row: tuple[str, int | None] | None) -> dict[str, Any] | None:
    return None if row is None else {"id": number, "item": row[0], "kept": row[1]}


def start(work: Path, kafka: Broker, half: int = 0) -> subprocess.Popen[str]:
    connector = ",".join(map(str, jars(*KAFKA_CONNECTOR, alone=True)))
    command = [sys.executable, "-c", PROGRAM, str(work), kafka.servers, connector, str(half)]
    with (work / "errors").open("a") as errors:
        env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, cwd=work)


def finish(work: Path, driver: subprocess.Popen[str]) -> None:
    said = driver.communicate(timeout=300)[0].splitlines()
    assert driver.returncode == 0, (work / "errors").read_text()[-3000:]
    assert said[-1].endswith("(caught_up)")


def check(work: Path, kafka: Broker, shop: Shop) -> None:
    with ev.connect(work / "state", read_only=True) as db:
        assert Counter(db["orders"].rows()) == Counter(shop.orders)
        assert dict(db["prices"].rows()) == shop.prices
        assert {number: (item, n) for number, item, n in db["stock"].rows()} == shop.stock
        assert Counter(db["revenue"].rows()) == shop.revenue()
        assert Counter(db["kept"].rows()) == shop.kept()
        changes = {(row, time): diff for row, time, diff in db["revenue"].changes(since=0)}
    check_topic(kafka, shop, changes)
    reader = ev.connect()
    copy = reader.source("kept", ev.io.json(work / "kept"), mode="changes")
    reader.run(until="caught_up")
    assert Counter(copy.rows()) == shop.kept()


def check_topic(kafka: Broker, shop: Shop, changes: dict[Any, int]) -> None:
    """The topic has each of the view's changes once, the records of a time numbered through, keys in their order."""
    found: list[Any] = []
    numbers: dict[str, list[int]] = {}
    for headers, key, value in kafka.read("revenue", len(changes)):
        name, _, rest = headers.partition(":")
        _, time, number, of = rest.split(" ")
        change = json.loads(value)
        assert (name, json.loads(key), change["_time"]) == ("everview", {"item": change["item"]}, int(time))
        numbers.setdefault(f"{time} of {of}", []).append(int(number))
        found.append(((change["item"], change["orders"], change["total"]), change["_time"], change["_diff"]))
    assert sorted(found) == sorted((row, time, diff) for (row, time), diff in changes.items())
    for what, seen in numbers.items():
        assert sorted(seen) == list(range(int(what.rpartition(" ")[2])))
    for item in ITEMS:
        times = [time for (name, _, _), time, _ in found if name == item]
        assert times == sorted(times)


def test_topics_in_and_out_with_drivers_killed(tmp_path: Path) -> None:
    shop = Shop()
    with broker(tmp_path / "kafka") as kafka:
        shop.trade(kafka)
        driver = start(tmp_path, kafka)  # killed after its second batch, wherever it then is
        assert driver.stdout is not None
        for expected in ("running", "time", "time"):
            assert driver.stdout.readline().startswith(expected), (tmp_path / "errors").read_text()[-3000:]
        driver.kill()
        driver.communicate()

        driver = start(tmp_path, kafka, half=3)  # dies with half of a time in the topic
        driver.communicate(timeout=300)
        assert driver.returncode == -signal.SIGKILL, (tmp_path / "errors").read_text()[-3000:]

        shop.trade(kafka)
        finish(tmp_path, start(tmp_path, kafka))
        check(tmp_path, kafka, shop)


FAILING = """
import json, sys
import everview as ev
from everview.spark import local_session
from everview.spark.rows import topics

work, servers, jars, settings = sys.argv[1:]
spark = local_session("local[2,4]", **json.loads(settings), **{"spark.jars": jars})  # four attempts per task
only_once, send, there, sends = topics.only_once, topics.Topic._send, topics.Topic._there, []

def lost(batches):
    \"\"\"A task that dies when it has sent a part; Spark tries it again.\"\"\"
    from pyspark import TaskContext
    if TaskContext.get().attemptNumber():
        yield from only_once(batches)
    else:
        yield next(iter(batches)).slice(0, 3)
        raise RuntimeError("lost")

def sending(self, table, of):
    sends.append([len(table), of])
    topics.only_once = lost if len(sends) in failing else only_once
    send(self, table, of)

topics.Topic._send = sending
with ev.connect(spark, state=work + "/state", shards=2) as db:
    t = db.table("t", {"k": int, "n": int})
    v = db.view("v", t.filter(t.n > 0))
    topic = ev.io.kafka(spark, servers, "v", key="k")
    failing = [1, 3, 4, 5]  # the first time's first, the second time's three tries
    outlet = v.write_to(topic)
    t.insert([(i, 1) for i in range(10)])
    try:
        t.insert([(i, 2) for i in range(10)])
    except ev.EverviewError as error:
        print(json.dumps(["error", error.code]))
    t.insert([(i, 3) for i in range(2)])
    outlet.stop()
    print(json.dumps(["sends", sends]))
    rows = topic._records().selectExpr("cast(ours[1] as int)", "cast(ours[2] as int)").collect()
    print(json.dumps(["records", sorted(map(list, rows))]))
"""


def test_a_task_that_fails_halfway_sends_no_record_twice(tmp_path: Path) -> None:
    """Spark's further attempts refuse; what is missing is sent when the topic was looked at, now or with the next."""
    connector = ",".join(map(str, jars(*KAFKA_CONNECTOR, alone=True)))
    with broker(tmp_path / "kafka") as kafka:
        env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        arguments = [str(tmp_path), kafka.servers, connector, json.dumps(SHORT_LIVED)]
        done = run_program(FAILING, arguments, env, tmp_path, 400)
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert said == [
        ["error", "E_SINK"],
        ["sends", [[10, 10], [7, 10], [10, 10], [7, 10], [4, 10], [1, 10], [2, 2]]],
        ["records", [[2, i] for i in range(10)] + [[3, i] for i in range(10)] + [[4, i] for i in range(2)]],
    ]
