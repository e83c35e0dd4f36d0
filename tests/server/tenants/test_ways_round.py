"""Ways round the rights that were open once: texts inside texts, inner sessions, the catalogue, declarations."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

import everview as ev
from everview.errors import EverviewError
from everview.server.http.guard import Guard
from everview.server.identity import Identity
from everview.server.settings import Settings
from everview.session.core import core_of
from everview.session.rights.principal import Principal, acting
from tests.server.tenants.asking import ANN, BOB, refused, rows
from tests.server.tenants.conftest import SETUP, Tenants


@pytest.fixture
def db() -> Iterator[Any]:
    with ev.connect() as session:
        session.sql(SETUP + "GRANT CREATE ON SCHEMA public TO app")
        yield session


# texts inside texts

STEPS = ("SET ROLE app", "BEGIN", "SET TIME ZONE 'Europe/Oslo'", "SET sharing = 'value'", "SET search_path = public")


@pytest.mark.parametrize("step", STEPS)
def test_a_followed_query_is_one_query(tenants: Tenants, step: str) -> None:
    """Ann's text closes the brackets that it is put into, and goes on. Once, everybody was Ann after that."""
    text = f"SELECT id FROM doc) WITHOUT SNAPSHOT; {step}; SUBSCRIBE TO (SELECT id FROM doc"
    with tenants.http("ann") as ann, tenants.http("bob") as bob:
        assert ann.post("/v1/events", content=text).json()["error"]["code"] == "E_SYNTAX"
        with bob.stream("POST", "/v1/events", content="SELECT id, current_user AS u FROM doc -- his") as told:
            frames = next(line for line in told.iter_lines() if line.startswith("data: "))
    (snapshot, *_) = json.loads(frames.removeprefix("data: "))
    assert snapshot["rows"] == [[1, "2", "bob"]]
    assert tenants.sql("SELECT current_user AS u, count(*) AS n FROM doc") == [("everview", 3)]
    assert tenants.sql("SHOW TIME ZONE") == [("UTC",)]


# the schema ev


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text("a\n471\n")
    return path


@pytest.mark.parametrize("who", ["ann", "bob", "admin"])
def test_what_looks_at_ev_cannot_use_files(tenants: Tenants, secret_file: Path, who: str) -> None:
    """The relations of ev are in a session of their own, which could read and write any file."""
    tenants.sql("CREATE ROLE pg_monitor; GRANT pg_monitor TO bob; ALTER ROLE ann QUOTA (views 10)")
    target = secret_file.with_name("written.csv")
    texts = [
        f"SELECT a FROM ev.quotas q, '{secret_file}' f",
        f"SELECT a FROM ev.quotas WHERE EXISTS (FROM '{secret_file}')",
    ]
    if who != "ann":
        texts += [f"SELECT a FROM ev.views, '{secret_file}' f", f"COPY (SELECT name FROM ev.views) TO '{target}'"]
    with tenants.http(who) as http:
        for text in texts:
            answer = http.post("/v1/sql", json={"sql": text})
            assert answer.status_code >= 400 and "471" not in answer.text, text
        assert http.post("/v1/sql", json={"sql": "SELECT role FROM ev.quotas WHERE what = 'views'"}).status_code == 200
    assert not target.exists()


def test_a_program_may_use_files_with_ev(secret_file: Path) -> None:
    with ev.connect() as session:
        assert session.sql(f"SELECT f.a FROM ev.session, '{secret_file}' f").rows() == [(471,)]


@pytest.mark.parametrize("who", [None, BOB])
def test_nobody_changes_what_ev_tells(db: Any, who: Principal | None) -> None:
    db.sql("CREATE ROLE pg_monitor; GRANT pg_monitor TO bob")
    there = rows(db, "SELECT name FROM ev.views", who)
    for text in (
        "DELETE FROM ev.views",
        "INSERT INTO ev.views SELECT * FROM ev.views",
        "WITH d AS (DELETE FROM ev.views RETURNING *) SELECT * FROM d",
    ):
        refused(db, text, who)
    assert rows(db, "SELECT name FROM ev.views", who) == there == [("total",)]
    rows(db, "CREATE VIEW ev.mine AS SELECT count(*) AS n FROM ev.views", who)
    assert rows(db, "SELECT * FROM ev.mine", who) == [(1,)]


