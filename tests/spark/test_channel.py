"""Lines between processes of a job: both ends prove themselves, strangers hold up nobody, and no message is believed
that was changed on its way. All in one process; with Spark: test_strangers.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from everview.errors import InternalError
from everview.spark.transport import channel as line_module
from everview.spark.transport import exchange
from everview.spark.transport import listener as door_module
from everview.spark.transport.channel import Channel, call, channel_of
from everview.spark.transport.exchange import ShardExchange
from everview.spark.transport.failures import PeerFailed
from everview.spark.transport.handshake import (
    HELLO,
    MAGIC,
    NONCE,
    PROOF,
    REPLY,
    Caller,
    Keys,
    Listener,
    NotAuthenticated,
    new_secret,
)
from everview.spark.transport.listener import JobListener
from everview.spark.transport.message import pack, unpack
from tests.spark import strangers

HERE = ["127.0.0.1"]


@pytest.fixture
def secret() -> bytes:
    return new_secret()


@pytest.fixture
def door(secret: bytes) -> Iterator[JobListener]:
    made = JobListener(HERE, secret)
    made.open(b"test")
    yield made
    made.close()


def pair(door: JobListener, secret: bytes) -> tuple[Channel, Channel]:
    """Both ends of a line."""
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call, door.address, secret, b"test", 5, 5.0)
        found = door.admit(5.0)
        assert found is not None and found[0] == 5
        return calling.result(), found[1]


def test_both_ends_talk(door: JobListener, secret: bytes) -> None:
    one, other = pair(door, secret)
    for size in (0, 1, 1000, line_module.JOIN + 1):
        data = os.urandom(size)
        for sender, receiver in ((one, other), (other, one)):
            sender.send([data[: size // 2], memoryview(data)[size // 2 :]])
            assert receiver.receive() == data


@pytest.mark.parametrize("kind", strangers.KINDS, ids=lambda kind: kind.__name__)
def test_a_stranger_is_sent_away_and_nobody_waits_for_it(
    door: JobListener, secret: bytes, kind: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "GRACE", 0.5)
    stays = [kind(door.address) for _ in range(5)]
    began = time.monotonic()
    one, other = pair(door, secret)
    assert time.monotonic() - began < 0.4, "it waited for a stranger"
    one.send([b"hello"])
    assert other.receive() == b"hello"  # type: ignore[comparison-overlap]
    for connection in filter(None, stays):  # also those who said nothing are hung up on
        connection.settimeout(5)
        with pytest.raises(ConnectionError):
            while connection.recv(1 << 10):
                pass
            raise ConnectionError
    assert door.admit(0) is None


def test_more_strangers_than_are_kept(door: JobListener, secret: bytes) -> None:
    crowd = [strangers.says_nothing(door.address) for _ in range(3 * door_module.CALLERS)]
    pair(door, secret)
    assert len(door._callers) <= door_module.CALLERS
    for each in crowd:
        each.close()


def test_a_caller_that_does_not_know_the_secret(door: JobListener) -> None:
    """It learns that it knows another, and is not admitted."""
    with pytest.raises(NotAuthenticated):
        call(door.address, new_secret(), b"test", 1, 5.0)
    assert door.admit(0.1) is None


def test_a_caller_with_another_purpose(door: JobListener, secret: bytes) -> None:
    with pytest.raises(NotAuthenticated):
        call(door.address, secret, b"another", 1, 5.0)


def test_a_proof_under_another_number(secret: bytes) -> None:
    caller, listener = Caller(secret, b"test", 1), Listener(secret, b"test")
    proof = caller.proof(listener.reply(caller.hello()))
    with pytest.raises(NotAuthenticated):
        listener.who(bytes([2]) + proof[1:])


def test_a_listener_that_does_not_know_the_secret(secret: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller tells it nothing but random bytes: not the secret, not its number."""
    monkeypatch.setattr(line_module, "GREETING", 0.3)
    for answer in (b"", b"x", os.urandom(REPLY), None):
        heard: list[bytes] = []
        with socket.create_server((HERE[0], 0)) as server:

            def listen(server: socket.socket = server, answer: Any = answer, heard: list[bytes] = heard) -> None:
                connection, _ = server.accept()
                heard.append(connection.recv(HELLO + 1))
                if answer is None:
                    connection.close()
                    return
                connection.sendall(answer)
                connection.settimeout(2)
                heard.append(connection.recv(1))
                connection.close()

            thread = threading.Thread(target=listen)
            thread.start()
            with pytest.raises((NotAuthenticated, ConnectionError)):
                call(server.getsockname(), secret, b"test", 1, 5.0)
            thread.join()
        assert len(heard[0]) == HELLO and heard[1:] in ([], [b""])
        assert secret not in heard[0]


