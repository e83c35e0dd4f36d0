"""What is kept in place of passwords and tokens: SCRAM verifiers (RFC 5802) and digests.

Neither lets anybody in who reads it. A password may be weak, so its verifier costs thousands of rounds to guess at; a
token is 256 random bits, for which one round is enough.
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
    """What is kept in place of a password."""

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
        """One that no password fits, always the same for the same name."""
        salt = signed(secret, name.encode("utf-8", "surrogatepass"))[:16]
        return cls(salt, ROUNDS, signed(secret, b"stored" + salt), signed(secret, b"server" + salt))

    def __str__(self) -> str:
        """As PostgreSQL keeps it: SCRAM-SHA-256$rounds:salt$stored:server"""
        salt, stored, server = (base64.b64encode(part).decode() for part in (self.salt, self.stored, self.server))
        return f"SCRAM-SHA-256${self.rounds}:{salt}${stored}:{server}"

    @classmethod
    def read(cls, text: str) -> Verifier:
        """From its text.

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
        """Whether a password is the one, where it was said in the open (over TLS).

        >>> Verifier.of("secret").fits("secret"), Verifier.of("secret").fits("guess")
        (True, False)
        """
        other = Verifier.of(password, self.salt, self.rounds)
        return hmac.compare_digest(other.stored, self.stored)


def signed(key: bytes, data: bytes) -> bytes:
    """HMAC with SHA-256."""
    return hmac.digest(key, data, "sha256")


def new_token(name: str) -> str:
    """A token that nobody guesses, with a name that is no secret.

    >>> new_token("ci").startswith("ev_ci_")
    True
    """
    return f"ev_{name}_{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
