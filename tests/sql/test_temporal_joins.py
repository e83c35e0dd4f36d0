"""Joins with tables as they were, against plain Python: at the row's own time, and when the row came."""

from __future__ import annotations

import datetime as dt
import random
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards

START = dt.datetime(2026, 1, 1)
TABLES = """
    CREATE TABLE o (id int, cur text, at timestamp);
    CREATE TABLE rate (cur text, rate int, at timestamp, WATERMARK FOR at AS at - INTERVAL '1 day');
    CREATE TABLE now_rate (cur text, rate int)
"""
VIEWS = {
    "then_inner": "SELECT o.id, o.cur, r.rate FROM o JOIN rate FOR SYSTEM_TIME AS OF o.at AS r ON r.cur = o.cur",
    "then_left": "SELECT o.id, o.cur, r.rate FROM o LEFT JOIN rate FOR SYSTEM_TIME AS OF o.at AS r ON r.cur = o.cur",
    "came_inner": """SELECT o.id, o.cur, r.rate FROM o JOIN now_rate FOR SYSTEM_TIME AS OF PROCTIME() AS r
                     ON r.cur = o.cur""",
    "came_left": """SELECT q.id, q.cur, r.rate FROM (SELECT cur, id FROM o WHERE id > 1) AS q
                    LEFT JOIN now_rate FOR SYSTEM_TIME AS OF PROCTIME() AS r ON q.cur = r.cur""",
    "sums": """SELECT o.cur, sum(r.rate) AS s FROM o JOIN now_rate FOR SYSTEM_TIME AS OF PROCTIME() AS r
               ON r.cur = o.cur GROUP BY o.cur""",
}
Row = tuple[Any, ...]


class Model:
    """What is there, and what each order found when it came."""

    def __init__(self) -> None:
        self.orders: list[tuple[Row, list[int]]] = []
        self.rates: list[Row] = []
        self.current: list[Row] = []

    def wanted(self) -> dict[str, Counter[Row]]:
        then = [((i, cur), self._then(cur, at)) for (i, cur, at), _ in self.orders]
        came = [((i, cur), rates) for (i, cur, _), rates in self.orders]
        sums: dict[str, int] = {}
        for (_, cur), rates in came:
            if rates:
                sums[cur] = sums.get(cur, 0) + sum(rates)
        return {
            "then_inner": Counter((*o, r) for o, r in then if r is not None),
            "then_left": Counter((*o, r) for o, r in then),
            "came_inner": Counter((*o, r) for o, rates in came for r in rates),
            "came_left": Counter((*o, r) for o, rates in came if o[0] > 1 for r in (rates or (None,))),
            "sums": Counter(sums.items()),
        }

    def _then(self, cur: str | None, at: dt.datetime | None) -> int | None:
        known = [] if at is None else [r for r in self.rates if r[0] == cur and cur is not None and r[2] <= at]
        return max(known, key=lambda r: (r[2], -r[1]))[1] if known else None


def _check(db: ev.Session, model: Model) -> None:
    for name, wanted in model.wanted().items():
        assert Counter(db[name].rows()) == wanted, name


def _tables(db: ev.Session) -> tuple[ev.Table, ev.Table, ev.Table]:
    found = [t for t in (db[name] for name in ("o", "rate", "now_rate")) if isinstance(t, ev.Table)]
    return found[0], found[1], found[2]


