"""The identity of an operator: the name by which its state is found again.

The order in which operators are created depends on the session's past: existing ones are shared, and dropped ones leave
no trace. An operator's position therefore says nothing about it; nor do its kind and width, which others may share. Its
contents depend on two things alone. One is its *purpose*: the part of a plan it was created for, down to the tables
(`everview.plan.digest`). The other is what it does for that part: its kind, its inputs and how it reads them, what it
reduces. Its identity is the hash of both. Operators with the same identity hold the same rows, in any dataflow.

For readers of loop variables the identity includes the loop, and the enclosing loops whose variables that one reads.

The resulting rule: code that lets operators of one plan node behave differently must reflect that here (in the label,
`heard`, `spec`, or the inputs). Two identities for the same state cost a recomputation when a directory is opened; one
identity for two different states would give wrong results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from everview.plan import nodes as plan
from everview.plan.digest import canonical_text, digest, hashed, outline

if TYPE_CHECKING:
    from everview.dataflow.operators import Operator
    from everview.dataflow.streams import Branch, Route


class Purpose(NamedTuple):
    """A part of a plan, and the loops whose variables it reads."""

    node: plan.Node
    loops: tuple[Purpose, ...] = ()

    def fingerprint(self, *, code: bool) -> str:
        """Its hash; `code`: including the code of its functions."""
        own = digest(self.node) if code else outline(self.node)
        return hashed(own, *(loop.fingerprint(code=code) for loop in self.loops)) if self.loops else own


def identity(operator: Operator, *, code: bool = True) -> str:
    """An operator's identity; `code`: functions are identified by their code, else by name."""
    kept = "_identity" if code else "_sketch"
    found = operator.__dict__.get(kept)
    if found is None:
        found = _identity(operator, code)
        if operator.old:  # labels and inputs may be added until then
            operator.__dict__[kept] = found
    return str(found)


def _identity(operator: Operator, code: bool) -> str:
    if operator.errors_of is not None:
        return hashed("errors", identity(operator.errors_of, code=code))
    inputs = [_own(i, code) for i in operator.inputs]
    heard = [_heard(branch, route, code) for branch, route in operator.heard]
    return hashed(_own(operator, code), str(len(inputs)), *inputs, *heard)


def _own(operator: Operator, code: bool) -> str:
    """The operator's own properties, without its inputs."""
    purpose = "" if operator.purpose is None else operator.purpose.fingerprint(code=code)
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
    """How an operator transforms one of its inputs."""
    shape = (branch.sign, branch.delay, branch.scope.depth)
    rows = canonical_text((branch.exprs, branch.predicate), code=code)
    return hashed(_own(branch.producer, code), str(shape), rows, canonical_text(route, code=code))
