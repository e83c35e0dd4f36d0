"""The entry point of `why`: from a view's row to its derivation.

Everything is read in one turn of the session, as of one time; nothing is installed and time does not advance. For an
earlier time, everything read must still be known as of then: tables and views keep `history` times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from everview.codes.codec import Codec
from everview.codes.values import encode_value
from everview.errors import InputError, PlanError
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.provenance import COLUMN, kept_in
from everview.plan.selection import narrowed, readings
from everview.plan.without_provenance import without_provenance
from everview.session.reads.snapshot import check_time
from everview.why.absence import Absences, WhyNot
from everview.why.access import Access
from everview.why.column_blocks import Row
from everview.why.contents import OUTSIDE, Contents
from everview.why.derivation import Derivation, Values, Witnesses
from everview.why.loop_state import LoopState
from everview.why.loops import Histories
from everview.why.other_worlds import may_differ
from everview.why.rendering import Names, Renderer, names_of
from everview.why.steps import Goal, Search
from everview.why.witnesses import witnesses

if TYPE_CHECKING:
    from everview.session.view import View

DEEP = 20_000
"""Python stack frames for plans that are a few thousand nodes deep."""


class Question:
    """A view at a time, to be examined."""

    def __init__(self, view: View, time: int | None, node: plan.Node | None = None) -> None:
        """`node`: the view's plan without its provenance column."""
        core = view._core
        now = core.time
        if time is not None:
            check_time("why", time)
        self.view = view
        self.node = relation_of(view).node if node is None else node
        self.codec = relation_of(view).codec
        if node is not None:
            self.codec = Codec(node.types, relation_of(view).codec.names[:-1], core.interner)
        self.time = now if time is None else time
        if self.time > now:
            raise InputError(
                "E_FUTURE", f"time {time} has not come yet; it is {now} now", "ask about db.time or before"
            )
        self.access = Access(core, self.time)
        self.contents = Contents(self.access)
        kept = LoopState(self.access, view, self.node) if self.time == core.runtime.dataflow.time else None
        self.histories = Histories(self.contents, kept, _narrowed(self.node))
        self.search = Search(self.contents, self.histories, self.node)

    def row(self, row: Any) -> Row:
        """A row as codes."""
        codec, row = self.codec, self._own(row)
        if not isinstance(row, tuple | list | dict):
            row = (row,)
        return tuple(codec.encode_rows([tuple(row) if isinstance(row, list) else row])[:, 0].tolist())

    def pattern(self, row: Any) -> tuple[dict[int, int], Values]:
        """The codes of the given values, and the values, None for open ones (None or ...)."""
        codec, row = self.codec, self._own(row)
        values = codec.as_tuple(row) if isinstance(row, tuple | list | dict) else (row,)
        if len(values) != len(codec.types):
            names = ", ".join(codec.names)
            raise InputError("E_WIDTH", f"{row!r} has {len(values)} values, not {len(codec.types)}", f"give {names}")
        known = {c: v for c, v in enumerate(values) if v is not None and v is not ...}
        interner = self.view._core.interner
        bound = {c: encode_value(codec.types[c], v, interner) for c, v in known.items()}
        return bound, tuple(known.get(c) for c in range(len(values)))

    def _own(self, row: Any) -> Any:
        """A row of a view with provenance, which may be given with or without it."""
        if self.node is relation_of(self.view).node:
            return row
        if isinstance(row, dict):
            return {name: value for name, value in row.items() if name != COLUMN}
        return row[:-1] if isinstance(row, tuple | list) and len(row) == len(relation_of(self.view).columns) else row

    def names(self) -> Names:
        """The names of plans, for the examined view."""
        return names_of(self.view._core, self.view, self.node)

    def count(self, row: Row) -> int:
        """The multiplicity of a row in the view."""
        return self.contents.count(self.node, OUTSIDE, row)

    def there(self, row: Row) -> bool:
        """Whether a row is in the view."""
        return self.count(row) > 0

    def derivation(self, row: Row) -> Derivation:
        """The derivation of a present row."""
        root = Goal(self.node, OUTSIDE, row)
        self.search.explain(root)
        return Renderer(self.search, self.names()).tell(root)

    def witnesses(self, row: Row, number: int) -> Witnesses:
        """Up to so many derivations of a row. A loop that was stopped does not justify itself at its end: then only the
        known one is returned.
        """
        if any(isinstance(n, plan.Loop) and n.at_limit == "stop" for n in self.node.walk()):
            return Witnesses((self.derivation(row),), truncated=True)
        root = Goal(self.node, OUTSIDE, row)
        found, truncated = witnesses(self.contents, self.histories, self.names(), root, number)
        return Witnesses(
            tuple(found) or (self.derivation(row),), truncated or _shrinks(self.node) or may_differ(self.node)
        )


