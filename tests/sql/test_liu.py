"""The queries of Liu's thesis (2016, sections 3.1 and 3.7.1), run as they are printed there, while the network changes.

Three texts are given as prose there and written out here: cheapest and highest-bandwidth paths and same generation.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator

import networkx as nx
import pytest

import everview as ev

Links = set[tuple[int, int]]

REACHABLE = """
with recursive reachable(src,dst) as
( select src,dst
  from link
  union
   select link.src, reachable.dst
  from link, reachable
  where link.dst = reachable.src)
"""

SHORTEST = """
with recursive path(src,dst,vec,length) as
( select src,dst,src ||'.'|| dst,1 from link
union
  select link.src,path.dst,link.src ||'.'|| vec,
  length+1
  from link, path where link.dst = path.src)
create view minHops(src,dst,length) as
  (select src,dst,min(length) from path
  group by src,dst)
create view shortestPath(src,dst,vec,length) as
  (select P.src,P.dst,vec,P.length
  from path P, minHops H where P.src = H.src
  and P.dst = H.dst and P.length = H.length)
"""

REGIONS = """
with recursive activeRegion(regionid, sensorid) as
  ( select M.regionid, S.sensorid
    from sensor S, coordSensor M, isTriggered T
    where M.sensorid = S.sensorid
          and S.sensorid = T.sensorid
   union
    select A.regionid, S2.sensorid
    from sensor S1, sensor S2, activeRegion A,
        isTriggered T
    where distance(S1.coord, S2.coord) < 20
          and S1.sensorid = A.sensorid and
          S1.sensorid = T.sensorid )
create view regionSizes(regionid, size) as
  (select regionid, count(sensorid)
  from activeRegion
  group by regionid)
create view largestRegion(size) as
   (select max(size) from regionSizes)
create view largestRegions(regionid) as
   (select R.regionid
    from regionSizes R, largestRegion L
    where R.size = L.size)
