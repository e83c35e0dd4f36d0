"""A dashboard that hears only what changed: revenue per country over orders and customers.

Two transactions follow the first load. Each calls the subscriber once, with the differences of complete times.
"""

from __future__ import annotations

import everview as ev
from everview import col


def main() -> None:
    """Install the view, subscribe, change the tables."""
    with ev.connect() as db:
        customer = db.table("customer", {"id": int, "country": str}, key="id")
        order = db.table("order", {"id": int, "customer": int, "amount": int}, key="id")
        placed = order.join(customer, order.customer == customer.id)
        revenue = db.view(
            "revenue",
            placed.select(country=customer.country, amount=order.amount)
            .group_by("country")
            .agg(total=col.amount.sum(), orders=ev.count()),
        )
        revenue.subscribe(lambda batch: print(f"time {batch.time}:", sorted(batch.rows())))

        with db.transaction():
            customer.insert([(1, "NO"), (2, "NO"), (3, "IT")])
            order.insert([(100, 1, 50), (101, 2, 25), (102, 3, 80)])
        order.insert([(103, 3, 20)])
        with db.transaction():  # customer 2 moves: both countries change, at one time
            customer.delete([(2, "NO")])
            customer.insert([(2, "IT")])

        assert sorted(revenue.rows()) == [("IT", 125, 3), ("NO", 50, 1)]


if __name__ == "__main__":
    main()
