"""Recursion over edges as a dataflow operator: trees, histories, balls or levels (`everview.kernels.frontier`).

It reads arrangements of the edges in both directions, shared with joins and other queries, and one of its sources. Its
output is an arrangement like that of a reduction, and its only persistent state: after opening a directory, trees and
histories are rebuilt from edges and sources at the first change.

It runs outside all loops, on one shard; the planner ensures that (`everview.dataflow.builder`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from everview.dataflow.operators import Arrangement, Instruction, Operator, Trace, columns
from everview.dataflow.packed_trace import PackedTrace
from everview.dataflow.partitioning import HASH_BY_FIRST
from everview.dataflow.read_leases import MustWait, is_guest
from everview.dataflow.streams import Flow
from everview.kernels import structures
from everview.kernels.frontier import forest as forest_k
from everview.kernels.frontier import histories as histories_k
from everview.kernels.frontier import history as history_k
from everview.kernels.frontier import level_rows as level_rows_k
from everview.kernels.frontier import levels as levels_k
from everview.kernels.frontier import pair_distance as meeting_k
from everview.kernels.frontier import pairs as pairs_k
from everview.kernels.frontier import rollback as undoing_k
from everview.kernels.frontier import trees as trees_k
from everview.kernels.strong import component as component_k
from everview.kernels.strong import components as components_k
from everview.plan import nodes as plan
from everview.plan.frontier import Frontier, Rule, StrongLabels
from everview.types import NULL

if TYPE_CHECKING:
    from everview.dataflow.builder import Builder
    from everview.dataflow.dataflow import Dataflow

KINDS = {
    "same": forest_k.ALONG_SAME,
    "add": forest_k.ALONG_ADD,
    "add float": forest_k.ALONG_ADD_FLOAT,
    "worst": forest_k.ALONG_WORST,
    "share": forest_k.ALONG_SHARE,
}

NO_BOUND = 2**63 - 1


class Kernels(NamedTuple):
    """The kernels of one form: the step, and the one that answers about the state; two of its questions."""

    keep: Any
    about: Any
    bytes: int
    drop: int


class FrontierOperator(Operator):
    """What all forms have in common: a context that begins with the words of a forest, and kernels that keep it."""

    kernels: Kernels

    trace: Trace

    def __init__(self, dataflow: Dataflow, columns: int, inputs: list[Arrangement], label: str) -> None:
        super().__init__(dataflow, dataflow.root, columns, label)
        self.partitioning = HASH_BY_FIRST
        self.trace = self._output(columns)
        self.inputs = [a.operator for a in inputs]

    def _output(self, columns: int) -> Trace:
        return Trace(self.dataflow, self.dataflow.root, columns)

    def _ready(self, words: list[int]) -> None:
        """The context is complete: the operator is part of the dataflow."""
        self.context = self.forest = self.block(words)
        self.dataflow.add(self)

    def instructions(self) -> list[Instruction]:
        return [(self.kernels.keep.address, self.context)]

    def set_stream(self, address: int) -> None:
        structures.poke(self.context, forest_k.FOREST_STREAM, address)

    def settled(self) -> None:
        structures.poke(self.context, forest_k.FOREST_FRESH, 0)

    def about(self, what: int) -> int:
        """A figure of the state, by the numbers that the kernel's module lists, or its end."""
        return int(self.kernels.about(what, self.context))

    def measure(self) -> tuple[int, int, int]:
        batches, updates, size = super().measure()
        return batches, updates, size + self.about(self.kernels.bytes)

    def _free(self) -> None:
        if self.context:  # 0: out of memory
            self.about(self.kernels.drop)
        super()._free()


class Trees(FrontierOperator):
    """The best value of every vertex, maintained by trees."""

    kind = "trees"
    kernels = Kernels(trees_k.keep_trees, trees_k.about_trees, trees_k.TREES_BYTES, trees_k.DROP_TREES)

    def __init__(
        self,
        dataflow: Dataflow,
        node: Frontier,
        start: Arrangement,
        edges: list[tuple[Arrangement, Arrangement]],
        label: str,
    ) -> None:
        super().__init__(dataflow, len(node.types), [start, *(a for pair in edges for a in pair)], label)
        self.spec = (node.rules, node.node, node.value, node.largest)
        place = {c: forest_k.VERTEX_QUESTION + i for i, c in enumerate(node.question)}
        place |= {node.node: forest_k.VERTEX_NODE} | ({} if node.value is None else {node.value: forest_k.VERTEX_VALUE})
        words = _context(self, self.trace, node, start, edges, forest_k.FOREST_WORDS)
        words[forest_k.FOREST_OUT_MAP] = self.block([place[c] for c in range(len(node.types))])
        self._ready(words)


