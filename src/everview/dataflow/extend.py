"""Joins of many inputs, Python side: the pipelines of a MultiJoin, and the operator that runs them.

See `everview.kernels.operators.extend` for what a pipeline is. This module decides in which order each binds its
variables, which arrangements that takes, and how it is encoded for the kernel. The order depends on the plan alone, not
on current row counts: the same commands must build the same operators, or saved state could not be restored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

from everview.dataflow.operators import Arrangement, Instruction, Operator
from everview.dataflow.scopes import OUTSIDE, Scope
from everview.expr.nodes import Expr, Literal
from everview.kernels import structures
from everview.kernels.operators import extend as k
from everview.plan import nodes as plan

if TYPE_CHECKING:
    from everview.dataflow.dataflow import Dataflow

TESTS = {"lt": k.TEST_LT, "le": k.TEST_LE, "ne": k.TEST_NE, "eq": k.TEST_EQ}

WEIGHTS = 32
"""Initial capacity for weights."""

Columns = tuple[int, ...]

Bound = dict[int, int]
"""Bound variables, and the level that bound them (0: the source)."""


@dataclass(frozen=True)
class Part:
    """An input's part in a level: its previously bound columns, in the order of the arrangement, and those bound
    here."""

    input: int
    bound: Columns
    new: Columns
    complete: bool


@dataclass(frozen=True)
class Level:
    """Variables bound together, and the parts that bind them."""

    variables: tuple[int, ...]
    parts: tuple[Part, ...]


def levels(node: plan.MultiJoin, source: int) -> list[Level]:
    """The levels of the pipeline that starts from an input.

    >>> from everview.types import INT
    >>> e = plan.Table(0, (INT, INT))
    >>> triangle = plan.MultiJoin((e, e, e), ((0, 1), (1, 2), (0, 2)), (INT,) * 3)
    >>> [(level.variables, [part.input for part in level.parts]) for level in levels(triangle, 0)]
    [((2,), [1, 2])]
    """
    bound = {v: 0 for v in node.variables[source] if v >= 0}
    pending = [i for i in range(len(node.inputs)) if i != source]
    step = _next_variable if node.strategy == "wco" else _next_input
    found: list[Level] = []
    while pending:
        done = [i for i in pending if _variables(node, i) <= bound.keys()]
        if done:
            level = Level((), (Part(done[0], _columns(node, done[0], bound), (), True),))
        else:
            level = step(node, pending, bound)
        found.append(level)
        bound |= dict.fromkeys(level.variables, len(found))
        pending = [i for i in pending if not any(p.input == i and p.complete for p in level.parts)]
    return found


def serving(arrangements: Sequence[Arrangement], part: Part) -> Arrangement | None:
    """The arrangement that has the part's bound columns first, in any order, then its new ones."""
    orders = [(*bound, *part.new) for bound in permutations(part.bound)]
    return next((a for a in arrangements if any(a.starts(order) for order in orders)), None)


def _variables(node: plan.MultiJoin, i: int) -> set[int]:
    return {v for v in node.variables[i] if v >= 0}


def _columns(node: plan.MultiJoin, i: int, bound: Bound) -> Columns:
    return tuple(c for c, v in enumerate(node.variables[i]) if v in bound)


def _selects(node: plan.MultiJoin, i: int, bound: Bound) -> tuple[int, int]:
    """A heuristic for the selectivity of an input's bound variables: by the one that the fewest inputs have, then by
    the one bound last.

    Row counts are not used here. But a variable that many inputs share is usually a dimension: a city with many
    customers and many shops. Going from a city to its customers, their orders and the shops of these finds few rows at
    each step; going back to the city for its shops would pair all customers with all shops.
    """
    mine = [v for v in _variables(node, i) if v in bound]
    return max(((-sum(v in of for of in node.variables), bound[v]) for v in mine), default=(-len(node.inputs) - 1, 0))


def _next_input(node: plan.MultiJoin, pending: list[int], bound: Bound) -> Level:
    """The input that shares most variables with those bound; ties go to the most selective (`_selects`), then to the
    first. It binds all its variables at once.
    """
    best = max(pending, key=lambda i: (len(_variables(node, i) & bound.keys()), _selects(node, i, bound), -i))
    new = tuple(c for c, v in enumerate(node.variables[best]) if v >= 0 and v not in bound)
    part = Part(best, _columns(node, best, bound), new, True)
    return Level(tuple(node.variables[best][c] for c in new), (part,))


