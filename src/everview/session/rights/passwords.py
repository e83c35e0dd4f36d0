"""Stored forms of passwords and tokens: SCRAM verifiers (RFC 5802) and digests.

Neither can be used to log in. A password may be weak, so its verifier takes thousands of rounds per guess; a token is
256 random bits, for which one round is enough.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass

ROUNDS = 4096


@dataclass(frozen=True)
class Verifier:
    """The stored form of a password."""

    salt: bytes
    rounds: int
    stored: bytes
    server: bytes

    @classmethod
    def of(cls, password: str, salt: bytes | None = None, rounds: int = ROUNDS) -> Verifier:
        """The verifier of a password.

        >>> verifier = Verifier.of("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
        >>> base64.b64encode(verifier.stored).decode()
        'WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY='
        """
        salt = os.urandom(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", password.encode("utf-8", "surrogatepass"), salt, rounds)
        client = signed(salted, b"Client Key")
        return cls(salt, rounds, hashlib.sha256(client).digest(), signed(salted, b"Server Key"))

    @classmethod
    def of_nobody(cls, name: str, secret: bytes) -> Verifier:
        """A verifier that matches no password, always the same for the same name."""
        salt = signed(secret, name.encode("utf-8", "surrogatepass"))[:16]
        return cls(salt, ROUNDS, signed(secret, b"stored" + salt), signed(secret, b"server" + salt))

    def __str__(self) -> str:
        """In PostgreSQL's format: SCRAM-SHA-256$rounds:salt$stored:server"""
        salt, stored, server = (base64.b64encode(part).decode() for part in (self.salt, self.stored, self.server))
        return f"SCRAM-SHA-256${self.rounds}:{salt}${stored}:{server}"

    @classmethod
    def read(cls, text: str) -> Verifier:
        """Parse the text form.

        >>> one = Verifier.of("secret")
        >>> Verifier.read(str(one)) == one
        True
        """
        found = re.fullmatch(r"SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):(.+)", text)
        if found is None:
            raise ValueError("no SCRAM verifier")
        salt, stored, server = (base64.b64decode(found[i], validate=True) for i in (2, 3, 4))
        return cls(salt, int(found[1]), stored, server)

    def fits(self, password: str) -> bool:
        """Whether a plain-text password (sent over TLS) matches.

        >>> Verifier.of("secret").fits("secret"), Verifier.of("secret").fits("guess")
        (True, False)
        """
        other = Verifier.of(password, self.salt, self.rounds)
        return hmac.compare_digest(other.stored, self.stored)


def signed(key: bytes, data: bytes) -> bytes:
    """HMAC with SHA-256."""
    return hmac.digest(key, data, "sha256")


def new_token(name: str) -> str:
    """Generate an unguessable token, with a public name.

    >>> new_token("ci").startswith("ev_ci_")
    True
    """
    return f"ev_{name}_{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    """The stored form of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