# declarations


def test_a_declaration_tells_nothing_of_a_hidden_table(db: Any) -> None:
    db.sql("CREATE TABLE keyed (x int PRIMARY KEY, y int UNIQUE); INSERT INTO keyed VALUES (471, 1)")
    db.sql("CREATE TABLE some (x int PRIMARY KEY, hidden int); GRANT SELECT (x) ON some TO app")
    for text in (
        "CREATE TABLE mine (LIKE {})",
        "CREATE TABLE mine (LIKE {} INCLUDING ALL)",
        "CREATE TABLE mine (z int REFERENCES {} (x))",
        "CREATE TABLE mine (z int REFERENCES {} (nope))",
        "CREATE TABLE mine (z int, FOREIGN KEY (z) REFERENCES {})",
    ):
        said = {refused(db, text.format(name)).replace(name, "it") for name in ("keyed", "secret", "absent")}
        assert len({s.partition("\n")[0] for s in said}) == 1, said
        refused(db, text.format("some"))
    rows(db, "CREATE TABLE own (x int)")
    refused(db, "ALTER TABLE own ADD FOREIGN KEY (x) REFERENCES keyed (x)")
    refused(db, "ALTER TABLE own ADD FOREIGN KEY (x) REFERENCES doc (id)")
    db.sql("GRANT REFERENCES ON doc TO app")
    rows(db, "CREATE TABLE mine (z int REFERENCES doc (id))")
    rows(db, "INSERT INTO mine VALUES (1)")


HIDDEN = """
CREATE SCHEMA hid; CREATE TABLE hid.t (x int); CREATE ROLE hrole; CREATE INDEX hidx ON secret (x);
CREATE FUNCTION hfun(n int) RETURNS int LANGUAGE SQL AS 'SELECT n'; CREATE SEQUENCE hseq;
CREATE TABLE some (id int, hcol int); GRANT SELECT (id) ON some TO app; CREATE INDEX hidx2 ON some (hcol);
"""


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("SELECT {}(1)", "hfun"),
        ("SELECT * FROM {}(1)", "hfun"),
        ("DROP FUNCTION {}", "hfun"),
        ("CREATE OR REPLACE VIEW v AS SELECT {}(1) AS x", "hfun"),
        ("SET search_path = {}", "hid"),
        ("DROP SCHEMA {}", "hid"),
        ("CREATE TABLE {}.n (x int)", "hid"),
        ("ALTER TABLE own SET SCHEMA {}", "hid"),
        ("SHOW TABLES FROM {}", "hid"),
        ("SELECT * FROM {}.t", "hid"),
        ("DROP INDEX {}", "hidx"),
        ("DROP INDEX {}", "hidx2"),
        ("GRANT {} TO ann", "hrole"),
        ("SET ROLE {}", "hrole"),
        ("ALTER ROLE {} LOGIN", "hrole"),
        ("ALTER ROLE {} PASSWORD 'x'", "hrole"),
        ("DROP ROLE {}", "hrole"),
        ("CREATE TOKEN t FOR ROLE {}", "hrole"),
        ("DROP TOKEN t FOR ROLE {}", "hrole"),
        ("CREATE ROLE x IN ROLE {}", "hrole"),
        ("SELECT nextval('{}')", "hseq"),
        ("DROP SEQUENCE {}", "hseq"),
        ("ALTER SEQUENCE {} RESTART", "hseq"),
        ("SELECT {} FROM some", "hcol"),
        ("DESCRIBE {}", "secret"),
        ("COMMENT ON TABLE {} IS 'x'", "secret"),
        ("TRUNCATE {}", "secret"),
        ("DROP FUNCTION {} (int, int)", "hfun"),
        ("COMMENT ON COLUMN some.{} IS 'x'", "hcol"),
    ],
)
def test_a_hidden_name_and_a_missing_one_are_told_alike(db: Any, text: str, hidden: str) -> None:
    db.sql(HIDDEN)
    rows(db, "CREATE TABLE own (x int)")
    said = []
    for name in (hidden, "zzqx"):
        with acting(ANN), pytest.raises(ev.EverviewError) as error:
            db.sql(text.format(name))
        said.append((error.value.code, error.value.message.replace(name, "it"), error.value.hint.replace(name, "it")))
        assert hidden not in str(error.value).replace(text.format(name), "").replace(name, "it")
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "text",
    ["DROP TABLE IF EXISTS secret", "DROP FUNCTION IF EXISTS hfun", "DROP FUNCTION IF EXISTS hfun (int, int)",
     "ALTER SEQUENCE IF EXISTS hseq RESTART", "DROP INDEX IF EXISTS hidx", "DROP SCHEMA IF EXISTS hid",
     "DROP ROLE IF EXISTS hrole", "DROP POLICY IF EXISTS hpol ON secret"],
)  # fmt: skip
def test_what_is_hidden_is_passed_over_by_if_exists(db: Any, text: str) -> None:
    """As what is missing is."""
    db.sql(HIDDEN + "CREATE POLICY hpol ON secret USING (true)")
    said = []
    for written in (text, re.sub(r"EXISTS \w+", "EXISTS zzqx", text)):
        try:
            said.append(str(rows(db, written)))
        except ev.EverviewError as error:
            said.append(f"{error.code} {error.message}".replace(written.split()[-1], "it"))
    assert said[0] == said[1]
    assert (
        rows(db, "SELECT hfun(1) AS x, nextval('hseq') AS n", None) == [(1, 1)]
        and len(db.sql("SHOW INDEXES").rows()) >= 2
    )


