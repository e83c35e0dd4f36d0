"""Bytes: the codec against a second one, beginnings of connections, TLS, and clients that send nonsense."""

from __future__ import annotations

import datetime as dt
import os
import random
import socket
import ssl
import struct
import time
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from everview.codes.immutable import FrozenList
from everview.codes.intervals import Interval
from everview.server.pg import listener, messages
from everview.server.pg.formats import reader, writer
from everview.server.pg.messages import Field, decode
from everview.server.pg.oids import oid_of
from everview.server.pg.sqlstates import PgError
from everview.types import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    FREE,
    INT,
    INTERVAL,
    JSON,
    STR,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    array,
    decimal,
    numeric,
    small_int,
)
from tests.server.pg.conftest import Running, running
from tests.server.running import resident


class Raw:
    """A client that sends what it is told, and reads messages."""

    def __init__(self, port: int, first: bytes | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        if first is not None:
            self.socket.sendall(first)

    def exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self.socket.recv(size - len(found))
            if not more:
                raise EOFError
            found += more
        return found

    def message(self) -> tuple[bytes, bytes]:
        kind = self.exactly(1)
        (size,) = struct.unpack(">I", self.exactly(4))
        return kind, self.exactly(size - 4)

    def until(self, kind: bytes) -> list[tuple[bytes, bytes]]:
        found = [self.message()]
        while found[-1][0] != kind:
            found.append(self.message())
        return found

    def close(self) -> None:
        self.socket.close()


def startup(minor: int = 0, **options: str) -> bytes:
    body = b"".join(f"{k}\0{v}\0".encode() for k, v in {"user": "me", **options}.items()) + b"\0"
    return struct.pack(">IHH", len(body) + 8, 3, minor) + body


# ---- the codec

VALUES: list[tuple[Any, Any]] = [
    (INT, -(2**63) + 1), (INT, 7), (small_int(16), -3), (small_int(32), 2**31 - 1), (FLOAT, 1e-300), (BOOL, True),
    (STR, "üx"), (BYTES, b"\0\1\xff"), (DATE, dt.date(1, 1, 1)), (DATE, dt.date(9999, 12, 31)),
    (TIMESTAMP, dt.datetime(1970, 1, 1, 0, 0, 0, 1)), (TIMESTAMPTZ, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
    (TIME, dt.time(23, 59, 59, 999999)), (decimal(2), Decimal("-0.01")),
    (numeric(FREE), Decimal("12345678901234567890")),
    (numeric(10), Decimal("0.0000000001")), (numeric(FREE), Decimal(0)), (INTERVAL, Interval(14, -3, 5)),
    (UUID, uuid.UUID(int=5)), (JSON, FrozenList([1, "a"])), (array(INT), FrozenList([1, None, 3])),
    (array(STR), FrozenList([])), (array(DATE), FrozenList([dt.date(2000, 1, 1)])),
]  # fmt: skip


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("declared", "value"), VALUES)
def test_values_go_out_and_come_in_again(declared: Any, value: Any, binary: bool) -> None:
    data = writer(declared, binary)(value)
    assert reader(oid_of(declared), declared, binary)(data) == value


@pytest.mark.parametrize("declared", sorted({t for t, _ in VALUES}, key=repr))
def test_bytes_that_are_no_value_are_refused(declared: Any) -> None:
    chance = random.Random(repr(declared))
    for _ in range(200):
        data = chance.randbytes(chance.randrange(24))
        for binary in (False, True):
            try:
                reader(oid_of(declared), declared, binary)(data)
            except PgError as error:
                assert error.state in ("22P02", "22P03", "0A000")


def test_messages_are_those_of_another_codec() -> None:
    """pygwire reads what we write, and we read what it writes."""
    pygwire = pytest.importorskip("pygwire")
    theirs = pygwire.messages
    ours = {
        "P": (theirs.Parse("s", "SELECT $1", [20, 0]), messages.Parse("s", "SELECT $1", (20, 0))),
        "B": (
            theirs.Bind("p", "s", [1], [b"\0\7", None], [0, 1]),
            messages.Bind("p", "s", (1,), (b"\0\7", None), (0, 1)),
        ),
        "E": (theirs.Execute(portal="p", max_rows=5), messages.Execute("p", 5)),
        "Q": (theirs.Query(query_string="SELECT 'ü'"), messages.Query("SELECT 'ü'")),
        "S": (theirs.Sync(), messages.SYNC),
        "X": (theirs.Terminate(), messages.TERMINATE),
    }  # fmt: skip
    for kind, (sent, wanted) in ours.items():
        data = bytes(sent.to_wire())
        assert data[:1] == kind.encode()
        assert decode(data[:1], data[5:]) == wanted
    answers = [
        (messages.row_description([Field("x", 20, 8)], (1,)), theirs.RowDescription),
        (messages.data_row([b"1", None]), theirs.DataRow),
        (messages.command_complete("SELECT 1"), theirs.CommandComplete),
        (messages.ready(b"T"), theirs.ReadyForQuery),
        (messages.error_response({"S": "ERROR", "C": "42703", "M": "no"}), theirs.ErrorResponse),
        (messages.parameter_description([20, 25]), theirs.ParameterDescription),
        (messages.parameter_status("TimeZone", "UTC"), theirs.ParameterStatus),
    ]
    for data, kind_of in answers:
        read = kind_of.decode(memoryview(data)[5:])
        assert bytes(read.to_wire()) == data


def test_a_message_that_is_cut_anywhere_is_refused() -> None:
    whole = b"p\0s\0" + struct.pack(">hhh", 1, 1, 2) + struct.pack(">i", 2) + b"ab" + struct.pack(">i", -1)
    whole += struct.pack(">hh", 1, 0)
    assert isinstance(decode(b"B", whole), messages.Bind)
    for size in range(len(whole)):
        with pytest.raises(PgError) as error:
            decode(b"B", whole[:size])
        assert error.value.state == "08P01"
    with pytest.raises(PgError):
        decode(b"B", whole + b"x")


# ---- beginnings


def test_versions_are_negotiated(shared: Running) -> None:
    for minor, key in ((0, 4), (2, 32)):
        client = Raw(shared.port, startup(minor))
        found = client.until(b"Z")
        assert b"v" not in {k for k, _ in found}
        assert next(len(body) for kind, body in found if kind == b"K") == 4 + key
        client.close()
    client = Raw(shared.port, startup(9, **{"_pq_.unknown": "1"}))
    kind, body = client.message()
    assert (kind, body[:8]) == (b"v", struct.pack(">ii", 2, 1))
    assert body[8:] == b"_pq_.unknown\0"
    client.until(b"Z")
    client.close()


def test_an_older_protocol_is_refused(shared: Running) -> None:
    client = Raw(shared.port, struct.pack(">IHH", 9, 2, 0) + b"\0")
    kind, body = client.message()
    assert kind == b"E"
    assert b"C0A000" in body
    client.close()


def test_gss_and_tls_without_a_certificate_are_declined(shared: Running) -> None:
    client = Raw(shared.port, struct.pack(">II", 8, 80877104))
    assert client.exactly(1) == b"N"
    client.socket.sendall(struct.pack(">II", 8, 80877103))
    assert client.exactly(1) == b"N"
    client.socket.sendall(startup())
    client.until(b"Z")
    client.close()


def test_a_request_to_cancel_needs_the_key(fresh: Running) -> None:
    client = Raw(fresh.port, startup(2))
    key = next(body for kind, body in client.until(b"Z") if kind == b"K")
    client.socket.sendall(messages.message(b"Q", b"SUBSCRIBE TO total WITH (SNAPSHOT = false)\0"))
    assert client.message()[0] == b"T"
    wrong = Raw(fresh.port, struct.pack(">II", 12 + 32, 80877102) + key[:4] + bytes(32))
    assert wrong.socket.recv(1) == b""
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.message()
    client.socket.settimeout(30)
    right = Raw(fresh.port, struct.pack(">II", 8 + len(key), 80877102) + key)
    assert right.socket.recv(1) == b""
    found = client.until(b"Z")
    assert b"C57014" in found[0][1]
    for one in (client, wrong, right):
        one.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=9))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    place = tmp_path_factory.mktemp("tls")
    files = place / "cert.pem", place / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(files[0]), str(files[1])


