"""What a view's operators record of its loops, for the current time.

A loop's variable is stored as differences with rounds (`everview.dataflow.loops`), so its contents in any round are the
sum of the differences up to there. A monotone loop is stored as trees (`everview.dataflow.frontier`), in which every
vertex has a parent.

Operators were built for a pruned and rewritten plan, so a loop of the view's own plan is matched by the types of its
variables. If two loops have the same types, neither is used, and both are run again.

Hazard: forests and traces are read here as kernels left them. That is safe in a turn, between steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from everview.dataflow.batch_arrays import batch_arrays
from everview.dataflow.frontier import Trees
from everview.dataflow.loops import LoopBuild
from everview.dataflow.operators import Arrangement
from everview.kernels import structures
from everview.kernels.frontier import forest as forest_k
from everview.kernels.frontier import vertex_lookup as finding_k
from everview.kernels.trace import read as read_k
from everview.kernels.trace.trace import NO_SINCE
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.check import free_variables
from everview.plan.frontier import Frontier
from everview.plan.keys import starts_as_given
from everview.session.inspect import upstream
from everview.session.reads.snapshot import in_order
from everview.why.access import Access, bag_of
from everview.why.column_blocks import Bag, Bound, Row
from everview.why.contents import Given, new_serial
from everview.why.loops import Came, History

if TYPE_CHECKING:
    from everview.session.view import View

LATEST = 2**63 - 1

Signature = tuple[tuple[str, ...], ...]
"""The kinds of the columns of all variables of a loop."""


class LoopState:
    """The shortcuts to the loops of one view."""

    def __init__(self, access: Access, view: View, node: plan.Node) -> None:
        """`node`: the view's plan in the question."""
        self.access = access
        self.view = view
        self.node = node
        self._found: dict[Signature, list[History]] | None = None

    def histories(self, loop: plan.Loop) -> Sequence[History]:
        """The available histories of a loop, fastest first."""
        if self._found is None:
            self._found = self._search()
        return self._found.get(_signature([b.types for b in loop.bodies]), ())

    def _search(self) -> dict[Signature, list[History]]:
        """The histories of each loop that is unique, in the plan and among the operators."""
        core, view = self.access.core, self.view
        loops: dict[Signature, set[plan.Loop]] = {}
        looped = any(issubclass(kind, plan.Loop) for kind in self.node.kinds)
        for node in self.node.walk() if looped else ():
            if isinstance(node, plan.Loop) and not free_variables(node):
                loops.setdefault(_signature([b.types for b in node.bodies]), set()).add(node)
        if not loops:
            return {}
        builder = core.runtime.builder
        needed = set(upstream(core.runtime.dataflow, relation_of(view).arrangement.operator))
        found: dict[Signature, list[History | None]] = {}
        for (node, inside), arrangements in builder.arrangements.items():
            if isinstance(node, Frontier) and not inside:
                for a in arrangements:
                    if a.operator in needed and isinstance(a.operator, Trees):
                        found.setdefault(_signature([node.types]), []).append(_forest(self.access, node, a))
        built = [(node, b) for (node, inside), b in builder.loops.items() if not inside]
        for node, build in built:
            if isinstance(node, plan.Loop) and any(v.operator in needed for v in build.variables):
                signature = _signature([b.types for b in node.bodies])
                found.setdefault(signature, []).append(_rounds(self.access, node, build))
        for build in builder.retired_loops:  # whatever they were: they are in the way
            for signature in loops:
                if any(v.operator in needed for v in build.variables):
                    found.setdefault(signature, []).append(None)
        return {
            s: [h for h in histories if h is not None]
            for s, histories in found.items()
            if len(histories) == 1 and len(loops.get(s, ())) == 1
        }


def _signature(types: Sequence[plan.Types]) -> Signature:
    return tuple(tuple(t.kind for t in of) for of in types)


# loops in rounds


def _rounds(access: Access, loop: plan.Loop, build: LoopBuild) -> History | None:
    """A loop's own rounds, if its variables are stored and each round is one of the plan's."""
    plain = loop.priority is None and loop.at_limit == "error" and build.scope.depth == 1
    return (
        Rounds(access, build, int(starts_as_given(loop)))
        if plain and not any(v.trace.stateless for v in build.variables)
        else None
    )