def test_no_hint_names_what_is_hidden(db: Any) -> None:
    db.sql(HIDDEN)
    assert rows(db, "SHOW INDEXES") == [] and rows(db, "SHOW SCHEMAS") == [("public",)]
    for text in ("GRANT hrol TO ann", "DROP INDEX hi", "SELECT hfum(1)", "DROP FUNCTION hfum", "SET search_path = hi"):
        with acting(ANN), pytest.raises(ev.EverviewError) as error:
            db.sql(text)
        assert not any(name in str(error.value) for name in ("hrole", "hidx", "hfun", "hid\n", "'hid'")), error.value


def test_names_of_the_servers_own_views_are_nobodys(db: Any) -> None:
    """Who took one kept others from following anything."""
    with acting(ANN), pytest.raises(ev.EverviewError) as error:
        db.sql('CREATE TABLE "(shared 1)" (x int)')
    assert error.value.code == "E_NAME"
    with acting(ANN), pytest.raises(ev.EverviewError):
        db.table("(subscription 1)", {"x": int})


# the catalogue of PostgreSQL

ENDLESS = [
    "SELECT count(*) FROM pg_class WHERE '{}!' ~ '(a+)+$'".format("a" * 60),
    "SELECT regexp_replace('{}!', '(a+)+$', 'x') FROM pg_namespace".format("a" * 60),
    "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r, pg_namespace",
    "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d",
    "SELECT length(replace(printf('%.*c', 100000000, 'x'), 'x', 'yyyy')) FROM pg_namespace",
    "SELECT count(*) FROM generate_series(1, 10000000000) g, pg_namespace",
    "SELECT printf('%.*c', 1000000, 'x') FROM pg_type a, pg_type b",
]


@pytest.mark.parametrize("text", ENDLESS)
def test_a_question_about_the_catalogue_holds_up_nobody(tenants: Tenants, text: str) -> None:
    """They were answered on the loop, where one regular expression could go on forever, and nobody was served."""
    tenants.sql("ALTER ROLE ann QUOTA (milliseconds 700)")
    waited: list[float] = []
    over = threading.Event()

    def ask() -> None:
        with tenants.http("bob") as http:
            while not waited or not over.is_set():
                began = time.monotonic()
                assert http.get("/healthz").status_code == 200
                waited.append(time.monotonic() - began)
                time.sleep(0.01)

    asking = threading.Thread(target=ask)
    with tenants.psycopg("ann") as ann:
        ann.execute("SELECT count(*) FROM pg_class")
        asking.start()
        began = time.monotonic()
        try:
            ann.execute(text)
        except psycopg.Error as error:
            assert error.sqlstate in ("57014", "53200", "54000", "0A000"), error
        finally:
            over.set()
            asking.join()
        assert time.monotonic() - began < 10
        assert ann.execute("SELECT count(*) FROM pg_namespace").fetchone() == (3,)  # and it goes on
    assert max(waited) < 1, "others waited"


