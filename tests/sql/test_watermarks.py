"""Watermarks and EMIT ON WINDOW CLOSE against plain Python: late rows dropped and counted, windows told once."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.session.local_shards import local_shards

START = dt.datetime(2026, 1, 1)
TABLE = "CREATE TABLE t (k int, at timestamp, v int, WATERMARK FOR at AS at - INTERVAL '5 seconds')"
VIEWS = {
    "tumble": """SELECT window_start, window_end, k, sum(v) AS s FROM TUMBLE(t, at, INTERVAL '10 seconds')
                 GROUP BY window_start, window_end, k""",
    "hop": """SELECT window_start, window_end, k, sum(v) AS s
              FROM HOP(t, at, INTERVAL '4 seconds', INTERVAL '10 seconds') GROUP BY window_start, window_end, k""",
    "cumulate": """SELECT window_start, window_end, k, sum(v) AS s
                   FROM CUMULATE(t, at, INTERVAL '5 seconds', INTERVAL '20 seconds')
                   GROUP BY window_start, window_end, k""",
    "session": """SELECT window_start, window_end, k, sum(v) AS s FROM SESSION(t, at, INTERVAL '3 seconds', k)
                  GROUP BY window_start, window_end, k""",
}
Row = tuple[int, float | None, int]


def _windows(name: str, rows: list[Row]) -> list[tuple[float, float, Row]]:
    """Each row with each window it is in, in seconds."""
    known = [r for r in rows if r[1] is not None]
    if name == "session":
        return _sessions(known)
    found = []
    for row in known:
        at = row[1]
        assert at is not None
        if name == "tumble":
            pairs = [(at // 10 * 10, at // 10 * 10 + 10)]
        elif name == "hop":
            pairs = [(s, s + 10) for s in (at // 4 * 4 - 4 * i for i in range(3)) if s + 10 > at]
        else:
            pairs = [(at // 20 * 20, e) for e in (at // 20 * 20 + 5 * i for i in range(1, 5)) if e > at]
        found += [(a, b, row) for a, b in pairs]
    return found


def _sessions(rows: list[Row]) -> list[tuple[float, float, Row]]:
    found = []
    for key in {r[0] for r in rows}:
        mine = sorted((r for r in rows if r[0] == key), key=lambda r: r[1] or 0)
        groups: list[list[Row]] = []
        for row in mine:
            if groups and (row[1] or 0) - (groups[-1][-1][1] or 0) <= 3:
                groups[-1].append(row)
            else:
                groups.append([row])
        for group in groups:
            found += [((group[0][1] or 0), (group[-1][1] or 0) + 3, row) for row in group]
    return found


class Model:
    """What is there, in Python."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.mark: float | None = None
        self.late = 0

    def take(self, gone: list[Row], new: list[Row]) -> None:
        for row in gone:
            self.rows.remove(row)
        mark = -1e9 if self.mark is None else self.mark
        self.late += sum(r[1] is not None and r[1] < mark for r in new)
        self.rows += [r for r in new if r[1] is None or r[1] >= mark]
        marks = [r[1] - 5 for r in new if r[1] is not None]
        self.mark = max([*marks, *([] if self.mark is None else [self.mark])], default=None)

    def wanted(self, name: str) -> Counter[tuple[Any, ...]]:
        sums: dict[tuple[float, float, int], int] = {}
        for start, end, (k, _, v) in _windows(name, self.rows):
            if self.mark is not None and (end < self.mark if name == "session" else end <= self.mark):
                sums[start, end, k] = sums.get((start, end, k), 0) + v
        return Counter((_moment(a), _moment(b), k, s) for (a, b, k), s in sums.items())


def _moment(seconds: float | None) -> dt.datetime | None:
    return None if seconds is None else START + dt.timedelta(seconds=seconds)


def _check(db: ev.Session, model: Model) -> None:
    assert db.sql("SHOW WATERMARKS").rows() == [("t", _moment(model.mark), model.late)]
    assert Counter(db["t"].rows()) == Counter((k, _moment(at), v) for k, at, v in model.rows)
    for name in VIEWS:
        assert Counter(db[name].rows()) == model.wanted(name), name


