"""What an operator is: the name by which its state is found again.

Operators are made in an order that depends on the session's past: what is there already is shared, what was dropped
leaves no trace. So an operator's place says nothing about it, and neither do its kind and width, which two operators
may have in common. What it holds depends on two things alone: the part of a plan it was made for, its *purpose*, with
all that is below it down to the tables (`everview.plan.digest`), and what it does for that part: its kind, what it
listens to and how, what it reduces. The hash of both is its identity. Operators of the same identity hold the same
rows, in whatever dataflow they are.

What reads a loop's variables is also known by the loop, and that by the loops around it whose variables it reads.

The rule that follows: whoever lets operators of one plan node do different things must let it be seen here (in the
label, `heard`, `spec`, the inputs). Two identities for the same thing cost a computation when a directory is opened;
one identity for two things would be wrong answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from everview.plan import nodes as plan
from everview.plan.digest import digest, hashed, outline, said

if TYPE_CHECKING:
    from everview.dataflow.operators import Operator
    from everview.dataflow.streams import Branch, Route


class Purpose(NamedTuple):
    """A part of a plan, and the loops whose variables it reads."""

    node: plan.Node
    loops: tuple[Purpose, ...] = ()

    def said(self, *, code: bool) -> str:
        """A hash of it; `code`: with what its functions do."""
        own = digest(self.node) if code else outline(self.node)
        return hashed(own, *(loop.said(code=code) for loop in self.loops)) if self.loops else own


def identity(operator: Operator, *, code: bool = True) -> str:
    """An operator's identity; `code`: functions count by what they do, else by name."""
    kept = "_identity" if code else "_sketch"
    found = operator.__dict__.get(kept)
    if found is None:
        found = _identity(operator, code)
        if operator.old:  # until then labels and inputs may come
            operator.__dict__[kept] = found
    return str(found)


def _identity(operator: Operator, code: bool) -> str:
    if operator.errors_of is not None:
        return hashed("errors", identity(operator.errors_of, code=code))
    inputs = [_own(i, code) for i in operator.inputs]
    heard = [_heard(branch, route, code) for branch, route in operator.heard]
    return hashed(_own(operator, code), str(len(inputs)), *inputs, *heard)


def _own(operator: Operator, code: bool) -> str:
    """What an operator is, but for what it reads."""
    purpose = "" if operator.purpose is None else operator.purpose.said(code=code)
    trace = operator.trace
    shape = (
        operator.cols,
        None if trace is None else (trace.cols, trace.diffs, trace.stateless),
        operator.scope.depth,
        getattr(operator, "keys", None),
        getattr(operator, "reduction", None),
        getattr(operator, "spec", None),
    )
    return hashed(operator.kind, operator.label, str(shape), purpose)


def _heard(branch: Branch, route: Route, code: bool) -> str:
    """What an operator makes of one that it listens to."""
    shape = (branch.sign, branch.delay, branch.scope.depth)
    rows = said((branch.exprs, branch.predicate), code=code)
    return hashed(_own(branch.producer, code), str(shape), rows, said(route, code=code))
