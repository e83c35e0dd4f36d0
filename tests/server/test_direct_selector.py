"""A selector that answers requests itself: the loop hears of the rest, and nothing is lost or starved."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from everview.server.direct_selector import ANSWERED, PASSED_ON, ROUNDS, SCHEDULED, new_loop, selector_of
from everview.server.pg.wire import Wire


class Heard(asyncio.Protocol):
    """What a transport was told."""

    def __init__(self) -> None:
        self.data = b""
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost = True


def on_loop(body: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(body(), 60))


async def connected(heard: asyncio.BaseProtocol) -> tuple[socket.socket, socket.socket, asyncio.BaseTransport]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    ours.setblocking(False)
    theirs.settimeout(10)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: heard, ours)
    return theirs, ours, transport


async def until(true: Callable[[], bool]) -> None:
    """Until something is true; the test's time limit ends it if it never is."""
    while not true():
        await asyncio.sleep(0.001)


def test_requests_are_answered_without_the_transport_and_the_rest_is_its() -> None:
    async def body() -> None:
        heard = Heard()
        theirs, ours, transport = await connected(heard)
        selector = selector_of(asyncio.get_running_loop())
        assert selector is not None

        def answer() -> int:
            if ours.recv(100, socket.MSG_PEEK)[:1] != b"?":
                return PASSED_ON
            ours.send(b"answer to " + ours.recv(100))
            return ANSWERED

        selector.answer_by(ours.fileno(), answer)
        theirs.sendall(b"?1")
        assert await asyncio.to_thread(theirs.recv, 100) == b"answer to ?1"
        theirs.sendall(b"else")
        await until(lambda: heard.data == b"else")
        selector.forget(ours.fileno())
        theirs.sendall(b"?2")
        await until(lambda: heard.data == b"else?2")
        theirs.close()
        await until(lambda: heard.lost)
        transport.close()

    on_loop(body)


def test_what_a_function_schedules_is_run_at_once() -> None:
    """The selector would otherwise wait for the next socket, with the callback in the loop's queue."""

    async def body() -> None:
        theirs, ours, transport = await connected(Heard())
        loop = asyncio.get_running_loop()
        selector = selector_of(loop)
        assert selector is not None
        ran = loop.create_future()

        def answer() -> int:
            ours.recv(100)
            loop.call_soon(ran.set_result, True)
            return SCHEDULED

        selector.answer_by(ours.fileno(), answer)
        theirs.sendall(b"x")
        assert await asyncio.wait_for(ran, 10)
        theirs.close()
        transport.close()

    on_loop(body)


def test_a_client_that_never_stops_starves_neither_timers_nor_other_work() -> None:
    async def body() -> None:
        theirs, ours, transport = await connected(Heard())
        loop = asyncio.get_running_loop()
        selector = selector_of(loop)
        assert selector is not None
        calls = 0

        def answer() -> int:  # reads nothing, so there is always something to read
            nonlocal calls
            calls += 1
            return ANSWERED

        selector.answer_by(ours.fileno(), answer)
        theirs.sendall(b"x")
        for _ in range(20):
            before = calls
            await asyncio.sleep(0)
            assert calls - before <= ROUNDS
        await asyncio.sleep(0.01)  # a timer
        assert await asyncio.to_thread(lambda: "other work") == "other work"
        assert calls > 20
        selector.forget(ours.fileno())
        theirs.close()
        transport.close()

    on_loop(body)


def test_other_loops_have_none() -> None:
    async def body() -> None:
        assert selector_of(asyncio.get_running_loop()) is None

    asyncio.run(body())


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_nothing_to_do_is_nothing(timeout: float) -> None:
    loop = new_loop()
    selector = selector_of(loop)
    assert selector is not None
    selector.answer_by(-1, lambda: ANSWERED)
    assert selector.select(timeout) == []
    loop.close()


def test_a_connection_that_breaks_or_fails_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    def answered(data: bytes | bytearray, at: int) -> tuple[int, bytes]:
        if b"fault" in data:
            raise ZeroDivisionError
        return len(data) - at, b"answer to " + bytes(data[at:])

    async def wired() -> tuple[socket.socket, Wire]:
        wire = Wire(bytearray(1 << 16))
        theirs, ours, _ = await connected(wire)
        selector = selector_of(asyncio.get_running_loop())
        assert selector is not None
        wire.at_once = answered
        wire.read_directly(selector, ours)
        return theirs, wire

    async def body() -> None:
        all_of_them = [await wired() for _ in range(20)]
        (faulty, failed), (broken, reset), (ended, closed), *rest = all_of_them
        faulty.sendall(b"fault")
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        broken.close()  # a reset, not an end
        ended.close()
        await until(lambda: all(wire.gone.is_set() for wire in (failed, reset, closed)))
        for theirs, wire in rest:
            theirs.sendall(b"?")
            assert await asyncio.to_thread(theirs.recv, 100) == b"answer to ?"
            assert not wire.gone.is_set()
            theirs.close()
        await until(lambda: all(wire.gone.is_set() for _, wire in rest))
        faulty.close()

    on_loop(body)
    assert "ended in a way" in caplog.text
