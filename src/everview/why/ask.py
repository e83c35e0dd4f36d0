"""Why is this row here? The way from a view's row to its derivation.

Everything is read in one turn of the session, as of one time; nothing is installed and no time passes. As of an
earlier time, all that is read must still be known as of then: tables and views keep `history` times.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from everview.errors import InputError
from everview.session.snapshot import check_time
from everview.why.access import Access, Row
from everview.why.contents import OUTSIDE, Contents
from everview.why.derivation import Derivation, Witnesses
from everview.why.kept import Kept
from everview.why.loops import Histories
from everview.why.steps import Goal, Search
from everview.why.told import Names, Telling

if TYPE_CHECKING:
    from everview.session.view import View

DEEP = 20_000
"""Python's frames that plans of a few thousand nodes on top of each other may take."""


class Question:
    """A view at a time, about to be asked."""

    def __init__(self, view: View, time: int | None) -> None:
        core = view._core
        now = core.time
        if time is not None:
            check_time("why", time)
        self.view = view
        self.time = now if time is None else time
        if self.time > now:
            raise InputError(
                "E_FUTURE", f"time {time} has not come yet; it is {now} now", "ask about db.time or before"
            )
        self.access = Access(core, self.time)
        self.contents = Contents(self.access)
        kept = Kept(self.access, view) if self.time == core.runtime.dataflow.time else None
        self.histories = Histories(self.contents, kept)
        self.search = Search(self.contents, self.histories)

    def row(self, row: Any) -> Row:
        """A row as codes."""
        codec = self.view._codec
        if not isinstance(row, tuple | list | dict):
            row = (row,)
        return tuple(codec.encode_rows([tuple(row) if isinstance(row, list) else row])[:, 0].tolist())

    def there(self, row: Row) -> bool:
        """Whether a row is in the view."""
        return self.contents.count(self.view._node, OUTSIDE, row) > 0

    def derivation(self, row: Row) -> Derivation:
        """Why a row is there that is there."""
        root = Goal(self.view._node, OUTSIDE, row)
        self.search.explain(root)
        return Telling(self.search, Names(self.view._core, self.view)).tell(root)


def why(view: View, row: Any, number: int | None, time: int | None) -> Derivation | Witnesses:
    """See `View.why`; in a turn."""
    view._alive()
    view._core.transactions.catch_up()
    question = Question(view, time)
    codes = question.row(row)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEP))
    try:
        if not question.there(codes):
            when = "" if time is None else f" at time {time}"
            raise InputError(
                "E_ABSENT", f"{row!r} is not in view {view._name!r}{when}", "why_not(row) says what it lacks"
            )
        return question.derivation(codes)
    finally:
        sys.setrecursionlimit(limit)