def test_a_recorded_greeting_is_worth_nothing(door: JobListener, secret: bytes) -> None:
    with Between(door.address) as tap:
        with ThreadPoolExecutor(1) as pool:
            calling = pool.submit(call, tap.address, secret, b"test", 5, 5.0)
            assert door.admit(5.0) is not None
            line = calling.result()
        line.send([b"a step"])
        assert strangers.wait_until(lambda: len(tap.recorded) > HELLO + PROOF + 30)
        recorded = bytes(tap.recorded)
    for chunk in (1, HELLO, len(recorded)):
        with socket.create_connection(door.address, timeout=5) as again:
            for at in range(0, len(recorded), chunk):
                try:
                    again.sendall(recorded[at : at + chunk])
                except OSError:
                    break  # hung up on
            assert door.admit(0.3) is None


class Between:
    """Somebody between the two ends, who passes on what the caller says, or something else."""

    def __init__(self, to: tuple[str, int], change: Callable[[bytes], bytes] | None = None) -> None:
        self._server = socket.create_server((HERE[0], 0))
        self.address = self._server.getsockname()
        self.recorded = bytearray()
        self.change = change
        self._to = to
        self._open: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            caller, _ = self._server.accept()
        except OSError:
            return
        called = socket.create_connection(self._to)
        self._open += [caller, called]
        threading.Thread(target=self._pass, args=(called, caller, False), daemon=True).start()
        self._pass(caller, called, True)

    def _pass(self, one: socket.socket, other: socket.socket, forth: bool) -> None:
        try:
            while data := one.recv(1 << 20):
                if forth:
                    self.recorded += data
                    if self.change is not None:
                        data = self.change(data)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def __enter__(self) -> Between:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self._open, self._server):
            each.close()


def flipped(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]


MEDDLING: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a bit changed": flipped,
    "a message twice": lambda data, draw: data + data,
    "a message left out": lambda data, draw: b"",
    "another length": lambda data, draw: (1 << 62).to_bytes(8, "little") + data[8:],
    "something before it": lambda data, draw: os.urandom(draw.randrange(1, 50)) + data,
    "something made up": lambda data, draw: os.urandom(len(data)),
}


@pytest.mark.parametrize("meddling", MEDDLING)
@pytest.mark.parametrize("seed", range(5))
def test_messages_that_are_not_what_was_sent(door: JobListener, secret: bytes, meddling: str, seed: int) -> None:
    """What was sent before arrives; nothing wrong does."""
    draw = random.Random(seed)
    with Between(door.address) as tap:
        with ThreadPoolExecutor(1) as pool:
            calling = pool.submit(call, tap.address, secret, b"test", 5, 5.0)
            found = door.admit(5.0)
            assert found is not None
            one, other = calling.result(), found[1]
        other.socket.settimeout(5)
        sent = [draw.randbytes(draw.randrange(200)) for _ in range(4)]
        got = []
        with pytest.raises(InternalError, match="E_PEER"):
            for number, message in enumerate(sent):
                tap.change = (lambda data: MEDDLING[meddling](data, draw)) if number == 2 else None
                one.send([message])
                if number == 2 and meddling == "a message left out":
                    strangers.wait_until(lambda: False, 0.1)
                    continue
                got.append(bytes(other.receive()))
            got.append(bytes(other.receive()))
        assert got in (sent[:2], sent[:3]) and (len(got) == 2 or meddling == "a message twice")


def test_a_message_is_no_larger_than_allowed(door: JobListener, secret: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "MESSAGE_BYTES", 100)
    one, other = pair(door, secret)
    with pytest.raises(InternalError, match="E_PEER"):
        one.send([bytes(101)])
    one.send([bytes(100)])
    assert other.receive() == bytes(100)
    monkeypatch.undo()
    one.send([bytes(101)])
    monkeypatch.setattr(line_module, "MESSAGE_BYTES", 100)
    with pytest.raises(InternalError, match="E_PEER"):
        other.receive()


class Tape:
    """A connection whose bytes are in one's hands."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def setsockopt(self, *_: Any) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        self.data += bytes(data)

    def recv_into(self, view: memoryview) -> int:
        count = min(len(view), len(self.data))
        view[:count], self.data = self.data[:count], self.data[count:]
        return count


def meddled(data: bytes, ends: list[int], draw: random.Random) -> bytes:
    """Bits, pieces or whole messages changed, left out, doubled, made up, cut off."""
    one, other = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    piece, begins = data[one:other], draw.choice([0, *ends[:-1]])
    message = data[begins : next(end for end in ends if end > begins)]
    return draw.choice(
        [
            flipped(data, draw),
            data[:one] + data[other:],
            data[:one] + piece + data[one:],
            data[:one] + draw.randbytes(len(piece)) + data[other:],
            data[:begins] + message + data[begins:],
            data[:one],
        ]
    )


@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=[pytest.mark.slow])])
def test_random_meddling(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done to the bytes on their way, what is received is what was sent, from its beginning."""
    monkeypatch.setattr(line_module, "MESSAGE_BYTES", 1 << 22)
    for seed in range(first, first + (300 if not first else 20_000)):
        draw, keys = random.Random(seed), Keys(os.urandom(32), os.urandom(32))
        out: Any = Tape()
        line, ends = channel_of(out, keys, calling=True), []
        sent = [draw.randbytes(draw.choice([0, 1, 300, line_module.JOIN + 5])) for _ in range(draw.randrange(1, 5))]
        for message in sent:
            line.send([message])
            ends.append(len(out.data))
        whole = out.data
        arrives: Any = Tape(meddled(whole, ends, draw))
        same = arrives.data.startswith(whole)
        other, got = channel_of(arrives, keys, calling=draw.random() < 0.1), []  # or one's own, sent back
        try:
            while arrives.data:
                got.append(bytes(other.receive()))
        except InternalError as error:
            assert error.code == "E_PEER"
        assert got == sent[: len(got)] and (same or len(got) < len(sent)), seed