def _step(db: ev.Session, model: Model, chance: random.Random) -> None:
    orders, rates, current = _tables(db)
    moment = START + dt.timedelta(minutes=chance.randrange(100))
    new = [
        (chance.randrange(4), chance.choice(["EUR", "USD", "NOK", None]), chance.choice([moment, moment, None]))
        for _ in range(3)
    ]
    new += new[:1]
    version = (
        chance.choice(["EUR", "USD"]),
        chance.randrange(100),
        START + dt.timedelta(minutes=chance.randrange(100)),
    )
    row = (chance.choice(["EUR", "NOK"]), chance.randrange(100))
    gone = chance.sample(range(len(model.orders)), len(model.orders) // 4)
    leaving = [model.orders[i][0] for i in gone]
    lost = chance.sample(model.rates, 1) if len(model.rates) > 5 else []
    replaced = chance.sample(model.current, 1) if len(model.current) > 2 else []
    with db.transaction():  # orders find what was there before it
        orders.delete(leaving)
        orders.insert(new)
        rates.insert([version])
        rates.delete(lost)
        current.insert([row])
        current.delete(replaced)
    model.orders += [(r, [rate for cur, rate in model.current if cur == r[1] and cur is not None]) for r in new]
    for order in leaving:  # the oldest goes
        model.orders.pop(next(i for i, (r, _) in enumerate(model.orders) if r == order))
    model.rates = [r for r in [*model.rates, version] if r not in lost]
    model.current.append(row)
    for r in replaced:
        model.current.remove(r)


@pytest.mark.parametrize("shards", [0, 2])
def test_against_python(shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    db.sql(TABLES)
    for name, text in VIEWS.items():
        db.sql(f"CREATE VIEW {name} AS {text}")
    chance, model = random.Random(9), Model()
    for _ in range(10):
        _step(db, model, chance)
        _check(db, model)
    assert all(model.wanted().values())
    orders, _, _ = _tables(db)
    orders.delete([row for row, _ in model.orders])
    model.orders.clear()
    _check(db, model)


def test_what_was_found_survives(tmp_path: Path) -> None:
    chance, model = random.Random(2), Model()
    with ev.connect(tmp_path / "db") as db:
        db.sql(TABLES)
        for name, text in VIEWS.items():
            db.sql(f"CREATE VIEW {name} AS {text}")
    for _ in range(3):
        with ev.connect(tmp_path / "db") as db:
            for _ in range(2):
                _step(db, model, chance)
            _check(db, model)


def test_a_table_that_is_looked_up_in_is_in_use(tmp_path: Path) -> None:
    with ev.connect(tmp_path / "db") as db:
        db.sql(TABLES)
        db.sql(f"CREATE VIEW v AS {VIEWS['came_inner']}")
        with pytest.raises(ev.PlanError, match="is read by v"):
            db.sql("DROP TABLE now_rate")
        db.sql("DROP TABLE now_rate CASCADE")
        assert "v" not in db
    with ev.connect(tmp_path / "db") as db:
        assert "v" not in db
        db.sql("INSERT INTO o VALUES (1, 'EUR', NULL)")


def test_a_select_at_processing_time_is_a_join() -> None:
    db = ev.connect()
    db.sql(TABLES)
    db.sql("INSERT INTO o VALUES (1, 'EUR', NULL); INSERT INTO now_rate VALUES ('EUR', 5)")
    assert db.sql(VIEWS["came_inner"]).rows() == [(1, "EUR", 5)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT 1 AS x FROM o FOR SYSTEM_TIME AS OF PROCTIME()", "E_UNSUPPORTED"),
        ("SELECT 1 AS x FROM o JOIN now_rate FOR SYSTEM_TIME AS OF o.at AS r ON o.cur = r.cur", "E_UNSUPPORTED"),
        ("SELECT 1 AS x FROM o JOIN rate FOR SYSTEM_TIME AS OF o.id AS r ON o.cur = r.cur", "E_TYPE"),
        ("SELECT 1 AS x FROM o JOIN rate FOR SYSTEM_TIME AS OF o.at AS r ON o.id > r.rate", "E_JOIN"),
        ("SELECT 1 AS x FROM o RIGHT JOIN rate FOR SYSTEM_TIME AS OF o.at AS r ON o.cur = r.cur", "E_UNSUPPORTED"),
        ("SELECT 1 AS x FROM o JOIN now_rate FOR SYSTEM_TIME AS OF PROCTIME() AS r ON o.id < r.rate", "E_UNSUPPORTED"),
        (
            "SELECT 1 AS x FROM (SELECT cur FROM o GROUP BY cur) q JOIN now_rate FOR SYSTEM_TIME AS OF PROCTIME() AS r "
            "ON q.cur = r.cur",
            "E_UNSUPPORTED",
        ),
    ],
)
def test_what_is_refused(text: str, code: str) -> None:
    db = ev.connect()
    db.sql(TABLES)
    with pytest.raises(ev.PlanError) as error:
        db.sql(f"CREATE VIEW v AS {text}")
    assert error.value.code == code


@pytest.mark.parametrize(
    "column", ["p AS PROCTIME()", "p timestamp DEFAULT now()", "p timestamptz DEFAULT current_timestamp"]
)
@pytest.mark.parametrize("shards", [False, True], ids=["embedded", "shards"])
def test_a_column_of_arrival_is_processing_time(column: str, shards: bool) -> None:
    db = local_shards(shards=2) if shards else ev.connect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        db.sql(f"CREATE TABLE rate (cur text, rate int); CREATE TABLE sale (id int, cur text, {column})")
    priced = db.sql(
        "CREATE VIEW priced AS SELECT s.id, r.rate FROM sale AS s "
        "LEFT JOIN rate FOR SYSTEM_TIME AS OF s.p AS r ON r.cur = s.cur"
    )
    db.sql("INSERT INTO sale (id, cur) VALUES (0, 'EUR'); INSERT INTO rate VALUES ('EUR', 10)")
    db.sql("INSERT INTO sale (id, cur) VALUES (1, 'EUR'); UPDATE rate SET rate = 12")
    db.sql("INSERT INTO sale (id, cur) VALUES (2, 'EUR'), (3, 'USD')")
    assert sorted(priced.rows(), key=str) == [(0, None), (1, 10), (2, 12), (3, None)]
    db.sql("DELETE FROM sale WHERE id = 1; DELETE FROM rate")
    assert sorted(priced.rows(), key=str) == [(0, None), (2, 12), (3, None)]


def test_other_columns_need_versions() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE rate (cur text, rate int); CREATE TABLE sale (id int, cur text, at timestamp)")
    with pytest.raises(ev.EverviewError, match="needs a table of versions"):
        db.sql("SELECT * FROM sale s JOIN rate FOR SYSTEM_TIME AS OF s.at AS r ON r.cur = s.cur")


@pytest.mark.parametrize("shards", [0, 2])
def test_other_conditions_choose_among_what_was_looked_up(shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    db.sql("CREATE TABLE sale (k int, price int); CREATE TABLE floor (k int PRIMARY KEY, least int)")
    on = "f.k = s.k AND s.price > f.least"
    db.sql(f"""CREATE VIEW good AS
        SELECT s.k, price, least FROM sale AS s JOIN floor FOR SYSTEM_TIME AS OF PROCTIME() AS f ON {on}""")
    db.sql("INSERT INTO floor VALUES (1, 5), (2, 9); INSERT INTO sale VALUES (1, 6), (1, 4), (2, 9), (2, 10), (3, 1)")
    assert sorted(db["good"].rows()) == [(1, 6, 5), (2, 10, 9)]
    db.sql("UPDATE floor SET least = 0; INSERT INTO sale VALUES (1, 1)")
    assert sorted(db["good"].rows()) == [(1, 1, 0), (1, 6, 5), (2, 10, 9)]
    db.sql("DELETE FROM sale WHERE price = 6")
    assert sorted(db["good"].rows()) == [(1, 1, 0), (2, 10, 9)]
    with pytest.raises(ev.PlanError, match="by equalities"):
        db.sql(
            f"CREATE VIEW bad AS SELECT s.k FROM sale s LEFT JOIN floor FOR SYSTEM_TIME AS OF PROCTIME() AS f ON {on}"
        )
