"""SCRAM-SHA-256 (RFC 5802, 7677): a client proves that it knows the password without revealing it.

The server stores a salt and two keys derived from the password (the *verifier*), not the password. Both sides sign the
three messages; an eavesdropper learns nothing useful, and the client verifies that the server knows the password too.
Channel binding (SCRAM-SHA-256-PLUS) is not offered.

For a nonexistent name the exchange is the same, with a salt derived from a secret, so that names cannot be probed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os

from everview.server.pg.sqlstates import PgError
from everview.session.rights.passwords import Verifier, signed

MECHANISM = "SCRAM-SHA-256"


class Conversation:
    """One client's proof, as the server sees it.

    >>> Conversation(Verifier.of("secret"), nonce="s").first(b"n,,n=,r=c")[:5]
    b'r=cs,'
    """

    def __init__(self, verifier: Verifier, nonce: str | None = None) -> None:
        self._verifier = verifier
        self._nonce = nonce or base64.b64encode(os.urandom(18)).decode()
        self._header = ""
        self._said = ""

    def first(self, data: bytes) -> bytes:
        """The answer to the client's first message: a nonce, a salt and how many rounds."""
        text = _text(data)
        flag, _, rest = text.partition(",")
        name, _, bare = rest.partition(",")
        if flag not in ("n", "y") or name:
            raise _refused("this form of SCRAM is not offered")
        fields = _fields(bare)
        if "m" in fields or not fields.get("r"):
            raise _refused("SCRAM's first message is not understood")
        self._header = f"{flag},{name},"
        self._nonce = fields["r"] + self._nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.rounds}"
        self._said = f"{bare},{answer}"
        return answer.encode()

    def final(self, data: bytes) -> bytes | None:
        """The answer to the client's proof, or None if it proves nothing."""
        text = _text(data)
        without, _, proof = text.rpartition(",p=")
        fields = _fields(without)
        header = base64.b64encode(self._header.encode()).decode()
        if fields.get("r") != self._nonce or fields.get("c") != header:
            raise _refused("SCRAM's last message does not belong to this conversation")
        try:
            proven = base64.b64decode(proof, validate=True)
        except (binascii.Error, ValueError):
            raise _refused("SCRAM's proof is not understood") from None
        said = f"{self._said},{without}".encode()
        signature = signed(self._verifier.stored, said)
        if len(proven) != len(signature):
            return None
        client = bytes(a ^ b for a, b in zip(proven, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client).digest(), self._verifier.stored):
            return None
        return b"v=" + base64.b64encode(signed(self._verifier.server, said))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _refused("a message of SCRAM is not UTF-8") from None


def _fields(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _refused(what: str) -> PgError:
    return PgError("E_MESSAGE", "08P01", what, "use a client that speaks SCRAM-SHA-256, such as libpq 10 or newer")
