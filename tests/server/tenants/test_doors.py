"""Who gets in, by every protocol, and what each endpoint refuses to whom it was not granted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
import time
from typing import Any

import httpx
import psycopg
import pytest
import websockets

import everview as ev
from everview.server.http.app import app
from everview.server.http.calls import CALLS
from everview.server.jwt import LEEWAY, Verifying, sign
from everview.server.settings import Settings
from everview.types import INT
from everview.wire.plans import written_type
from tests.server.tenants.conftest import SECRET, Tenants


def signed(**claims: Any) -> str:
    return sign({"exp": time.time() + 600, **claims}, SECRET)


def ids(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return sorted(int(row[0]) for row in answer.json()["rows"])


def test_tokens_passwords_and_jwts_all_lead_to_somebody(tenants: Tenants) -> None:
    url, ask = tenants.beside.url, {"sql": "SELECT id FROM doc"}
    headers = [
        ({"authorization": f"Bearer {tenants.tokens['ann']}"}, [1, 3]),
        ({"authorization": f"Bearer {tenants.tokens['bob']}"}, [2]),
        ({"authorization": f"Bearer {tenants.tokens['admin']}"}, [1, 2, 3]),
        ({"authorization": f"Bearer {signed(role='tok', tenant='b')}"}, [2]),
        ({"authorization": f"Bearer {signed(sub='ann')}"}, [1, 3]),
    ]
    for header, wanted in headers:
        assert ids(httpx.post(f"{url}/v1/sql", json=ask, headers=header)) == wanted
    assert ids(httpx.post(f"{url}/v1/sql", json=ask, auth=("bob", "pw of bob"))) == [2]
    wrong = [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer ev_t_ann_guess"},
        {"authorization": f"Bearer {tenants.tokens['ann'][:-1]}"},
        {"authorization": f"Bearer {signed(role='nobody')}"},
        {"authorization": f"Bearer {sign({'role': 'ann', 'exp': time.time() - 100}, SECRET)}"},
        {"authorization": f"Bearer {sign({'role': 'ann', 'exp': time.time() + 100}, SECRET + '.')}"},
        {"authorization": f"Bearer {sign({'role': 'ann'}, SECRET)}"},
        {"authorization": "Basic YW5uOmd1ZXNz"},
    ]
    for header in wrong:
        assert httpx.post(f"{url}/v1/sql", json=ask, headers=header).status_code == 401, header


def test_a_jwt_cannot_choose_its_algorithm() -> None:
    head, body, _ = signed(role="ann").split(".")
    for algorithm in ("none", "HS256", "RS256", "HS512", "hs256"):
        import base64

        other = base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode()).rstrip(b"=").decode()
        with pytest.raises(ev.EverviewError) as error:
            Verifying(SECRET).claims(f"{other}.{body}.")
        assert error.value.code == "E_AUTH"
    for odd in ("[]", '"x"', '{"alg": "HS256", "typ": 5}', '{"alg": ["HS256"]}', '{"alg": {}}', "1", "null"):
        with pytest.raises(ev.EverviewError) as error:  # no other exception, whose log would be anybody's to fill
            Verifying(SECRET).claims(f"{base64.urlsafe_b64encode(odd.encode()).rstrip(b'=').decode()}.{body}.aaaa")
        assert error.value.code == "E_AUTH"
    with pytest.raises(ev.EverviewError):
        Verifying("short").check()
    assert head


@pytest.mark.parametrize("kind", ["RS256", "ES256"])
def test_jwts_signed_with_private_keys(kind: str) -> None:
    pytest.importorskip("cryptography")
    import base64

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    key: Any = rsa.generate_private_key(65537, 2048) if kind == "RS256" else ec.generate_private_key(ec.SECP256R1())
    pem = (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    text = f"{part(json.dumps({'alg': kind}).encode())}.{part(json.dumps({'exp': time.time() + 60, 'x': 1}).encode())}"
    if kind == "RS256":
        signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    else:
        r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    verifying = Verifying(pem)
    verifying.check()
    assert verifying.claims(f"{text}.{part(signature)}")["x"] == 1
    for wrong in (f"{text}.{part(signature[:-1] + bytes([signature[-1] ^ 1]))}", sign({"exp": time.time() + 60}, pem)):
        with pytest.raises(ev.EverviewError):
            verifying.claims(wrong)


def test_postgresql_clients_log_in_as_roles(tenants: Tenants) -> None:
    with tenants.psycopg("ann") as db:
        assert db.execute("SELECT id, current_user FROM doc ORDER BY id").fetchall() == [(1, "ann"), (3, "ann")]
        assert db.execute("SELECT current_user").fetchone() == ("ann",)
        for text in ("SELECT * FROM secret", "SET ROLE bob", "SET ROLE everview", "CREATE TABLE t (x int)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                db.execute(text)
        db.execute("SET ROLE app")
        assert db.execute("SELECT current_user").fetchone() == ("app",)
        assert db.execute("SELECT id FROM doc").fetchall() == [(1,), (3,)]  # attributes stay
        db.execute("RESET ROLE")
    for user, password in (("ann", "wrong"), ("tok", "wrong"), ("nobody", "wrong"), ("ann", tenants.tokens["bob"])):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(host="127.0.0.1", port=tenants.pg, user=user, password=password)
    tok = {"host": "127.0.0.1", "port": tenants.pg, "user": "tok"}
    with psycopg.connect(**tok, password=tenants.tokens["tok"]) as db:  # type: ignore[arg-type]
        assert db.execute("SELECT id FROM doc ORDER BY id").fetchall() == [(1,), (3,)]
    with psycopg.connect(**tok, password=signed(role="tok", tenant="b")) as db:  # type: ignore[arg-type]
        assert db.execute("SELECT id FROM doc").fetchall() == [(2,)]
    with tenants.psycopg("admin") as db:
        assert db.execute("SELECT count(*) FROM doc").fetchone() == (3,)
        db.execute("SET ROLE bob")
        assert db.execute("SELECT id FROM doc").fetchall() == [(2,)]


def test_what_a_token_follows_ends_with_it(tenants: Tenants) -> None:
    """A JWT that ends in a moment: the subscription is ended by the server, which nobody has to ask."""

    async def main() -> None:
        token = sign({"role": "tok", "tenant": "a", "exp": time.time() - LEEWAY + 3}, SECRET)
        async with websockets.connect(tenants.beside.url.replace("http", "ws") + "/v1/ws") as socket:
            await socket.send(json.dumps({"type": "hello", "token": token}))
            await socket.recv()
            await socket.send(json.dumps({"type": "subscribe", "id": 1, "view": "doc"}))
            text = ""
            while "E_FORBIDDEN" not in text:
                text = str(await asyncio.wait_for(socket.recv(), 30))

    asyncio.run(main())


def test_a_client_cannot_set_its_own_attributes(tenants: Tenants) -> None:
    with tenants.psycopg("ann") as db:
        for text in ("SET tenant = 'b'", "SET app.tenant = 'b'", "SET role = 'bob'"):
            with pytest.raises(psycopg.Error):
                db.execute(text)
                assert db.execute("SELECT id FROM doc ORDER BY id").fetchall() == [(1,), (3,)]
                raise psycopg.Error
        assert db.execute("SELECT id FROM doc ORDER BY id").fetchall() == [(1,), (3,)]


REFUSED: dict[str, dict[str, Any]] = {
    "relation": {"name": "secret"},
    "table": {"name": "mine", "columns": [["x", written_type(INT)]]},
    "view": {},
    "drop": {"name": "secret"},
    "sql": {"text": "SELECT * FROM secret"},
    "datalog": {"text": "p(X) :- secret(X)."},
    "prepare": {"name": "p", "text": "SELECT * FROM secret WHERE x = $x", "keep": 10},
    "execute": {"name": "p", "values": [], "named": {}},
    "change": {"steps": [{"how": "insert", "name": "secret", "rows": [[1]]}]},
    "advance": {},
    "what_if": {"steps": [], "names": ["secret"]},
    "rows": {"name": "secret"},
    "count": {"name": "secret"},
    "counts": {"name": "secret"},
    "changes": {"name": "secret", "since": 0},
    "lookup": {"name": "secret", "key": 42},
    "errors": {"name": "secret"},
    "explain": {"name": "secret"},
    "text": {"name": "secret", "rows": 5},
    "stats": {"name": "secret"},
    "memory": {},
    "check": {},
    "checkpoint": {},
    "why": {"name": "total", "row": ["a", 2]},
    "why_not": {"name": "total", "row": ["c", 2]},
    "trust": {"name": "total", "row": ["a", 2], "without": "secret"},
    "probability": {"name": "total", "row": ["a", 2], "chances": {}, "nodes": 10},
    "provenance": {"name": "total", "row": ["a", 2]},
}
"""What each call of Everview's own client is refused; those that are not here tell nothing."""

