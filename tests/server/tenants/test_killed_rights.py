"""A server is killed -9 while roles, grants and policies change: all that was acknowledged is there, and at most one
statement more, whole; those who were let in still are, and see their rows.
"""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import everview as ev
from everview.session.core import core_of
from tests.server.process import TOKEN, Process

KILLS = int(os.environ.get("EVERVIEW_KILLS", "6"))
ROLES = ("ann", "bob", "cat", "app")

SETUP = (
    "CREATE TABLE doc (id int PRIMARY KEY, tenant text, v int)",
    "INSERT INTO doc VALUES (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)",
    "CREATE VIEW total AS SELECT tenant, sum(v) AS s FROM doc GROUP BY tenant",
    *(f"CREATE ROLE {name} LOGIN" for name in ROLES),
    "CREATE ROLE reader LOGIN",
    "GRANT SELECT ON doc TO reader",
    "CREATE POLICY own ON doc TO reader USING (tenant = current_setting('tenant'))",
    "ALTER TABLE doc ENABLE ROW LEVEL SECURITY",
)


def statement(r: random.Random, number: int) -> str:
    """One that may fail: then it changes nothing."""
    one, other = r.sample(ROLES, 2)
    thing = r.choice(("doc", "total"))
    return r.choice((
        f"GRANT {r.choice(('SELECT', 'INSERT', 'ALL', 'SELECT (tenant)'))} ON {thing} TO {one}",
        f"GRANT SELECT ON {thing} TO {one} WITH GRANT OPTION",
        f"REVOKE {r.choice(('SELECT', 'ALL', 'SELECT (tenant)'))} ON {thing} FROM {one} CASCADE",
        f"REVOKE GRANT OPTION FOR SELECT ON {thing} FROM {one}",
        f"GRANT {one} TO {other}",
        f"REVOKE {one} FROM {other}",
        f"CREATE POLICY p{number} ON {thing} TO {one} USING (tenant = current_setting('tenant'))",
        f"DROP POLICY IF EXISTS p{number - r.randrange(1, 6)} ON {thing}",
        f"ALTER ROLE {one} SET tenant = 't{number}'",
        f"ALTER ROLE {one} QUOTA (views {number})",
        f"ALTER TABLE {thing} OWNER TO {one}",
        f"ALTER TABLE {thing} {r.choice(('ENABLE', 'FORCE', 'NO FORCE'))} ROW LEVEL SECURITY",
    ))  # fmt: skip


def rights(db: Any) -> Any:
    """All that is kept, without secrets, which are random."""
    access = core_of(db).access
    return {name: replace(role, tokens=(), made="") for name, role in access.roles.items()}, dict(access.rights)


def killed(state: Path, chance: random.Random, done: list[str]) -> str:
    """Run statements until the server is killed; gives the one that was under way."""
    with Process(str(state)) as server:
        http = httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False)
        soon = len(done) + chance.randrange(8, 40)
        with http:
            while True:
                text = statement(chance, len(done))
                if len(done) == soon:  # while one of the next is under way
                    threading.Timer(chance.uniform(0, 0.02), server.process.kill).start()
                try:
                    answer = http.post("/v1/sql", json={"sql": text}, timeout=30)
                except httpx.HTTPError:
                    server.process.wait(60)
                    return text
                done.append(text if answer.status_code == 200 else "")


def model(statements: list[str]) -> Any:
    with ev.connect() as db:
        for text in (*SETUP, *statements):
            if text:
                try:
                    db.sql(text)
                except ev.EverviewError:
                    assert text is statements[-1], "what was acknowledged can be done"
        return rights(db)


def attempt(state: Path, kills: int, seed: int) -> None:
    chance, done = random.Random(seed), list[str]()
    with ev.connect(str(state)) as db:
        for text in SETUP:
            db.sql(text)
        (token,) = db.sql("CREATE TOKEN t FOR ROLE reader WITH (tenant = 'a')").rows()[0]
    for _ in range(kills):
        last = killed(state, chance, done)
        with ev.connect(str(state)) as db:
            found = rights(db)
        if found != model(done):
            assert found == model([*done, last]), (seed, last)
            done.append(last)
    assert sum(map(bool, done)) > 2 * kills, "hardly anything was done"
    with Process(str(state)) as server, ev.connect(server.address, token=token) as db:
        assert sorted(r[0] for r in db.sql("SELECT id FROM doc").rows()) == [1, 3]


def test_rights_survive_a_kill(tmp_path: Path) -> None:
    attempt(tmp_path / "state", 1, 19)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7])
def test_rights_survive_kills(tmp_path: Path, seed: int) -> None:
    print("seed", seed)
    attempt(tmp_path / "state", KILLS, seed)
