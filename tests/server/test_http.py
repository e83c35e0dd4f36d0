"""HTTP on real sockets: statements, rows in and out, pushes that are done once, and who is kept out."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from everview.server.http import slow_clients
from everview.server.http.arrow_pieces import ROWS_PER_PIECE
from everview.wire.envelopes import arrow_stream
from tests.server.running import TOKEN, Running

ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with Running() as running:
        yield running


@pytest.fixture
def http(server: Running) -> Iterator[httpx.Client]:
    server.clear()
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


def sql(http: httpx.Client, text: str, **more: Any) -> Any:
    return http.post("/v1/sql", json={"sql": text}, **more).json()


def test_sql_gives_rows_whose_numbers_keep_their_digits(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE t (id bigint, price numeric(20, 2), small smallint, at timestamp, note text)")
    sql(
        http,
        "INSERT INTO t VALUES (9007199254740993, 0.10, 7, '2026-01-31 12:00:00', 'x'), (1, NULL, NULL, NULL, NULL)",
    )
    found = sql(http, "SELECT * FROM t ORDER BY id DESC")
    assert found["time"] == 1
    assert [c["name"] for c in found["columns"]] == ["id", "price", "small", "at", "note"]
    assert found["rows"] == [
        ["9007199254740993", "0.10", 7, "2026-01-31T12:00:00Z", "x"],
        ["1", None, None, None, None],
    ]


def test_arrow_out(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE t (x bigint); INSERT INTO t VALUES (1), (2)")
    for answer in (
        http.post("/v1/sql", json={"sql": "SELECT x FROM t ORDER BY x"}, headers={"accept": ARROW}),
        http.get("/v1/relations/t/rows", headers={"accept": ARROW}),
    ):
        assert sorted(pa.ipc.open_stream(answer.content).read_all()["x"].to_pylist()) == [1, 2]


def test_large_results_are_sent_as_arrow_in_pieces(http: httpx.Client) -> None:
    rows = 2 * ROWS_PER_PIECE + 3
    sql(http, "CREATE TABLE t (x bigint, s text, f float, b boolean)")
    numbers = range(1, rows + 1)
    texts = [f"t{i}" if i % 7 else None for i in numbers]
    given = pa.table({"x": numbers, "s": texts, "f": [i / 2 for i in numbers], "b": [i % 2 == 0 for i in numbers]})
    http.post("/v1/tables/t/rows", content=arrow_stream(given), headers={"content-type": ARROW}).raise_for_status()
    asked = {"sql": "SELECT x, s, f, b FROM t ORDER BY x"}
    with http.stream("POST", "/v1/sql", json=asked, headers={"accept": ARROW}) as answer:
        assert "content-length" not in answer.headers
        assert answer.headers["x-everview-time"] == "1"
        found = pa.ipc.open_stream(answer.read()).read_all()
    found.validate(full=True)
    assert found.to_pylist() == given.to_pylist()
    few = http.post("/v1/sql", json={"sql": asked["sql"] + " LIMIT 3"}, headers={"accept": ARROW})
    assert "content-length" in few.headers
    begin = pa.ipc.open_stream(few.content).read_all()
    assert begin.schema == found.schema
    assert begin.to_pylist() == found.slice(0, 3).to_pylist()
    with http.stream("POST", "/v1/sql", json=asked, headers={"accept": ARROW}) as answer:
        next(answer.iter_raw())  # and then goes away
    assert sql(http, "SELECT count(*) AS n FROM t")["rows"] == [[str(rows)]]


def test_what_a_text_does_is_said(http: httpx.Client) -> None:
    assert sql(http, "CREATE TABLE t (x int)")["relation"] == "t"
    assert sql(http, "INSERT INTO t VALUES (1), (2)") == {"time": 1, "affected": 2}
    assert sql(http, "INSERT INTO t VALUES (3); DELETE FROM t WHERE x = 3") == {"time": 3, "affected": 2}
    assert http.post("/v1/sql", content="SELECT 1 AS x", headers={"content-type": "text/plain"}).json()["rows"] == [
        ["1"]
    ]


def test_errors_say_what_where_and_what_to_do(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE sale (amount int)")
    answer = http.post("/v1/sql", json={"sql": "SELECT amuont FROM sale"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["line"], error["column"]) == ("E_COLUMN", 1, 8)
    assert "amount" in error["hint"]


def test_what_there_is_no_endpoint_for_is_told_as_all_errors_are(http: httpx.Client) -> None:
    for answer, status in ((http.get("/v1/nothing"), 404), (http.get("/v1/sql"), 405)):
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == "E_NOT_FOUND" and "openapi" in answer.json()["error"]["hint"]
    assert http.get("/v1/sql").headers["allow"] == "POST"


def test_a_transaction_is_one_time_or_nothing(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE t (x int)")
    both = ["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"]
    assert http.post("/v1/transaction", json={"statements": both}).json() == {"time": 1, "affected": 2}
    wrong = ["INSERT INTO t VALUES (3)", "INSERT INTO nowhere VALUES (1)"]
    assert http.post("/v1/transaction", json={"statements": wrong}).status_code == 400
    assert sql(http, "SELECT count(*) AS n FROM t") == {
        "time": 1, "columns": [{"name": "n", "type": "int", "nullable": False}], "rows": [["2"]],
    }  # fmt: skip


def test_no_transaction_and_no_setting_is_left_for_others(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE t (x int)")
    assert sql(http, "BEGIN; INSERT INTO t VALUES (1)")["error"]["code"] == "E_TRANSACTION"
    assert sql(http, "SELECT count(*) AS n FROM t")["rows"] == [["0"]]
    sql(http, "SET TIME ZONE 'Asia/Tokyo'")
    assert sql(http, "SHOW timezone")["rows"] == [["UTC"]]
    assert sql(http, "BEGIN; INSERT INTO t VALUES (1); COMMIT")["time"] == 1
    assert sql(http, "SUBSCRIBE TO t")["error"]["code"] == "E_UNSUPPORTED"


def test_datalog(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE edge (src int, dst int)")
    rules = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z)."
    assert http.post("/v1/datalog", json={"program": rules}).json()["views"] == ["path"]
    http.post("/v1/tables/edge/rows", content='{"src": 1, "dst": "2"}\n[2, 3]\n')
    assert len(http.get("/v1/relations/path/rows").json()["rows"]) == 3


def test_relations_rows_and_changes(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE t (k int PRIMARY KEY, x text); CREATE VIEW n AS SELECT count(*) AS n FROM t")
    sql(http, "INSERT INTO t VALUES (1, 'a')")
    sql(http, "INSERT INTO t VALUES (2, 'b')")
    found = http.get("/v1/relations").json()["relations"]
    assert [(r["name"], r["kind"], r.get("key")) for r in found] == [("t", "table", ["k"]), ("n", "view", None)]
    assert http.get("/v1/relations/t").json() == found[0]
    assert http.get("/v1/relations/n/rows?as_of=1").json()["rows"] == [["1"]]
    assert http.get("/v1/relations/n/changes?since=1").json()["changes"] == [[["1"], 2, -1], [["2"], 2, 1]]
    assert http.get("/v1/relations/m").status_code == 404
    assert http.get("/v1/relations/n/rows?as_of=x").json()["error"]["code"] == "E_MESSAGE"


def test_rows_are_pushed_as_lines_csv_and_arrow(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE t (id bigint PRIMARY KEY, price decimal(10, 2), day date, ok boolean, raw bytea)")
    lines = '{"id": "1", "price": "0.10", "day": "2026-01-31", "ok": true, "raw": "eA=="}\n{"id": 2}\n'
    assert http.post("/v1/tables/t/rows", content=lines).json() == {"time": 1, "rows": 2}
    kind = {"content-type": "text/csv"}
    pushed = http.post("/v1/tables/t/rows?op=upsert", content="id,price,ok\n1,2.50,f\n3,,\n", headers=kind)
    assert pushed.json() == {"time": 2, "rows": 2}
    sink = io.BytesIO()
    table = pa.table({"id": [4], "price": pa.array([None], pa.decimal128(10, 2)), "day": pa.array([None], pa.date32()),
                      "ok": [True], "raw": [b"y"]})  # fmt: skip
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = http.post("/v1/tables/t/rows", content=sink.getvalue(), headers={"content-type": ARROW})
    assert arrow.json() == {"time": 3, "rows": 1}
    assert sql(http, "SELECT * FROM t ORDER BY id")["rows"] == [
        ["1", "2.50", None, False, None],
        ["2", None, None, None, None],
        ["3", None, None, None, None],
        ["4", None, None, True, "eQ=="],
    ]


@pytest.mark.parametrize(
    ("content", "kind", "code"),
    [
        ('{"x": 1}\n{"x": "one"}', "", "E_TYPE"),
        ('{"y": 1}', "", "E_COLUMN"),
        ("[1, 2]", "", "E_WIDTH"),
        ("{", "", "E_FORMAT"),
        ("x\n1,2\n", "text/csv", "E_WIDTH"),
        ("nothing", ARROW, "E_FORMAT"),
        (b"\xff\xfe", "", "E_FORMAT"),
    ],
)
def test_bad_rows_are_refused_as_a_whole(http: httpx.Client, content: Any, kind: str, code: str) -> None:
    sql(http, "CREATE TABLE t (x int)")
    answer = http.post("/v1/tables/t/rows", content=content, headers={"content-type": kind} if kind else {})
    assert answer.json()["error"]["code"] == code
    assert sql(http, "SELECT count(*) AS n FROM t")["rows"] == [["0"]]


def test_a_push_with_a_key_is_done_once(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE t (x int)")
    key = {"idempotency-key": "import 17"}
    assert http.post("/v1/tables/t/rows", content="[1]", headers=key).json() == {"time": 1, "rows": 1}
    assert http.post("/v1/tables/t/rows", content="[1]", headers=key).json() == {"time": 1, "repeated": True}
    wrong = {"idempotency-key": "import 18"}
    assert http.post("/v1/tables/t/rows", content='["x"]', headers=wrong).status_code == 400
    assert http.post("/v1/tables/t/rows", content="[2]", headers=wrong).json() == {"time": 2, "rows": 1}
    assert sql(http, "SELECT sum(x) AS s FROM t")["rows"] == [["3"]]


def test_a_request_is_cancelled_by_its_name(http: httpx.Client, server: Running) -> None:
    sql(http, "CREATE TABLE t (x int)")
    http.post("/v1/tables/t/rows", content="\n".join(f"[{i}]" for i in range(20_000)))
    endless = {"sql": "SELECT count(*) FROM t AS a CROSS JOIN t AS b CROSS JOIN t AS c WHERE a.x + b.x > c.x"}
    with server.asking(endless, {"x-query-id": "mine"}) as asked:
        while not http.post("/v1/cancel", json={"id": "mine"}).json()["cancelled"]:
            pass
        assert asked()["error"]["code"] == "E_CANCELLED"


# who is kept out


@pytest.mark.parametrize("path", ["/v1/relations", "/metrics", "/v1/call", "/v1/ws", "/nowhere"])
def test_without_the_token_nothing_is_told(server: Running, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
        answer = httpx.get(server.url + path, headers=headers, trust_env=False)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "E_AUTH"
        assert TOKEN not in answer.text


def test_a_token_in_the_address_does_not_count(server: Running) -> None:
    assert httpx.get(f"{server.url}/v1/relations?token={TOKEN}", trust_env=False).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:80"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "localhost:1"}, 200),
        ({}, 200),
    ],
)
def test_strangers_names_and_pages_are_refused(server: Running, headers: dict[str, str], status: int) -> None:
    auth = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.get(f"{server.url}/v1/relations", headers={**auth, **headers}, trust_env=False).status_code == status


def test_its_own_pages_may_come(server: Running) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "origin": server.url}
    assert httpx.get(f"{server.url}/v1/relations", headers=headers, trust_env=False).status_code == 200


def test_too_much_is_refused_while_it_is_read(http: httpx.Client) -> None:
    sql(http, "CREATE TABLE t (x text)")
    answer = http.post("/v1/tables/t/rows", content=b'["' + b"x" * 3_000_000 + b'"]')
    assert answer.status_code == 413
    chunks = (b"x" * 100_000 for _ in range(40))  # without a length
    assert http.post("/v1/tables/t/rows", content=chunks).status_code == 413
    assert http.get("/v1/relations/" + "x" * 9000).status_code == 413


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"nothing", b'{"sql": 1}', b"[" * 100_000, b"\xff"])
def test_bodies_that_are_none(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/v1/sql", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "E_MESSAGE")


def test_files_of_the_machine_are_out_of_reach(http: httpx.Client) -> None:
    answer = sql(http, "CREATE SOURCE s FROM FILE '/etc/passwd' FORMAT CSV")
    assert "error" in answer


# health


def test_health_and_figures(http: httpx.Client, server: Running) -> None:
    for path in ("/healthz", "/readyz", "/", "/everview.js", "/openapi.json"):
        assert httpx.get(server.url + path, trust_env=False).status_code == 200
    lines = http.get("/metrics").text.splitlines()
    assert lines[-1] == "# EOF"
    assert any(line.startswith("everview_work_total ") for line in lines)
    assert all(line.startswith("#") or len(line.split(" ")) == 2 for line in lines)


def test_the_document_names_every_route(http: httpx.Client) -> None:
    from everview.server.http.app import app
    from everview.server.settings import Settings

    guard: Any = app(None, Settings(), "")  # type: ignore[arg-type]
    routes = {route.path for route in guard.app.routes} - {"/", "/everview.js", "/openapi.json", "/v1/call"}
    document = http.get("/openapi.json").json()
    assert set(document["paths"]) == routes
    assert json.dumps(document).count("$ref") > 10


# slow clients

HEAD = "POST /v1/sql HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n"
BODY = json.dumps({"sql": "SELECT 1 AS x"})


def lasts(server: Running, said: bytes, trickle: bytes = b"") -> float:
    """How long the server keeps a connection that sends something, and then a byte now and then."""
    host, port = server.url.removeprefix("http://").split(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=0.1) as client:
        client.sendall(said)
        while time.monotonic() - began < 20:
            try:
                if trickle:
                    client.sendall(trickle)
                if not client.recv(10_000):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("said", "trickle"),
    [
        ("", ""),
        ("GET /healthz HTTP/1.1\r\n", ""),
        ("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", "a"),
        (HEAD.format("wrong", 1000), "a"),
        (HEAD.format(TOKEN, 1000) + BODY[:5], ""),
        (HEAD.format(TOKEN, len(BODY)) + BODY + "GET /heal", "a"),
    ],
)
def test_who_does_not_go_on_is_cut_off(
    server: Running, monkeypatch: pytest.MonkeyPatch, said: str, trickle: str
) -> None:
    """It has asked for nothing yet, or has been refused, and would keep one of the allowed connections."""
    monkeypatch.setattr(slow_clients, "GREETING", 1.0)
    monkeypatch.setattr(slow_clients, "PAUSE", 1.0)
    assert 0.5 < lasts(server, said.encode(), trickle.encode()) < 10


def test_a_slow_body_that_goes_on_is_read(http: httpx.Client, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "GREETING", 0.6)
    monkeypatch.setattr(slow_clients, "PAUSE", 0.6)

    def pieces() -> Iterator[bytes]:
        for letter in BODY.encode():
            time.sleep(0.05)
            yield bytes([letter])

    assert http.post("/v1/sql", content=pieces(), headers={"content-type": "application/json"}).status_code == 200
    time.sleep(1)
    assert len(sql(http, "SELECT 1 AS x")["rows"]) == 1
