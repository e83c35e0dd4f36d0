"""Tenants: several customers on one server. Each sees and changes its own rows; all of them share one dataflow.

The owner makes tables, a policy and roles. Customers come with tokens, over Everview's client, HTTP and WebSocket; the
policy holds in all of them. One customer's bad row is an error for that customer alone.
"""

from __future__ import annotations

import time
from typing import Any

import everview as ev
from everview.server.threaded_server import serve_beside

SETUP = """
CREATE TABLE invoice (id int PRIMARY KEY, tenant text, customer text, amount text);
CREATE ROLE app LOGIN;
GRANT SELECT, INSERT, UPDATE, DELETE ON invoice TO app;
CREATE POLICY own ON invoice USING (tenant = current_setting('tenant'));
ALTER TABLE invoice ENABLE ROW LEVEL SECURITY;
ALTER ROLE app QUOTA (subscriptions 100, rows 100000, milliseconds 2000);
"""


def main() -> None:
    """Two customers, who know nothing of each other."""
    session = ev.connect()
    session.sql(SETUP)
    tokens = {
        name: session.sql(f"CREATE TOKEN {name} FOR ROLE app WITH (tenant = '{name}')").rows()[0][0]
        for name in ("acme", "globex")
    }
    with serve_beside(session) as server:
        acme = ev.connect(server.address, token=tokens["acme"])
        globex = ev.connect(server.address, token=tokens["globex"])

        told: list[Any] = []
        stop = acme["invoice"].subscribe(told.append)
        acme["invoice"].insert([(1, "acme", "Ann", "10"), (2, "acme", "Ann", "5")])
        globex["invoice"].insert([(3, "globex", "Bo", "7"), (4, "globex", "Bo", "oops")])

        by_customer = "SELECT customer, sum(amount::int) AS total FROM invoice GROUP BY customer"
        print("acme sees", acme.sql(by_customer).rows())
        assert acme.sql(by_customer).rows() == [("Ann", 15)]
        try:
            globex.sql(by_customer)
        except ev.RowErrors as error:
            print("globex is told of its own bad row:", error.message)

        try:
            globex["invoice"].insert([(5, "acme", "Eve", "1000")])
        except ev.EverviewError as error:
            print("globex may not write for acme:", error.message)
            assert error.code == "E_FORBIDDEN"

        print(acme.sql("EXPLAIN SELECT customer, count(*) AS n FROM invoice GROUP BY customer").rows()[-1][0])
        end = time.monotonic() + 10
        while sum(len(batch.rows()) for batch in told) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        stop()
        assert {row[1] for batch in told for row, _ in batch.rows()} == {"acme"}
        acme.close()
        globex.close()


if __name__ == "__main__":
    main()