class Histories(FrontierOperator):
    """The value of every vertex after every round, maintained by histories. Its output columns are the node, the query,
    the value.
    """

    kind = "histories"
    kernels = Kernels(
        histories_k.keep_histories, histories_k.about_histories, histories_k.HISTORIES_BYTES, histories_k.DROP_HISTORIES
    )

    def __init__(
        self,
        dataflow: Dataflow,
        node: Frontier,
        start: Arrangement,
        edges: list[tuple[Arrangement, Arrangement]],
        initial: Arrangement | None,
        asked: Arrangement | None,
        label: str,
    ) -> None:
        others = [a for a in (initial, asked) if a is not None]
        super().__init__(dataflow, len(node.types), [start, *(a for pair in edges for a in pair), *others], label)
        self.spec = (node.rules, node.node, node.value, node.largest, node.total, node.rounds)
        self.purse = node.purse
        words = _context(self, self.trace, node, start, edges, history_k.HISTORY_WORDS)
        words[forest_k.FOREST_FORM] = forest_k.FORM_HISTORIES
        words[forest_k.FOREST_INITIAL] = 0 if initial is None else initial.trace.address
        words[forest_k.FOREST_ASKED] = 0 if asked is None else asked.trace.address
        words[history_k.HISTORY_ABSENT] = NULL ^ words[forest_k.FOREST_FLIP]
        words[history_k.HISTORY_TOTAL] = int(node.total)
        words[history_k.HISTORY_LIMIT] = history_k.NEVER if node.rounds is None else node.rounds
        words[history_k.HISTORY_OUT_KEY] = self.block([0] * (len(node.question) + 1))
        words[history_k.HISTORY_BUDGET] = dataflow.budgets.block(node.purse, node.budget)
        self._ready(words)


class Pairs(FrontierOperator):
    """The distance of each requested pair, maintained by half searches from both ends. Its output columns are the
    target, the source, the distance.
    """

    kind = "halves"
    kernels = Kernels(pairs_k.keep_pairs, pairs_k.about_pairs, pairs_k.PAIRS_BYTES, pairs_k.DROP_PAIRS)

    def __init__(
        self, dataflow: Dataflow, node: Frontier, edges: tuple[Arrangement, Arrangement], asked: Arrangement, label: str
    ) -> None:
        super().__init__(dataflow, 3, [*edges, asked], label)
        self.spec = (node.rules, node.node, node.value)
        self.purse = node.purse if node.lean else None
        words = [0] * meeting_k.PAIRS_WORDS
        _common(self, words)
        words[forest_k.FOREST_FORM] = forest_k.FORM_PAIRS
        words[forest_k.FOREST_OUTPUT] = self.trace.address
        words[forest_k.FOREST_ASKED] = asked.trace.address
        words[forest_k.FOREST_FRESH] = 1
        words[meeting_k.PAIRS_CURRENT] = -1
        if node.lean:
            words[meeting_k.PAIRS_BUDGET] = dataflow.budgets.block(node.purse, node.budget)
        for field, pair in ((meeting_k.PAIRS_AHEAD, edges), (meeting_k.PAIRS_BEHIND, edges[::-1])):
            forest = [0] * forest_k.FOREST_WORDS
            _common(self, forest)
            forest[forest_k.FOREST_RULES] = self.block(_rule(node.rules[0], pair, 0))
            forest[forest_k.FOREST_NRULES] = 1
            forest[forest_k.FOREST_QUESTIONS] = 1
            forest[forest_k.FOREST_KEY] = self.block([0, 0])
            forest[forest_k.FOREST_NODE] = self.block([0, 0])
            words[field] = self.block(forest)
        self._ready(words)


