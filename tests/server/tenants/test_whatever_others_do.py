"""Whatever Bob does, by every protocol, Ann's answers, errors, hints, plans and catalogue stay the same.

Ann asks a fixed list of questions, about her own things, about Bob's (which do not exist for her, whether he has made
them or not), and about what is nobody's. Between two rounds Bob does some of everything, chosen by chance: rows that
are right and wrong, tables, views, functions, policies, streams, cursors, COPY, rules, what-if, transactions that he
leaves, connections that he cuts off, questions beyond his quotas. Numbers of times are left out: they count the
transactions of the whole database.

`EVERVIEW_SEEDS=100 pytest -m long -s tests/server/tenants/test_whatever_others_do.py` tries more.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest

from everview.errors import EverviewError
from tests.server.tenants.conftest import Tenants

MORE = """
GRANT CREATE ON SCHEMA public TO app; CREATE SCHEMA his; GRANT CREATE, USAGE ON SCHEMA his TO bob;
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE SQL AS 'SELECT 2 * n'; GRANT EXECUTE ON FUNCTION twice TO app;
CREATE TABLE some (id int PRIMARY KEY, tenant text, hidden text); INSERT INTO some VALUES (1, 'a', 'x'), (2, 'b', 'y');
GRANT SELECT (id, tenant) ON some TO app; CREATE POLICY own ON some USING (tenant = current_setting('tenant'));
ALTER TABLE some ENABLE ROW LEVEL SECURITY;
CREATE TABLE team (who text, of text); INSERT INTO team VALUES ('ann', 'red'), ('bob', 'blue');
CREATE TABLE task (id int PRIMARY KEY, of text, n int); INSERT INTO task VALUES (1, 'red', 1), (2, 'blue', 0);
GRANT SELECT, INSERT, UPDATE, DELETE ON task TO app; ALTER TABLE task ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON task USING (of IN (SELECT t.of FROM team t WHERE t.who = current_user));
"""

HIS = ["b1", "b2", "b3"]
"""Names that Bob gives to tables, views, functions, indexes and rules, and takes back."""

OWN = [
    "SELECT * FROM doc ORDER BY id",
    "SELECT id, v::int AS n FROM doc ORDER BY id",
    "SELECT * FROM total",
    "SELECT id, 10 / n AS q FROM task ORDER BY id",
    "SELECT * FROM some",
    "SELECT count(*) AS n, min(id) AS least FROM doc JOIN task USING (id)",
    "SELECT tenant, count(*) AS n FROM doc GROUP BY tenant",
    "SELECT twice(id) AS t FROM doc ORDER BY id",
    "EXPLAIN SELECT v, count(*) AS n FROM doc GROUP BY v",
    "EXPLAIN SELECT * FROM task WHERE n = 1",
    "EXPLAIN SELECT d.id FROM doc d, task t, some s WHERE d.id = t.id AND t.id = s.id",
    "EXPLAIN SELECT * FROM total",
    "SHOW TABLES", "SHOW VIEWS", "SHOW FUNCTIONS", "SHOW INDEXES", "SHOW SCHEMAS", "DESCRIBE doc",
    "SELECT 1 / 0 AS x",
    "SELECT nothing FROM doc",
    "SELECT * FROM docs",
    "INSERT INTO doc VALUES (1, 'a', 'again')",
    "INSERT INTO doc VALUES (77, 'b', 'not hers')",
    "UPDATE doc SET tenant = 'b'",
    "DELETE FROM doc WHERE id IN (2, 1000, 1001)",
    "DROP TABLE doc",
    "SELECT role, what FROM ev.quotas",
    "SELECT * FROM ev.views",
    "SET search_path = his",
    "SELECT * FROM his.b1",
]  # fmt: skip

ABOUT_HIS = [
    "SELECT * FROM {}", "SELECT {}(1)", "SELECT * FROM {}(1)", "DROP TABLE {}", "DROP VIEW {}", "DROP FUNCTION {}",
    "DROP INDEX {}", "ALTER TABLE {} ADD COLUMN y int", "INSERT INTO {} VALUES (1)", "UPDATE {} SET x = 1",
    "EXPLAIN {}", "DELETE FROM {}", "TRUNCATE {}", "COMMENT ON TABLE {} IS 'x'", "GRANT SELECT ON {} TO bob",
    "SUBSCRIBE TO {}",
    "CREATE POLICY p ON {} USING (true)", "DESCRIBE {}", "EXPLAIN SELECT * FROM {}", "WHY {} (1)",
    "MERGE INTO doc USING {} b ON doc.id = b.x WHEN MATCHED THEN DELETE", "CREATE INDEX i ON {} (x)",
    "SELECT d.id FROM doc d WHERE d.id IN (SELECT x FROM {})",
]  # fmt: skip

CATALOGUE = [
    "SELECT relname, relkind FROM pg_class WHERE relnamespace >= 2200 AND relnamespace <> 13999 ORDER BY 1",
    "SELECT proname FROM pg_proc WHERE proname LIKE 'b%'",
    "SELECT rolname FROM pg_roles ORDER BY 1",
    "SELECT tablename, policyname, roles::text, qual FROM pg_policies ORDER BY 1, 2",
    "SELECT relname, relacl::text FROM pg_class WHERE relname IN ('doc', 'total', 'b1')",
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1, 2",
    "SELECT indexname FROM pg_indexes ORDER BY 1",
    "SELECT nspname FROM pg_namespace ORDER BY 1",
    "SELECT to_regclass('b1'), to_regclass('b2')",
    "SELECT reltuples, relpages FROM pg_class WHERE relname = 'doc'",
]


class Asking:
    """Ann's questions, over three protocols."""

    def __init__(self, tenants: Tenants) -> None:
        self.http = tenants.http("ann")
        self.client = tenants.client("ann")
        self.pg = tenants.psycopg("ann")

    def close(self) -> None:
        self.http.close()
        self.client.close()
        self.pg.close()

    def all(self) -> dict[str, Any]:
        """What she is told now; nothing of it changes anything."""
        about = [text.format(name) for text in ABOUT_HIS for name in HIS[:2]]
        found = {f"http {text}": self.over_http(text) for text in (*OWN, *about)}
        found.update({f"pg {text}": self.over_pg(text) for text in (*OWN, *CATALOGUE, *about[::3])})
        found.update({f"client {name}": self.told(ask) for name, ask in self.calls().items()})
        for path in (
            "relations",
            "relations/doc/rows",
            "relations/b1",
            "relations/b1/rows",
            "relations/b2/changes?since=0",
        ):
            found[path] = _masked(self.http.get(f"/v1/{path}").text)
        return found

    def over_http(self, text: str) -> str:
        if text.startswith("SUBSCRIBE"):
            text = text.replace("SUBSCRIBE TO", "SELECT * FROM")
            answer = self.http.post("/v1/events", json={"query": text})
        else:
            answer = self.http.post("/v1/sql", json={"sql": text})
        return f"{answer.status_code} {_masked(answer.text)}"

    def over_pg(self, text: str) -> Any:
        try:
            cursor = self.pg.execute(text)
        except psycopg.Error as error:
            return error.sqlstate, error.diag.message_primary, error.diag.message_hint
        return cursor.fetchall() if cursor.description else cursor.statusmessage

    def calls(self) -> dict[str, Callable[[], Any]]:
        db = self.client
        return {
            "names": lambda: (sorted(db.tables), sorted(db.views)),
            "rows": lambda: sorted(db["doc"].rows()),
            "lookup": lambda: (db["doc"].lookup(1), db["doc"].lookup(2), db["doc"].lookup(1000)),
            "changes": lambda: sorted(row for row, _, _ in db["doc"].changes(0)),
            "explain": lambda: db["total"].explain(),
            "why": lambda: db["total"].why(("a", 2)),
            "what if": lambda: db.what_if(insert={"doc": [(500, "a", "9")]}).changes("total"),
            "hidden": lambda: db["b1"].rows(),
            "rules": lambda: db.datalog("zz(X) :- b1(X)."),
        }

    def told(self, ask: Callable[[], Any]) -> str:
        try:
            return str(ask())
        except EverviewError as error:
            return f"{error.code} {error.message} {error.hint}"


