"""What tests of durable sessions share: a recursive view, and an end without notice."""

from __future__ import annotations

from typing import Any

import everview as ev
from everview.durable import DurableSession


def die(db: ev.Session) -> None:
    """Leave the directory as kill -9 would."""
    assert isinstance(db, DurableSession)
    db._let_go()


def reach(edge: Any, root: Any) -> ev.Collection:
    """Whatever can be reached from some roots."""

    def step(found: Any) -> ev.Collection:
        return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

    return root.iterate(step)