def _install(db: ev.Session, names: Any = VIEWS) -> None:
    for name in names:
        db.sql(f"CREATE VIEW {name} AS {VIEWS[name]} EMIT ON WINDOW CLOSE")


def _change(db: ev.Session, gone: list[Row], new: list[Row]) -> None:
    table = db["t"]
    assert isinstance(table, ev.Table)
    with db.transaction():
        table.delete([(k, _moment(at), v) for k, at, v in gone])
        table.insert([(k, _moment(at), v) for k, at, v in new])


def _batch(chance: random.Random, clock: float) -> list[Row]:
    return [
        (
            chance.randrange(2),
            None if chance.random() < 0.1 else clock + chance.randrange(-30, 8) / 2,
            chance.randrange(9),
        )
        for _ in range(chance.randrange(1, 5))
    ]


@pytest.mark.parametrize("shards", [0, 2])
def test_late_rows_go_and_windows_close(shards: int) -> None:
    db = local_shards(shards=shards) if shards else ev.connect()
    db.sql(TABLE)
    _install(db, ["tumble", "session"])
    chance, model = random.Random(4), Model()
    for step in range(14):
        if step == 6:
            _install(db, ["hop", "cumulate"])  # over what is there already
        new = _batch(chance, 20 + 3.0 * step)
        mark = -1e9 if model.mark is None else model.mark
        told = [r for r in model.rows if r[1] is not None and r[1] < mark - 10 and r not in new]
        if told:  # what was told of a window is told for good
            with pytest.raises(ev.InputError, match="E_APPEND"):
                _change(db, told[:1], new)
        free = [r for r in model.rows if r[1] is None or r[1] >= mark]
        gone = chance.sample(free, 1) if step % 2 and free else []
        _change(db, gone, new)
        model.take(gone, new)
        if step >= 6:
            _check(db, model)
    assert model.late > 3
    assert all(model.wanted(name) for name in VIEWS)


def test_watermarks_survive(tmp_path: Path) -> None:
    chance, model = random.Random(8), Model()
    with ev.connect(tmp_path / "db") as db:
        db.sql(TABLE)
        _install(db)
    for round_ in range(4):
        with ev.connect(tmp_path / "db") as db:
            for step in range(3):
                new = _batch(chance, 20 + 9.0 * round_ + 3 * step)
                _change(db, [], new)
                model.take([], new)
                _check(db, model)
    assert model.late


def test_a_view_on_closed_windows_only_grows() -> None:
    db = ev.connect()
    db.sql(TABLE)
    _install(db)
    changes: list[int] = []
    for name in VIEWS:
        db[name].subscribe(lambda batch: changes.extend(diff for _, diff in batch.rows()), snapshot=False)
    chance = random.Random(6)
    for step in range(12):
        _change(db, [], _batch(chance, 3.0 * step))
    assert changes
    assert set(changes) == {1}