ROUTES: dict[str, tuple[str, Any]] = {
    "/v1/sql": ("POST", {"sql": "SELECT * FROM secret"}),
    "/v1/transaction": ("POST", {"statements": ["INSERT INTO secret VALUES (1)"]}),
    "/v1/datalog": ("POST", {"program": "p(X) :- secret(X)."}),
    "/v1/events": ("POST", "SELECT * FROM secret"),
    "/v1/relations/{name}": ("GET", None),
    "/v1/relations/{name}/rows": ("GET", None),
    "/v1/relations/{name}/changes": ("GET", None),
    "/v1/relations/{name}/events": ("GET", None),
    "/v1/tables/{name}/rows": ("POST", '{"x": 1}'),
    "/metrics": ("GET", None),
    "/v1/support": ("GET", None),
}
OPEN = {
    "/",
    "/everview.js",
    "/grafana.json",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/v1/cancel",
    "/v1/call",
    "/v1/relations",
    "/v1/ws",
}
"""Routes that tell nothing, or are tried below."""


def test_every_route_refuses_what_was_not_granted(tenants: Tenants) -> None:
    guard: Any = app(tenants.beside.server.engine, Settings(), "")
    assert {route.path for route in guard.app.routes} == {*ROUTES, *OPEN}, "a new route has to be tried here"
    before = tenants.sql("SELECT * FROM secret")
    with tenants.http("ann") as http:
        for name in ("secret", "absent"):
            for path, (method, body) in ROUTES.items():
                given = {"json": body} if isinstance(body, dict) else {"content": body}
                if name == "absent" and "{name}" not in path:
                    continue
                answer = http.request(method, path.format(name=name), **given)
                assert answer.status_code == 403, (path, answer.status_code, answer.text)
                assert answer.json()["error"]["code"] == "E_FORBIDDEN" and "42" not in answer.text
        listed = http.get("/v1/relations").json()["relations"]
        assert sorted(one["name"] for one in listed) == ["doc", "total"]
    assert tenants.sql("SELECT * FROM secret") == before