def _next_variable(node: plan.MultiJoin, pending: list[int], bound: Bound) -> Level:
    """The variable that most inputs restrict: those with other bound columns, else any that have it. Ties go to one
    that others depend on, found by the most selective inputs (`_selects`).
    """
    best: tuple[tuple[bool, int, bool, tuple[int, int], int, int], Level] | None = None
    for v in sorted({v for i in pending for v in _variables(node, i)} - bound.keys()):
        having = [i for i in pending if v in node.variables[i]]
        useful = [i for i in having if _variables(node, i) & bound.keys() or _variables(node, i) == {v}]
        linked = [i for i in useful if _variables(node, i) & bound.keys()]
        parts = tuple(_part(node, i, v, bound) for i in useful or having[:1])
        selects = max((_selects(node, i, bound) for i in linked), default=(0, 0))
        complete = sum(p.complete for p in parts)
        score = (bool(linked), len(useful), len(having) > 1, selects, complete, -v)
        if best is None or score > best[0]:
            best = (score, Level((v,), parts))
    assert best is not None
    return best[1]


def _part(node: plan.MultiJoin, i: int, v: int, bound: Bound) -> Part:
    of = node.variables[i]
    return Part(i, _columns(node, i, bound), (of.index(v),), _variables(node, i) <= bound.keys() | {v})


@dataclass(frozen=True)
class Pipeline:
    """A source and its levels, with the arrangement of every part."""

    source: Arrangement
    levels: tuple[tuple[Level, tuple[Arrangement, ...]], ...]


