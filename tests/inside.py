"""What a session is made of, for tests that look inside."""

from __future__ import annotations

from typing import Any

import everview as ev
from everview.session.core import core_of


def inside(db: ev.Session) -> Any:
    """The session's core; untyped, because each runtime has more than the protocol says."""
    return core_of(db)
