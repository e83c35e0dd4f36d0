"""A role, a token or a key of the same name as another: what was somebody's is not the next one's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest

from everview.server.jwt import LEEWAY, sign
from everview.session.core import core_of
from tests.server.tenants.conftest import SECRET, Tenants

OVER = "the role or the token no longer exists"


def by_token(tenants: Tenants, token: str) -> psycopg.Connection[Any]:
    found: psycopg.Connection[Any] = psycopg.connect(
        host="127.0.0.1", port=tenants.pg, user="tok", password=token, autocommit=True
    )
    return found


def token_made_again(tenants: Tenants) -> None:
    tenants.sql("DROP TOKEN t_tok FOR ROLE tok; CREATE TOKEN t_tok FOR ROLE tok WITH (tenant = 'b')")


def role_made_again(tenants: Tenants) -> None:
    tenants.sql("DROP ROLE tok; CREATE USER tok IN ROLE app; ALTER ROLE tok SET tenant = 'b'")


@pytest.mark.parametrize("change", [token_made_again, role_made_again])
@pytest.mark.parametrize("login", ["token", "jwt"])
def test_a_connection_ends_with_its_role_and_token(
    tenants: Tenants, change: Callable[[Tenants], None], login: str
) -> None:
    """Another role or token of its name, made at once, does not make it live on with the attributes that it had."""
    jwt = sign({"role": "tok", "tenant": "a", "exp": time.time() + 60}, SECRET)
    with by_token(tenants, tenants.tokens["tok"] if login == "token" else jwt) as db:
        db.execute("BEGIN")
        db.execute("DECLARE c CURSOR FOR SUBSCRIBE TO doc")
        assert len(db.execute("FETCH ALL c").fetchall()) == 2
        change(tenants)
        if (login, change) == ("jwt", token_made_again):
            assert len(db.execute("SELECT id FROM doc").fetchall()) == 2
            return
        with pytest.raises(psycopg.Error, match="rights to what is followed have changed"):
            db.execute("FETCH ALL c WITH (timeout = '5s')").fetchall()
        db.execute("ROLLBACK")
        for text in ("SELECT id FROM doc", "INSERT INTO doc VALUES (77, 'a', '1')"):
            with pytest.raises(psycopg.Error, match=OVER):
                db.execute(text)


def test_prepared_look_ups_end_with_the_token(tenants: Tenants) -> None:
    tenants.sql("CREATE TABLE open (id int PRIMARY KEY, v text); INSERT INTO open VALUES (1, 'x')")
    tenants.sql("GRANT SELECT ON open TO app")
    jwt = sign({"role": "tok", "tenant": "a", "exp": time.time() - LEEWAY + 3}, SECRET)
    with by_token(tenants, jwt) as db:
        ask = ("SELECT v FROM open WHERE id = %s", (1,))
        end = time.monotonic() + 30
        with pytest.raises(psycopg.Error, match=OVER):
            while time.monotonic() < end:
                assert db.execute(*ask, prepare=True).fetchall() == [("x",)]
                time.sleep(0.05)


def test_policies_of_a_role_are_not_for_the_next_one_of_its_name(tenants: Tenants) -> None:
    tenants.sql("CREATE USER eve IN ROLE app; CREATE POLICY all_of_it ON doc TO eve, tok USING (true)")
    tenants.sql("DROP ROLE eve; CREATE USER eve PASSWORD 'pw of eve' IN ROLE app; ALTER ROLE eve SET tenant = 'b'")
    with tenants.psycopg("eve") as db:
        assert db.execute("SELECT id FROM doc").fetchall() == [(2,)]
    with by_token(tenants, tenants.tokens["tok"]) as db:
        assert len(db.execute("SELECT id FROM doc").fetchall()) == 3


def test_an_idempotency_key_of_another_tenant_is_refused(tenants: Tenants) -> None:
    """Two people with one role and other attributes: the second one's rows would silently be left out."""
    (a,) = tenants.sql("CREATE TOKEN one FOR ROLE app WITH (tenant = 'a')")[0]
    (b,) = tenants.sql("CREATE TOKEN two FOR ROLE app WITH (tenant = 'b')")[0]
    (again,) = tenants.sql("CREATE TOKEN three FOR ROLE app WITH (tenant = 'a')")[0]

    def push(token: str, key: int, tenant: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}", "idempotency-key": "k"}
        body = f'{{"id": {key}, "tenant": "{tenant}", "v": "1"}}'
        return httpx.post(f"{tenants.beside.url}/v1/tables/doc/rows", content=body, headers=headers)

    assert push(a, 101, "a").json()["rows"] == 1
    assert push(a, 101, "a").json()["repeated"] and push(again, 101, "a").json()["repeated"]
    said = push(b, 102, "b")
    assert (said.status_code, said.json()["error"]["code"]) == (400, "E_KEY"), said.text
    tenants.beside.do(lambda db: core_of(db).attached.pop("pushed"))  # as after a restart
    assert push(b, 102, "b").status_code == 400 and push(again, 101, "a").json()["repeated"]
