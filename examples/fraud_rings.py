"""Fraud rings: accounts that share devices, cards or addresses form groups; large or expensive ones are worth a look.

An account and a thing it used are the two ends of an edge. Weakly connected components are the groups, and a filter on
their size and on the money they moved says which are suspicious. One shared card joins two groups; taking it back, a
mistake of the bank's, separates them again.
"""

from __future__ import annotations

import everview as ev
from everview import Collection, col
from everview.graph import Graph


def suspicious(used: Collection, paid: Collection) -> Collection:
    """(ring, accounts, moved): groups of three or more accounts that moved 5000 or more."""
    ring = Graph(used, src="account", dst="thing").wcc()
    member = ring.join(paid, ring.node == paid.account)
    per_ring = member.group_by(ring=ring.component).agg(accounts=paid.account.count_distinct(), moved=paid.amount.sum())
    return per_ring.filter((col.accounts >= 3) & (col.moved >= 5000))


def main() -> None:
    """Two small groups; a card that both used; and the card taken back."""
    with ev.connect() as db:
        used = db.table("used", {"account": str, "thing": str})
        paid = db.table("paid", {"account": str, "amount": int})
        rings = db.view("rings", suspicious(used, paid))

        @rings.subscribe
        def report(batch: ev.Batch) -> None:
            for (_, accounts, moved), diff in batch.rows():
                print(f"  {'ALERT' if diff > 0 else 'clear'}: a ring of {accounts} accounts that moved {moved}")

        print("monday: two pairs of accounts, each with a phone of its own")
        with db.transaction():
            used.insert([("ada", "phone 1"), ("bob", "phone 1"), ("cyd", "phone 2"), ("dan", "phone 2")])
            paid.insert([("ada", 1000), ("bob", 1500), ("cyd", 2000), ("dan", 900)])
        assert rings.rows() == []

        print("tuesday: bob and cyd pay with one card")
        used.insert([("bob", "card 7"), ("cyd", "card 7")])
        assert [row[1:] for row in rings.rows()] == [(4, 5400)]

        print("wednesday: dan moves more")
        paid.insert([("dan", 3000)])

        print("thursday: the bank had mistaken the card")
        used.delete([("cyd", "card 7")])
        assert rings.rows() == []


if __name__ == "__main__":
    main()