def test_the_catalogue_tells_of_ones_own_rights(tenants: Tenants) -> None:
    tenants.sql("CREATE POLICY his ON doc TO bob USING (v = '471'); GRANT SELECT ON doc TO bob")
    with tenants.psycopg("ann") as ann:
        assert ann.execute("SELECT policyname, roles::text FROM pg_policies WHERE tablename = 'doc'").fetchall() == [
            ("mine", "{public}")
        ]
        (acl,) = ann.execute("SELECT relacl::text FROM pg_class WHERE relname = 'doc'").fetchone() or ("",)
        assert "bob" not in acl and "app=arwd" in acl
        for role in ("bob", "zzqx"):
            with pytest.raises(psycopg.Error, match=f"there is no role {role}"):
                ann.execute("SELECT has_table_privilege(%s, 'doc', 'SELECT')", (role,))
        assert ann.execute("SELECT has_table_privilege('app', 'doc', 'SELECT')").fetchone() == (True,)
    with tenants.psycopg("admin") as admin:
        assert admin.execute("SELECT count(*) FROM pg_policies WHERE tablename = 'doc'").fetchone() == (2,)
        assert admin.execute("SELECT has_table_privilege('bob', 'doc', 'SELECT')").fetchone() == (True,)


# roles and tokens


def test_noinherit_has_no_privileges_until_it_acts_as_the_group(db: Any) -> None:
    db.sql("CREATE ROLE boss; GRANT SELECT ON secret TO boss; CREATE USER careful NOINHERIT IN ROLE boss")
    careful = Principal("careful")
    refused(db, "SELECT x FROM secret", careful)
    assert rows(db, "SET ROLE boss; SELECT x FROM secret", careful) == [(42,)]
    db.sql("RESET ROLE; ALTER ROLE boss QUOTA (rows 0)")
    refused(db, "SELECT generate_series(1, 2)", careful, "E_QUOTA")


def test_who_makes_roles_cannot_climb_over_one_that_acts_as_a_superuser(db: Any) -> None:
    db.sql("CREATE ROLE top SUPERUSER; CREATE USER deputy IN ROLE top; CREATE USER maker CREATEROLE")
    maker = Principal("maker")
    for text in (
        "ALTER ROLE deputy PASSWORD 'mine'",
        "CREATE TOKEN t FOR ROLE deputy",
        "GRANT deputy TO maker",
        "CREATE USER x IN ROLE deputy",
        "DROP ROLE deputy",
    ):
        with acting(maker), pytest.raises(ev.EverviewError):
            db.sql(text)
    rows(db, "ALTER ROLE bob PASSWORD 'new'", maker)


def test_a_token_may_have_any_name(tenants: Tenants) -> None:
    """JWTs are tokens called jwt, which are not looked up."""
    (made,) = tenants.sql("CREATE TOKEN jwt FOR ROLE ann")[0]
    with psycopg.connect(host="127.0.0.1", port=tenants.pg, user="ann", password="pw of ann", autocommit=True) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)
    client = ev.connect(tenants.beside.address, token=made)
    core = core_of(tenants.beside.server.engine.session)
    who = Identity(tenants.beside.server.engine, Settings(token="x")).of_token(made)
    assert core.access.alive(who)
    tenants.sql("DROP TOKEN jwt FOR ROLE ann")
    assert not core.access.alive(who)
    with pytest.raises(EverviewError):
        client.sql("SELECT 1 AS x")
    client.close()


