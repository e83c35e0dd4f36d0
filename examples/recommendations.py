"""Recommendations by diamonds: people you follow, two of whom follow the same third, whom you do not follow yet.

The diamond you -> a -> them, you -> b -> them is two walks of two edges with the same ends. Counting the walks between
each pair says how strong the advice is; the best two for everybody are kept. Following or leaving one person changes
only the advice that went through it.
"""

from __future__ import annotations

import everview as ev
from everview import Collection, col


def advice(follows: Collection, best: int = 2) -> Collection:
    """(who, whom, through): up to `best` people for each, with how many of their friends lead there."""
    once = follows.distinct()
    first, second = once.alias("first"), once.alias("second")
    walks = first.join(second, first.dst == second.src).select(who=first.src, whom=second.dst)
    strong = walks.group_by("who", "whom").agg(through=ev.count()).filter((col.through >= 2) & (col.who != col.whom))
    known = once.alias("known")
    new = strong.join(known, (strong.who == known.src) & (strong.whom == known.dst), how="anti")
    return new.group_by("who").top(best, by=[col.through.desc(), col.whom])


def main() -> None:
    """Five people; one follows one more; one leaves."""
    with ev.connect() as db:
        follows = db.table("follows", {"src": str, "dst": str})
        advised = db.view("advised", advice(follows))

        follows.insert([("ann", "bob"), ("ann", "cyd"), ("bob", "eve"), ("cyd", "eve"), ("cyd", "dan"), ("eve", "ann")])
        show("at first", advised)
        assert advised.rows() == [("ann", "eve", 2)]

        follows.insert([("bob", "dan")])
        show("bob follows dan too", advised)
        assert sorted(advised.rows()) == [("ann", "dan", 2), ("ann", "eve", 2)]

        follows.insert([("ann", "eve")])
        show("ann takes the advice about eve", advised)
        assert advised.rows() == [("ann", "dan", 2)]

        follows.delete([("cyd", "dan")])
        show("cyd leaves dan", advised)
        assert advised.rows() == []


def show(what: str, advised: ev.View) -> None:
    """The advice as sentences."""
    said = [f"{who} may like {whom} (through {n} friends)" for who, whom, n in sorted(advised.rows())]
    print(f"{what}: {'; '.join(said) or 'no advice'}")


if __name__ == "__main__":
    main()
