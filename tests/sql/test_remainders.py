"""`%` of doubles is C's fmod, to the last digit, in queries and in views that change; in Python it is Python's."""

from __future__ import annotations

import math
import random
import struct

import everview as ev

EDGES = [0.1, 0.3, 1.0, 3.0, 1e-20, 5e-324, 2.5e-310, 1e17, 1e300, 1.7976931348623157e308, math.inf]


def doubles(rng: random.Random, count: int) -> list[tuple[float, float]]:
    """Pairs of all sizes: near each other, far apart, whole, tiny, infinite."""

    def one() -> float:
        match rng.randrange(4):
            case 0:
                return rng.choice((1, -1)) * rng.choice(EDGES)
            case 1:
                return float(rng.randrange(-1000, 1000))
            case 2:
                return rng.uniform(-10, 10)
            case _:
                found = float(struct.unpack("<d", rng.randbytes(8))[0])
                return found if math.isfinite(found) else 1.5

    pairs = ((one(), one()) for _ in range(count))
    return list({(a, b) for a, b in pairs if b and math.isfinite(a)})


def test_remainders_are_those_of_c() -> None:
    db = ev.connect()
    t = db.table("t", {"a": float, "b": float})
    by_sign = db.sql("CREATE VIEW by_sign AS SELECT a, b, a % b AS r FROM t")
    by_name = db.sql("CREATE VIEW by_name AS SELECT a, b, mod(a, b) AS r FROM t")
    python = db.view("python", t.select("a", "b", r=t.a % t.b))
    rows = doubles(random.Random(12), 3000)
    t.insert(rows)
    t.delete(rows[::3])
    left = [row for i, row in enumerate(rows) if i % 3]
    wrong = [(a, b, r) for v in (by_sign, by_name) for a, b, r in v.rows() if r != math.fmod(a, b)]
    assert wrong == []
    assert sorted((a, b) for a, b, _ in by_sign.rows()) == sorted(left)
    assert [(a, b, r) for a, b, r in python.rows() if r != a % b] == []


def test_remainders_of_what_has_none() -> None:
    db = ev.connect()
    db.sql("CREATE TABLE t (a double, b double)")
    db.sql("INSERT INTO t VALUES (5, NULL), (NULL, 2), ('NaN', 2), (5, 'NaN'), ('Infinity', 2), ('-Infinity', 2)")
    found = db.sql("SELECT a % b FROM t").rows()
    assert sum(r is None for (r,) in found) == 2 and sum(r is not None and math.isnan(r) for (r,) in found) == 4


def test_remainders_of_whole_numbers_and_decimals_stay_as_they_were() -> None:
    db = ev.connect()
    asked = "SELECT -7 % 2 AS a, 7 % -2 AS b, (-7.5 % 2.0)::text AS c, mod(-7, 2) AS d"
    assert db.sql(asked).rows() == [(-1, 1, "-1.5", -1)]