@pytest.mark.parametrize("host", ["dead.be", "abc.de", "bad.cafe", "127.0.0.1.de", "localhost.de", "fed.ac:8080"])
def test_a_name_of_letters_that_addresses_have_is_no_address(tenants: Tenants, host: str) -> None:
    """On all addresses, any address may be the server's own; a name that a page's owner has chosen is none."""
    guard = Guard(None, Settings(host="0.0.0.0", token="x"), None)  # type: ignore[arg-type]
    with pytest.raises(EverviewError) as error:
        guard._check_host(host)
    assert error.value.code == "E_FORBIDDEN_HOST"
    for mine in ("10.0.0.7:8080", "[fe80::1]:80", "localhost", "127.0.0.1"):
        guard._check_host(mine)
    answer = httpx.get(f"{tenants.beside.url}/healthz", headers={"host": host})
    assert answer.status_code == 403


# what depends on something


def test_explain_is_cut_at_what_is_not_ones_own(db: Any) -> None:
    db.sql("CREATE VIEW granted AS SELECT d.tenant FROM doc d, secret s WHERE d.v <> '471'")
    db.sql("CREATE TABLE member (who471 text, of471 text); CREATE TABLE own (id int, tenant text, col471 int)")
    db.sql("GRANT SELECT ON granted TO app; GRANT SELECT (id, tenant) ON own TO app")
    db.sql("CREATE POLICY p ON own USING (tenant IN (SELECT of471 FROM member WHERE who471 = current_user))")
    db.sql("ALTER TABLE own ENABLE ROW LEVEL SECURITY")
    rows(db, "CREATE VIEW mine AS SELECT tenant FROM granted; GRANT SELECT ON mine TO bob")
    said = {
        text: "\n".join(line for (line,) in rows(db, f"EXPLAIN {text}"))
        for text in (
            "SELECT * FROM granted",
            "granted",
            "SELECT * FROM own",
            "mine",
            "SELECT * FROM mine",
            "SELECT 1 AS x",
        )
    }
    for text, lines in said.items():
        assert not any(word in lines for word in ("471", "secret", "member")), (text, lines)
    assert "Table granted (tenant str?)" in said["mine"] and "Table own (id int?, tenant str?, c2 int?)" in str(said)
    with acting(BOB):
        assert "granted" not in str(db.sql("EXPLAIN mine").rows())
    assert "secret" in str(db.sql("EXPLAIN mine").rows())


def test_a_views_definition_in_the_catalogue_is_cut_too(tenants: Tenants) -> None:
    tenants.sql("GRANT CREATE ON SCHEMA public TO app; CREATE VIEW granted AS SELECT d.tenant FROM doc d, secret s")
    tenants.sql("GRANT SELECT ON granted TO app")
    with tenants.psycopg("ann") as ann, tenants.psycopg("admin") as admin:
        ann.execute("CREATE VIEW mine AS SELECT tenant FROM granted")
        for _ in range(2):
            assert "secret" in str(admin.execute("SELECT pg_get_viewdef('mine'::regclass)").fetchone())
            (said,) = ann.execute("SELECT pg_get_viewdef('mine'::regclass)").fetchone() or ("",)
            assert "granted" in said and "secret" not in said
    client = tenants.client("ann")
    assert "secret" not in client["granted"].explain() and "secret" not in client["mine"].explain()
    client.close()


