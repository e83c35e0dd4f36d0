"""Who is at the other end: both prove that they know a secret, and neither tells it.

The driver makes a secret for every job and Spark carries it to the job's tasks with their code, so whoever knows it is
a part of that job (or can read Spark's own channel, and then could run code in its workers anyway). One end calls, the
other listens:

    caller     "everview" | 32 random bytes
    listener   32 random bytes | tag of the listener
    caller     its number | tag of the caller

A tag is an HMAC with the secret over the role, what the connection is for, and both ends' random bytes. So nothing
that was said on another connection helps anybody: not a recording (the other end's random bytes are new each time), nor
sending back what was received (roles differ), nor passing it on to another listener (the purpose differs). The caller
learns first that it has come to the right place, and only then says who it is. All that is read before that has a fixed
size.

From the same random bytes both make two keys, one for each direction, with which `line` seals all that follows.
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
    """Whoever is at the other end does not know the secret."""


class Keys(NamedTuple):
    """What messages are sealed with, by direction."""

    caller: bytes
    listener: bytes


def new_secret() -> bytes:
    """A secret that nobody has had."""
    return secrets.token_bytes(32)


class _End:
    """What both ends do."""

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
    """The end that calls, under a number of its own.

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
        """What it says first."""
        return MAGIC + self._mine

    def proof(self, reply: bytes) -> bytes:
        """What it says to a listener that has proved itself."""
        self._nonces = self._mine + reply[:NONCE]
        if not hmac.compare_digest(reply[NONCE:], self._tag(b"listener")):
            raise NotAuthenticated
        return self._number + self._tag(b"caller", self._number)


class Listener(_End):
    """The end that is called."""

    def reply(self, hello: bytes) -> bytes:
        """What it says to somebody who calls."""
        if not hello.startswith(MAGIC):
            raise NotAuthenticated
        self._nonces = hello[len(MAGIC) :] + self._mine
        return self._mine + self._tag(b"listener")

    def who(self, proof: bytes) -> int:
        """The number of a caller that has proved itself."""
        number, tag = proof[: _NUMBER.size], proof[_NUMBER.size :]
        if not hmac.compare_digest(tag, self._tag(b"caller", number)):
            raise NotAuthenticated
        return int(_NUMBER.unpack(number)[0])
