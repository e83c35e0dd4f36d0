"""A login takes several messages, for which a client has half a minute: what happens to its role meanwhile."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Callable

import pytest

from everview.server.pg import messages
from tests.server.pg.test_wire import Raw, startup
from tests.server.tenants.conftest import Tenants


class Login(Raw):
    """A client that has been asked for the proof of its password."""

    def __init__(self, port: int, user: str) -> None:
        super().__init__(port, startup(user=user))
        assert self.message()[0] == b"R"
        said = b"n,,n=,r=abcdefgh"
        self.socket.sendall(messages.message(b"p", b"SCRAM-SHA-256\0" + struct.pack(">i", len(said)) + said))
        kind, body = self.message()
        assert (kind, struct.unpack(">i", body[:4])[0]) == (b"R", 11)
        self.challenge = body[4:].decode()

    def prove(self, password: str) -> str:
        """Prove it; who the client is then, or the code of the error."""
        fields = {part[0]: part[2:] for part in self.challenge.split(",")}
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c=biws,r={fields['r']}"
        text = f"n=,r=abcdefgh,{self.challenge},{without}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), text, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        self.socket.sendall(messages.message(b"p", f"{without},p={proof}".encode()))
        while (found := self.message())[0] != b"Z":
            if found[0] == b"E":
                return next(part[1:].decode() for part in found[1].split(b"\0") if part[:1] == b"C")
        self.socket.sendall(messages.message(b"Q", b"SELECT current_user, count(*) FROM doc\0"))
        row = next(body for kind, body in self.until(b"Z") if kind in b"DE")
        return row[6 : 6 + struct.unpack(">i", row[2:6])[0]].decode()


CHANGES: list[tuple[str, str]] = [
    ("", "ann"),
    ("DROP ROLE ann", "28P01"),
    ("DROP ROLE ann; CREATE USER ann PASSWORD 'pw of ann' SUPERUSER", "28P01"),
    ("ALTER ROLE ann PASSWORD 'another'", "28P01"),
    ("ALTER ROLE ann NOLOGIN", "28P01"),
    ("ALTER ROLE ann SET town = 'Oslo'", "ann"),
]


@pytest.mark.parametrize(("change", "wanted"), CHANGES)
def test_who_began_to_log_in_is_who_has_logged_in(tenants: Tenants, change: str, wanted: str) -> None:
    """Without a role, a name is the administrator's: whoever was dropped at this moment was one."""
    login = Login(tenants.pg, "ann")
    if change:
        tenants.sql(change)
    assert login.prove("pw of ann") == wanted
    login.close()


@pytest.mark.parametrize("make", [None, lambda t: t.sql("CREATE USER boss PASSWORD 'x'")], ids=["none", "made"])
def test_the_administrator_is_not_a_role_that_is_made_meanwhile(
    tenants: Tenants, make: Callable[[Tenants], None] | None
) -> None:
    login = Login(tenants.pg, "boss")
    if make is not None:
        make(tenants)
    assert login.prove(tenants.tokens["admin"]) == ("everview" if make is None else "28P01")
    login.close()
