"""Authentication: from a token, a JWT, or a name and a password, to a principal.

    the server's own token       unrestricted
    ev_<name>_<secret>           a token of a role's (CREATE TOKEN), of which a digest is kept
    a JWT                        signed with the server's key; its claim `role` (or `sub`) names the role, its other
                                 claims are attributes
    a name and a password        of a role with LOGIN; PostgreSQL's clients prove it by SCRAM, HTTP sends it (Basic)

A principal's attributes are the role's, then the token's; later ones win. All errors are the same, so that names cannot
be probed. (But PostgreSQL clients of a role without a password are asked for a token in the clear.) Roles are read here
on the loop's thread: they are immutable, and replaced as a whole.
"""

from __future__ import annotations

import hmac
import os
import time
from typing import TYPE_CHECKING, Any

from everview.errors import InputError
from everview.server.jwt import LEEWAY, Verifying
from everview.session.core import core_of
from everview.session.rights.passwords import Verifier, digest_of
from everview.session.rights.principal import Principal

if TYPE_CHECKING:
    from everview.server.engine import Engine
    from everview.server.settings import Settings
    from everview.session.rights.access import Access
    from everview.session.rights.roles import Role

_NOT_ATTRIBUTES = ("exp", "nbf", "iat", "jti", "aud", "iss")


class Identity:
    """Authenticates principals for one server."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._secret = os.urandom(32)
        self._jwt: Verifying | None = None
        if settings.jwt_key:
            self._jwt = Verifying(settings.jwt_key, settings.jwt_audience, settings.jwt_issuer)
            self._jwt.check()

    @property
    def _access(self) -> Access:
        return core_of(self._engine.session).access

    # tokens

    def of_token(self, given: str) -> Principal:
        """The owner of a token; E_AUTH if there is none."""
        if given and self._settings.token and hmac.compare_digest(digest_of(given), digest_of(self._settings.token)):
            return Principal(self.administrator, free=True)
        if given.startswith("ev_"):
            return self._of_own_token(given)
        if given.count(".") == 2 and self._jwt is not None:
            return self._of_claims(self._jwt.claims(given))
        if not self._settings.token:
            return Principal(self.administrator, free=True)
        raise InputError(
            "E_AUTH",
            "this needs a token" if not given else "the token is wrong",
            "send it as Authorization: Bearer TOKEN; everview serve shows the server's own when it starts",
        )

    administrator = "everview"
    """the name of whoever has the server's own token"""

    def _of_own_token(self, given: str) -> Principal:
        digest, found = digest_of(given), None
        for role in self._access.roles.values():
            for token in role.tokens:
                if hmac.compare_digest(token.digest, digest):
                    found = role, token
        if found is None or not found[0].login or _is_over(found[1].until):
            raise InputError("E_AUTH", "the token is wrong", "CREATE TOKEN makes a new one")
        role, token = found
        return _principal(role, dict(token.attributes), token.name, token.until, token.digest)

    def _of_claims(self, claims: dict[str, Any]) -> Principal:
        name = str(claims.get("role", claims.get("sub", ""))).lower()
        role = self._access.roles.get(name)
        if role is None or not role.login:
            raise InputError("E_AUTH", "the token is wrong, or its time is over", "get a new one")
        more = {k: v for k, v in claims.items() if k not in _NOT_ATTRIBUTES and k != "role"}
        return _principal(role, more, "jwt", float(claims["exp"]) + LEEWAY)

    # passwords

    def of_password(self, name: str, password: str) -> Principal:
        """The principal with a name and a password, or with a token instead; E_AUTH otherwise."""
        role = self._access.roles.get(name.lower())
        if role is not None and role.verifier and not _is_over(role.until) and role.login:
            if Verifier.read(role.verifier).fits(password):
                return _principal(role, {}, "")
        elif password:
            found = self.of_token(password)
            if found.free or found.role == name.lower():
                return found
        Verifier.of_nobody(name, self._secret).fits(password)  # takes as long
        raise InputError("E_AUTH", f"the password of {name[:80]!r} is wrong", "")

    def verifier(self, name: str) -> tuple[Verifier | None, Role | None]:
        """The SCRAM verifier of a name, and the role whose it is. Without a role it is the server's own token's, or
        None if there is none.
        """
        role = self._access.roles.get(name.lower())
        if role is not None and role.login and role.verifier and not _is_over(role.until):
            return Verifier.read(role.verifier), role
        nobody = Verifier.of_nobody(name, self._secret)
        if role is not None:
            return nobody, role
        if not self._settings.token:
            return None, None
        return Verifier.of(self._settings.token, nobody.salt), None

    def proven(self, name: str, begun: Role | None) -> Principal:
        """The principal authenticated by SCRAM: who the verifier was of when the client `begun`. Its messages may take
        half a minute, in which the role may be dropped: without one, the name would be the administrator's.
        """
        role = self._access.roles.get(name.lower())
        if begun is None and role is None:
            return Principal(self.administrator, free=True)
        if (
            begun is None
            or role is None
            or (role.made, role.verifier) != (begun.made, begun.verifier)
            or not role.login
        ):
            raise InputError("E_AUTH", f"the password of {name[:80]!r} is wrong", "")
        return _principal(role, {}, "")

    def takes_tokens(self, name: str) -> bool:
        """Whether a role uses tokens instead of a password: it has none, so SCRAM has nothing to compare."""
        role = self._access.roles.get(name.lower())
        return role is not None and role.login and not role.verifier


def _principal(role: Role, more: dict[str, Any], token: str, until: float | None = None, digest: str = "") -> Principal:
    plain = {
        str(k).lower(): v for k, v in {**role.attributes, **more}.items() if isinstance(v, (str, int, float, bool))
    }
    return Principal(role.name, plain, token=token, until=until, proof=(role.made, digest))


def _is_over(until: float | None) -> bool:
    return until is not None and until <= time.time()
