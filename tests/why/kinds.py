"""Views of every kind, with rows: what people ask `why` about, beyond the random plans of the oracle.

A scenario fills a session and returns names of views; `SCENARIOS` has them all, by name. Clocks stand still.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import everview as ev
from everview import col
from everview.graph import Graph

NOON = dt.datetime(2026, 1, 31, 12, 0)

EDGES = [(1, 2, 3), (2, 3, 1), (3, 4, 1), (4, 2, 2), (1, 3, 9), (5, 6, 1), (6, 5, 4), (4, 7, 2), (7, 8, 1), (2, 2, 1)]

Filled = list[str]


def _views(db: Any, script: str) -> Filled:
    """Run statements; the names of the views among them."""
    before = set(_names(db))
    db.sql(script)
    return [name for name in _names(db) if name not in before]


def _names(db: Any) -> list[str]:
    return [row[0] for row in db.sql("SHOW VIEWS").rows()]


# ---- time


def asof_joins(db: Any) -> Filled:
    return _views(
        db,
        """
        CREATE TABLE trade (id int, sym text, at timestamp, n int);
        CREATE TABLE quote (sym text, at timestamp, price numeric(10, 2));
        CREATE VIEW nearest AS SELECT t.id, q.price FROM trade t ASOF JOIN quote q ON t.sym = q.sym AND t.at >= q.at;
        CREATE VIEW nearest_or_null AS
        SELECT t.id, t.sym, q.price FROM trade t ASOF LEFT JOIN quote q ON t.sym = q.sym AND t.at >= q.at;
        INSERT INTO quote VALUES ('a', '2026-01-31 10:00', 1.5), ('a', '2026-01-31 11:00', 1.75),
            ('b', '2026-01-31 11:30', 20);
        INSERT INTO trade VALUES (1, 'a', '2026-01-31 10:30', 3), (2, 'a', '2026-01-31 11:00', 1),
            (3, 'b', '2026-01-31 11:00', 5), (4, 'a', '2026-01-31 09:00', 2);
        """,
    )


def temporal_joins(db: Any) -> Filled:
    found = _views(
        db,
        """
        CREATE TABLE rate (currency text, at timestamp, rate int, WATERMARK FOR at AS at - INTERVAL '1 hour');
        CREATE TABLE sale (id int, currency text, at timestamp);
        CREATE TABLE price (currency text, price int);
        CREATE VIEW valued AS SELECT s.id, r.rate FROM sale s
            JOIN rate FOR SYSTEM_TIME AS OF s.at AS r ON r.currency = s.currency;
        CREATE VIEW valued_or_null AS SELECT s.id, r.rate FROM sale s
            LEFT JOIN rate FOR SYSTEM_TIME AS OF s.at AS r ON r.currency = s.currency;
        CREATE VIEW then_priced AS SELECT s.id, p.price FROM sale s
            JOIN price FOR SYSTEM_TIME AS OF PROCTIME() AS p ON p.currency = s.currency;
        """,
    )
    db.sql("INSERT INTO rate VALUES ('EUR', '2026-01-31 10:00', 10), ('EUR', '2026-01-31 10:30', 12)")
    db.sql("INSERT INTO price VALUES ('EUR', 100), ('NOK', 7)")
    db.sql("INSERT INTO sale VALUES (1, 'EUR', '2026-01-31 10:10'), (2, 'EUR', '2026-01-31 10:40')")
    db.sql("UPDATE price SET price = 101 WHERE currency = 'EUR'")
    db.sql("INSERT INTO sale VALUES (3, 'EUR', '2026-01-31 09:00'), (4, 'NOK', '2026-01-31 11:00')")
    return found


def windows_of_time(db: Any) -> Filled:
    return _views(
        db,
        """
        CREATE TABLE click (who text, at timestamp, n int);
        CREATE VIEW tumbling AS SELECT window_start, count(*) AS n, sum(n) AS total
            FROM TUMBLE(click, at, INTERVAL '10 minutes') GROUP BY window_start;
        CREATE VIEW hopping AS SELECT who, window_start, window_end, max(n) AS most
            FROM HOP(click, at, INTERVAL '5 minutes', INTERVAL '15 minutes') GROUP BY who, window_start, window_end;
        CREATE VIEW growing AS SELECT window_start, window_end, count(*) AS n
            FROM CUMULATE(click, at, INTERVAL '10 minutes', INTERVAL '1 hour') GROUP BY window_start, window_end;
        CREATE VIEW sessions AS SELECT who, window_start, count(*) AS n
            FROM SESSION(click, at, INTERVAL '30 minutes', who) GROUP BY who, window_start;
        CREATE VIEW each_session AS SELECT who, at, window_start, window_end
            FROM SESSION(click, at, INTERVAL '30 minutes', who);
        INSERT INTO click VALUES ('Ann', '2026-01-31 12:00', 1), ('Ann', '2026-01-31 12:25', 2),
            ('Ann', '2026-01-31 13:50', 4), ('Bob', '2026-01-31 12:01', 8), ('Bob', NULL, 16);
        """,
    )


def closed_windows(db: Any) -> Filled:
    found = _views(
        db,
        """
        CREATE TABLE measured (sensor int, at timestamp, v int, WATERMARK FOR at AS at - INTERVAL '5 seconds');
        CREATE VIEW minutes AS SELECT window_start, sensor, sum(v) AS total
            FROM TUMBLE(measured, at, INTERVAL '1 minute') GROUP BY window_start, sensor EMIT ON WINDOW CLOSE;
        """,
    )
    db.sql("INSERT INTO measured VALUES (1, '2026-01-31 12:00:10', 3), (1, '2026-01-31 12:01:04', 4)")
    db.sql("INSERT INTO measured VALUES (1, '2026-01-31 12:00:59', 1), (1, '2026-01-31 12:01:05', 4)")
    db.sql("INSERT INTO measured VALUES (2, '2026-01-31 12:02:06', 9)")
    return found


def lifetimes(db: Any) -> Filled:
    db.advance(NOON)
    found = _views(
        db,
        """
        CREATE TABLE login (who text, at timestamp) TTL INTERVAL '1 day';
        CREATE TABLE offer (item text, until timestamp) TTL until + INTERVAL '1 minute';
        CREATE VIEW recent AS SELECT who FROM login WHERE at > now() - INTERVAL '5 minutes';
        CREATE VIEW is_recent AS SELECT who, at > now() - INTERVAL '5 minutes' AS recent FROM login;
        CREATE VIEW last_of_each AS SELECT who, at FROM login [size 1 tuple partition by who];
        CREATE VIEW last_minutes AS SELECT who FROM login [size 10 minutes];
        CREATE VIEW open_offers AS SELECT item, count(*) AS n FROM offer GROUP BY item;
        CREATE VIEW ages AS SELECT who, current_date - at::date AS days FROM login;
        """,
    )
    db.sql("INSERT INTO login VALUES ('Ann', now()), ('Bob', now() - INTERVAL '2 minutes'), ('Ann', NULL)")
    db.sql("INSERT INTO offer VALUES ('fig', now() + INTERVAL '3 minutes'), ('pear', now() + INTERVAL '1 hour')")
    db.advance(NOON + dt.timedelta(minutes=4))
    db.sql("INSERT INTO login VALUES ('Cay', now() - INTERVAL '1 minute')")
    return found


def gaps(db: Any) -> Filled:
    return _views(
        db,
        """
        CREATE TABLE sold (at timestamp, amount int);
        CREATE VIEW hours AS
        SELECT hour, coalesce(sum(s.amount), 0) AS total
        FROM (SELECT min(time_bucket('1 hour', at)) AS low, max(time_bucket('1 hour', at)) AS high FROM sold) AS r,
             generate_series(r.low, r.high, INTERVAL '1 hour') AS hour
        LEFT JOIN sold s ON time_bucket('1 hour', s.at) = hour
        GROUP BY hour;
        CREATE VIEW carried AS
        SELECT hour, s.amount
        FROM (SELECT min(at) AS low, max(at) AS high FROM sold) AS r,
             generate_series(r.low, r.high, INTERVAL '1 hour') AS hour
        ASOF LEFT JOIN sold s ON s.at <= hour;
        INSERT INTO sold VALUES ('2026-01-31 12:10', 3), ('2026-01-31 12:50', 4), ('2026-01-31 14:00', 1);
        """,
    )


# ---- graphs


def _graph(db: Any, **how: Any) -> tuple[Graph, Any]:
    edge = db.table("edge", {"src": int, "dst": int, "w": int})
    source = db.table("source", {"node": int})
    edge.insert(EDGES)
    source.insert([(1,)])
    return Graph(edge, weight="w", **how), source


def _pairs(db: Any) -> Any:
    asked = db.table("asked", {"source": int, "target": int})
    asked.insert([(1, 7), (5, 6), (8, 1)])
    return asked


def _installed(db: Any, views: dict[str, Any]) -> Filled:
    for name, collection in views.items():
        db.view(name, collection)
    return list(views)


def paths(db: Any) -> Filled:
    g, source = _graph(db)
    return _installed(
        db,
        {
            "reached": g.reach(source),
            "hops": g.bfs(source),
            "cost": g.sssp(source),
            "cost_in_rounds": g.sssp(source, max_rounds=50),
            "width": g.widest(source),
            "near": g.k_hop(source, 2),
            "within": g.within(2),
        },
    )


def pairs(db: Any) -> Filled:
    g, _ = _graph(db)
    asked = _pairs(db)
    return _installed(
        db,
        {
            "far": g.distance(asked),
            "far_in_few": g.distance(asked, max_hops=4),
            "way": g.shortest_path(asked),
            "unweighted": Graph(db["edge"]).distance(asked, max_hops=4),
        },
    )


def ranks(db: Any) -> Filled:
    g, source = _graph(db)
    return _installed(
        db,
        {
            "rank": g.pagerank(3),
            "settled": g.pagerank(None, unit=100),
            "own_rank": g.pagerank(3, sources=source),
            "community": g.label_propagation(3),
        },
    )


def components(db: Any) -> Filled:
    g, _ = _graph(db)
    return _installed(
        db,
        {
            "part": g.wcc(),
            "strong": g.scc(),
            "cyclic": g.scc_edges(),
            "two_sided": g.bipartite(),
            "colour": g.two_colouring(),
            "forest": g.spanning_forest(),
        },
    )


def structures(db: Any) -> Filled:
    g, _ = _graph(db)
    return _installed(
        db,
        {
            "degree": g.degree(),
            "core": g.k_core(2),
            "triangle": g.triangles(),
            "fork": g.motif([("hub", "x"), ("hub", "y")]),
            "clustering": g.clustering(),
            "level": g.levels(),
            "diamond": g.motif("diamond"),
        },
    )


def lean_graphs(db: Any) -> Filled:
    g, source = _graph(db, memory="lean")
    return _installed(db, {"reached": g.reach(source), "hops": g.bfs(source), "cost": g.sssp(source), "part": g.wcc()})


def path_queries(db: Any) -> Filled:
    fact = db.table("fact", {"src": str, "kind": str, "dst": str})
    fact.insert([("ann", "knows", "bob"), ("bob", "knows", "eve"), ("eve", "knows", "ann"), ("eve", "works_at", "ICE")])
    g = Graph(fact, label="kind")
    return _installed(
        db,
        {
            "colleague": g.rpq("knows+ / works_at"),
            "back": g.rpq("^works_at / (knows | ^knows)?"),
            "any": g.rpq("knows{2} / ."),
            "star": g.rpq("knows*"),
        },
    )


# ---- rows that are odd, tables that are


def odd_values(db: Any) -> Filled:
    found = _views(
        db,
        """
        CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
        CREATE TABLE visit (id int, x double precision, d numeric(10, 2), big numeric(30, 5), at timestamptz,
            stay interval, mood mood, tags text[], info jsonb, day date, u uuid);
        CREATE VIEW copied AS SELECT * FROM visit;
        CREATE VIEW by_x AS SELECT x, count(*) AS n, sum(d) AS d, max(big) AS big FROM visit GROUP BY x;
        CREATE VIEW by_mood AS SELECT mood, sum(stay) AS stay, array_agg(info ->> 'page' ORDER BY id) AS pages
            FROM visit GROUP BY mood;
        CREATE VIEW same_time AS SELECT a.id, b.id AS other, a.at FROM visit a JOIN visit b ON a.at = b.at;
        CREATE VIEW tagged AS SELECT id, tag FROM visit, unnest(tags) AS tag;
        CREATE VIEW paged AS SELECT id, info -> 'items' AS items, d * 2 AS twice, at AT TIME ZONE 'Europe/Oslo' AS there
            FROM visit WHERE info ? 'page';
        CREATE VIEW same_x AS SELECT a.id, b.id AS other, a.x FROM visit a JOIN visit b ON a.x = b.x AND a.d = b.d;
        CREATE VIEW largest AS SELECT DISTINCT ON (mood) mood, id, d FROM visit ORDER BY mood, d DESC, id;
        CREATE VIEW days AS SELECT day, u, count(*) AS n FROM visit GROUP BY day, u;
        """,
    )
    zone = dt.timezone(dt.timedelta(hours=1))
    at = dt.datetime(2026, 1, 31, 12, 0, tzinfo=zone)
    day = dt.date(2026, 1, 31)
    key = "550e8400-e29b-41d4-a716-446655440000"
    hour = dt.timedelta(hours=1)
    db["visit"].insert(
        [
            (1, math.nan, Decimal("1.50"), Decimal("12345678901234567890.12345"), at, hour, "ok", ["new", "shop"],
             {"page": "/", "items": [1, None]}, day, key),
            (2, math.nan, Decimal("1.50"), None, at, hour * 25, "ok", ["new"], {"page": "/cart"}, day, None),
            (3, None, None, Decimal("-0.00001"), None, None, None, None, None, None, None),
            (4, -0.0, Decimal("-3.25"), Decimal(0), at + hour, hour, "sad", [], {"page": None}, None, key),
            (5, math.inf, Decimal("7.00"), Decimal(1), at + hour, None, "happy", ["new", "new"], [1, 2], day, key),
        ]
    )  # fmt: skip
    return found


def changed_tables(db: Any) -> Filled:
    found = _views(
        db,
        """
        CREATE TABLE t (a int PRIMARY KEY, b int, c text DEFAULT 'none'); CREATE TABLE s (a int, b int);
        CREATE VIEW small AS SELECT a, c FROM t WHERE b < 50;
        CREATE VIEW total AS SELECT c, count(*) AS n, sum(b) AS b FROM t GROUP BY c;
        CREATE VIEW looked_up AS SELECT s.b, t.b AS of_t FROM s LEFT JOIN t ON s.a = t.a;
        INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'x'), (3, 3, 'y'), (9, 9, NULL);
        INSERT INTO s VALUES (1, 10), (2, 20), (4, 40), (5, 1), (4, 41);
        INSERT INTO t (a, b) VALUES (4, 44) ON CONFLICT (a) DO UPDATE SET b = excluded.b;
        INSERT INTO t (a, b) VALUES (4, 45) ON CONFLICT (a) DO UPDATE SET b = excluded.b;
        """,
    )
    db.sql("""
        MERGE INTO t USING (SELECT a, sum(b) AS b FROM s GROUP BY a) AS s ON t.a = s.a
        WHEN MATCHED AND s.b = 20 THEN DELETE
        WHEN MATCHED THEN UPDATE SET b = t.b + s.b
        WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b)
    """)
    db["t"].upsert([(3, 33, "y"), (7, 70, "z")])
    return found


def functions(db: Any) -> Filled:
    t = db.table("t", {"name": str, "n": int})
    t.insert([("good day", 3), ("day off", -1), ("", 0), ("good day", 3)])

    @ev.udf(returns=str)
    def shout(text: str) -> str:
        return text.upper()

    found = _installed(
        db,
        {
            "loud": t.select(loud=shout(col.name), n=col.n),
            "loud_only": t.filter(shout(col.name) == "DAY OFF"),
            "words": t.flat_map(lambda name, n: [(w, n) for w in name.split()], returns={"word": str, "n": int}),
            "median": t.group_by("name").reduce(
                lambda key, rows: [(sum(m for _, m in rows), str(key))], returns={"copies": int, "key": str}
            ),
        },
    )
    return found + _views(
        db,
        """
        CREATE VIEW letters AS SELECT name, part FROM t, string_to_table(name, ' ') AS part;
        CREATE VIEW numbered AS SELECT name, i FROM t, generate_series(1, n) AS i;
        CREATE VIEW parts AS SELECT name, p, o FROM t, regexp_split_to_table(name, ' ') WITH ORDINALITY AS x(p, o);
        """,
    )


# ---- recursion


def recursive_queries(db: Any) -> Filled:
    return _views(
        db,
        """
        CREATE TABLE part (whole text, piece text, n int);
        CREATE TABLE start (name text);
        CREATE VIEW needed AS
        WITH RECURSIVE needs(name, n) AS (
            SELECT name, 1 FROM start
            UNION SELECT p.piece, needs.n * p.n FROM needs JOIN part p ON p.whole = needs.name WHERE needs.n < 100
        ) SELECT name, sum(n) AS n FROM needs GROUP BY name;
        CREATE VIEW both AS
        WITH RECURSIVE down(a, b) AS (
            SELECT whole, piece FROM part
            UNION SELECT d.a, p.piece FROM down d JOIN part p ON d.b = p.whole
            UNION SELECT d.b, p.whole FROM down d JOIN part p ON d.a = p.piece
        ) SELECT DISTINCT a, b FROM down;
        CREATE VIEW leaves AS
        WITH RECURSIVE below(name) AS (
            SELECT name FROM start UNION SELECT p.piece FROM below b JOIN part p ON p.whole = b.name
        ) SELECT name FROM below WHERE NOT EXISTS (SELECT 1 FROM part WHERE whole = below.name);
        INSERT INTO start VALUES ('car');
        INSERT INTO part VALUES ('car', 'wheel', 4), ('wheel', 'bolt', 5), ('wheel', 'rim', 1), ('car', 'bolt', 3),
            ('rim', 'bolt', 2), ('nut', 'nut', 1);
        """,
    )


PROGRAM = """
    even(X)          :- zero(X).
    odd(Y)           :- even(X), next(X, Y).
    even(Y)          :- odd(X), next(X, Y).
    neither(X)       :- next(X, _), not even(X), not odd(X).
    dist(X, 0)       :- zero(X).
    dist(Y, D)       :- dist(X, D1), next(X, Y), D = min(D1 + 1).
    farthest(M)      :- dist(_, D), M = max(D).
    after(X, Y)      :- next(X, Y).
    after(X, Z)      :- after(X, Y), next(Y, Z).
    many(X, N)       :- after(X, Y), N = count(Y).
    source(X)        :- next(X, _), not next(_, X).
    only_even(X)     :- even(X), not odd(X).
    busy(X, N)       :- zero(X), N = count : { next(_, _) }.
    peak(X, M)       :- many(X, N), M = max K : { many(_, K) }, N = M.
    pair([X, Y])     :- next(X, Y), X < Y.
    first(X)         :- pair([X, _]).
"""


def rules(db: Any) -> Filled:
    step, zero = db.table("next", {"a": int, "b": int}), db.table("zero", {"a": int})
    db.datalog(PROGRAM)
    zero.insert([(0,)])
    step.insert([(0, 1), (1, 2), (2, 3), (3, 1), (3, 4), (8, 9), (9, 8), (7, 8)])
    return list(dict.fromkeys(line.split("(")[0].strip() for line in PROGRAM.splitlines() if line.strip()))


SCENARIOS: dict[str, Callable[[Any], Filled]] = {
    f.__name__: f
    for f in (
        asof_joins, temporal_joins, windows_of_time, closed_windows, lifetimes, gaps, paths, pairs, ranks, components,
        structures, lean_graphs, path_queries, odd_values, changed_tables, functions, recursive_queries, rules,
    )
}  # fmt: skip
