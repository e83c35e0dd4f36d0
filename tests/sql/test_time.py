"""Rows that come and go with the clock: times to live, windows, now(); and reading the past. Against plain Python."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from typing import Any

import pytest

import everview as ev
from tests.inside import inside

START = dt.datetime(2026, 1, 31, 12, 0)
Row = tuple[Any, ...]


def after(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.advance(START)
    return session


def moments(rng: random.Random, steps: int) -> Iterator[float]:
    """Seconds after the start, sometimes many at once, sometimes none."""
    now = 0.0
    for _ in range(steps):
        now += rng.choice([0, 1, 1, 7, 30, 200])
        yield now


def table(db: ev.Session, name: str) -> ev.Table:
    found = db[name]
    assert isinstance(found, ev.Table)
    return found


def test_time_to_live_by_arrival(db: ev.Session) -> None:
    """Equal rows leave one by one; a delete takes the oldest; views see the rows leave."""
    db.sql("CREATE TABLE seen (who text NOT NULL) TTL INTERVAL '60 seconds'")
    view = db.sql("CREATE VIEW n AS SELECT who, count(*) AS n FROM seen GROUP BY who")
    rng, model = random.Random(1), deque[tuple[float, str]]()
    for now in moments(rng, 60):
        db.advance(after(now))
        model = deque((t, w) for t, w in model if t + 60 > now)
        assert Counter(table(db, "seen").rows()) == Counter((w,) for _, w in model)
        new = [rng.choice("abc") for _ in range(rng.randint(0, 3))]
        gone = [rng.choice(model)[1]] if model and rng.random() < 0.4 else []
        with db.transaction():
            table(db, "seen").insert([(w,) for w in new])
            table(db, "seen").delete([(w,) for w in gone])
        for w in gone:
            model.remove(min((t, v) for t, v in model if v == w))
        model += [(now, w) for w in new]
        counts = Counter(w for _, w in model)
        assert sorted(view.rows()) == sorted(counts.items())


def test_time_to_live_by_the_rows_own_time(db: ev.Session) -> None:
    """Rows that come too late never are there, NULL lives for ever, a due row may be replaced."""
    db.sql("CREATE TABLE ticket (id int PRIMARY KEY, ends timestamp) TTL ends + INTERVAL '10' SECOND")
    view = db.sql("CREATE VIEW ids AS SELECT id FROM ticket")
    rng, model, ids = random.Random(2), dict[int, float | None](), 0
    for now in moments(rng, 60):
        db.advance(after(now))
        model = {i: e for i, e in model.items() if e is None or e + 10 > now}
        assert sorted(view.rows()) == sorted((i,) for i in model)
        new = {}
        for _ in range(rng.randint(0, 3)):
            ids += 1
            new[ids] = rng.choice([None, now - 20, now, now + 5, now + 40])
        again = rng.sample(sorted(model), min(len(model), 1))
        new.update(dict.fromkeys(again, now + 3))
        table(db, "ticket").upsert([(i, None if e is None else after(e)) for i, e in new.items()])
        model.update({i: e for i, e in new.items() if e is None or e + 10 > now})
        assert sorted(view.rows()) == sorted((i,) for i in model)


CONDITIONS = {
    "ts > now() - interval '30 seconds'": lambda ts, now: ts > now - dt.timedelta(seconds=30),
    "ts >= now() - interval '30 seconds'": lambda ts, now: ts >= now - dt.timedelta(seconds=30),
    "ts <= now()": lambda ts, now: ts <= now,
    "now() > ts": lambda ts, now: now > ts,
    "ts BETWEEN now() - interval '1 minute' AND now() + interval '1 minute'": lambda ts, now: (
        abs(ts - now) <= dt.timedelta(minutes=1)
    ),
    "ts < current_timestamp AND ts > current_timestamp - interval '90 seconds'": lambda ts, now: (
        now - dt.timedelta(seconds=90) < ts < now
    ),
    "d >= current_date": lambda ts, now: ts.date() >= now.date(),
    "d > current_date - 1": lambda ts, now: ts.date() > now.date() - dt.timedelta(days=1),
    "d < current_date": lambda ts, now: ts.date() < now.date(),
    "d <= current_date - interval '1 day'": lambda ts, now: ts.date() <= now.date() - dt.timedelta(days=1),
    "ts > current_date": lambda ts, now: ts > dt.datetime.combine(now.date(), dt.time()),
    "NOT ts > now()": lambda ts, now: ts <= now,
    "NOT (now() <= ts)": lambda ts, now: ts < now,
    "now() - ts < interval '30 seconds'": lambda ts, now: now - ts < dt.timedelta(seconds=30),
    "interval '1 minute' >= ts - now()": lambda ts, now: ts - now <= dt.timedelta(minutes=1),
    "d = current_date": lambda ts, now: ts.date() == now.date(),
    "date_trunc('day', ts) = current_date - 1": lambda ts, now: ts.date() == now.date() - dt.timedelta(days=1),
    "ts <= now()::date": lambda ts, now: ts <= dt.datetime.combine(now.date(), dt.time()),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_on_now(db: ev.Session, condition: str) -> None:
    """A view by now() has the rows that a query at that moment finds, without being touched in between."""
    db.sql("CREATE TABLE log (k int NOT NULL, ts timestamp, d date)")
    holds, scale = CONDITIONS[condition], 3000 if "date" in condition else 1
    rng, rows = random.Random(3), list[Row]()
    first = [(0, after(s * scale), after(s * scale).date()) for s in (-50, 0, 10, 90)]
    table(db, "log").insert(first)
    rows += first
    view = db.sql(f"CREATE VIEW recent AS SELECT k, ts FROM log WHERE {condition} AND k < 3")
    for now in moments(rng, 40):
        moment = after(now * scale)
        db.advance(moment)
        expected = [(k, ts) for k, ts, _ in rows if ts is not None and holds(ts, moment) and k < 3]
        assert Counter(view.rows()) == Counter(expected)
        assert Counter(db.sql(f"SELECT k, ts FROM log WHERE {condition} AND k < 3").rows()) == Counter(expected)
        new = [(rng.randrange(4), after((now + rng.randint(-100, 100)) * scale)) for _ in range(3)]
        new_rows: list[Row] = [(k, ts, ts.date()) for k, ts in new] + [(0, None, None)]
        gone = rng.sample(rows, len(rows) // 4)
        with db.transaction():
            table(db, "log").insert(new_rows)
            table(db, "log").delete(gone)
        for row in gone:
            rows.remove(row)
        rows += new_rows


def test_time_windows(db: ev.Session) -> None:
    db.sql("CREATE TABLE reading (sensor int NOT NULL, value int NOT NULL)")
    view = db.sql(
        "CREATE VIEW total AS SELECT r.sensor, sum(r.value) AS s FROM reading [size 30 time] AS r GROUP BY r.sensor"
    )
    rng, model = random.Random(4), list[tuple[float, Row]]()
    for now in moments(rng, 50):
        db.advance(after(now))
        model = [(t, r) for t, r in model if t + 30 > now]
        new = [(rng.randrange(3), rng.randrange(5)) for _ in range(rng.randint(0, 4))]
        table(db, "reading").insert(new)
        model += [(now, r) for r in new]
        sums: dict[int, int] = defaultdict(int)
        for _, (sensor, value) in model:
            sums[sensor] += value
        assert sorted(view.rows()) == sorted(sums.items())
    assert len(table(db, "reading").rows()) > len(model)  # the table itself keeps everything


@pytest.mark.parametrize(
    ("size", "partition"), [(1, ""), (3, ""), (1, "partition by sensor"), (2, "partition by sensor")]
)
def test_tuple_windows(db: ev.Session, size: int, partition: str) -> None:
    db.sql("CREATE TABLE reading (sensor int NOT NULL, value int NOT NULL)")
    view = db.sql(f"CREATE VIEW last AS SELECT * FROM reading [size {size} tuple {partition}]")
    rng = random.Random(5)
    model: dict[int, deque[Row]] = defaultdict(lambda: deque(maxlen=size))
    for _ in range(40):
        new = [(rng.randrange(3), rng.randrange(4)) for _ in range(rng.randint(0, 3))]
        table(db, "reading").insert(new)
        for row in new:
            model[row[0] if partition else 0].append(row)
        present = [r for part in model.values() for r in part]
        if present and rng.random() < 0.3:  # a row that is taken back leaves the window, the oldest of its like
            gone = rng.choice(present)
            table(db, "reading").delete([gone])
            model[gone[0] if partition else 0].remove(gone)
        assert Counter(view.rows()) == Counter(r for part in model.values() for r in part)


def test_windows_of_one_table_are_joined(db: ev.Session) -> None:
    """After SegTollS of Linear Road (Liu 2016, table 2): windows of several kinds on one stream."""
    db.sql("CREATE TABLE car (id int NOT NULL, seg int NOT NULL, pos int NOT NULL)")
    view = db.sql(
        """
        CREATE VIEW toll AS
        SELECT r3.seg, count(DISTINCT r5.pos) AS n
        FROM car [size 300 time] AS r1, car [size 1 tuple partition by id] AS r3,
             car [size 4 tuple partition by id] AS r5
        WHERE r3.id = r5.id AND r1.seg = r3.seg
        GROUP BY r3.seg
        """
    )
    rng = random.Random(6)
    recent, last = list[tuple[float, Row]](), dict[int, deque[Row]]()
    for now in moments(rng, 40):
        db.advance(after(now))
        new = [(rng.randrange(4), rng.randrange(3), rng.randrange(50)) for _ in range(2)]
        table(db, "car").insert(new)
        recent = [(t, r) for t, r in recent if t + 300 > now] + [(now, r) for r in new]
        for row in new:
            last.setdefault(row[0], deque(maxlen=4)).append(row)
        active = {r[1] for _, r in recent}
        positions: dict[int, set[int]] = defaultdict(set)
        for part in last.values():
            if part[-1][1] in active:
                positions[part[-1][1]] |= {r[2] for r in part}
        assert sorted(view.rows()) == sorted((s, len(p)) for s, p in positions.items())


def test_one_transaction_for_what_is_due_and_none_for_nothing(db: ev.Session) -> None:
    db.sql("CREATE TABLE seen (who text NOT NULL) TTL INTERVAL '1 minute'")
    view = db.sql("CREATE VIEW w AS SELECT who FROM seen")
    db.sql("INSERT INTO seen VALUES ('a'), ('b')")
    db.advance(after(59))
    assert db.time == 1
    db.advance(after(60))
    assert (db.time, sorted(view.changes(since=1))) == (2, [(("a",), 2, -1), (("b",), 2, -1)])
    with pytest.raises(ev.InputError, match="E_CLOCK"):
        db.advance(START)


def test_memory_holds_what_is_there_and_not_what_will_leave(db: ev.Session) -> None:
    """A queue has one entry per moment, and nothing is left of rows that are gone."""
    db.sql("CREATE TABLE seen (x int NOT NULL) TTL INTERVAL '1 minute'")
    view = db.sql("CREATE VIEW w AS SELECT x FROM seen")
    for i in range(50):
        db.advance(after(i))
        table(db, "seen").insert([(j,) for j in range(i * 100, i * 100 + 100)])
    (follower,) = inside(db).clock.followers
    assert len(follower.queue) == 50
    db.advance(after(1000))
    assert (len(follower.queue), view.rows()) == (0, [])


def test_followers_go_with_their_views(db: ev.Session) -> None:
    db.sql("CREATE TABLE log (ts timestamp)")
    for name in ("v", "w"):
        db.sql(f"CREATE VIEW {name} AS SELECT ts FROM log WHERE ts > now()")
    assert len(inside(db).clock.followers) == 1  # shared
    with pytest.raises(ev.PlanError, match="E_IN_USE"):
        db.sql("DROP TABLE log")
    db.sql("DROP VIEW v")
    assert len(inside(db).clock.followers) == 1
    db.sql("DROP VIEW w")
    assert (inside(db).clock.followers, db.tables) == ([], ("log",))
    with pytest.raises(ev.PlanError, match="E_COLUMN"):
        db.sql("CREATE VIEW v AS SELECT nope FROM log WHERE ts > now()")
    assert inside(db).clock.followers == []
    db.sql("DROP TABLE log")


def test_a_transaction_that_fails_leaves_the_clock_where_it_was(db: ev.Session) -> None:
    db.sql("CREATE TABLE seen (x int NOT NULL) TTL INTERVAL '1 minute'; INSERT INTO seen VALUES (1)")
    walk = "WITH RECURSIVE w(n) AS (SELECT x FROM seen UNION ALL SELECT n FROM w WHERE n = 13) SELECT n FROM w"
    db.sql(f"CREATE VIEW endless AS {walk.replace('RECURSIVE', 'RECURSIVE (ERROR AT RECURSION LIMIT 9)')}")
    with pytest.raises(ev.LoopError):
        db.sql("INSERT INTO seen VALUES (13)")
    db.advance(after(60))
    assert table(db, "seen").rows() == []


def test_inside_a_batch_every_transaction_sees_the_clock(db: ev.Session) -> None:
    db.sql("CREATE TABLE seen (x int NOT NULL) TTL INTERVAL '1 minute'")
    with db.batch():
        db.sql("INSERT INTO seen VALUES (1)")
        db.advance(after(30))
        db.sql("INSERT INTO seen VALUES (2)")
        db.advance(after(60))
    assert (table(db, "seen").rows(), db.time) == ([(2,)], 3)


def test_the_computers_clock() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE log (ts timestamp)")
    view = db.sql("CREATE VIEW past AS SELECT ts FROM log WHERE ts <= now()")
    soon = db.now + dt.timedelta(milliseconds=30)
    table(db, "log").insert([(soon,), (db.now - dt.timedelta(days=1),)])
    assert len(view.rows()) == 1
    while db.now <= soon:
        pass
    db.advance()
    assert len(view.rows()) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE VIEW v AS SELECT now() AS n FROM log", "views cannot depend on the clock"),
        ("CREATE VIEW v AS SELECT max(ts) AS m FROM log HAVING max(ts) > now()", "views cannot depend on the clock"),
        ("CREATE VIEW v AS SELECT 1 FROM log WHERE ts = now()", "an equality with now() holds for a moment only"),
        (
            "CREATE VIEW v AS SELECT 1 FROM log WHERE ts = now() OR x = 1",
            "an equality with now() holds for a moment only",
        ),
        ("CREATE VIEW v AS SELECT 1 FROM log a LEFT JOIN log b ON b.ts > now()", "for an outer join"),
        (
            "CREATE VIEW v AS SELECT 1 FROM log WHERE ts > now() - interval '1 day' - interval '1 month'",
            "months are added to now() first",
        ),
        (
            "CREATE VIEW v AS SELECT 1 FROM (SELECT max(ts) AS m FROM log) q WHERE m > now()",
            "not a column of a base table",
        ),
        ("CREATE VIEW v AS SELECT 1 FROM log WHERE x > now()", "compared with a date or timestamp"),
        ("SELECT * FROM log [size 3 tuple]", "begins when a view asks for it"),
        ("CREATE VIEW v AS SELECT * FROM log [size 3 tuple partition by y]", "log has no column y"),
        ("CREATE VIEW v AS SELECT * FROM log [size three time]", "[size 300 time]"),
        ("CREATE TABLE t (x int) TTL x", "a time to live is an interval or a timestamp"),
    ],
)
def test_what_cannot_follow_the_clock_is_refused(db: ev.Session, text: str, says: str) -> None:
    db.sql("CREATE TABLE log (ts timestamp, x int)")
    with pytest.raises(ev.PlanError) as caught:
        db.sql(text)
    assert says in str(caught.value)
    assert (db.views, inside(db).clock.followers) == ((), [])


def test_as_of(db: ev.Session) -> None:
    db.sql("CREATE TABLE t (x int, s text)")
    db.sql("CREATE VIEW n AS SELECT s, count(*) AS n FROM t GROUP BY s")
    db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    db.sql("INSERT INTO t VALUES (3, 'a')")
    db.sql("DELETE FROM t WHERE s = 'a'")
    text = "SELECT t.x, n.n FROM t JOIN n ON n.s = t.s ORDER BY t.x"
    answers = [db.sql(f"{text} AS OF {time}").rows() for time in range(4)]
    assert answers == [[], [(1, 1), (2, 1)], [(1, 2), (2, 1), (3, 2)], [(2, 1)]]
    assert db.sql("SELECT * FROM t FOR SYSTEM_TIME AS OF 1 WHERE x > 1").rows() == [(2, "b")]
    assert db.views == ("n",)
    with pytest.raises(ev.InputError, match="E_FUTURE"):
        db.sql(f"{text} AS OF 4")
    with pytest.raises(ev.PlanError, match="only a SELECT"):
        db.sql("CREATE VIEW v AS SELECT x FROM t AS OF 1")