def test_every_call_of_the_client_refuses_what_was_not_granted(tenants: Tenants) -> None:
    assert set(CALLS) - set(REFUSED) == {"hello", "names", "now"}, "a new call has to be tried here"
    with tenants.client("ann") as db:
        assert sorted((*db.tables, *db.views)) == ["doc", "total"]
        for do, head in REFUSED.items():
            if do == "view":
                continue
            with pytest.raises(ev.EverviewError) as error:
                db._call(do, head)
            assert error.value.code == "E_FORBIDDEN", (do, error.value)
        with pytest.raises(ev.EverviewError) as error:
            db.view("mine", db["doc"].distinct())
        assert error.value.code == "E_FORBIDDEN"


def test_the_client_logs_in_with_a_password(tenants: Tenants) -> None:
    with ev.connect(tenants.beside.address, user="bob", password="pw of bob") as db:
        told: list[Any] = []
        stop = db["doc"].subscribe(told.append)
        db["doc"].insert([(5, "b", "y")])
        tenants.beside.server.engine.loop.call_soon_threadsafe(lambda: None)
        end = time.monotonic() + 30
        while sum(len(batch.rows()) for batch in told) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        stop()
        assert sorted(row for batch in told for row, _ in batch.rows()) == [(2, "b", "x"), (5, "b", "y")]
    with pytest.raises(ev.EverviewError) as error:
        ev.connect(tenants.beside.address, user="bob", password="pw of ann")
    assert error.value.code == "E_AUTH"


def test_the_client_sees_its_rows_in_every_way(tenants: Tenants) -> None:
    with tenants.client("ann") as db, tenants.client("bob") as other:
        doc = db["doc"]
        assert sorted(doc.rows()) == [(1, "a", "1"), (3, "a", "5")] == sorted(doc.to_arrow().to_pydict() and doc.rows())
        assert len(doc) == 2 and db["total"].rows() == [("a", 2)]
        assert db.sql("SELECT * FROM total").rows() == [("a", 2)]
        assert doc.lookup(2) == [] and doc.lookup(1) == [(1, "a", "1")]
        assert {row[0] for row, _, _ in doc.changes(0)} == {1, 3}
        with pytest.raises(ev.EverviewError) as error:
            doc.insert([(9, "b", "")])
        assert error.value.code == "E_FORBIDDEN"
        doc.insert([(4, "a", "new")])
        with pytest.raises(ev.EverviewError):
            other["doc"].delete(keys=[4])
        told = db.what_if(insert={"doc": [(5, "a", "")]}).changes("total")
        assert sorted(told) == [(("a", 3), -1), (("a", 4), 1)]
        assert sorted(r[0] for r in doc.as_of(db.time - 1).rows()) == [1, 3]


