"""Subscriptions over WebSocket and as server-sent events, on real sockets: what a client makes of what it is told is
the view at that time, whatever happens to the connection.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

import everview as ev
from everview.server.http import frames
from everview.server.http.listener import HttpListener
from everview.server.http.slow_clients import Parting
from everview.wire.envelopes import unpacked
from tests.server.running import TOKEN, Running

SCHEMA = """
    CREATE TABLE t (k int, x int);
    CREATE VIEW total AS SELECT k, sum(x) AS s FROM t GROUP BY k;
    CREATE VIEW n AS SELECT count(*) AS n FROM t;
"""
LONG = 60


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with Running() as found:
        yield found


@pytest.fixture
def server(running: Running) -> Running:
    running.until_idle()
    running.clear()
    running.do(lambda db: db.sql(SCHEMA))
    return running


class Client:
    """A client that keeps what it is told."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.held: dict[int, Counter[tuple[Any, ...]]] = {}
        self.prefix: dict[int, str] = {}
        self.resets: list[str] = []
        self.time = -1

    def say(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def hear(self) -> Any:
        message = self.socket.recv(timeout=LONG)
        found = json.loads(message)
        if isinstance(found, list):
            self.apply(found)
        elif found["type"] == "subscribed":
            self.prefix[found["id"]] = found["resume"]
        return found

    def apply(self, frames: list[dict[str, Any]]) -> None:
        for frame in frames:
            if frame["type"] == "commit":
                assert frame["from"] == self.time or self.time < 0
                self.time = frame["to"]
                continue
            if frame["type"] == "end":
                continue
            if frame["type"] == "snapshot":
                self.held[frame["id"]] = Counter()
                if "reset" in frame:
                    self.resets.append(frame["reset"])
            else:
                assert frame["from"] == self.time or self.time < 0
            held = self.held[frame["id"]]
            for diff, *row in frame["rows"]:
                held[tuple(row)] += diff
                assert held[tuple(row)] >= 0

    def until(self, time: int) -> None:
        while self.time < time:
            self.hear()

    def of(self, number: int) -> dict[tuple[Any, ...], int]:
        return {row: n for row, n in self.held[number].items() if n}


@contextmanager
def client(server: Running, **hello: Any) -> Iterator[Client]:
    with connect(f"ws://127.0.0.1:{server.port}/v1/ws", compression=None, proxy=None) as socket:
        found = Client(socket)
        found.say(type="hello", token=TOKEN, **hello)
        assert found.hear()["type"] == "hello"
        yield found


def shown(rows: dict[tuple[Any, ...], int]) -> dict[tuple[Any, ...], int]:
    """Rows as JSON has them."""
    return {tuple(None if v is None else str(v) for v in row): n for row, n in rows.items()}


def test_snapshot_then_changes_of_several_views_at_one_time(server: Running) -> None:
    server.do(lambda db: db["t"].insert([(1, 5)]))
    with client(server, granularity=0) as one:
        one.say(type="subscribe", views=[{"id": 1, "view": "total"}, {"id": 2, "query": "SELECT max(x) AS m FROM t"}])
        one.until(1)
        assert (one.of(1), one.of(2)) == ({("1", "5"): 1}, {("5",): 1})
        server.do(lambda db: db["t"].insert([(1, 2), (2, 7)]))
        found = one.hear()
        assert [f["type"] for f in found] == ["changes", "changes", "commit"]
        assert (one.time, one.of(1), one.of(2)) == (2, {("1", "7"): 1, ("2", "7"): 1}, {("7",): 1})
        one.say(type="subscribe", id=3, view="n")
        while 3 not in one.held:
            one.hear()
        assert one.of(3) == {("3",): 1}
        one.say(type="unsubscribe", id=1)
        assert one.hear() == {"type": "unsubscribed", "id": 1}


def test_arrow_frames_have_the_same_rows(server: Running) -> None:
    server.do(lambda db: db["t"].insert([(1, 5), (1, 6)]))
    with client(server, format="arrow", granularity=0) as one:
        one.say(type="subscribe", id=1, view="t")
        assert json.loads(one.socket.recv(timeout=LONG))["type"] == "subscribed"
        message = one.socket.recv(timeout=LONG)
        assert isinstance(message, bytes)
        head, (table,) = unpacked(message)
        assert [f["type"] for f in head["frames"]] == ["snapshot", "commit"]
        assert table.to_pylist() == [{"k": 1, "x": x, "_time": 1, "_diff": 1} for x in (5, 6)]


def test_progress_is_told_if_it_is_wanted(server: Running) -> None:
    server.do(lambda db: db.table("other", {"x": int}))
    with client(server, progress=True, granularity=0) as one:
        one.say(type="subscribe", id=1, view="n")
        one.until(0)
        server.do(lambda db: db["other"].insert([(1,)]))
        assert one.hear() == [{"type": "commit", "from": 0, "to": 1}]


def test_a_token_goes_on_where_it_was(server: Running) -> None:
    with client(server, granularity=0) as one:
        one.say(type="subscribe", id=1, view="total")
        server.do(lambda db: db["t"].insert([(1, 5)]))
        one.until(1)
    server.do(lambda db: db["t"].insert([(2, 6)]))
    with client(server, granularity=0) as two:
        two.held, two.time = {7: one.held[1]}, -1
        two.say(type="subscribe", id=7, view="total", resume=f"{one.prefix[1]}.{one.time}")
        two.hear()
        found = two.hear()
        assert [f["type"] for f in found] == ["changes", "commit"]
        assert (found[0]["from"], found[0]["to"]) == (1, 2)
        assert two.of(7) == {("1", "5"): 1, ("2", "6"): 1}


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "..", "0123456789abcdef.x.1", "\x00", "é.é.9"])
def test_a_token_that_is_none_gives_the_contents(server: Running, token: str) -> None:
    with client(server) as one:
        one.say(type="subscribe", id=1, view="n", resume=token)
        one.until(0)
        assert one.of(1) == {("0",): 1}
        assert bool(one.resets) == bool(token)


