"""Distances from one town, maintained while roads close and open.

The loop's body relaxes every road once and keeps the smallest distance for each town; the loop ends when a round
changes nothing. Closing a road makes some distances longer: the engine withdraws what that road had contributed, round
by round.
"""

from __future__ import annotations

import everview as ev
from everview import Collection, col, lit


def distances(home: Collection, road: Collection) -> Collection:
    """(town, km) for every town that can be reached."""
    start = home.select(town=home.town, km=lit(0))

    def relax(reached: Collection) -> Collection:
        longer = reached.join(road, reached.town == road.src).select(town=road.dst, km=reached.km + road.km)
        return longer.union_all(start).group_by("town").agg(km=col.km.min())

    return start.iterate(relax)


def main() -> None:
    """Build a small map, close a road, open another."""
    with ev.connect() as db:
        road = db.table("road", {"src": str, "dst": str, "km": int})
        home = db.table("home", {"town": str})
        distance = db.view("distance", distances(home, road))

        with db.transaction():
            home.insert([("Oslo",)])
            road.insert([("Oslo", "Hamar", 130), ("Hamar", "Trondheim", 370), ("Oslo", "Trondheim", 560)])
        print("at first:      ", sorted(distance.rows()))

        road.delete([("Hamar", "Trondheim", 370)])
        print("road closed:   ", sorted(distance.changes(since=db.time - 1)))

        road.insert([("Hamar", "Trondheim", 400)])
        print("detour opened: ", sorted(distance.changes(since=db.time - 1)))

        assert sorted(distance.rows()) == [("Hamar", 130), ("Oslo", 0), ("Trondheim", 530)]


if __name__ == "__main__":
    main()