@pytest.mark.parametrize("shards", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_the_watermark_has_passed(shards: int, seed: int) -> None:
    """Without a window each row is its own: told once no other row can come before it, and never taken back."""
    db = local_shards(shards=shards) if shards else ev.connect()
    db.sql(TABLE)
    ranked = "SELECT k, at, v, row_number() OVER w AS n, lag(v) OVER w AS l, sum(v) OVER w AS s FROM t"
    for name, query in (
        ("plain", "SELECT k, at, v + 1 AS v FROM t WHERE v > 2"),
        ("each", "SELECT k, unnest(ARRAY[v, 2 * v]) AS v FROM (SELECT * FROM t WHERE k = 1) AS t"),
        ("ranked", f"{ranked} WINDOW w AS (PARTITION BY k ORDER BY at, v)"),
    ):
        db.sql(f"CREATE VIEW {name} AS {query} EMIT ON WINDOW CLOSE")
    gone: list[tuple[Any, int]] = []
    for name in ("plain", "each", "ranked"):
        db[name].subscribe(lambda batch: gone.extend(c for c in batch.rows() if c[1] < 0), snapshot=False)
    model, chance = Model(), random.Random(seed)
    for step in range(12):
        new = _batch(chance, 3.0 * step)
        model.take([], new)
        _change(db, [], new)
        told = [r for r in model.rows if r[1] is not None and model.mark is not None and r[1] < model.mark]
        assert Counter(db["plain"].rows()) == Counter((k, _moment(at), v + 1) for k, at, v in told if v > 2)
        assert Counter(db["each"].rows()) == Counter((k, n * v) for k, _, v in told if k == 1 for n in (1, 2))
        wanted = []
        for key in (0, 1):
            values = [(at, v) for k, at, v in sorted(told, key=lambda r: (r[1] or 0, r[2])) if k == key]
            for i, (at, v) in enumerate(values):
                so_far = sum(w for other, w in values if (other, w) <= (at, v))
                wanted.append((key, _moment(at), v, i + 1, values[i - 1][1] if i else None, so_far))
        assert Counter(db["ranked"].rows()) == Counter(wanted)
    assert model.late
    assert not gone
    passed = next(r for r in model.rows if r[1] is not None and model.mark is not None and r[1] < model.mark)
    with pytest.raises(ev.InputError, match="E_APPEND"):
        _change(db, [passed], [])


def test_rows_of_closed_windows_stay_until_the_view_goes() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (id int PRIMARY KEY, at timestamp, v int, WATERMARK FOR at AS at)")
    view = "SELECT window_start, sum(v) AS s FROM TUMBLE(t, at, INTERVAL '10 seconds') GROUP BY window_start"
    db.sql(f"CREATE VIEW w AS {view} EMIT ON WINDOW CLOSE")
    db.sql("INSERT INTO t VALUES (1, '2026-01-01 00:00:01', 1), (2, '2026-01-01 00:00:12', 2)")
    assert db["w"].rows() == [(START, 1)]
    before = db["t"].rows()
    for text in (
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET at = '2026-01-01 00:00:30' WHERE id = 1",
        "TRUNCATE t",
        "BEGIN; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, '2026-01-01 00:00:40', 1); COMMIT",
    ):
        with pytest.raises(ev.InputError, match="E_APPEND"):
            db.sql(text)
        assert db["t"].rows() == before and db["w"].rows() == [(START, 1)]
    db.sql("UPDATE t SET v = 5 WHERE id = 1")  # a late row, which replaces nothing
    assert db["t"].rows() == before and db.sql("SHOW WATERMARKS").rows()[0][2] == 1
    db.sql("UPDATE t SET v = v WHERE id = 1; UPDATE t SET v = 7 WHERE id = 2")  # nothing changes; a window that is open
    db.sql("INSERT INTO t VALUES (3, '2026-01-01 00:00:20', 3)")
    assert sorted(db["w"].rows()) == [(START, 1), (_moment(10), 7)]
    db.sql("DROP VIEW w; DELETE FROM t WHERE id = 1")
    assert len(db["t"].rows()) == 2


def test_a_failed_transaction_leaves_the_watermark() -> None:
    db = ev.connect()
    db.sql(TABLE)
    _install(db, ["tumble"])
    _change(db, [], [(1, 1.0, 1)])
    with pytest.raises(ev.InputError):
        _change(db, [(7, 7.0, 7)], [(1, 100.0, 1), (1, 2.0, 1)])  # there is no such row
    assert db.sql("SHOW WATERMARKS").rows() == [("t", _moment(-4.0), 0)]
    _change(db, [], [(1, 3.0, 2)])
    assert db["tumble"].rows() == []
    _change(db, [], [(1, 30.0, 2)])
    assert db["tumble"].rows() == [(START, _moment(10), 1, 3)]


def test_a_late_row_does_not_replace_one_with_its_key() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (id int PRIMARY KEY, at timestamp, v int, WATERMARK FOR at AS at)")
    db.sql("INSERT INTO t VALUES (1, '2026-01-01 00:00:10', 1), (2, '2026-01-01 00:00:20', 1)")
    table = db["t"]
    assert isinstance(table, ev.Table)
    table.upsert([(1, _moment(15), 2), (2, _moment(25), 2)])
    assert sorted(table.rows()) == [(1, _moment(10), 1), (2, _moment(25), 2)]
    assert db.sql("SHOW WATERMARKS").rows() == [("t", _moment(25), 1)]
    db.sql("UPDATE t SET v = 9 WHERE id = 2")  # at the watermark, not before it
    assert (2, _moment(25), 9) in table.rows()


def test_what_is_refused() -> None:
    db = ev.connect()
    db.sql(TABLE)
    db.sql("CREATE TABLE plain (at timestamp); CREATE TABLE other (at timestamp)")
    for text, code in (
        ("CREATE VIEW v AS SELECT 1 AS x FROM other EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT DISTINCT k FROM t EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT k, v FROM t ORDER BY v LIMIT 2 EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT k FROM t WHERE v IN (SELECT max(v) FROM t) EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT k, lead(v) OVER (ORDER BY at) AS n FROM t EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT k, lag(v) OVER (ORDER BY v) AS n FROM t EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT k, lag(v) OVER (ORDER BY at DESC) AS n FROM t EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT k, sum(v) OVER () AS n FROM t EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT a.k FROM t AS a, other AS b EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE VIEW v AS SELECT * FROM TUMBLE(plain, at, INTERVAL '1 s') EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE TABLE u (at timestamp) EMIT ON WINDOW CLOSE", "E_UNSUPPORTED"),
        ("CREATE TABLE u (at timestamp, WATERMARK FOR other AS at)", "E_COLUMN"),
        ("CREATE TABLE u (at int, WATERMARK FOR at AS at)", "E_TYPE"),
        ("CREATE TABLE u (at timestamp, WATERMARK FOR at)", "E_SYNTAX"),
        ("CREATE TABLE u (at timestamp, WATERMARK FOR at AS at, WATERMARK FOR at AS at)", "E_SYNTAX"),
        ("SELECT k FROM TUMBLE(t, at, INTERVAL '1 s') EMIT ON WINDOW CLOSE", "E_SYNTAX"),
    ):
        with pytest.raises(ev.PlanError) as error:
            db.sql(text)
        assert error.value.code == code, text
    assert "u" not in db


def test_the_place_of_a_watermark_among_columns_does_not_matter() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE a (WATERMARK FOR at AS at - INTERVAL '1 s', at timestamptz NOT NULL, x int)")
    db.sql("INSERT INTO a VALUES ('2026-01-01 00:00:10+00', 1); INSERT INTO a VALUES ('2026-01-01 00:00:01+00', 2)")
    assert [x for _, x in db["a"].rows()] == [1]


def test_a_script_that_is_run_again_declares_the_same(tmp_path: Path) -> None:
    late = "CREATE TABLE late (at timestamp) TTL at + INTERVAL '1 day'"
    for round_ in range(3):
        with ev.connect(tmp_path / "db") as db:
            db.sql(TABLE)
            db.sql(late)
            _install(db)
            _change(db, [], [(1, 10.0 * round_, 1)])
            assert db.sql("SHOW WATERMARKS").rows() == [("t", _moment(10.0 * round_ - 5), 0)]
    for text in (
        TABLE.replace("5 seconds", "6 seconds"),
        "CREATE TABLE t (k int, at timestamp, v int)",
        "CREATE TABLE late (at timestamp)",
        late.replace("1 day", "2 days"),
        "CREATE TABLE late (at timestamp, WATERMARK FOR at AS at) TTL at + INTERVAL '1 day'",
    ):
        with ev.connect(tmp_path / "db") as db, pytest.raises(ev.InputError, match="E_SCHEMA"):
            db.sql(text)