def test_a_query_goes_on_for_a_while_after_a_break(server: Running) -> None:
    query = "SELECT sum(x) AS s FROM t"
    with client(server, granularity=0) as one:
        one.say(type="subscribe", id=1, query=query)
        server.do(lambda db: db["t"].insert([(1, 5)]))
        one.until(1)
    server.do(lambda db: db["t"].insert([(2, 6)]))
    token = f"{one.prefix[1]}.{one.time}"
    with client(server, granularity=0) as two:
        two.held = {1: one.held[1]}
        two.say(type="subscribe", id=1, query=query, resume=token)
        two.until(2)
        assert (two.of(1), two.resets) == ({("11",): 1}, [])
        two.say(type="unsubscribe", id=1)
        assert two.hear() == {"type": "unsubscribed", "id": 1}
        assert server.do(lambda db: db.views) == ("total", "n"), "one that says that it goes is not waited for"
        two.say(type="subscribe", id=2, query=query, resume=token)
        while 2 not in two.held:
            two.hear()
        assert (two.of(2), two.resets) == ({("11",): 1}, ["query"])


def test_a_view_that_was_made_again_is_another(server: Running) -> None:
    with client(server, granularity=0) as one:
        one.say(type="subscribe", id=1, view="n")
        one.until(0)
    server.do(lambda db: db.sql("DROP VIEW n; CREATE VIEW n AS SELECT count(*) + 1 AS n FROM t"))
    with client(server) as two:
        two.say(type="subscribe", id=1, view="n", resume=f"{one.prefix[1]}.0")
        two.until(0)
        assert (two.resets, two.of(1)) == (["definition"], {("1",): 1})


def test_what_is_dropped_ends(server: Running) -> None:
    with client(server, granularity=0) as one:
        one.say(type="subscribe", id=1, view="n")
        one.until(0)
        server.do(lambda db: db["n"].drop())
        found = one.hear()
        assert [(f["type"], f.get("error", {}).get("code")) for f in found] == [("end", "E_DROPPED"), ("commit", None)]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "subscribe", "id": 1, "view": "nothing"},
        {"type": "subscribe", "id": 1, "query": "SELECT nothing"},
        {"type": "subscribe", "id": 1, "query": "DROP TABLE t"},
        {"type": "subscribe", "id": 1, "query": "SELECT 1) ; DROP TABLE t; SELECT (1"},
        {"type": "subscribe", "id": "one", "view": "n"},
        {"type": "subscribe", "view": "n"},
        {"type": "subscribe", "id": 1, "view": ""},
        {"type": "subscribe", "views": []},
        {"type": "subscribe", "views": [{"id": 1, "view": "n"}, {"id": 1, "view": "t"}]},
        {"type": "dance"},
        {},
    ],
)
def test_a_wrong_message_is_answered_and_the_connection_stays(server: Running, message: dict[str, Any]) -> None:
    with client(server) as one:
        one.say(**message)
        assert one.hear()["type"] == "error"
        one.say(type="ping", id=5)
        assert one.hear() == {"type": "pong", "id": 5}
    assert server.do(lambda db: db.tables) == ("t",)


@pytest.mark.parametrize(
    "first", ['{"type": "hello", "token": "wrong"}', '{"type": "hello"}', "{}", "[]", "x", '{"type": "subscribe"}']
)
def test_without_the_token_the_connection_ends(server: Running, first: str) -> None:
    with connect(f"ws://127.0.0.1:{server.port}/v1/ws", compression=None, proxy=None) as socket:
        socket.send(first)
        assert json.loads(socket.recv(timeout=LONG))["error"]["code"] in ("E_AUTH", "E_MESSAGE")
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=LONG)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