def _narrowed(node: plan.Node) -> dict[plan.Loop, plan.Loop]:
    """The loops of a plan of which operators keep only the best rows."""
    if plan.Reduce not in node.kinds:
        return {}
    return {loop: narrowed(loop, bests) for loop, bests in readings(node).items()}


def _shrinks(node: plan.Node) -> bool:
    """Whether a loop of a plan may lose initial rows: a witness shows how they were derived, not why they stayed."""
    return any(
        isinstance(loop, plan.Loop)
        and any(initial is not None for initial in loop.initials)
        and any(_takes_away(each) for body in loop.bodies for each in body.walk())
        for loop in (node.walk() if any(issubclass(kind, plan.Loop) for kind in node.kinds) else ())
    )


def _takes_away(node: plan.Node) -> bool:
    if isinstance(node, plan.Reduce):
        return any(a.kind not in ("min", "max") for a in node.aggregates)
    return isinstance(node, plan.Negate)


@contextmanager
def deep() -> Iterator[None]:
    """Allow deep recursion, for deep plans."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEP))
    try:
        yield
    except RecursionError:
        what = "the view's plan has too many steps on top of each other to be read backwards"
        raise PlanError("E_WHY_DEPTH", what, "install a part of it as a view of its own") from None
    finally:
        sys.setrecursionlimit(limit)


def present(question: Question, row: Row, given: Any, when: str = "") -> int:
    """The multiplicity of a row in the view; raises if it is absent."""
    count = question.count(row)
    if count <= 0:
        what = f"{given!r} is not in view {relation_of(question.view).label!r}{when}"
        raise InputError("E_ABSENT", what, "why_not(row) says what it lacks")
    return count


def why(view: View, row: Any, number: int | None, time: int | None) -> Derivation | Witnesses:
    """Implements `View.why`; call it in a turn."""
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        raise InputError("E_TYPE", f"why: all={number!r} is not a number of explanations", "give 1 or more")
    with deep():
        question = asked(view, time)
        codes = question.row(row)
        present(question, codes, row, "" if time is None else f" at time {time}")
        return question.derivation(codes) if number is None else question.witnesses(codes, number)


def why_not(view: View, row: Any, time: int | None) -> WhyNot:
    """Implements `View.why_not`; call it in a turn."""
    with deep():
        question = asked(view, time)
        bound, values = question.pattern(row)
        there = question.contents.rows(question.node, OUTSIDE, bound)
        if any(n > 0 for n in there.values()):
            what = f"{row!r} is in view {relation_of(view).label!r}"
            raise InputError("E_PRESENT", what, "why(row) explains it")
        telling = Renderer(question.search, question.names())
        return WhyNot(relation_of(view).label, values, Absences(telling).ways(question.node, bound))


def asked(view: View, time: int | None) -> Question:
    """Prepare a live view for a question; call it in a turn."""
    view._alive()
    view._core.transactions.refuse_supposed("why and why_not tell what is true, and cannot be asked")
    view._core.transactions.catch_up()
    if not kept_in(relation_of(view).node):
        return Question(view, time)
    node = without_provenance(relation_of(view).node) if relation_of(view).columns[-1].name == COLUMN else None
    if node is None:
        raise InputError(
            "E_PROVENANCE",
            f"view {relation_of(view).label!r} reads provenance, which is not a row of a table",
            "ask the view that keeps it: view.why(row), view.provenance(row)",
        )
    return Question(view, time, node)