"""


def changes(db: ev.Session, pairs: list[tuple[int, int]], seed: int, steps: int = 8) -> Iterator[Links]:
    """The table link, some of whose possible pairs come and go."""
    rng = random.Random(seed)
    link = db["link"]
    assert isinstance(link, ev.Table)
    links: Links = set()
    for _ in range(steps):
        gone = rng.sample(sorted(links), len(links) // 3)
        new = [p for p in rng.sample(pairs, 6) if p not in links]
        with db.transaction():
            link.delete(gone)
            link.insert(new)
        links = links - set(gone) | set(new)
        yield links


@pytest.fixture
def db() -> ev.Session:
    session = ev.connect()
    session.sql("create table link (src int not null, dst int not null)")
    return session


def test_reachable(db: ev.Session) -> None:
    view = db.sql(REACHABLE)
    pairs = list(itertools.product(range(7), repeat=2))
    for links in changes(db, pairs, 1):  # type: ignore[arg-type]
        closure = nx.transitive_closure(nx.DiGraph(links), reflexive=False)
        assert sorted(view.rows()) == sorted(closure.edges)


def test_shortest_paths_and_their_vectors(db: ev.Session) -> None:
    """All paths are enumerated, so the network has no cycles."""
    db.sql(SHORTEST)
    pairs = list(itertools.combinations(range(7), 2))
    for links in changes(db, pairs, 2):
        graph = nx.DiGraph(links)
        best = {(a, b): n for a, row in nx.all_pairs_shortest_path_length(graph) for b, n in row.items() if n}
        paths = {(a, b): list(nx.all_shortest_paths(graph, a, b)) for a, b in best}
        assert sorted(db["minHops"].rows()) == sorted((a, b, n) for (a, b), n in best.items())
        expected = [(a, b, ".".join(map(str, p)), best[a, b]) for (a, b), found in paths.items() for p in found]
        assert sorted(db["shortestPath"].rows()) == sorted(expected)


def test_shortest_paths_of_networks_with_cycles(db: ev.Session) -> None:
    """There is no end of paths there; in one query only the shortest are read (aggregate selection, section 3.6)."""
    text = SHORTEST.replace(")\ncreate view", "),\n")
    db.sql(f"create materialized view shortest as {text} select * from shortestPath")
    pairs = list(itertools.permutations(range(5), 2))
    for links in changes(db, pairs, 3):
        graph = nx.DiGraph(links)
        expected = []
        for a, b in itertools.product(graph.nodes, repeat=2):
            ways = nx.all_shortest_paths(graph, a, b) if a != b else ([a, *p] for p in round_trips(graph, a))
            with contextlib.suppress(nx.NetworkXNoPath):
                expected += [(a, b, ".".join(map(str, p)), len(p) - 1) for p in ways]
        assert sorted(db["shortest"].rows()) == sorted(expected)


def round_trips(graph: nx.DiGraph, node: int) -> list[list[int]]:
    """The shortest ways from a node back to it, without their first stop."""
    found = []
    for first in graph.successors(node):
        with contextlib.suppress(nx.NetworkXNoPath):
            found += list(nx.all_shortest_paths(graph, first, node))
    least = min(map(len, found), default=0)
    return [way for way in found if len(way) == least]


def test_cheapest_and_highest_bandwidth_paths() -> None:
    db = ev.connect()
    db.sql(
        """
        create table net (src int not null, dst int not null, cost int not null, bandwidth int not null);
        with recursive cheapest(src, dst, cost) as (
            select src, dst, min(cost) from (
                select src, dst, cost from net
                union all
                select net.src, cheapest.dst, net.cost + cheapest.cost
                from net, cheapest where net.dst = cheapest.src) step
            group by src, dst)
        create view forget as (select 1 as x);
        with recursive widest(src, dst, bandwidth) as (
            select src, dst, max(bandwidth) from (
                select src, dst, bandwidth from net
                union all
                select net.src, widest.dst, least(net.bandwidth, widest.bandwidth)
                from net, widest where net.dst = widest.src) step
            group by src, dst)
        """
    )
    rng = random.Random(3)
    table = db["net"]
    assert isinstance(table, ev.Table)
    net: dict[tuple[int, int], tuple[int, int]] = {}
    for _ in range(8):
        gone = rng.sample(sorted(net), len(net) // 3)
        new = {(rng.randrange(7), rng.randrange(7)): (rng.randint(1, 9), rng.randint(1, 9)) for _ in range(6)}
        with db.transaction():
            table.delete([(*e, *net.pop(e)) for e in gone])
            new = {e: w for e, w in new.items() if e not in net}
            table.insert([(*e, *w) for e, w in new.items()])
        net |= new
        cost = {e: c for e, (c, _) in net.items()}
        wide = {e: b for e, (_, b) in net.items()}
        for k, i, j in itertools.product(range(7), repeat=3):
            if (i, k) in cost and (k, j) in cost:
                cost[i, j] = min(cost.get((i, j), math.inf), cost[i, k] + cost[k, j])  # type: ignore[assignment]
                wide[i, j] = max(wide.get((i, j), 0), min(wide[i, k], wide[k, j]))
        assert sorted(db["cheapest"].rows()) == sorted((*e, c) for e, c in cost.items())
        assert sorted(db["widest"].rows()) == sorted((*e, b) for e, b in wide.items())


def test_active_regions() -> None:
    db = ev.connect()
    db.function("distance", math.dist, returns=float)
    sensor = db.table("sensor", {"sensorid": int, "coord": tuple[float, float]})
    seeds = db.table("coordSensor", {"regionid": int, "sensorid": int})
    triggered = db.table("isTriggered", {"sensorid": int})
    db.sql(REGIONS)
    rng = random.Random(4)
    places = {i: (rng.uniform(0, 100), rng.uniform(0, 100)) for i in range(40)}
    near = {i: [j for j in places if math.dist(places[i], places[j]) < 20] for i in places}
    with db.transaction():
        sensor.insert(list(places.items()))
        seeds.insert([(r, r) for r in range(5)])
        triggered.insert([(i,) for i in range(5)])
    active = set(range(5))
    for _ in range(8):
        flipped = rng.sample(range(5, 40), 6)
        with db.transaction():
            triggered.delete([(i,) for i in flipped if i in active])
            triggered.insert([(i,) for i in flipped if i not in active])
        active ^= set(flipped)
        regions: set[tuple[int, int]] = set()
        for r in range(5):
            todo = [r]
            while todo:
                s = todo.pop()
                if (r, s) not in regions:
                    regions.add((r, s))
                    todo += near[s] if s in active else []
        sizes = Counter(r for r, _ in regions)
        assert sorted(db["activeRegion"].rows()) == sorted(regions)
        assert sorted(db["regionSizes"].rows()) == sorted(sizes.items())
        assert db["largestRegion"].rows() == [(max(sizes.values()),)]
        assert sorted(db["largestRegions"].rows()) == sorted((r,) for r, n in sizes.items() if n == max(sizes.values()))


def test_same_generation(db: ev.Session) -> None:
    view = db.sql(
        """
        with recursive sameGeneration(x, y) as
        ( select a.dst, b.dst from link a, link b where a.src = b.src
          union
          select a.dst, b.dst from link a, sameGeneration g, link b where a.src = g.x and b.src = g.y )
        """
    )
    for links in changes(db, list(itertools.combinations(range(9), 2)), 5):
        same: Links = set()
        size = -1
        while size != len(same):
            size = len(same)
            same |= {(b, d) for a, b in links for c, d in links if a == c or (a, c) in same}
        assert sorted(view.rows()) == sorted(same)


def test_a_limit_makes_paths_end_on_cycles(db: ev.Session) -> None:
    """(RETURN AT RECURSION LIMIT n): paths of at most n links, where paths without a limit never end."""
    text = SHORTEST[: SHORTEST.index("create view")].replace("recursive", "recursive (return at recursion limit 3)")
    view = db.sql(text)
    for links in changes(db, list(itertools.product(range(4), repeat=2)), 6):  # type: ignore[arg-type]
        paths = [[a, b] for a, b in links]
        expected = list(paths)
        for _ in range(2):
            paths = [[a, *p] for p in paths for a, b in links if b == p[0]]
            expected += paths
        assert sorted(view.rows()) == sorted((p[0], p[-1], ".".join(map(str, p)), len(p) - 1) for p in expected)


def test_union_all_with_a_limit(db: ev.Session) -> None:
    """Walks of at most two steps, as often as there are ways to walk them; an ERROR limit refuses the change."""
    text = """
        create view walk{0} as with recursive ({1} at recursion limit {2}) w(n) as (
            select 0 union all select link.dst from w, link where link.src = w.n) select n from w"""
    walks = db.sql(text.format(1, "return", 3))
    db.sql("insert into link values (0, 1), (0, 1), (1, 0)")
    assert Counter(walks.rows()) == {(0,): 3, (1,): 2}
    db.sql("delete from link where src = 1")
    db.sql(text.format(2, "error", 5))
    with pytest.raises(ev.LoopError, match="E_LOOP_LIMIT"):
        db.sql("insert into link values (1, 0)")
    assert Counter(walks.rows()) == {(0,): 1, (1,): 2}


def test_names_are_checked_before_anything_is_made(db: ev.Session) -> None:
    with pytest.raises(ev.PlanError, match="the name link is taken"):
        db.sql("with recursive a as (select 1), link as (select 2)")
    assert db.views == ()