def test_a_strangers_page_does_not_get_a_socket(server: Running) -> None:
    with (
        pytest.raises(Exception, match="403"),
        connect(f"ws://127.0.0.1:{server.port}/v1/ws", origin=Origin("https://evil.example"), proxy=None),
    ):
        pass


def test_mutated_messages_do_no_harm(server: Running) -> None:
    """Bytes changed, left out and doubled in messages that are right: each is answered or ends its connection."""
    seed = random.Random(19)
    right = [
        b'{"type": "hello", "token": "' + TOKEN.encode() + b'", "granularity": 0.1, "format": "arrow"}',
        b'{"type": "subscribe", "views": [{"id": 1, "view": "total", "resume": "a.b.3"}]}',
        b'{"type": "subscribe", "id": 2, "query": "SELECT 1 AS x"}',
        b'{"type": "unsubscribe", "id": 1}',
        b'{"type": "ping", "id": 3}',
    ]
    for _ in range(30):
        with connect(f"ws://127.0.0.1:{server.port}/v1/ws", compression=None, proxy=None) as socket:
            try:
                socket.send(right[0].decode())
                socket.recv(timeout=LONG)
                for _ in range(10):
                    message = bytearray(seed.choice(right[1:]))
                    for _ in range(seed.randint(0, 3)):
                        at = seed.randrange(len(message))
                        if seed.random() < 0.5:
                            message[at] = seed.randrange(256)
                        else:
                            del message[at : at + seed.randint(1, 5)]
                    socket.send(bytes(message))
                socket.send('{"type": "ping", "id": 99}')
                while '"id":99' not in str(socket.recv(timeout=LONG)):
                    pass
            except ConnectionClosed:
                pass
    with client(server) as one:
        one.say(type="subscribe", id=1, view="n")
        one.until(0)


def test_many_clients_that_come_go_and_resume_agree_with_the_oracle(server: Running) -> None:
    """After every round, each client's contents are the view at the time it was told last."""
    seed = random.Random(7)
    names = ["total", "n", "t"]
    kept: list[tuple[str, str, int, Counter[tuple[Any, ...]]]] = []  # (view, prefix, time, contents) of those cut off
    rows: list[tuple[int, int]] = []
    for _ in range(8):
        name = seed.choice(names)
        with (
            client(server, granularity=seed.choice([0, 0.01]), progress=True) as fresh,
            client(server, progress=True) as again,
        ):
            fresh.say(type="subscribe", id=1, view=name)
            if kept:
                view, prefix, time, held = seed.choice(kept)
                again.held = {1: Counter(held)}
                again.say(type="subscribe", id=1, view=view, resume=f"{prefix}.{time}")
            else:
                view = name
                again.say(type="subscribe", id=1, view=view)
            for _ in range(seed.randint(1, 12)):
                new = [(seed.randrange(4), seed.randrange(100)) for _ in range(seed.randint(1, 3))]
                gone = [rows.pop(seed.randrange(len(rows))) for _ in range(min(len(rows), seed.randint(0, 2)))]
                rows += new
                server.do(partial(changed, new, gone))
            time = server.do(lambda db: db.time)
            for one, followed in ((fresh, name), (again, view)):
                one.until(time)
                at = one.time
                expected = server.do(partial(counts_at, followed, at))
                assert one.of(1) == (expected if followed == "t" else shown(expected)), "the columns of t have 32 bits"
                kept.append((followed, one.prefix[1], at, one.held[1]))
    assert server.do(lambda db: sorted(db["t"].rows())) == sorted(rows)


def counts_at(name: str, time: int, db: ev.Session) -> dict[tuple[Any, ...], int]:
    found: dict[tuple[Any, ...], int] = db[name].as_of(time).counts()
    return found


def changed(new: list[tuple[int, int]], gone: list[tuple[int, int]], db: ev.Session) -> None:
    with db.transaction():
        db["t"].insert(new)
        if gone:
            db["t"].delete(gone)