def test_why_does_not_name_what_is_hidden(db: Any) -> None:
    db.sql("CREATE VIEW shown AS SELECT s.x FROM secret s; GRANT SELECT ON shown TO app")
    for text in ("WHY shown (42)", "EXPLAIN WHY SELECT x FROM shown"):
        assert "secret" not in refused(db, text)


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE own",
        "DROP TABLE own CASCADE",
        "ALTER TABLE own DROP COLUMN x",
        "ALTER TABLE own DROP COLUMN x CASCADE",
        "ALTER TABLE own ALTER COLUMN x TYPE text",
        "DROP FUNCTION fa",
        "DROP FUNCTION fa CASCADE",
        "CREATE OR REPLACE FUNCTION fa(n int) RETURNS int LANGUAGE SQL AS 'SELECT 1'",
        "DROP SCHEMA s",
        "DROP SCHEMA s CASCADE",
        "ALTER TABLE doc DROP CONSTRAINT doc_pkey",
        "ALTER INDEX by471 RENAME TO x",
        "ALTER VIEW total SET (plan = best)",
    ],
)
def test_what_others_have_made_of_it_is_not_named_nor_dropped(db: Any, text: str) -> None:
    db.sql("CREATE SCHEMA s; GRANT CREATE, USAGE ON SCHEMA s TO app; ALTER SCHEMA s OWNER TO ann")
    rows(db, "CREATE TABLE own (x int, y int); CREATE FUNCTION fa(n int) RETURNS int LANGUAGE SQL AS 'SELECT n'")
    rows(db, "GRANT SELECT ON own TO bob; GRANT EXECUTE ON FUNCTION fa TO bob")
    rows(db, "CREATE VIEW bobs471 AS SELECT x FROM own; CREATE VIEW called471 AS SELECT fa(x) AS x FROM own", BOB)
    rows(db, "CREATE TABLE s.his471 (x int); CREATE INDEX by471 ON s.his471 (x)", BOB)
    before = (*db.tables, *db.views, *core_of(db).catalog.sql_functions)
    with acting(ANN), pytest.raises(ev.EverviewError) as error:
        db.sql(text)
    assert error.value.code in ("E_FORBIDDEN", "E_IN_USE", "E_TABLE")
    assert "471" not in str(error.value).replace("by471", "it")  # which the statement has named
    assert (*db.tables, *db.views, *core_of(db).catalog.sql_functions) == before


# quotas


def test_what_one_has_made_counts_whoever_owns_it(db: Any) -> None:
    """Ann gives her tables to a group that has no quota."""
    db.sql("CREATE ROLE rich; GRANT rich TO ann; GRANT CREATE ON SCHEMA public TO rich; ALTER ROLE ann QUOTA (views 2)")
    rows(db, "CREATE TABLE one (x int); ALTER TABLE one OWNER TO rich")
    rows(db, "SET ROLE rich; CREATE TABLE two (x int); RESET ROLE")
    db.sql("RESET ROLE")
    for text in ("CREATE TABLE three (x int)", "CREATE VIEW three AS SELECT x FROM one"):
        refused(db, text, code="E_QUOTA")
        with acting(Principal("ann", acts_as="rich")), pytest.raises(ev.EverviewError) as error:
            db.sql(text)
        assert error.value.code == "E_QUOTA"
    db.sql("REASSIGN OWNED BY rich TO rich")
    rows(db, "CREATE TABLE three (x int)")
    db.sql("ALTER TABLE three OWNER TO rich")
    rows(db, "CREATE TABLE four (x int); CREATE TABLE five (x int)")
    refused(db, "CREATE TABLE six (x int)", code="E_QUOTA")


def test_an_index_needs_room(db: Any) -> None:
    rows(db, "CREATE TABLE own (x int, y int); INSERT INTO own SELECT g, g FROM generate_series(1, 20000) g")
    db.sql("ALTER ROLE ann QUOTA (bytes 10000)")
    for text in ("CREATE INDEX i ON own (y)", "INSERT INTO own VALUES (0, 0)", "CREATE VIEW v AS SELECT y FROM own"):
        refused(db, text, code="E_QUOTA")
    db.sql("ALTER ROLE ann QUOTA (bytes NONE)")
    rows(db, "CREATE INDEX i ON own (y)")


def test_rows_that_are_pushed_are_counted(tenants: Tenants) -> None:
    tenants.sql("ALTER ROLE ann QUOTA (rows 2)")
    body = "".join(json.dumps({"id": i, "tenant": "a", "v": ""}) + "\n" for i in range(60, 63))
    client = tenants.client("ann")
    with tenants.http("ann") as http:
        assert http.post("/v1/tables/doc/rows", content=body).status_code == 429
    with pytest.raises(EverviewError) as error:
        client["doc"].insert([(i, "a", "") for i in range(60, 63)])
    assert error.value.code == "E_QUOTA"
    client["doc"].insert([(60, "a", ""), (61, "a", "")])
    client.close()