def _masked(text: str) -> str:
    return re.sub(r'"(time|from|to)": ?-?\d+', r'"\1": T', text)


class Bob:
    """He does some of everything; what he may not, fails."""

    def __init__(self, tenants: Tenants, seed: int) -> None:
        self.tenants = tenants
        self.random = random.Random(seed)
        self.pg = tenants.psycopg("bob")
        self.http = tenants.http("bob")
        self.client = tenants.client("bob")
        self.next = 1000

    def close(self) -> None:
        self.http.close()
        self.client.close()
        self.pg.close()
        self.tenants.sql("ALTER ROLE bob QUOTA (rows NONE, rate NONE, views NONE, milliseconds NONE)")

    def act(self) -> str:
        """One of them; its name."""
        every = [n for n in dir(self) if n.startswith("do_")]
        what = self.random.choice([*every, *["do_definitions", "do_client"] * 3])
        with contextlib.suppress(psycopg.Error, EverviewError, httpx.HTTPError):
            getattr(self, what)()
        with contextlib.suppress(psycopg.Error):
            self.pg.rollback()
        if self.pg.closed:
            self.pg = self.tenants.psycopg("bob")
        return what

    def name(self) -> str:
        return self.random.choice(HIS)

    def do_rows(self) -> None:
        self.next += 1
        text = self.random.choice(
            [
                "INSERT INTO doc VALUES ({n}, 'b', '{v}')", "INSERT INTO doc VALUES ({n}, 'a', 'no')",
                "UPDATE doc SET v = v || '!'", "DELETE FROM doc WHERE id > 1000", "DELETE FROM doc",
                "INSERT INTO task VALUES ({n}, 'blue', 0)", "UPDATE task SET n = 1 / 0",
                "INSERT INTO doc VALUES (1, 'b', '')",
                "INSERT INTO doc VALUES ({n}, 'b', 'x') ON CONFLICT (id) DO UPDATE SET v = 'y' RETURNING *",
            ]
        )  # fmt: skip
        self.pg.execute(text.format(n=self.next, v=self.random.choice(["7", "not a number"])))

    def do_definitions(self) -> None:
        """A thing is made, and others of it; most of the time it stays until the next time."""
        name, more = self.name(), self.random.choice(["his.b1", "b2"])
        for text in (f"DROP VIEW {name}", f"DROP TABLE {name} CASCADE", f"DROP FUNCTION {name} CASCADE"):
            with contextlib.suppress(psycopg.Error):
                self.pg.execute(text)
        made = [
            [f"CREATE TABLE {name} (x int)", f"INSERT INTO {name} VALUES (1)", f"CREATE INDEX {name} ON {name} (x)"],
            [f"CREATE TABLE {name} (x int)", f"CREATE POLICY p ON {name} USING (x > 0)",
             f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY", f"CREATE VIEW {more} AS SELECT x FROM {name}"],
            [f"CREATE VIEW {name} AS SELECT id AS x FROM doc", f"CREATE INDEX {name} ON {name} (x)"],
            [f"CREATE VIEW {name} AS SELECT 1 / (n * 0) AS x FROM task", f"SELECT * FROM {name}"],
            [f"CREATE FUNCTION {name}(n int) RETURNS int LANGUAGE SQL AS 'SELECT n'", f"SELECT {name}(id) FROM doc"],
            [f"CREATE TABLE {name} (LIKE doc)", f"INSERT INTO {name} SELECT * FROM doc",
             f"COMMENT ON TABLE {name} IS 'his'"],
            [f"CREATE TABLE {name} (x int REFERENCES doc (id))", "DROP TABLE doc",
             f"ALTER TABLE {name} ADD COLUMN y int"],
            ["DROP TABLE his.b1 CASCADE", "CREATE TABLE his.b1 (x int)", f"CREATE VIEW {name} AS SELECT x FROM his.b1"],
        ]  # fmt: skip
        for text in self.random.choice(made):
            with contextlib.suppress(psycopg.Error):
                self.pg.execute(text)

    def do_transaction(self) -> None:
        self.pg.execute("BEGIN")
        self.do_rows()
        if self.random.random() < 0.5:
            self.do_definitions()
        self.pg.execute(self.random.choice(["COMMIT", "ROLLBACK", "SAVEPOINT s", "SET LOCAL ROLE app"]))

    def do_stream(self) -> None:
        query = self.random.choice(
            ["doc", "(SELECT v, count(*) AS n FROM doc GROUP BY v)", "(SELECT v::int AS n FROM doc)", "task", "b1"]
        )
        self.pg.execute("BEGIN")
        self.pg.execute(f"DECLARE c CURSOR FOR SUBSCRIBE TO {query}")
        self.pg.execute("FETCH ALL c")

    def do_events(self) -> None:
        query = self.random.choice(
            [
                "SELECT v, count(*) AS n FROM doc GROUP BY v",
                "SELECT id FROM doc) WITHOUT SNAPSHOT; SET ROLE app; SUBSCRIBE TO (SELECT 1",
            ]
        )
        with self.http.stream("POST", "/v1/events", content=query) as answer:
            next(answer.iter_lines(), None)

    def do_settings(self) -> None:
        texts = [
            "SET ROLE app",
            "RESET ROLE",
            "SET search_path = his, public",
            "SET TIME ZONE 'Asia/Tokyo'",
            "SET plan = 'wco'",
        ]
        text = self.random.choice([*texts, "SET sharing = 'value'", "SET dialect = 'duckdb'", "SET tenant = 'a'"])
        self.http.post("/v1/sql", json={"sql": text})
        self.pg.execute(text)
        self.pg.execute("RESET ROLE")

    def do_copy(self) -> None:
        with self.pg.cursor() as cursor, cursor.copy("COPY doc FROM STDIN") as copy:
            for number in range(self.random.randrange(5)):
                self.next += 1
                copy.write_row((self.next, self.random.choice("bba"), str(number)))

    def do_copy_out(self) -> None:
        with self.pg.cursor() as cursor, cursor.copy("COPY (SELECT * FROM doc) TO STDOUT") as copy:
            b"".join(map(bytes, copy))

    def do_prepared(self) -> None:
        for _ in range(7):
            self.pg.execute("SELECT v FROM doc WHERE id = %s", (self.random.choice([1, 2, 1000]),), prepare=True)
            self.pg.execute("UPDATE doc SET v = %s WHERE id = %s", ("0", self.random.choice([1, 2])), prepare=True)

    def do_client(self) -> None:
        db, name = self.client, self.name()
        ask: list[Callable[[], Any]] = [
            lambda: db["doc"].insert([(self.next + 1, "b", "c")]), lambda: db["doc"].insert([(1, "b", "c")]),
            lambda: db["doc"].upsert([(2, "b", "z")]), lambda: db["doc"].delete(keys=[1]), lambda: db["doc"].rows(),
            lambda: db.datalog(f"{name}(X) :- doc(X, _, _)."), lambda: db.view(name, db["doc"].select("id")),
            lambda: db.prepare(name, "SELECT v FROM doc WHERE id = $k")(k=2), lambda: db[name].drop(),
            lambda: db.what_if(insert={"doc": [(9, "b", "x")]}).changes("total"), lambda: db["total"].why(("b", 1)),
        ]  # fmt: skip
        self.next += 1
        self.random.choice(ask)()

    def do_push(self) -> None:
        self.next += 1
        body = self.random.choice(
            ['{{"id": {0}, "tenant": "b", "v": "1"}}', '{{"id": {0}, "tenant": "a"}}', "{{", "[1"]
        )
        headers = {"idempotency-key": self.random.choice(["one", "two"])} if self.random.random() < 0.5 else {}
        self.http.post("/v1/tables/doc/rows", content=body.format(self.next), headers=headers)

    def do_catalogue(self) -> None:
        text = [
            "SELECT * FROM pg_class",
            "SELECT count(*) FROM pg_type a, pg_type b WHERE a.typname ~ '(a+)+$'",
            "SELECT * FROM ev.quotas",
        ]
        self.pg.execute(self.random.choice(text))

    def do_vanish(self) -> None:
        """In the middle of something, without a word."""
        with contextlib.suppress(OSError):
            self.pg.execute("BEGIN")
            self.do_rows()
            os.set_blocking(self.pg.pgconn.socket, True)
            socket.socket(fileno=os.dup(self.pg.pgconn.socket)).shutdown(socket.SHUT_RDWR)
        self.pg.close()

    def do_limits(self) -> None:
        quota = self.random.choice(
            ["rows 1", "rate 1", "views 0", "milliseconds 1", "connections 9", "subscriptions 0"]
        )
        self.tenants.sql(f"ALTER ROLE bob QUOTA ({quota})")
        for _ in range(3):
            with contextlib.suppress(psycopg.Error):
                self.pg.execute("SELECT * FROM doc, generate_series(1, 1000)")
        self.tenants.sql(f"ALTER ROLE bob QUOTA ({quota.split()[0]} NONE)")


def same_whatever(tenants: Tenants, seed: int, rounds: int, acts: int) -> None:
    ann, bob, done = Asking(tenants), Bob(tenants, seed), list[str]()
    try:
        before = ann.all()
        for _ in range(rounds):
            done += [bob.act() for _ in range(acts)]
            now = ann.all()
            other = [f"{k}: {v} became {now[k]}" for k, v in before.items() if now[k] != v]
            assert not other, "\n".join([f"seed {seed} after {done}", *other])
    finally:
        ann.close()
        bob.close()


@pytest.fixture
def busy(tenants: Tenants) -> Iterator[Tenants]:
    tenants.sql(MORE)
    yield tenants


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_bob_does_ann_is_answered_the_same(busy: Tenants, seed: int) -> None:
    same_whatever(busy, seed, 3, 15)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 100 + int(os.environ.get("EVERVIEW_SEEDS", "3"))))
def test_whatever_bob_does_for_long(busy: Tenants, seed: int) -> None:
    same_whatever(busy, seed, 6, 40)