def test_tls_asked_for_and_tls_at_once(certificate: tuple[str, str]) -> None:
    psycopg = pytest.importorskip("psycopg")
    server = running(certificate=certificate[0], private_key=certificate[1], token="secret")
    try:
        dsn = f"host=127.0.0.1 port={server.port} user=me password=secret sslmode=require"
        with psycopg.connect(dsn, connect_timeout=30) as db:
            assert db.execute("SELECT 1").fetchone() == (1,)
            assert db.pgconn.ssl_in_use
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for protocols, served in ((["postgresql"], True), (["h2"], False)):
            context.set_alpn_protocols(protocols)
            try:
                plain = socket.create_connection(("127.0.0.1", server.port), timeout=30)
                with context.wrap_socket(plain, server_hostname="localhost") as secured:
                    secured.sendall(startup())
                    answer = secured.recv(1)
            except (ssl.SSLError, ConnectionError):
                answer = b""
            assert (answer == b"R") == served
    finally:
        server.stop()


def test_nothing_may_come_between_asking_for_tls_and_tls(certificate: tuple[str, str]) -> None:
    server = running(certificate=certificate[0], private_key=certificate[1])
    try:
        client = Raw(server.port, struct.pack(">II", 8, 80877103) + startup())
        assert client.exactly(1) in (b"S", b"E")
        rest = b""
        client.socket.settimeout(30)
        while more := client.socket.recv(1000):
            rest += more
        assert b"ready" not in rest and b"server_version" not in rest
    finally:
        server.stop()