def test_a_view_does_not_tell_from_which_tables_it_is(tenants: Tenants) -> None:
    """Ann may read the view, and nothing below it: without one of its tables, or with a chance, its rows would tell."""
    tenants.sql("CREATE VIEW sec AS SELECT x FROM secret; GRANT SELECT ON sec TO app; CREATE TABLE other (x int)")
    client = tenants.client("ann")
    try:
        view = client["sec"]
        said: dict[str, list[Any]] = {name: [] for name in ("secret", "secre", "other", "absent")}
        for name, errors in said.items():
            for ask in (
                lambda name=name: view.trust((42,), without=name),
                lambda name=name: view.probability((42,), {name: 0.5}),
                lambda: view.provenance((42,)),
            ):
                with pytest.raises(EverviewError) as error:
                    ask()
                errors.append((error.value.code, str(error.value)))
        assert len({tuple(errors) for errors in said.values()}) == 1
        assert {code for code, _ in said["secret"]} == {"E_FORBIDDEN"}
        tenants.sql("GRANT SELECT, DELETE ON secret TO app")
        assert not view.trust((42,), without="secret") and view.probability((42,), {"secret": 0.5}).lower == 0.5
        said = {}
        for name in ("other", "absent"):
            with pytest.raises(EverviewError) as error:
                view.trust((42,), without=name)
            said[str(error.value).replace(name, "it")] = [error.value.code]
        assert list(said.values()) == [["E_FORBIDDEN"]]
    finally:
        client.close()


@pytest.mark.parametrize("column", ["x text DEFAULT tr()", "x text GENERATED ALWAYS AS (tr()) STORED"])
def test_a_table_reads_nothing_for_whoever_inserts(db: Any, column: str) -> None:
    """Bob's function reads nothing when his table is made; replaced, it would give him what others see."""
    made = "FUNCTION tr() RETURNS text LANGUAGE SQL AS $$ SELECT {} $$"
    for text in ("CREATE " + made.format("'one'"), f"CREATE TABLE trap (id int, {column})",
                 "GRANT INSERT ON trap TO app; GRANT EXECUTE ON FUNCTION tr TO app"):  # fmt: skip
        rows(db, text, BOB)
    rows(db, "INSERT INTO trap (id) VALUES (1)")
    rows(db, "CREATE OR REPLACE " + made.format("string_agg(v, ',') FROM doc"), BOB)
    for who in (ANN, None):
        refused(db, "INSERT INTO trap (id) VALUES (2)", who, "E_UNSUPPORTED")
    rows(db, "CREATE OR REPLACE " + made.format("'one'"), BOB)
    rows(db, "INSERT INTO trap (id) VALUES (3)")  # who might call it before, may
    assert rows(db, "SELECT id, x FROM trap", BOB) == [(1, "one"), (3, "one")]


def test_no_relation_of_the_catalogue_tells_what_is_hidden(tenants: Tenants) -> None:
    """Every table and view of pg_catalog and information_schema, row by row."""
    tenants.sql(
        "CREATE SCHEMA h471; CREATE TABLE h471.t471 (c471 int PRIMARY KEY, u int UNIQUE CHECK (u > 471));"
        "CREATE TABLE b471 (c471 int DEFAULT 471, i471 int GENERATED ALWAYS AS IDENTITY, r int REFERENCES doc (id));"
        "CREATE VIEW v471 AS SELECT c471 AS x FROM b471; CREATE SEQUENCE s471; CREATE ROLE r471;"
        "CREATE FUNCTION f471(a int) RETURNS int LANGUAGE SQL AS 'SELECT a'; COMMENT ON COLUMN b471.c471 IS '471';"
        "CREATE INDEX i471 ON b471 (c471); CREATE TABLE some (id int PRIMARY KEY, c471 int CHECK (c471 > 1) DEFAULT 7);"
        "GRANT SELECT (id) ON some TO app; COMMENT ON COLUMN some.c471 IS '471';"
        "CREATE UNIQUE INDEX j471 ON some (c471);"
        "CREATE POLICY p471 ON some TO r471 USING (c471 = 3); ALTER ROLE r471 SET town = '471'"
    )
    ask = (
        "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname IN ('pg_catalog', 'information_schema')"
    )
    with tenants.psycopg("ann") as ann, tenants.psycopg("admin") as admin:
        names = [name for (name,) in ann.execute(ask).fetchall()]
        assert len(names) > 90

        def told(db: Any) -> list[tuple[str, str]]:
            found = [(name, str(row)) for name in names for row in db.execute(f"SELECT * FROM {name}").fetchall()]
            return [(n, r) for n, r in found if "471" in r or "bob" in r or "secret" in r]

        assert told(ann) == []
        assert len({name for name, _ in told(admin)}) > 15  # or else nothing would be found