def test_the_catalogue_shows_what_is_there_for_one(tenants: Tenants) -> None:
    def psql(user: str, password: str, command: str) -> str:
        where = f"postgresql://{user}@127.0.0.1:{tenants.pg}/everview"
        found = subprocess.run(["psql", where, "-XAt", "-c", command], env={**os.environ, "PGPASSWORD": password},
                               capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
        return found.stdout

    everything = psql("everview", tenants.tokens["admin"], r"\du")
    assert all(name in everything for name in ("ann", "bob", "app", "tok", "{app}"))
    own = psql("ann", "pw of ann", r"\du")
    assert "ann" in own and "app" in own and "bob" not in own and "tok" not in own
    rights = psql("everview", tenants.tokens["admin"], r"\dp")
    assert "app=arwd/everview" in rights and "mine" in rights and "secret" in rights
    seen = psql("ann", "pw of ann", r"\dp")
    assert "doc" in seen and "secret" not in seen
    assert "secret" not in psql("ann", "pw of ann", r"\d") and "total" in psql("ann", "pw of ann", r"\dv")
    with tenants.psycopg("ann") as db:
        ask = "SELECT has_table_privilege('doc', 'SELECT'), has_table_privilege('doc', 'TRUNCATE')"
        assert db.execute(ask).fetchone() == (True, False)
        asked = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert asked == [("doc",)]
        asked = db.execute("SELECT count(*) FROM information_schema.columns WHERE table_name = 'secret'").fetchall()
        assert asked == [(0,)]


async def heard(socket: Any) -> list[Any]:
    """The frames of the next message that has some."""
    while True:
        message = json.loads(await asyncio.wait_for(socket.recv(), 30))
        if message["type"] in ("error", "commit"):
            return message.get("frames", [message])


def test_a_websocket_is_somebodys_and_ends_with_the_right(tenants: Tenants) -> None:
    async def main() -> None:
        address = tenants.beside.url.replace("http", "ws") + "/v1/ws"
        async with websockets.connect(address) as socket:
            await socket.send(json.dumps({"type": "hello", "token": tenants.tokens["bob"], "granularity": 0}))
            await socket.recv()
            for wanted in ({"view": "secret"}, {"query": "SELECT * FROM secret"}, {"view": "absent"}):
                await socket.send(json.dumps({"type": "subscribe", "id": 9, **wanted}))
                (error,) = await heard(socket)
                assert error["error"]["code"] == "E_FORBIDDEN"
            views = [{"id": 1, "view": "doc"}, {"id": 2, "query": "SELECT v FROM doc WHERE id > 0"}]
            await socket.send(json.dumps({"type": "subscribe", "views": views}))
            text = ""
            while '"frames"' not in text and '"commit"' not in text:
                text = str(await asyncio.wait_for(socket.recv(), 30))
            assert '"x"' in text and '"1"' not in text.replace('"id"', "").replace('"2"', ""), text
            tenants.sql("REVOKE SELECT ON doc FROM app")
            text = ""
            while "E_FORBIDDEN" not in text:
                text = str(await asyncio.wait_for(socket.recv(), 30))

    asyncio.run(main())


def test_look_ups_that_are_prepared_count_for_the_rate(tenants: Tenants) -> None:
    tenants.sql("CREATE TABLE open (k int PRIMARY KEY, v text); INSERT INTO open VALUES (1, 'one')")
    tenants.sql("GRANT SELECT ON open TO bob")
    tenants.sql("ALTER ROLE bob QUOTA (rate 30)")
    exceeded = pytest.raises(psycopg.errors.ConfigurationLimitExceeded)
    with tenants.psycopg("bob", prepare_threshold=0) as db, db.cursor() as cursor, exceeded:
        for _ in range(1000):
            cursor.execute("SELECT v FROM open WHERE k = %s", (1,))


async def _told_until(socket: Any, word: str) -> str:
    text = ""
    while word not in text:
        text = str(await asyncio.wait_for(socket.recv(), 30))
    return text


async def _following(tenants: Tenants, token: str, view: str = "doc") -> Any:
    socket = await websockets.connect(tenants.beside.url.replace("http", "ws") + "/v1/ws")
    await socket.send(json.dumps({"type": "hello", "token": token}))
    await socket.recv()
    await socket.send(json.dumps({"type": "subscribe", "id": 1, "view": view}))
    await _told_until(socket, "snapshot")
    return socket


@pytest.mark.parametrize("first", ["stays", "goes"])
def test_who_follows_the_same_is_still_let_in_by_their_own_token(tenants: Tenants, first: str) -> None:
    """Two tokens of one role share a feed; only one of them is dropped."""
    tokens = [tenants.sql(f"CREATE TOKEN t{i} FOR ROLE ann WITH (tenant = 'a')")[0][0] for i in (1, 2)]

    async def main() -> None:
        one, two = [await _following(tenants, token) for token in tokens]
        gone, kept = (two, one) if first == "stays" else (one, two)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, tenants.sql, f"DROP TOKEN t{2 if first == 'stays' else 1} FOR ROLE ann")
        await _told_until(gone, "E_FORBIDDEN")
        await loop.run_in_executor(None, tenants.sql, "INSERT INTO doc VALUES (50, 'a', 'new')")
        assert "E_FORBIDDEN" not in await _told_until(kept, '"new"')
        for socket in (one, two):
            await socket.close()

    asyncio.run(main())


