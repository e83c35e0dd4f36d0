"""What tests of durable sessions share: a recursive view, and an end without notice."""

from __future__ import annotations

from typing import Any

import everview as ev
from everview.recovery.directory import Directory
from tests.inside import inside


def die(db: ev.Session) -> None:
    """Leave the directory as kill -9 would."""
    assert isinstance(inside(db).runtime.backing, Directory)
    inside(db).abandon()


def reach(edge: Any, root: Any) -> ev.Collection:
    """Whatever can be reached from some roots."""

    def step(found: Any) -> ev.Collection:
        return found.join(edge, found.node == edge.src).select(node=edge.dst).union_all(root).distinct()

    return root.iterate(step)
