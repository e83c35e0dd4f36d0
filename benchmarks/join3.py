"""Revenue by nation: customer (15,000) joined with orders (150,000) joined with line items (600,000), summed by group.

Line items change, one leaving and one coming. All columns are ints (prices in cents).
"""

from __future__ import annotations

from typing import Any

import common
import graphs
import numpy as np
import peers

from everview import col

SCHEMAS = {
    "customer": {"customer": int, "nation": int},
    "orders": {"order": int, "customer": int},
    "lineitem": {"order": int, "line": int, "price": int},
}


def generate(quick: bool) -> tuple[dict[str, common.Ints], graphs.Stream]:
    """The tables' rows and the changes of line items; `line` numbers rows so that no two are equal."""
    customers, orders, items, changes = (15, 150, 600, 400) if quick else (15_000, 150_000, 600_000, graphs.CHANGES)
    rng = np.random.default_rng(11)
    lines = np.arange(items + changes)
    lineitem = np.stack([rng.integers(0, orders, len(lines)), lines, rng.integers(100, 10_000_000, len(lines))], axis=1)
    rows = {
        "customer": np.stack([np.arange(customers), rng.integers(0, 25, customers)], axis=1),
        "orders": np.stack([np.arange(orders), rng.integers(0, customers, orders)], axis=1),
        "lineitem": lineitem[:items],
    }
    return rows, graphs.replacing(lineitem[:items], lineitem[items:], rng)


def revenue(db: Any) -> tuple[Any, Any, Any, Any]:
    """The three tables and the view of their join and sum."""
    customer, orders, lineitem = (db.table(name, schema) for name, schema in SCHEMAS.items())
    ordered = lineitem.join(orders, lineitem["order"] == orders["order"])
    bought = ordered.join(customer, orders.customer == customer.customer)
    sums = bought.select(nation=customer.nation, price=lineitem.price).group_by("nation").agg(total=col.price.sum())
    return customer, orders, lineitem, db.view("revenue", sums)


def workload(quick: bool) -> common.Workload:
    """Sums by nation while line items change; customers and orders are loaded with the view's installation."""
    rows, stream = generate(quick)
    given = {name: common.columns(tuple(SCHEMAS[name]), rows[name]) for name in ("customer", "orders")}

    def build(db: Any) -> tuple[Any, Any]:
        customer, orders, lineitem, view = revenue(db)
        customer.insert(given["customer"])
        orders.insert(given["orders"])
        return lineitem, lambda: common.sorted_rows(view)

    names = tuple(SCHEMAS["lineitem"])
    return common.Workload(
        "join3",
        "tpch",
        names,
        rows["lineitem"],
        stream,
        build,
        lambda lineitem: peers.revenue(rows["customer"], rows["orders"], lineitem),
        lambda lineitem: peers.revenue_peers(given["customer"], given["orders"], common.columns(names, lineitem)),
    )


if __name__ == "__main__":
    common.run_prepared(workload, common.arguments(__doc__).parse_args())