@pytest.mark.parametrize("change", ["ALTER ROLE boss NOSUPERUSER", "DROP TOKEN t_boss FOR ROLE boss", "DROP ROLE boss"])
def test_what_a_superuser_follows_ends_with_its_rights(tenants: Tenants, change: str) -> None:
    """Those who may see all rows share one feed, which nobody's rights are about."""
    tenants.sql("CREATE ROLE boss LOGIN SUPERUSER")
    (token,) = tenants.sql("CREATE TOKEN t_boss FOR ROLE boss")[0]

    async def main() -> None:
        boss, admin = await _following(tenants, token), await _following(tenants, tenants.tokens["admin"])
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, tenants.sql, change)
        await _told_until(boss, "E_FORBIDDEN")
        await loop.run_in_executor(None, tenants.sql, "INSERT INTO doc VALUES (50, 'b', 'new')")
        await _told_until(admin, '"new"')
        for socket in (boss, admin):
            await socket.close()

    asyncio.run(main())


def test_idempotency_keys_are_ones_own(tenants: Tenants) -> None:
    """Roles with the same attributes, and the same key: both have their rows."""
    for who, key in (("ann", 60), ("tok", 61), ("admin", 62), ("ann", 60)):
        with tenants.http(who) as http:
            answer = http.post(
                "/v1/tables/doc/rows",
                content=json.dumps({"id": key, "tenant": "a", "v": ""}),
                headers={"idempotency-key": "the same"},
            )
            assert answer.status_code == 200, answer.text
    assert tenants.sql("SELECT id FROM doc WHERE id >= 60 ORDER BY id") == [(60,), (61,), (62,)]


def test_nobody_cancels_what_another_does(tenants: Tenants) -> None:
    """Bob guesses what Ann calls her request."""
    text = "SELECT count(*) AS n FROM generate_series(1, 3000) a, generate_series(1, 3000) b WHERE a.a + b.b > 7"
    ended: list[tuple[str, int]] = []

    def ask(who: str) -> None:
        with tenants.http(who) as http:
            answer = http.post("/v1/sql", json={"sql": text}, headers={"x-query-id": "q"}, timeout=100)
            ended.append((who, answer.status_code))

    asking = threading.Thread(target=ask, args=("ann",))
    asking.start()
    with tenants.http("bob") as http:
        while asking.is_alive() and not ended:
            assert http.post("/v1/cancel", json={"id": "q"}).json()["cancelled"] is False
            time.sleep(0.02)
    asking.join()
    assert ended == [("ann", 200)]
    asking = threading.Thread(target=ask, args=("tok",))
    asking.start()
    with tenants.http("tok") as http:
        while asking.is_alive() and not http.post("/v1/cancel", json={"id": "q"}).json()["cancelled"]:
            time.sleep(0.01)
    asking.join()
    assert ended[-1] in (("tok", 499), ("tok", 200))
