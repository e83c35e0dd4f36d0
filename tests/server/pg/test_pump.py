"""Connections that are read together: what comes arrives, and one that ends or breaks does not stop the others."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from everview.server.pg.shared_reader import Pump


class Heard(asyncio.Protocol):
    """What a connection said."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.data = b""
        self.ended = False
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if b"fault" in data:
            raise ZeroDivisionError
        self.data += data

    def eof_received(self) -> bool:
        self.ended = True
        return False

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost = True


async def _taken(pump: Pump) -> tuple[socket.socket, socket.socket, Heard]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    ours.setblocking(False)
    heard = Heard()
    await asyncio.get_running_loop().connect_accepted_socket(lambda: heard, ours)
    pump.take(ours, heard)
    return theirs, ours, heard


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.002)


def test_connections_are_read_together_and_end_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        pump = Pump.of(bytearray(1 << 16))
        assert pump is not None
        all_of_them = [await _taken(pump) for _ in range(100)]
        for number, (theirs, _, _) in enumerate(all_of_them):
            theirs.sendall(b"%d " % number)
        await _settle()
        for number, (theirs, _, _) in enumerate(all_of_them):
            theirs.sendall(b"again %d" % number)
        await _settle()
        assert [h.data for _, _, h in all_of_them] == [b"%d again %d" % (i, i) for i in range(100)]

        ended, broken, faulty, resting, *rest = all_of_them
        ended[0].close()
        broken[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        broken[0].close()  # a reset, not an end
        faulty[0].sendall(b"fault")
        pump.forget(resting[1])
        resting[0].sendall(b" later")
        await _settle()
        assert ended[2].ended and ended[2].lost
        assert broken[2].lost and faulty[2].lost and not rest[0][2].lost
        assert resting[2].data == b"3 again 3"
        pump.take(resting[1], resting[2])
        for theirs, _, _ in rest:
            theirs.sendall(b"!")
        await _settle()
        assert resting[2].data == b"3 again 3 later"
        assert all(h.data.endswith(b"!") for _, _, h in rest)
        for theirs, _, heard in (resting, *rest):
            theirs.close()
            if heard.transport is not None:
                heard.transport.close()
        pump.close()

    asyncio.run(run())
    assert "ended in a way" in caplog.text
