"""Revenue by nation: customer (15,000) joined with orders (150,000) joined with line items (600,000), summed by group.

`--aggregate max` asks for the highest price instead, an aggregate whose rows matter when one goes. `--plan best` lets
the optimiser choose the joins' order once the rows are there (`view.replan`), whose time counts as part of the load; by
default the order is the written one, as in the crates.

Line items change, one leaving and one coming. All columns are ints (prices in cents).
"""

from __future__ import annotations

from functools import partial
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


def revenue(db: Any, aggregate: str = "sum") -> tuple[Any, Any, Any, Any]:
    """The three tables and the view of their join and sum (or max)."""
    customer, orders, lineitem = (db.table(name, schema) for name, schema in SCHEMAS.items())
    ordered = lineitem.join(orders, lineitem["order"] == orders["order"])
    bought = ordered.join(customer, orders.customer == customer.customer)
    prices = bought.select(nation=customer.nation, price=lineitem.price).group_by("nation")
    total = prices.agg(total=col.price.sum() if aggregate == "sum" else col.price.max())
    return customer, orders, lineitem, db.view("revenue", total)


def workload(aggregate: str, quick: bool, plan: str = "written") -> common.Workload:
    """Aggregates by nation while line items change; customers and orders are loaded with the view's installation."""
    rows, stream = generate(quick)
    given = {name: common.columns(tuple(SCHEMAS[name]), rows[name]) for name in ("customer", "orders")}

    def build(db: Any) -> tuple[Any, Any]:
        customer, orders, lineitem, view = revenue(db, aggregate)
        customer.insert(given["customer"])
        orders.insert(given["orders"])
        return lineitem, lambda: common.sorted_rows(view)

    names = tuple(SCHEMAS["lineitem"])
    by_hand = peers.revenue if aggregate == "sum" else peers.dearest
    rivals = (("differential", "join3"), ("dbsp", "join3")) if aggregate == "sum" else (("dbsp", "dearest"),)
    return common.Workload(
        "join3" if aggregate == "sum" else "join3-max",
        "tpch",
        names,
        rows["lineitem"],
        stream,
        build,
        lambda lineitem: by_hand(rows["customer"], rows["orders"], lineitem),
        lambda lineitem: (
            peers.revenue_peers(given["customer"], given["orders"], common.columns(names, lineitem))
            if aggregate == "sum"
            else {}
        ),
        variant="" if plan == "written" else plan,
        rivals=rivals,
        statics={name: rows[name] for name in ("customer", "orders")},
        settle=lambda db: plan == "written" or db["revenue"].replan(plan),
    )


if __name__ == "__main__":
    choices = ("aggregate", ("sum", "max")), ("plan", ("written", "best"))
    options = common.arguments(__doc__, *choices).parse_args()
    common.run_prepared(partial(workload, options.aggregate, plan=options.plan), options)