def test_a_client_that_takes_nothing_is_closed_and_costs_little(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everview.server.http.sockets.STALLED", 1.0)
    monkeypatch.setattr("everview.server.http.slow_clients.PARTING", 0.5)
    subscriptions, connections = server.server.engine.feeds.subscriptions, connections_of(server)
    server.do(lambda db: db.sql("CREATE TABLE wide (x text)"))
    with client(server, granularity=0) as good, client(server, granularity=0) as bad:
        theirs = bad.socket.socket.getsockname()
        assert theirs in connections()
        for one in (good, bad):
            one.say(type="subscribe", id=1, view="wide")
            one.until(0)
        for i in range(400):  # 40 MB: more than the operating system keeps for it
            server.do(partial(wider, i))
            good.until(i + 1)
            if len(subscriptions) == 1:
                break
        server.until(lambda: len(subscriptions) == 1)
        good.until(i + 1)
        server.until(lambda: theirs not in connections())
        with pytest.raises(ConnectionClosed):
            while True:
                bad.socket.recv(timeout=LONG)


def test_messages_of_all_sizes_are_written_as_they_are(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready frames, of which one is made for all clients, are what the library makes of the same texts."""
    for size in (0, 1, 125, 126, 65_535, 65_536, 200_000):
        given = b"x" * size
        assert frames.text_frame(given) == Frame(Opcode.TEXT, given).serialize(mask=False)
    written: list[bytes] = []
    refused: list[bytes] = []
    write = Parting.write

    def writing(self: Parting, frame: bytes) -> bool:
        if b'"changes"' in frame:  # not the first contents, of which each client has its own
            written.append(frame)  # before the client can have read it
        done = write(self, frame)
        refused.extend([frame] * (not done))
        return done

    monkeypatch.setattr(Parting, "write", writing)
    server.do(lambda db: db.sql("CREATE TABLE wide (x text)"))
    with client(server, granularity=0) as one, client(server, granularity=0) as other:
        for each in (one, other):
            each.say(type="subscribe", id=1, view="wide")
            each.until(0)
        sizes = [10, 1_000, 100_000]
        for time, size in enumerate(sizes, 1):
            server.do(lambda db, size=size: db["wide"].insert([("x" * size,)]))  # type: ignore[misc]
            for each in (one, other):
                each.until(time)
        assert one.held == other.held == {1: Counter({("x" * size,): 1 for size in sizes})}
    assert len(written) == 6 and len({id(frame) for frame in written}) == 3, "each is made once for both"
    assert not refused


def connections_of(server: Running) -> Callable[[], set[tuple[str, int]]]:
    """A function that gives the addresses of the clients whose WebSockets the server keeps."""
    listener = next(each for each in server.server.listeners if isinstance(each, HttpListener))
    assert listener._server is not None
    kept = listener._server.server_state.connections
    return lambda: {each.client for each in set(kept) if isinstance(each, Parting) and each.client is not None}


def wider(i: int, db: ev.Session) -> None:
    db["wide"].insert([(f"{i} {'x' * 100_000}",)])


# server-sent events


def test_events_for_curl(server: Running) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    url = f"{server.url}/v1/relations/n/events?granularity=0"
    with httpx.stream("GET", url, headers=headers, timeout=LONG, trust_env=False) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        first = event(lines)
        assert first["event"] == "snapshot"
        server.do(lambda db: db["t"].insert([(1, 1)]))
        second = event(lines)
        assert json.loads(second["data"])[0]["rows"] == [[-1, "0"], [1, "1"]]
    server.do(lambda db: db["t"].insert([(1, 1)]))
    headers["last-event-id"] = second["id"]
    with httpx.stream("GET", url, headers=headers, timeout=LONG, trust_env=False) as answer:
        third = event(answer.iter_lines())
        assert third["event"] == "changes"
        assert json.loads(third["data"])[0]["rows"] == [[-1, "1"], [1, "2"]]
    query = {"content": "SELECT sum(x) AS s FROM t", "headers": {"authorization": f"Bearer {TOKEN}"}}
    with httpx.stream("POST", f"{server.url}/v1/events", timeout=LONG, trust_env=False, **query) as answer:  # type: ignore[arg-type]
        assert json.loads(event(answer.iter_lines())["data"])[0]["rows"] == [[1, "2"]]
    headers = {"authorization": f"Bearer {TOKEN}"}
    post = {"url": f"{server.url}/v1/events", "headers": headers, "trust_env": False}
    with httpx.stream("POST", **post, timeout=LONG, json={"query": "SELECT max(x) AS m FROM t"}) as answer:  # type: ignore[arg-type]
        assert json.loads(event(answer.iter_lines())["data"])[0]["rows"] == [[1, "1"]]
        assert "(subscription" not in httpx.get(f"{server.url}/v1/relations", headers=headers, trust_env=False).text
    assert httpx.post(**post, json={"sql": "SELECT 1"}).json()["error"]["code"] == "E_MESSAGE"  # type: ignore[arg-type]
    assert httpx.get(f"{server.url}/v1/relations/m/events", headers=headers, trust_env=False).status_code == 400


def event(lines: Iterator[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        if not line and found:
            return found
        name, _, value = line.partition(": ")
        if name:
            found[name] = value
    raise AssertionError("the stream has ended")
