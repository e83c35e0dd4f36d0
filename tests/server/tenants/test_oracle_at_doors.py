"""Random tenants, policies and statements over every protocol, against the oracle of `test_oracle`.

Each statement goes through a door that is chosen by chance, and so does each read; what the WebSocket and Everview's
client have told so far must be what the tenant sees, whatever others do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg
import pytest

import everview as ev
from everview.server.pg.listener import PgListener
from everview.server.threaded_server import Beside, serve_beside
from everview.session.rights.principal import Principal
from tests.server.tenants.test_oracle import QUERIES, World, change, world

DOORS = ("pg", "http", "client")


@dataclass
class AtDoors(World):
    """The world, whose tenants come over the network."""

    beside: Beside | None = None
    pg: dict[str, Any] = field(default_factory=dict)
    http: dict[str, httpx.Client] = field(default_factory=dict)
    clients: dict[str, Any] = field(default_factory=dict)
    heard: dict[tuple[str, int], Counter[Any]] = field(default_factory=dict)
    stops: dict[tuple[str, int], Any] = field(default_factory=dict)

    def run(self, who: Principal | None, text: str) -> None:
        """Through some door; errors are what they are in a session."""
        name = "owner" if who is None else who.role
        door = self.random.choice(DOORS)
        if door == "client":
            self.clients[name].sql(text)
        elif door == "http":
            answer = self.http[name].post("/v1/sql", json={"sql": text})
            if answer.status_code >= 400:
                said = answer.json()["error"]
                raise ev.EverviewError(said["code"], said["message"])
        else:
            try:
                self.pg[name].execute(text)
            except psycopg.Error as error:
                raise ev.EverviewError(str(error.diag.source_function), str(error)) from None

    def read(self, name: str, text: str) -> list[tuple[Any, ...]]:
        """What somebody reads, through some door."""
        door = self.random.choice(DOORS)
        if door == "client":
            return [tuple(row) for row in self.clients[name].sql(text).rows()]
        if door == "pg":
            return [tuple(row) for row in self.pg[name].execute(text, prepare=self.random.random() < 0.5).fetchall()]
        said = self.http[name].post("/v1/sql", json={"sql": text}).json()
        numbers = [c["type"].startswith("int") for c in said["columns"]]
        return [tuple(int(v) if n else v for v, n in zip(row, numbers, strict=True)) for row in said["rows"]]

    def follow(self, name: str, query: int) -> None:
        told = self.heard[name, query] = Counter()

        def hear(batch: Any) -> None:
            for row, diff in batch.rows():
                told[row] += diff

        client = self.clients[name]
        self.stops[name, query] = client.subscribe(QUERIES[query][0], hear, granularity=0)


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Any:
    inner = world(request.param)
    for i, (who, _) in enumerate(inner.tenants):
        inner.db.sql(f"ALTER ROLE u{i} LOGIN")
        for name, value in who.attributes.items():
            inner.db.sql(f"ALTER ROLE u{i} SET {name} = '{value}'")
    tokens = {f"u{i}": inner.db.sql(f"CREATE TOKEN t{i} FOR ROLE u{i}").rows()[0][0] for i in range(3)}
    w = AtDoors(inner.db, inner.random, inner.rows, inner.tenants, inner.policy)
    w.beside = serve_beside(inner.db, pg=0)
    tokens["owner"] = w.beside.token
    port = next(one.port for one in w.beside.server.listeners if isinstance(one, PgListener))
    try:
        for name, token in tokens.items():
            w.pg[name] = psycopg.connect(host="127.0.0.1", port=port, user=name, password=token, autocommit=True)
            w.http[name] = httpx.Client(base_url=w.beside.url, headers={"authorization": f"Bearer {token}"}, timeout=60)
            w.clients[name] = ev.connect(w.beside.address, token=token)
        yield w
    finally:
        for each in (*w.pg.values(), *w.http.values(), *w.clients.values()):
            each.close()
        w.beside.stop()


def campaign(w: AtDoors, steps: int) -> None:
    r = w.random
    for _ in range(steps):
        change(w)
        if r.random() < 0.3:
            at = f"u{r.randrange(3)}", r.randrange(len(QUERIES))
            if at in w.stops:
                w.stops.pop(at)()
                del w.heard[at]
            else:
                w.follow(*at)
        for i, (who, known) in enumerate(w.tenants):
            text, answer = QUERIES[r.randrange(len(QUERIES))] if i else QUERIES[0]
            assert Counter(w.read(who.role, text)) == Counter(answer(w.visible(known))), (text, who)
        assert Counter(w.read("owner", "SELECT * FROM doc")) == Counter(w.rows.values())
    time = w.clients["owner"].time
    for (name, query), stop in w.stops.items():
        stop.wait_for(time)
        known = next(k for p, k in w.tenants if p.role == name)
        now = {row: n for row, n in w.heard[name, query].items() if n}
        assert now == dict(Counter(QUERIES[query][1](w.visible(known)))), (name, QUERIES[query][0])


@pytest.mark.parametrize("served", [2, 7], indirect=True)
def test_random_tenants_at_every_door(served: AtDoors) -> None:
    campaign(served, 8)


@pytest.mark.slow
@pytest.mark.parametrize("served", range(100, 120), indirect=True)
def test_many_random_tenants_at_every_door(served: AtDoors) -> None:
    campaign(served, 40)
