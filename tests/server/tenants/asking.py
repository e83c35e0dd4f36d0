"""Statements that tenants make in one session: what they see, and what they are refused."""

from __future__ import annotations

from typing import Any

import pytest

import everview as ev
from everview.session.rights.principal import Principal, acting

ANN = Principal("ann", {"tenant": "a"})
BOB = Principal("bob", {"tenant": "b"})


def rows(db: Any, text: str, who: Principal | None = ANN) -> list[Any]:
    """What a statement gives, in order."""
    with acting(who):
        found = db.sql(text)
    return [] if found is None else sorted(found.rows())


def refused(db: Any, text: str, who: Principal | None = ANN, code: str = "E_FORBIDDEN") -> str:
    """What the error says of a statement that is refused. No error tells a value that is hidden: those have 471."""
    with acting(who), pytest.raises(ev.EverviewError) as error:
        db.sql(text)
    assert error.value.code == code, error.value
    assert "471" not in str(error.value)
    return str(error.value)
