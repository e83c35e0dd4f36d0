"""Connection start-up: TLS, protocol version, authentication, or a cancel request.

The first message has no letter. It requests TLS (answered S, or N without a certificate), GSSAPI (always N), the
cancellation of another connection's statement, or a session. Versions 3.0 and 3.2 are supported; a client that requests
a newer one, or unknown options, is told what is available and may continue. In 3.2 the cancel key has 32 bytes, in 3.0
it has 4.

All this must happen within `PATIENCE` seconds, in messages of at most 10,000 bytes: an unauthenticated client costs
next to nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass

from everview.errors import InputError
from everview.server.identity import Identity
from everview.server.pg import messages
from everview.server.pg.messages import Password, violation
from everview.server.pg.scram import MECHANISM, Conversation
from everview.server.pg.sqlstates import PgError
from everview.server.pg.wire import Wire
from everview.server.settings import is_local
from everview.session.rights.principal import Principal

PATIENCE = 30.0
"""Seconds within which a client must have logged in."""

NEWEST = 2
"""The newest minor version of protocol 3."""

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
LONG_KEY, SHORT_KEY = 32, 4


@dataclass
class Login:
    """Who may connect, and how that is found out."""

    identity: Identity
    context: ssl.SSLContext | None = None
    """the server's certificate, if it has one"""


@dataclass
class Begun:
    """A client that has logged in."""

    options: dict[str, str]
    minor: int
    key: bytes
    who: Principal


async def begin(wire: Wire, login: Login, cancel: Callable[[int, bytes], None]) -> Begun | None:
    """Talk to a client until it has logged in; None if it only wanted to cancel something."""
    async with asyncio.timeout(PATIENCE):
        return await _begun(wire, login, cancel)


async def _begun(wire: Wire, login: Login, cancel: Callable[[int, bytes], None]) -> Begun | None:
    secured = wire.transport is not None and wire.transport.get_extra_info("ssl_object") is not None
    asked: set[int] = set()
    while True:
        size, code = struct.unpack(">II", await wire.exactly(8))
        if not 8 <= size <= messages.LONGEST_EARLY:
            raise violation("this is not how a PostgreSQL client begins")
        if code in (SSL_REQUEST, GSS_REQUEST):
            if size != 8 or code in asked:
                raise violation("TLS or GSSAPI is asked for twice")
            asked.add(code)
            secured = await _secured(wire, login, code, secured)
            continue
        body = await wire.exactly(size - 8)
        if code == CANCEL_REQUEST:
            if len(body) < 4 + SHORT_KEY:
                raise violation("a request to cancel is too short")
            cancel(struct.unpack(">i", body[:4])[0], body[4:])
            return None
        break
    options = _options(body)
    minor = _negotiated(wire, code, options)
    key = secrets.token_bytes(LONG_KEY if minor >= 2 else SHORT_KEY)
    user = options.get("user", "")
    if login.identity.takes_tokens(user):
        who = await _told(wire, login, user, secured)
    else:
        who = await _proven(wire, login, user)
    wire.put(messages.AUTHENTICATED)
    wire.open_up()
    return Begun(options, minor, key, who)


async def _secured(wire: Wire, login: Login, code: int, secured: bool) -> bool:
    if code == SSL_REQUEST and login.context is not None and not secured:
        wire.put(b"S")
        wire.flush()
        await wire.secured(login.context)
        return True
    wire.put(b"N")
    wire.flush()
    return secured


def _options(body: bytes) -> dict[str, str]:
    if not body.endswith(b"\0\0") and body != b"\0":
        raise violation("the first message does not end as it must")
    parts = body.rstrip(b"\0").split(b"\0")
    if parts == [b""]:
        parts = []
    if len(parts) % 2:
        parts.append(b"")
    try:
        texts = [p.decode() for p in parts]
    except UnicodeDecodeError:
        raise violation("the first message is not UTF-8") from None
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _negotiated(wire: Wire, code: int, options: dict[str, str]) -> int:
    """The minor version that both speak; the client is told if it wanted something else."""
    major, minor = code >> 16, code & 0xFFFF
    if major != 3:
        raise PgError(
            "E_MESSAGE", "0A000", f"protocol {major}.{minor} is not supported", f"protocol 3.0 to 3.{NEWEST} is"
        )
    unknown = [name for name in options if name.startswith("_pq_.")]
    for name in unknown:
        del options[name]
    spoken = min(minor, NEWEST)
    spoken = 0 if spoken == 1 else spoken  # there never was a 3.1
    if spoken != minor or unknown:
        wire.put(messages.negotiate(spoken, unknown))
    return spoken


async def _told(wire: Wire, login: Login, user: str, secured: bool) -> Principal:
    """Have the client say its token, in the place of a password: only where nobody listens in."""
    peer = wire.transport.get_extra_info("peername") if wire.transport is not None else None
    if not secured and not (isinstance(peer, tuple) and is_local(str(peer[0]))):
        raise PgError("E_AUTH", "28000", f"{user!r} has no password, and tokens are taken over TLS only", "use TLS")
    wire.put(messages.CLEARTEXT)
    await wire.drained()
    given = (await _said(wire)).rstrip(b"\0").decode(errors="replace")
    try:
        return login.identity.of_password(user, given)
    except InputError as error:
        raise PgError("E_AUTH", "28P01", error.message, "the password is a token of the role's") from None


async def _proven(wire: Wire, login: Login, user: str) -> Principal:
    """Have the client prove that it knows the password: the role's own, or the server's token."""
    verifier, role = login.identity.verifier(user)
    if verifier is None:
        return login.identity.proven(user, role)
    conversation = Conversation(verifier)
    wire.put(messages.sasl([MECHANISM]))
    await wire.drained()
    first = await _said(wire)
    name, _, rest = first.partition(b"\0")
    if name.decode(errors="replace") != MECHANISM or len(rest) < 4:
        raise violation("only SCRAM-SHA-256 is offered")
    size = struct.unpack(">i", rest[:4])[0]
    if size != len(rest) - 4:
        raise violation("SCRAM's first message is cut off")
    wire.put(messages.sasl_continue(conversation.first(rest[4:])))
    await wire.drained()
    answer = conversation.final(await _said(wire))
    try:
        who = login.identity.proven(user, role) if answer is not None else None
    except InputError:  # the role is another one now
        who = None
    if who is None or answer is None:
        raise PgError(
            "E_AUTH", "28P01", f"the password of {user!r} is wrong", "it is the role's, or the server's token"
        )
    wire.put(messages.sasl_final(answer))
    return who


async def _said(wire: Wire) -> bytes:
    found = await wire.message()
    if not isinstance(found, Password):
        raise violation("an answer about the password is expected")
    return found.data
