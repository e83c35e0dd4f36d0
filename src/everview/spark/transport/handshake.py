"""Mutual authentication: both ends prove knowledge of a shared secret without revealing it.

The driver creates a secret for every job and Spark sends it to the job's tasks with their code, so whoever knows it is
part of that job (or can read Spark's own channel, and then could run code in its workers anyway). One end connects, the
other listens:

    caller     "everview" | 32 random bytes
    listener   32 random bytes | tag of the listener
    caller     its number | tag of the caller

A tag is an HMAC under the secret over the role, the purpose of the connection, and the random bytes of both ends. This
rules out replay (the random bytes are fresh), reflection (the roles differ) and relaying to another listener (the
purposes differ). The listener proves itself first; only then does the caller send its number. Everything read before
that has a fixed size.

Both ends derive two keys from the same random bytes, one per direction, with which `channel` authenticates all that
follows.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from typing import NamedTuple

MAGIC = b"everview"
NONCE = TAG = 32
_NUMBER = struct.Struct("<Q")
HELLO = len(MAGIC) + NONCE
REPLY = NONCE + TAG
PROOF = _NUMBER.size + TAG
"""Sizes of the three messages."""


class NotAuthenticated(Exception):
    """The other end does not know the secret."""


class Keys(NamedTuple):
    """The message keys, by direction."""

    caller: bytes
    listener: bytes


def new_secret() -> bytes:
    """A fresh random secret."""
    return secrets.token_bytes(32)


class _End:
    """The part common to both ends."""

    def __init__(self, secret: bytes, purpose: bytes) -> None:
        self._secret = secret
        self._purpose = len(purpose).to_bytes(8, "little") + purpose
        self._mine = secrets.token_bytes(NONCE)
        self._nonces = b""

    def _tag(self, role: bytes, more: bytes = b"") -> bytes:
        said = role.ljust(16, b".") + self._nonces + self._purpose + more
        return hmac.digest(self._secret, said, "sha256")

    @property
    def keys(self) -> Keys:
        """The keys of this connection."""
        return Keys(self._tag(b"key of caller"), self._tag(b"key of listener"))


class Caller(_End):
    """The calling end, with a number of its own.

    >>> secret = new_secret()
    >>> caller, listener = Caller(secret, b"a demo", 7), Listener(secret, b"a demo")
    >>> reply = listener.reply(caller.hello())
    >>> listener.who(caller.proof(reply)), listener.keys == caller.keys
    (7, True)
    >>> Caller(new_secret(), b"a demo", 7).proof(reply)
    Traceback (most recent call last):
    everview.spark.transport.handshake.NotAuthenticated
    """

    def __init__(self, secret: bytes, purpose: bytes, number: int) -> None:
        super().__init__(secret, purpose)
        self._number = _NUMBER.pack(number)

    def hello(self) -> bytes:
        """The first message of the caller."""
        return MAGIC + self._mine

    def proof(self, reply: bytes) -> bytes:
        """The message to a listener that has proved itself."""
        self._nonces = self._mine + reply[:NONCE]
        if not hmac.compare_digest(reply[NONCE:], self._tag(b"listener")):
            raise NotAuthenticated
        return self._number + self._tag(b"caller", self._number)


class Listener(_End):
    """The listening end."""

    def reply(self, hello: bytes) -> bytes:
        """The answer to a caller's first message."""
        if not hello.startswith(MAGIC):
            raise NotAuthenticated
        self._nonces = hello[len(MAGIC) :] + self._mine
        return self._mine + self._tag(b"listener")

    def who(self, proof: bytes) -> int:
        """The number of an authenticated caller."""
        number, tag = proof[: _NUMBER.size], proof[_NUMBER.size :]
        if not hmac.compare_digest(tag, self._tag(b"caller", number)):
            raise NotAuthenticated
        return int(_NUMBER.unpack(number)[0])