class Extend(Operator):
    """A join of many inputs: see `everview.kernels.operators.extend`."""

    kind = "extend"

    def __init__(self, dataflow: Dataflow, scope: Scope, node: plan.MultiJoin, pipelines: Sequence[Pipeline]) -> None:
        super().__init__(dataflow, scope, len(node.columns), f"{node.strategy} of {len(node.inputs)}")
        self.node = node
        self.pipelines = pipelines
        arrangements = [a for p in pipelines for a in (p.source, *(a for _, parts in p.levels for a in parts))]
        self.inputs = list(dict.fromkeys(a.operator for a in arrangements))
        self.tests, constants = _tests(node, dataflow.encode_literal)
        words = [0] * k.EXTEND_WORDS
        words[k.EXTEND_SCOPE] = scope.address
        words[k.EXTEND_STEP] = dataflow.step_block
        words[k.EXTEND_FRESH] = int(scope.is_root)
        words[k.EXTEND_INPUTS] = len(pipelines)
        words[k.EXTEND_TABLE] = self.block([word for i, p in enumerate(pipelines) for word in self._input(i, p)])
        words[k.EXTEND_VARS] = self.block([*[0] * len(node.columns), *constants, 0])
        words[k.EXTEND_COLS] = len(node.columns)
        words[k.EXTEND_KEY] = self.block([0] * (len(node.columns) + 1))
        words[k.EXTEND_WEIGHTS] = structures.make_block(2 * WEIGHTS)
        words[k.EXTEND_WEIGHTS_ROOM] = WEIGHTS
        self.context = self.block(words)
        self.output()
        dataflow.add(self)

    def settled(self) -> None:
        structures.poke(self.context, k.EXTEND_FRESH, 0)

    # encoding pipelines

    def _input(self, i: int, pipeline: Pipeline) -> list[int]:
        words = [0] * k.EXTEND_INPUT_WORDS
        words[k.EXTEND_INPUT_TRACE] = pipeline.source.trace.address
        words[k.EXTEND_INPUT_SUB] = self._sub(pipeline.source)
        words[k.EXTEND_INPUT_ADD] = pipeline.source.delay
        words[k.EXTEND_INPUT_PIPELINE] = self._pipeline(i, pipeline)
        return words

    def _pipeline(self, i: int, pipeline: Pipeline) -> int:
        of = self.node.variables[i]
        bound = {v for v in of if v >= 0}
        columns = [of[c] for c in pipeline.source.order]
        words = [0] * k.PIPELINE_WORDS
        words[k.PIPELINE_LEVELS] = len(pipeline.levels)
        words[k.PIPELINE_MAP], words[k.PIPELINE_NMAP] = self.block(columns), len(columns)
        words[k.PIPELINE_TESTS], words[k.PIPELINE_NTESTS] = self._tests_of(None, bound)
        words[k.PIPELINE_PARTS] = max((len(level.parts) for level, _ in pipeline.levels), default=0)
        for level, arrangements in pipeline.levels:
            words.append(self._level(level, arrangements, bound))
            bound |= set(level.variables)
        return self.block(words)

    def _level(self, level: Level, arrangements: Sequence[Arrangement], bound: set[int]) -> int:
        words = [0] * k.LEVEL_WORDS
        words[k.LEVEL_NPARTS] = len(level.parts)
        words[k.LEVEL_NEW], words[k.LEVEL_NNEW] = self.block([*level.variables, 0]), len(level.variables)
        words[k.LEVEL_TESTS], words[k.LEVEL_NTESTS] = self._tests_of(bound, bound | set(level.variables))
        words += [self._part(p, a) for p, a in zip(level.parts, arrangements, strict=True)]
        return self.block(words)

    def _part(self, part: Part, arrangement: Arrangement) -> int:
        of = self.node.variables[part.input]
        words = [0] * k.PART_WORDS
        words[k.PART_TRACE] = arrangement.trace.address
        words[k.PART_INPUT] = part.input
        words[k.PART_BOUND] = self.block([*(of[c] for c in arrangement.order[: len(part.bound)]), 0])
        words[k.PART_NBOUND] = len(part.bound)
        words[k.PART_COMPLETE] = int(part.complete)
        words[k.PART_SUB] = self._sub(arrangement)
        words[k.PART_ADD] = arrangement.delay
        return self.block(words)

    def _sub(self, arrangement: Arrangement) -> int:
        return int(arrangement.operator.scope.is_root and not self.scope.is_root)

    def _tests_of(self, before: set[int] | None, now: set[int]) -> tuple[int, int]:
        """The tests that become possible at this level; None: this is the first level, which includes tests of
        constants.
        """
        constants = set(range(len(self.node.columns), len(self.node.columns) + len(self.tests) * 2))
        made = set() if before is None else {t for t in self.tests if {t[1], t[2]} <= before | constants}
        ready = [t for t in self.tests if {t[1], t[2]} <= now | constants and t not in made]
        return self.block([word for test in ready for word in test] or [0]), len(ready)

    # running

    def instructions(self) -> list[Instruction]:
        return [(k.extend.address, self.context)]

    def set_stream(self, address: int) -> None:
        structures.poke(self.context, k.EXTEND_STREAM, address)

    @property
    def replayable(self) -> bool:
        return True

    def replay(self, stream: int) -> None:
        k.replay_extend(self.context, stream)

    def _free(self) -> None:
        for scratch in (k.EXTEND_STATE, k.EXTEND_WEIGHTS) if self.context else ():
            structures.drop_block(structures.peek(self.context, scratch))
        super()._free()

    def explain(self) -> list[str]:
        """The pipelines, one line each: the source, then which inputs bind which variables."""
        where = "" if self.scope.label == OUTSIDE else f" ({self.scope.label})"
        lines = [f"{self.node.strategy} join of {len(self.node.inputs)} inputs{where}:"]
        for i, pipeline in enumerate(self.pipelines):
            start = ", ".join(f"v{v}" for v in self.node.variables[i] if v >= 0)
            steps = []
            for level, _ in pipeline.levels:
                by = " and ".join(f"input {p.input}" for p in level.parts)
                names = ", ".join(f"v{v}" for v in level.variables)
                steps.append(f"{names} from {by}" if names else f"check {by}")
            lines.append(f"  input {i} ({start}): {'; then '.join(steps)}")
        return lines


def _tests(node: plan.MultiJoin, encode: Callable[..., int]) -> tuple[list[tuple[int, int, int]], list[int]]:
    """The tests, with constants as further variables, and the constants' codes."""
    constants: list[int] = []

    def operand(given: plan.Operand) -> int:
        if isinstance(given, int):
            return given
        assert isinstance(given, Expr) and isinstance(given, Literal)
        constants.append(encode(given.type, given.value))
        return len(node.columns) + len(constants) - 1

    return [(TESTS[op], operand(a), operand(b)) for op, a, b in node.tests], constants
