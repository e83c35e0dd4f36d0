"""Mutated messages to every parser of the HTTP port: each is answered, none is a fault, and the server goes on."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from everview.plan.nodes import Table
from everview.types import INT, STR
from everview.wire import plans
from everview.wire.envelopes import packed
from tests.server.running import TOKEN, Running, resident

HEADERS = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with Running() as running:
        running.do(lambda db: db.sql("CREATE TABLE t (k int PRIMARY KEY, x text); CREATE VIEW v AS SELECT * FROM t"))
        yield running


@pytest.fixture(scope="module")
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=HEADERS, timeout=60, trust_env=False) as client:
        yield client


def mutated(seed: random.Random, text: bytes) -> bytes:
    """Bytes changed, left out, doubled, or taken from elsewhere in it."""
    found = bytearray(text)
    for _ in range(seed.randint(1, 4)):
        at = seed.randrange(len(found) + 1)
        how = seed.randrange(4)
        if how == 0 and at < len(found):
            found[at] = seed.randrange(256)
        elif how == 1:
            del found[at : at + seed.randint(1, 8)]
        elif how == 2:
            start = seed.randrange(len(found) + 1)
            found[at:at] = found[start : start + seed.randint(1, 12)]
        else:
            found[at:at] = seed.choice([b"{", b"}", b"[", b"]", b'"', b"null", b"-1", b"1e999", b"\x00", b"9" * 30])
    return bytes(found)


def calls() -> list[bytes]:
    """A right message of every kind, but those that would leave nothing to look at."""
    plan = plans.written(Table(0, (INT, STR.optional()), (0,)), {0: "t"})
    rows = [[1, "a"], [2, {"$decimal": "1.5"}]]
    step = {"how": "upsert", "name": "t", "rows": rows}
    heads: list[dict[str, Any]] = [
        {"do": "hello"},
        {"do": "names"},
        {"do": "relation", "name": "t"},
        {"do": "table", "name": "u", "columns": [["x", ["int", False, 0, [], [], 0]]], "key": None, "ttl": None},
        {"do": "view", "name": "w", "columns": ["k", "x"], **plan},
        {"do": "sql", "text": "SELECT k, x FROM t WHERE k > 1"},
        {"do": "datalog", "text": "p(X) :- t(X, Y).", "how": None},
        {"do": "prepare", "name": "q", "text": "SELECT x FROM t WHERE k = $k", "keep": 10},
        {"do": "execute", "name": "q", "values": [], "named": {"k": 1}},
        {"do": "change", "steps": [step, {"how": "delete keys", "name": "t", "keys": [1]}], "key": "a"},
        {"do": "what_if", "steps": [step], "names": ["v"]},
        {"do": "rows", "name": "v", "at": 0},
        {"do": "rows", "name": "v", "suppose": [step], "limits": {"seconds": 5, "memory": "1GB"}},
        {"do": "counts", "name": "v"},
        {"do": "changes", "name": "v", "since": 0},
        {"do": "lookup", "name": "t", "key": {"$tuple": [1]}},
        {"do": "why", "name": "v", "row": {"$tuple": [1, "a"]}, "all": 2},
        {"do": "why_not", "name": "v", "row": {"$tuple": [9, {"$any": 0}]}},
        {"do": "view", "name": "p", "columns": ["k", "x"], "provenance": {"kind": "bdd", "nodes": 9}, **plan},
        {"do": "provenance", "name": "p", "row": {"$tuple": [1, "a"]}},
        {"do": "provenance", "name": "p", "row": None},
        {"do": "stats", "name": "v"},
        {"do": "text", "name": "v", "rows": 3},
    ]
    table = pa.table({"k": [7], "x": ["seven"]})
    with_table = {"do": "change", "steps": [{"how": "upsert", "name": "t", "rows": 0}], "key": None}
    return [*(packed(head) for head in heads), packed(with_table, [table])]


@pytest.mark.parametrize("seed", range(3))
def test_calls_of_strange_clients(http: httpx.Client, seed: int) -> None:
    strange_calls(http, seed, 250)


def strange_calls(http: httpx.Client, seed: int, count: int) -> None:
    chance, right = random.Random(seed), calls()
    for number in range(count):
        message = mutated(chance, right[number % len(right)])
        answer = http.post("/v1/call", content=message)
        assert answer.status_code < 500, (message, answer.text)
    assert http.post("/v1/call", content=packed({"do": "rows", "name": "v"})).status_code == 200


def test_bodies_and_addresses(http: httpx.Client) -> None:
    strange_bodies(http, 3, 150)


def strange_bodies(http: httpx.Client, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        line = mutated(chance, b'{"k": 1, "x": "a"}\n[2, "b"]')
        for kind in ("", "text/csv", "application/vnd.apache.arrow.stream"):
            answer = http.post("/v1/tables/t/rows?op=upsert", content=line, headers={"content-type": kind or "x/y"})
            assert answer.status_code < 500, (line, kind, answer.text)
        text = mutated(chance, b"SELECT k, x FROM t WHERE k > 1 ORDER BY x LIMIT 3").decode("latin-1")
        answer = http.post("/v1/sql", content=json.dumps({"sql": text}))
        assert answer.status_code < 500, (text, answer.text)


def test_lines_that_are_no_http(server: Running, http: httpx.Client) -> None:
    """Straight to the socket: no request at all, cut off, too long; others are served meanwhile."""
    chance = random.Random(4)
    whole = b"POST /v1/sql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 21\r\n\r\n" + b'{"sql": "SELECT 1"}  '
    open_still = []
    for _ in range(60):
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        connection.sendall(mutated(chance, whole)[: chance.randint(1, len(whole))])
        open_still.append(connection)
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    open_still.append(connection)
    connection.sendall(b"GET / HTTP/1.1\r\nHost: " + b"x" * 200_000)
    assert b"400" in connection.recv(4096)
    assert http.get("/healthz").status_code == 200
    for each in open_still:
        each.close()
    assert http.get("/v1/relations").status_code == 200


def strange_frames(server: Running, seed: int, count: int) -> None:
    """Messages to the WebSocket: each is answered, or the connection is closed for a reason."""
    chance = random.Random(seed)
    right = [
        {"type": "subscribe", "views": [{"id": 1, "view": "v"}, {"id": 2, "query": "SELECT count(*) AS n FROM t"}]},
        {"type": "subscribe", "view": "t", "id": 3, "snapshot": False},
        {"type": "subscribe", "view": "t", "id": 4, "resume": "abc.def.7"},
        {"type": "unsubscribe", "id": 1},
        {"type": "sync"},
        {"type": "ping", "id": 5},
    ]
    left = count
    while left > 0:
        with connect(f"ws://127.0.0.1:{server.port}/v1/ws") as ws:
            ws.send(json.dumps({"type": "hello", "token": TOKEN, "granularity": 0}))
            try:
                for _ in range(min(left, 50)):
                    left -= 1
                    message = mutated(chance, json.dumps(chance.choice(right)).encode())
                    ws.send(message if chance.random() < 0.3 else message.decode("utf-8", "replace"))
                ws.send(json.dumps({"type": "ping", "id": 77}))
                while json.loads(ws.recv(60)) != {"type": "pong", "id": 77}:
                    pass
            except ConnectionClosed as closed:
                assert closed.rcvd is not None and closed.rcvd.code in (1000, 1003, 1007, 1008, 1009, 4400), closed


def test_frames(server: Running) -> None:
    strange_frames(server, 5, 300)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("parser", ["calls", "bodies", "frames"])
def test_ten_thousand_messages(server: Running, http: httpx.Client, parser: str) -> None:
    """No crash, no hang, no leak: `EVERVIEW_MESSAGES=10000 EVERVIEW_SEED=1 pytest -m long`"""
    count, seed = int(os.environ.get("EVERVIEW_MESSAGES", "10000")), int(os.environ.get("EVERVIEW_SEED", "7"))
    for number, part in enumerate((count // 10, count)):
        before = resident()
        if parser == "calls":
            strange_calls(http, seed + number, part)
        elif parser == "bodies":
            strange_bodies(http, seed + number, part // 4)  # four messages each
        else:
            strange_frames(server, seed + number, part)
    assert resident() - before < 64_000_000
    server.until_idle()