class Rounds:
    """The variables of a loop as in their traces. `late`: a loop that may start empty does so, and the plan's initial
    rows are its first round.
    """

    def __init__(self, access: Access, build: LoopBuild, late: int) -> None:
        self.variables = build.variables
        self.late = late
        self.unit = build.scope.unit
        self.size = sum(v.trace.measure()[1] for v in build.variables)
        self._at: dict[int, AtRound] = {}
        access.core.runtime.sync(*(v.operator for v in build.variables))

    def result(self, index: int, bound: Bound) -> Bag:
        return self.read(index, bound, LATEST)

    def came(self, index: int, row: Row, upto: int | None, sign: int) -> Came | None:
        """Since when the row has been present: adds up its differences, round by round."""
        changes = self._changes(self.variables[index], row)
        began: int | None = None
        total = 0
        for number in sorted(changes):
            if upto is not None and number > upto:
                break
            total += changes[number]
            if total * sign <= 0:
                began = None
            elif began is None:
                began = number
        if began is None:
            return None
        return Came(began, None if began == 0 else self._before(began))

    def _before(self, number: int) -> AtRound:
        return self._at.setdefault(number - 1, AtRound(self, number - 1))

    def _changes(self, variable: Arrangement, row: Row) -> dict[int, int]:
        """The differences of a row by round."""
        batch = _collected(variable, [row[c] for c in variable.order], LATEST, times=True)
        _, times, diffs = batch_arrays(batch, variable.cols)
        read_k.release(batch)
        found: dict[int, int] = {}
        for time, diff in zip((times + variable.delay).tolist(), diffs.tolist(), strict=True):
            number = time // self.unit - self.late
            found[number] = found.get(number, 0) + diff
        return found

    def read(self, index: int, bound: Bound, upto: int) -> Bag:
        """The rows of a variable, from differences up to a time."""
        variable = self.variables[index]
        start = []
        for column in variable.order:
            if column not in bound:
                break
            start.append(bound[column])
        batch = _collected(variable, start, upto, times=False)
        columns, _, counts = batch_arrays(batch, variable.cols)
        read_k.release(batch)
        return bag_of(in_order(columns, variable.order), counts, bound)

    def at(self, index: int, bound: Bound, number: int) -> Bag:
        """The rows of a variable in a round."""
        last = (number + self.late + 1) * self.unit - 1 - self.variables[index].delay
        return self.read(index, bound, last) if last >= 0 else {}


class AtRound:
    """Variables of a loop in one of its rounds."""

    def __init__(self, rounds: Rounds, number: int) -> None:
        self.serial = new_serial()
        self.partial = False
        self.size = rounds.size
        self._rounds = rounds
        self._number = number

    def rows(self, index: int, bound: Bound) -> Bag:
        return self._rounds.at(index, bound, self._number)


def _collected(arrangement: Arrangement, start: Sequence[int], upto: int, *, times: bool) -> int:
    """The updates of a trace that begin with some codes, as a batch that must be freed."""
    block = structures.make_filled(np.array(start, dtype=np.int64)) if start else 0
    batch = int(read_k._collect(arrangement.trace.address, block, len(start), NO_SINCE, upto, int(times)))
    if block:
        structures.drop_block(block)
    return batch


# loops as trees


def _forest(access: Access, node: Frontier, arrangement: Arrangement) -> History | None:
    """A forest, if it is built, and no weights make its parents meaningless."""
    context = arrangement.operator.forest
    if not structures.peek(context, forest_k.FOREST_BUILT) or structures.peek(context, forest_k.FOREST_WILD):
        return None
    return Forest(access, node, arrangement)


class Forest:
    """The trees of a monotone loop: a vertex was derived from its parent."""

    def __init__(self, access: Access, node: Frontier, arrangement: Arrangement) -> None:
        self.access = access
        self.node = node
        self.arrangement = arrangement
        self.context = context = arrangement.operator.forest
        self.flip = structures.peek(context, forest_k.FOREST_FLIP)
        self.entries = structures.peek(context, forest_k.FOREST_ENTRIES)
        self.question = node.question
        self.width = forest_k.VERTEX_QUESTION + len(self.question)
        self._entries: dict[Row, int] = {}
        """entries of rows that were met as parents"""

    def result(self, index: int, bound: Bound) -> Bag:
        return self.access.read(self.arrangement, bound)

    def came(self, index: int, row: Row, upto: int | None, sign: int) -> Came | None:
        entry = self._entries.get(row)
        if entry is None:
            entry = self._find(row)
            if entry is None or self._row(entry) != row:
                return None
        parent = self._word(entry, forest_k.VERTEX_PARENT)
        if parent == forest_k.NO_PARENT or sign < 0:
            return None
        if parent == forest_k.OWN_VALUE:
            return Came(None, Given([{}], partial=True))
        before = self._row(parent)
        self._entries[before] = parent
        return Came(None, Given([{before: 1}], partial=True))

    def _word(self, entry: int, word: int) -> int:
        return int(structures.peek(self.entries, 1 + entry * self.width + word))

    def _row(self, entry: int) -> Row:
        """The row of an entry."""
        node = self.node
        codes = [0] * len(node.types)
        codes[node.node] = self._word(entry, forest_k.VERTEX_NODE)
        if node.value is not None:
            codes[node.value] = self._word(entry, forest_k.VERTEX_VALUE) ^ self.flip
        for i, column in enumerate(self.question):
            codes[column] = self._word(entry, forest_k.VERTEX_QUESTION + i)
        return tuple(codes)

    def _find(self, row: Row) -> int | None:
        """The entry of a row's vertex."""
        question = np.array([row[c] for c in self.question], dtype=np.int64)
        entry = int(finding_k.find_vertex(self.context, row[self.node.node], question))
        return None if entry == forest_k.NO_PARENT else entry