@pytest.mark.parametrize("many", [150, pytest.param(5000, marks=[pytest.mark.slow])])
def test_random_strangers(door: JobListener, secret: bytes, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say pieces of true greetings, of any length, and leave in any way; true callers come in all the while."""
    monkeypatch.setattr(door_module, "GRACE", 1.0)
    over, said, held = threading.Event(), [0], []

    def run() -> None:
        draw = random.Random(many)
        while not over.is_set():
            said[0] += 1
            with suppress(OSError):
                connection = socket.create_connection(door.address, timeout=2)
                pieces = [MAGIC + os.urandom(NONCE), os.urandom(draw.randrange(99)), bytes(PROOF), MAGIC]
                data = b"".join(draw.choices(pieces, k=draw.randrange(4)))
                connection.sendall(data[: draw.randrange(len(data) + 1)] if draw.random() < 0.5 else data)
                held.append(connection)
                if draw.random() < 0.3:  # hang up without a word to the other end
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if draw.random() < 0.6 or len(held) > 40:
                    held.pop(draw.randrange(len(held))).close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while said[0] < many:
            one, other = pair(door, secret)
            one.send([b"a step"])
            assert bytes(other.receive()) == b"a step"
            one.close()
            other.close()
    finally:
        over.set()
        thread.join()
        for connection in held:
            connection.close()
    assert door.admit(0.1) is None, "a stranger is in"


@pytest.mark.parametrize(
    "data", [b"", b"EVM1", b"x" * 100, b"EVM1" + b"\xff" * 60, b"".join(pack({"a": 1}, [b"b"]))[:-1]]
)
def test_rubbish_is_no_message(data: bytes) -> None:
    with pytest.raises(InternalError, match="E_PEER"):
        unpack(data)


# a mesh of tasks, each in a thread


def meet(tasks: int, secrets: list[bytes], meanwhile: Callable[[list[Any]], None]) -> list[ShardExchange | Exception]:
    """Meshes of some tasks; `meanwhile` gets their addresses before any of them calls another."""
    texts: list[str] = [""] * tasks
    barrier = threading.Barrier(tasks, action=lambda: meanwhile([json.loads(text)["at"] for text in texts]))

    def one(task: int) -> ShardExchange | Exception:
        def gather(text: str) -> list[str]:
            texts[task] = text
            barrier.wait(10)
            return texts

        try:
            return exchange.meet(task, secrets[task], gather, HERE[0], tasks, {})
        except Exception as error:
            return error

    with ThreadPoolExecutor(tasks) as pool:
        return list(pool.map(one, range(tasks)))


def rounds(meshes: list[Any], count: int) -> None:
    """Tasks swap rows, and all of them arrive."""

    def run(mesh: ShardExchange) -> None:
        for number in range(count):
            size = 10 ** (number % 6)
            messages = [(shard, mesh.task, np.full(size, 100 * mesh.task + number)) for shard in range(mesh.tasks)]
            got, agenda = mesh.exchange(messages, 1000 * mesh.task + number)
            assert agenda == number
            assert sorted(o for _, o, _ in got) == list(range(mesh.tasks))
            assert {s for s, *_ in got} == {s for s, t in enumerate(mesh.owners) if t == mesh.task}
            for _, sender, words in got:
                assert words.flags.writeable and len(words) == size and set(words) == {100 * sender + number}

    with ThreadPoolExecutor(len(meshes)) as pool:
        list(pool.map(run, meshes))


def test_a_mesh_among_strangers() -> None:
    """They are there before the tasks are, and stay."""
    waiting: list[Any] = []

    def crowd(addresses: list[Any]) -> None:
        for where, port in addresses:
            waiting.extend(kind((where, port)) for kind in strangers.KINDS for _ in range(2))

    began = time.monotonic()
    meshes: list[Any] = meet(3, [new_secret()] * 3, crowd)
    assert all(isinstance(mesh, ShardExchange) for mesh in meshes), meshes
    rounds(meshes, 8)
    assert time.monotonic() - began < 5, "somebody waited for a stranger"
    for mesh in meshes[1:]:
        mesh.fail(ValueError("no"))
    with pytest.raises(PeerFailed, match="ValueError: no"):
        meshes[0]._hear()
    for mesh in meshes:
        mesh.close()


def test_a_task_that_knows_another_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is of another job: nobody exchanges rows with it, and the stage fails, as one does that lost a task."""
    monkeypatch.setattr("everview.spark.transport.exchange.PATIENCE", 0.5)
    secret = new_secret()
    found = meet(3, [secret, new_secret(), secret], lambda addresses: None)
    assert [isinstance(each, InternalError) for each in found] == [True, True, True], found
    assert all("E_PEER" in str(each) for each in found)