class Levels(FrontierOperator):
    """How many edges each vertex is away from where each query starts. Its output columns are the node, the query, the
    level; its trace has rows only while somebody reads them.
    """

    kind = "levels"
    kernels = Kernels(
        level_rows_k.keep_levels, level_rows_k.about_levels, level_rows_k.LEVELS_BYTES, level_rows_k.DROP_LEVELS
    )

    def __init__(
        self,
        dataflow: Dataflow,
        node: Frontier,
        start: Arrangement,
        edges: list[tuple[Arrangement, Arrangement]],
        label: str,
    ) -> None:
        assert node.levels is not None
        super().__init__(dataflow, 3, [start, *edges[0]], label)
        self.spec = (node.rules, node.node, node.value, node.levels)
        self.purse = node.purse
        words = _context(self, self.trace, node, start, edges, levels_k.LEVELS_WORDS)
        words[forest_k.FOREST_FORM] = forest_k.FORM_LEVELS
        words[levels_k.LEVELS_MOST] = node.levels
        words[history_k.HISTORY_BUDGET] = dataflow.budgets.block(node.purse, node.budget)
        self._ready(words)

    def _output(self, columns: int) -> Trace:
        return PackedTrace(self.dataflow, self.dataflow.root, columns, self._unpack)

    def _unpack(self) -> None:
        """Fill the trace with rows, if it has none."""
        if self.context and not structures.peek(self.context, levels_k.LEVELS_WHOLE):
            if is_guest():  # the levels are being changed by the step beside it
                raise MustWait
            level_rows_k.unpack(self.context, self.dataflow.time)

    def read_in_place(self, read: bool) -> None:
        if read:
            self._unpack()
        structures.poke(self.context, levels_k.LEVELS_READ, int(read))

    def settled(self) -> None:
        super().settled()
        if not structures.peek(self.context, forest_k.FOREST_BUILT):  # its rows were loaded
            structures.poke(self.context, levels_k.LEVELS_WHOLE, 1)


class Components(FrontierOperator):
    """The least label of each strong component, maintained by searches."""

    kind = "components"
    kernels = Kernels(
        components_k.keep_components,
        components_k.about_components,
        components_k.COMPONENTS_BYTES,
        components_k.DROP_COMPONENTS,
    )

    def __init__(
        self,
        dataflow: Dataflow,
        node: StrongLabels,
        start: Arrangement,
        edges: tuple[Arrangement, Arrangement],
        label: str,
    ) -> None:
        super().__init__(dataflow, 2, [start, *edges], label)
        self.spec = (node.near, node.far, node.node, node.value)
        words = [0] * component_k.STRONG_WORDS
        _common(self, words)
        words[forest_k.FOREST_FORM] = forest_k.FORM_OTHER
        words[undoing_k.OTHER_UNDO] = component_k.undo_components.address
        words[undoing_k.OTHER_FORGET] = component_k.forget_components.address
        words[forest_k.FOREST_RULES] = self.block(_rule(Rule(0, node.near, node.far, "same"), edges, 0))
        words[forest_k.FOREST_NRULES] = 1
        words[forest_k.FOREST_START] = start.trace.address
        words[forest_k.FOREST_START_VALUE] = 1
        words[forest_k.FOREST_OUTPUT] = self.trace.address
        words[forest_k.FOREST_FRESH] = 1
        words[forest_k.FOREST_KEY] = self.block([0])
        words[forest_k.FOREST_NODE] = self.block([0, 0])
        words[forest_k.FOREST_OUT_MAP] = self.block([forest_k.VERTEX_NODE, forest_k.VERTEX_VALUE])
        self._ready(words)


def _common(operator: Operator, words: list[int]) -> None:
    """The words that tell a context where the step and its times are."""
    words[forest_k.FOREST_SCOPE] = operator.dataflow.root.address
    words[forest_k.FOREST_STEP] = operator.dataflow.step_block


