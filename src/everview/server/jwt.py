"""JSON Web Tokens (RFC 7519) as a server needs them: signed, in compact form.

HS256, HS384 and HS512 need only Python. RS256, RS384, RS512, PS256, ES256 and ES384 need the package `cryptography`, an
optional dependency: without it a server with a public key does not start.

The key determines the accepted algorithms, never the token: a public key (PEM) cannot be used as the secret of an HMAC.
`none` is never accepted. `exp` is required and `nbf` is respected, with `LEEWAY` seconds for clock skew; `aud` and
`iss` must be the configured ones, if any.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any

from everview.errors import InputError

LEEWAY = 30
LONGEST = 8192

_HASHES = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}


@dataclass(frozen=True)
class Verifying:
    """The key and required claims of tokens.

    >>> signed = sign({"role": "ann", "exp": 2_000_000_000}, "a secret of at least 32 bytes, please")
    >>> Verifying("a secret of at least 32 bytes, please").claims(signed, now=1_900_000_000)["role"]
    'ann'
    """

    key: str
    """a secret of 32 bytes or more, or a public key in PEM"""
    audience: str = ""
    issuer: str = ""

    def check(self) -> None:
        """Refuse an unusable key at start-up."""
        if self._is_public():
            _public(self.key)
        elif len(self.key.encode()) < 32:
            raise InputError("E_OPTION", "the secret for JWTs is too short", "give at least 32 random bytes")

    def _is_public(self) -> bool:
        return "-----BEGIN" in self.key

    def claims(self, token: str, now: float | None = None) -> dict[str, Any]:
        """The claims of a valid token; E_AUTH otherwise, without the reason."""
        try:
            return self._claims(token, time.time() if now is None else now)
        except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
            raise _wrong() from None

    def _claims(self, token: str, now: float) -> dict[str, Any]:
        if len(token) > LONGEST or token.count(".") != 2:
            raise ValueError
        head, body, signature = token.split(".")
        said = json.loads(_decoded(head))
        if not isinstance(said, dict) or said.get("crit") is not None:
            raise ValueError
        if str(said.get("typ", "JWT")).upper() not in ("JWT", "AT+JWT"):
            raise ValueError
        if not self._signed(str(said["alg"]), f"{head}.{body}".encode("ascii"), _decoded(signature)):
            raise ValueError
        claims = json.loads(_decoded(body))
        if not isinstance(claims, dict) or not _number(claims["exp"]) > now - LEEWAY:
            raise ValueError
        if "nbf" in claims and _number(claims["nbf"]) > now + LEEWAY:
            raise ValueError
        audience = claims.get("aud", [])
        if self.audience and self.audience not in ([audience] if isinstance(audience, str) else audience):
            raise ValueError
        if self.issuer and claims.get("iss") != self.issuer:
            raise ValueError
        return claims

    def _signed(self, algorithm: str, data: bytes, signature: bytes) -> bool:
        kind, size = algorithm[:2], algorithm[2:]
        if size not in _HASHES:
            return False
        if not self._is_public():
            return kind == "HS" and hmac.compare_digest(_mac(self.key, data, size), signature)
        return kind in ("RS", "PS", "ES") and _verified(self.key, kind, size, data, signature)


def sign(claims: dict[str, Any], secret: str) -> str:
    """Sign a token with HS256: for tests and small set-ups."""
    head = _encoded(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = _encoded(json.dumps(claims).encode())
    return f"{head}.{body}.{_encoded(_mac(secret, f'{head}.{body}'.encode(), '256'))}"


def _mac(secret: str, data: bytes, size: str) -> bytes:
    return hmac.digest(secret.encode(), data, _HASHES[size])


def _verified(pem: str, kind: str, size: str, data: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    key = _public(pem)
    chosen = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[size]
    try:
        if isinstance(key, rsa.RSAPublicKey) and kind in ("RS", "PS"):
            pad: Any = padding.PKCS1v15() if kind == "RS" else padding.PSS(padding.MGF1(chosen), chosen.digest_size)
            key.verify(signature, data, pad, chosen)
            return True
        if isinstance(key, ec.EllipticCurvePublicKey) and kind == "ES":
            half = len(signature) // 2
            if key.curve.name != {"256": "secp256r1", "384": "secp384r1"}.get(size) or len(signature) != 2 * half:
                return False
            r, s = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
            key.verify(encode_dss_signature(r, s), data, ec.ECDSA(chosen))
            return True
    except InvalidSignature:
        return False
    return False


def _public(pem: str) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ModuleNotFoundError:
        raise InputError(
            "E_OPTION", "a public key for JWTs needs the package cryptography", "pip install cryptography, or use HS256"
        ) from None
    try:
        return load_pem_public_key(pem.encode())
    except ValueError:
        raise InputError("E_OPTION", "the key for JWTs cannot be read", "give a public key in PEM") from None


def _decoded(text: str) -> bytes:
    return base64.b64decode(text.translate(str.maketrans("-_", "+/")) + "=" * (-len(text) % 4), validate=True)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def _wrong() -> InputError:
    return InputError("E_AUTH", "the token is wrong, or its time is over", "get a new one")