def test_columns_that_are_not_granted_have_no_names_over_http(tenants: Tenants) -> None:
    """Lists of relations and errors about rows named them, to those who may read some columns, and change nothing."""
    tenants.sql("CREATE TABLE some (h471 int, id int PRIMARY KEY, open int); GRANT SELECT (id, open) ON some TO app")
    tenants.sql("CREATE VIEW above AS SELECT * FROM some; GRANT SELECT (open) ON above TO app")
    with tenants.http("ann") as http, tenants.client("ann") as client:
        listed = {one["name"]: one for one in http.get("/v1/relations").json()["relations"]}
        assert [c["name"] for c in listed["some"]["columns"]] == ["id", "open"] and listed["some"]["key"] == ["id"]
        assert [c["name"] for c in listed["above"]["columns"]] == ["open"]
        for body, how in (('{"zz": 1}', "insert"), ("[1]", "delete"), ('{"h471": 1}', "upsert")):
            answer = http.post(f"/v1/tables/some/rows?op={how}", content=body)
            assert answer.status_code == 403 and "h471" not in answer.text
        assert client["some"].schema() == {"id": ev.types.INT, "open": ev.types.INT.optional()}
        for how in ("insert", "delete", "upsert"):
            with pytest.raises(EverviewError) as error:
                client._call("change", {"steps": [{"how": how, "name": "some", "rows": [[1]]}]})
            assert error.value.code == "E_FORBIDDEN"
        tenants.sql("GRANT INSERT ON some TO app")
        client["some"].insert([(1, 2, 3)])  # whoever inserts gives all of them
    assert tenants.sql("SELECT * FROM some") == [(1, 2, 3)]


def test_what_was_found_on_opening_is_declared_again_by_its_owner(tmp_path: Path) -> None:
    """To others the name is taken. Once, the error told them the columns of any table, after a restart."""
    with ev.connect(str(tmp_path / "d")) as session:
        session.sql(SETUP + "GRANT CREATE ON SCHEMA public TO app")
        session.sql("CREATE TABLE hid (a471 int PRIMARY KEY); CREATE VIEW hv AS SELECT a471 FROM hid")
        session.prepare("ask", "SELECT x FROM secret WHERE x > $least")
        rows(session, "CREATE TABLE own (x int); CREATE VIEW ov AS SELECT x FROM own")
    with ev.connect(str(tmp_path / "d")) as session:
        with acting(BOB):
            for do in (
                lambda: session.table("hid", {"a": int}),
                lambda: session.table("hid", {"a471": int}, "a471"),
                lambda: session.table("doc", {"id": int}, "id"),
                lambda: session.sql("CREATE TABLE hid (x int)"),
                lambda: session.sql("CREATE VIEW hv AS SELECT 1 AS x"),
                lambda: session.view("hv", session["doc"].select("id")),
                lambda: session.datalog("hv(X) :- doc(X, _, _)."),
                lambda: session.prepare("ask", "SELECT id FROM doc WHERE id > $least"),
                lambda: session.sql("CREATE TABLE own (x int)"),
            ):
                with pytest.raises(ev.EverviewError) as error:
                    do()
                assert error.value.code == "E_NAME" and "471" not in str(error.value)
        rows(session, "CREATE TABLE own (x int); CREATE VIEW ov AS SELECT x FROM own")  # Ann's
        session.sql("CREATE TABLE hid (a471 int PRIMARY KEY); CREATE VIEW hv AS SELECT a471 FROM hid")  # the program's
