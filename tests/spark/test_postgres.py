"""JDBC in and out with a real PostgreSQL: snapshots of a table that changes, a view's changes and its contents written
back; the driver killed before and after it has written. The database itself says what is right.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.spark.clusters import ROOT
from tests.spark.dying import DYING, run_program
from tests.spark.jars import jars
from tests.spark.postgres import JDBC_DRIVER, Postgres, postgres

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = (
    """
import os, signal, sys
import everview as ev
from everview.spark import local_session
from everview.spark.rows import writers

work, url, jars, die = sys.argv[1:]
spark = local_session("local[2]", **{"spark.jars": jars, "spark.driver.extraClassPath": jars})
"""
    + DYING
    + """
driver = {"driver": "org.postgresql.Driver"}
with ev.connect(spark, state=work + "/state", shards=2) as db:
    db.source("orders", spark.read.jdbc(url, "orders", properties=driver), mode="snapshot", key="id")
    v = db.sql('''CREATE VIEW revenue AS
                  SELECT country, count(*) AS n, sum(amount) AS total FROM orders GROUP BY country''')
    v.write_to(ev.io.jdbc(spark, url, "revenue_changes", **driver))
    v.write_to(ev.io.jdbc(spark, url, "revenue", **driver), mode="snapshot")
    writers.Writer.write = dying(writers.Writer.write)
    print(db.run(until="caught_up"))
spark.stop()
"""
)


def run(work: Path, base: Postgres, die: str = "") -> None:
    [driver] = jars(JDBC_DRIVER, alone=True)
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = run_program(PROGRAM, [str(work), base.url, str(driver), die], env, work, 300)
    assert done.returncode == (-signal.SIGKILL if die else 0), done.stderr[-3000:]


EXPECTED = "SELECT country, count(*), sum(amount) FROM orders GROUP BY country ORDER BY 1"
CHANGES = """
SELECT country, n, total FROM revenue_changes GROUP BY country, n, total HAVING sum(_diff) <> 0 ORDER BY 1"""


def check(base: Postgres) -> None:
    expected = base.sql(EXPECTED)
    assert base.sql(CHANGES) == expected
    assert base.sql("SELECT country, n, total FROM revenue ORDER BY 1") == expected
    assert base.sql("SELECT sum(_diff) FROM revenue_changes GROUP BY country, n, total HAVING sum(_diff) > 1") == []
    assert base.sql("SELECT 1 FROM revenue_changes GROUP BY country, n, total, _time HAVING count(*) > 1") == []


def test_a_table_in_and_out_with_drivers_killed(tmp_path: Path) -> None:
    with postgres() as base:
        base.sql("""
            CREATE TABLE orders (id bigint PRIMARY KEY, country text, amount numeric(10, 2));
            INSERT INTO orders
            SELECT i, substr('atchdeit', 1 + 2 * (i % 4), 2), i * 1.25 FROM generate_series(1, 500) i""")
        run(tmp_path, base)
        check(base)
        base.sql("UPDATE orders SET amount = amount + 1 WHERE id % 7 = 0; DELETE FROM orders WHERE country = 'it'")
        run(tmp_path, base, die="before")
        base.sql("INSERT INTO orders VALUES (1000, 'fr', 0.01), (1001, NULL, NULL)")
        run(tmp_path, base, die="after")
        run(tmp_path, base)
        check(base)