def _context(
    operator: Operator,
    output: Trace,
    node: Frontier,
    start: Arrangement,
    edges: list[tuple[Arrangement, Arrangement]],
    size: int,
) -> list[int]:
    """The common first words of both kinds of contexts."""
    flip = -1 if node.largest else 0
    words = [0] * size
    _common(operator, words)
    words[forest_k.FOREST_RULES] = operator.block(
        [w for r, pair in zip(node.rules, edges, strict=True) for w in _rule(r, pair, flip)]
    )
    words[forest_k.FOREST_NRULES] = len(node.rules)
    words[forest_k.FOREST_START] = start.trace.address
    words[forest_k.FOREST_START_VALUE] = int(node.value is not None)
    words[forest_k.FOREST_QUESTIONS] = len(node.question)
    words[forest_k.FOREST_FLIP] = flip
    words[forest_k.FOREST_STATE] = 0 if node.state is None else 1 + node.question.index(node.state)
    words[forest_k.FOREST_OUTPUT] = output.address
    words[forest_k.FOREST_FRESH] = 1
    words[forest_k.FOREST_KEY] = operator.block([0] * (len(node.question) + 1))
    words[forest_k.FOREST_NODE] = operator.block([0, 0])
    return words


def _rule(rule: Rule, pair: tuple[Arrangement, Arrangement], flip: int) -> list[int]:
    """The words of a rule, in the order of `forest.FORWARD` and the others."""
    there, back = pair
    weights = [~rule.constant if rule.weight is None else a.order.index(rule.weight) for a in pair]
    bounds = [NO_BOUND if bound is None else bound ^ flip for bound in (rule.most_in, rule.most_out)]
    turns = [0, 0, 0] if rule.states is None else [1, *rule.states[1:]]
    return [there.trace.address, back.trace.address, KINDS[rule.along], *weights, *bounds, *rule.share, *turns]


def _by_ends(builder: Builder, source: plan.Node, first: int, second: int) -> Arrangement:
    """The edges by one end, then the other: the arrangement used by joins on the first, if it has that form."""
    if plan.keys_first((first,), len(source.types))[:2] == (first, second):
        found = builder.arrange(source, (first,))
        if found.starts((first, second)):
            return found
    return builder.arrange(source, (first, second))


def frontier(builder: Builder, node: Frontier) -> Flow:
    """Request the arrangements, append the operator, and share its output."""
    edges: list[tuple[Arrangement, Arrangement]] = []
    for rule in node.rules:
        source = node.edges[rule.edges]
        edges.append((_by_ends(builder, source, rule.near, rule.far), _by_ends(builder, source, rule.far, rule.near)))
    keys = (*node.question, node.node, *(() if node.value is None else (node.value,)))
    operator: Operator
    if node.halves:
        assert node.asked is not None and node.value is not None
        operator = Pairs(builder.dataflow, node, edges[0], builder.arrange(node.asked, (0, 1)), node.describe())
        order = (node.node, *node.question, node.value)
        builder.arrangements.setdefault(builder.key(node), []).append(Arrangement(operator, order))
        return columns(operator, node.types, order)
    start = builder.arrange(node.start, keys)
    if node.levels is not None:
        operator = Levels(builder.dataflow, node, start, edges, node.describe())
        assert node.value is not None
        order = (node.node, *node.question, node.value)
    elif node.lean:
        initial = None if node.initial is None else builder.arrange(node.initial, keys)
        asked = None if node.asked is None else builder.arrange(node.asked, tuple(range(len(node.asked.types))))
        operator = Histories(builder.dataflow, node, start, edges, initial, asked, node.describe())
        order = (node.node, *node.question, *(() if node.value is None else (node.value,)))
    else:
        operator = Trees(builder.dataflow, node, start, edges, node.describe())
        order = tuple(range(len(node.types)))
    builder.arrangements.setdefault(builder.key(node), []).append(Arrangement(operator, order))
    return columns(operator, node.types, order)


def strong_labels(builder: Builder, node: StrongLabels) -> Flow:
    """The same for strong components. The output has the node first."""
    edges = (_by_ends(builder, node.edges, node.near, node.far), _by_ends(builder, node.edges, node.far, node.near))
    start = builder.arrange(node.start, (node.node, node.value))
    operator = Components(builder.dataflow, node, start, edges, node.describe())
    order = (node.node, node.value)
    builder.arrangements.setdefault(builder.key(node), []).append(Arrangement(operator, order))
    return columns(operator, node.types, order)