# ---- nonsense


def _conversation() -> bytes:
    """A conversation that is as it should be."""
    parse = b"s\0SELECT id, shop FROM sale WHERE id = $1\0" + struct.pack(">hI", 1, 20)
    bind = b"\0s\0" + struct.pack(">hhhi", 1, 1, 1, 8) + struct.pack(">q", 1) + struct.pack(">hh", 1, 1)
    parts = [
        messages.message(b"Q", b"SELECT 1; SELECT * FROM sale\0"), messages.message(b"P", parse),
        messages.message(b"B", bind), messages.message(b"D", b"P\0"),
        messages.message(b"E", b"\0" + struct.pack(">i", 1)), messages.message(b"S"),
        messages.message(b"Q", b"COPY sale (id, shop) FROM STDIN\0"), messages.message(b"d", b"9\tx\n"),
        messages.message(b"c"), messages.message(b"Q", b"BEGIN; SAVEPOINT a; DECLARE c CURSOR FOR SELECT 1\0"),
        messages.message(b"Q", b"FETCH ALL c; ROLLBACK\0"), messages.message(b"C", b"Ss\0"), messages.message(b"S"),
    ]  # fmt: skip
    return b"".join(parts)


def _mutated(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(found))
        match chance.randrange(4):
            case 0:
                found[at] = chance.randrange(256)
            case 1:
                del found[at : at + chance.randrange(1, 9)]
            case 2:
                found[at:at] = chance.randbytes(chance.randrange(1, 9))
            case _:
                found[at] ^= 1 << chance.randrange(8)
    return bytes(found)


def _sent(port: int, data: bytes) -> None:
    """Send bytes and hang up: whatever the server makes of them."""
    client = Raw(port, startup())
    client.until(b"Z")
    client.socket.sendall(data + messages.message(b"X"))
    client.socket.shutdown(socket.SHUT_WR)
    try:
        while client.socket.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    finally:
        client.close()


def _fuzzed(server: Running, count: int, seed: int) -> None:
    data = _conversation()
    for i in range(count):
        _sent(server.port, _mutated(data, random.Random(seed * 100_000 + i)))
        if i % 50 == 0:
            _sent(server.port, _conversation())
    client = Raw(server.port, startup())
    client.until(b"Z")
    client.socket.sendall(messages.message(b"Q", b"SELECT 1\0"))
    assert [kind for kind, _ in client.until(b"Z")] == [b"T", b"D", b"C", b"Z"]
    client.close()
    deadline = time.monotonic() + 60
    while server.listener.clients and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not server.listener.clients, "connections are left behind"


def test_mutated_conversations_neither_stop_nor_break_the_server(fresh: Running) -> None:
    _fuzzed(fresh, 150, 1)


@pytest.mark.slow
def test_thousands_of_mutated_conversations(fresh: Running) -> None:
    _fuzzed(fresh, 5000, 2)


@pytest.mark.slow
@pytest.mark.long
def test_ten_thousand_mutated_conversations(fresh: Running) -> None:
    """No crash, no hang, no leak: `EVERVIEW_MESSAGES=10000 EVERVIEW_SEED=1 pytest -m long`"""
    count, seed = int(os.environ.get("EVERVIEW_MESSAGES", "10000")), int(os.environ.get("EVERVIEW_SEED", "3"))
    _fuzzed(fresh, count // 10, seed)
    before = resident()
    _fuzzed(fresh, count, seed + 1)
    assert resident() - before < 64_000_000


def test_random_beginnings_are_refused(shared: Running) -> None:
    chance = random.Random(3)
    for _ in range(60):
        client = Raw(shared.port, chance.randbytes(chance.randrange(8, 200)))
        client.socket.shutdown(socket.SHUT_WR)
        try:
            while client.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        client.close()


def test_a_message_longer_than_may_be_ends_the_connection(shared: Running) -> None:
    client = Raw(shared.port, startup())
    client.until(b"Z")
    client.socket.sendall(b"Q" + struct.pack(">I", 1 << 31))
    kind, body = client.message()
    assert kind == b"E" and b"C08P01" in body and b"FATAL" in body
    client.close()


def test_tokens_are_in_no_answer_and_no_log(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    server = running(token="very-secret-token")
    try:
        client = Raw(server.port, startup())
        said = [*client.message()]
        client.socket.sendall(messages.message(b"p", b"SCRAM-SHA-256\0" + struct.pack(">i", 9) + b"n,,n=,r=x"))
        said += client.message()
        client.socket.sendall(messages.message(b"p", b"c=biws,r=wrong,p=AAAA"))
        said += client.message()
        assert b"very-secret-token" not in b"".join(said)
        assert "very-secret-token" not in caplog.text
        client.close()
    finally:
        server.stop()


def test_a_server_that_nobody_uses_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to wait for its own accepting of connections, which closing a socket does not wake."""
    monkeypatch.setattr(listener, "GRACE", 600.0)
    running().stop()  # has 60 seconds
