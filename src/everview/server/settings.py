"""Server settings: addresses, authentication, and limits."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass

from everview.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a server is reached, and by whom."""

    host: str = "127.0.0.1"
    http: int | None = None
    """the port; 0 for any that is free, None for none"""
    pg: int | None = None
    token: str = ""
    """what clients have to know; nothing, if anybody may come in"""
    jwt_key: str = ""
    """what JWTs are signed with: a secret (HS256), or a public key in PEM (RS256, ES256)"""
    jwt_audience: str = ""
    jwt_issuer: str = ""
    certificate: str = ""
    """file with the certificate (and those it needs) for TLS"""
    private_key: str = ""
    origins: tuple[str, ...] = ()
    """web pages that may talk to the server, besides its own: "https://app.example.com" """
    hosts: tuple[str, ...] = ()
    """names that clients may know it by, besides its address and localhost"""
    seconds: float | None = None
    """how long a statement may take"""
    memory: int | None = None
    """how many bytes a statement may add"""
    connections: int = 10_000
    """how many may be open at once, of each kind"""
    message: int = 64 * 1024 * 1024
    """bytes of the longest message that is taken"""

    def check(self) -> None:
        """Refuse what would let strangers in, and what cannot work."""
        if not self.token and not is_local(self.host):
            raise InputError(
                "E_OPTION",
                f"--no-auth would let anybody in who reaches {self.host}",
                "listen on 127.0.0.1, or leave --no-auth out",
            )
        if bool(self.certificate) != bool(self.private_key):
            raise InputError("E_OPTION", "TLS needs a certificate and its key", "give --tls-cert and --tls-key")
        for name, port in (("http", self.http), ("pg", self.pg)):
            if port is not None and not 0 <= port <= 65535:
                raise InputError("E_OPTION", f"--{name} {port} is not a port", "give a number up to 65535, 0 for any")


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def random_token() -> str:
    """A token that nobody guesses.

    >>> len(random_token()) >= 32
    True
    """
    return secrets.token_urlsafe(24)
