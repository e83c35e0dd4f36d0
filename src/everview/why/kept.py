"""What a view's operators know of its loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from everview.plan import nodes as plan
from everview.why.loops import History

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.view import View


class Kept:
    """The shortcuts to the loops of one view."""

    def __init__(self, core: Core, view: View) -> None:
        self.core = core
        self.view = view

    def histories(self, loop: plan.Loop) -> Sequence[History]:
        """What there is to a loop, the quickest first."""
        return ()
