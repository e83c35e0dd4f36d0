"""Provenance as dataflow: labels of base rows, disjunctions, and the shared table of nodes.

A dataflow has at most one table of nodes (`everview.kernels.provenance.nodes`), created with the first view with
provenance and freed with the last. It is an operator, `Nodes`, at the end of the program, and its state is an ordinary
trace. Everything that depends on expressions depends on labels, which have it among their inputs.

With several shards one of them issues the labels, because there must be a single order of variables; everything else is
where its rows are. Codes are hashes and so the same everywhere; nodes are sent along with rows that refer to them
(`everview.dataflow.superstep`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from everview.dataflow.operators import Arrange, Arrangement, Instruction, Operator, Reduce, columns
from everview.dataflow.partitioning import EVERYWHERE, SINGLE_SHARD
from everview.dataflow.streams import Flow
from everview.expr.program_builder import KernelCall
from everview.kernels import structures
from everview.kernels.frontier import forest as forest_k
from everview.kernels.frontier import rollback as undoing_k
from everview.kernels.operators import arrange as arrange_k
from everview.kernels.provenance import labels as labels_k
from everview.kernels.provenance import node_storage as keeping_k
from everview.kernels.provenance import nodes as nodes_k
from everview.kernels.provenance import operations as operations_k
from everview.kernels.reduce import context as reduction_k
from everview.plan.provenance import Disjunction, Labelled, table_of

if TYPE_CHECKING:
    from everview.dataflow.builder import Builder
    from everview.dataflow.dataflow import Dataflow

MOST_NODES = 1 << 24
"""Maximum number of nodes of a dataflow: about a gigabyte. A step that would exceed it is refused."""

SWEEP_FROM = 1 << 12
"""Number of nodes from which a sweep for unreferenced ones is worthwhile."""

KERNELS = {"variable": operations_k.variable_rows, "and": operations_k.and_rows, "or": operations_k.or_values}


class Nodes(Arrange):
    """The table of nodes, and the trace of their creation."""

    kind = "nodes"

    def __init__(self, dataflow: Dataflow) -> None:
        before, dataflow.purpose = dataflow.purpose, None  # it is shared by all plans
        try:
            super().__init__(dataflow, dataflow.root, keeping_k.ROW_OF_NODE, label="provenance", at_end=True)
        finally:
            dataflow.purpose = before
        assert self.trace is not None
        self.partitioning = EVERYWHERE
        words = [0] * nodes_k.NODES_WORDS
        words[forest_k.FOREST_FORM] = forest_k.FORM_OTHER
        words[undoing_k.OTHER_UNDO] = keeping_k.undo_nodes.address
        words[undoing_k.OTHER_FORGET] = keeping_k.settle_nodes.address
        words[nodes_k.NODES_MOST] = MOST_NODES
        words[nodes_k.NODES_STEP] = dataflow.step_block
        words[nodes_k.NODES_BATCHER] = self.batcher
        words[nodes_k.NODES_KEPT] = self.trace.address
        self.table = self.forest = self.block(words)
        keeping_k.about_nodes(keeping_k.NODES_BEGIN, self.table)
        self._kernels: dict[KernelCall, int] = {}
        self._swept = 0
        dataflow.provenance = self

    def kernel(self, call: KernelCall) -> int:
        """The block that identifies a kernel that works on the nodes."""
        if call not in self._kernels:
            words = [0] * operations_k.OPERATION_WORDS
            words[operations_k.OPERATION_KERNEL] = KERNELS[call.name].address
            words[operations_k.OPERATION_NODES] = self.table
            words[operations_k.OPERATION_MOST] = call.number
            self._kernels[call] = self.block(words)
        return self._kernels[call]

    def instructions(self) -> list[Instruction]:
        return [(keeping_k.keep_nodes.address, self.table), (arrange_k.arrange.address, self.context)]

    @property
    def count(self) -> int:
        """The number of nodes in the table."""
        return int(structures.peek(self.table, nodes_k.NODES_COUNT)) - nodes_k.FIRST_NODE

    @property
    def made(self) -> int:
        """The number of nodes ever created, without those of undone steps."""
        return int(structures.peek(self.table, nodes_k.NODES_MADE))

    def sweep_if_due(self) -> None:
        """Between steps: remove unreferenced nodes, if there may be many."""
        if self.count > 2 * self._swept + SWEEP_FROM:
            self.sweep()

    def sweep(self) -> int:
        """Remove unreferenced nodes; return how many remain."""
        traces = [o.trace.address for o in self._dependent() if o.trace is not None and o.trace.address]
        self._swept = int(keeping_k.sweep_nodes(self.table, np.array(traces, dtype=np.int64)))
        return self._swept

    def _dependent(self) -> list[Operator]:
        """The operators downstream of labels."""
        found: set[Operator] = {o for o in self.dataflow.operators() if isinstance(o, Labels)}
        rest = [o for o in self.dataflow.operators() if o is not self and o not in found]
        grown = True
        while grown:  # loops read what comes later in the program
            more = [o for o in rest if any(i in found for i in (*o.inputs, *_listens(o)))]
            grown = bool(more)
            found.update(more)
            rest = [o for o in rest if o not in found]
        return list(found)

    def rows(self, code: int) -> np.ndarray | None:
        """The nodes of an expression as rows (code, label, low, high), its root first; None if unknown."""
        count = int(keeping_k.below(self.table, code))
        if count < 0:
            return None
        out = np.empty((count, keeping_k.ROW_OF_NODE), dtype=np.int64)
        if count:
            keeping_k.copy_below(self.table, code, out)
        return out

    def named_by(self, words: np.ndarray) -> np.ndarray:
        """The nodes of all expressions whose codes are among some words, as rows, children first."""
        count = int(keeping_k.below_words(self.table, words))
        out = np.empty((count, keeping_k.ROW_OF_NODE), dtype=np.int64)
        if count:
            keeping_k.copy_below_words(self.table, words, out)
        return np.ascontiguousarray(out[np.argsort(-out[:, 1], kind="stable")])

    def take(self, rows: np.ndarray) -> None:
        """Add nodes received from another shard."""
        keeping_k.take_nodes(self.table, np.ascontiguousarray(rows.reshape(-1, keeping_k.ROW_OF_NODE)))

    def traces_were_replaced(self) -> None:
        """Start an empty table; the trace is read when nodes are needed. Nodes swept by another process must go from
        this table, too: existing nodes are not written again.
        """
        keeping_k.about_nodes(keeping_k.NODES_DROP, self.table)
        for word in (nodes_k.NODES_BUCKETS_N, nodes_k.NODES_STACK_ROOM, nodes_k.NODES_DEAD_N, nodes_k.NODES_LOADED):
            structures.poke(self.table, word, 0)
        keeping_k.about_nodes(keeping_k.NODES_BEGIN, self.table)

    def step_is_committed(self) -> None:
        """Called when all shards have committed a step."""
        keeping_k.settle_nodes_now(self.table)
        self.sweep_if_due()

    def measure(self) -> tuple[int, int, int]:
        batches, updates, size = super().measure()
        return batches, updates, size + int(keeping_k.about_nodes(keeping_k.NODES_BYTES, self.table)) - self.untouched

    @property
    def untouched(self) -> int:
        """Bytes of the table that were never written and so are not resident."""
        room, most = (int(structures.peek(self.table, word)) for word in (nodes_k.NODES_ROOM, nodes_k.NODES_PEAK))
        return 8 * nodes_k.NODE_WORDS * max(0, room - max(most, self.count + nodes_k.FIRST_NODE))

    def _free(self) -> None:
        if self.dataflow.provenance is self:
            self.dataflow.provenance = None
        if self.forest:
            keeping_k.about_nodes(keeping_k.NODES_DROP, self.forest)
        super()._free()


def _listens(operator: Operator) -> list[Operator]:
    return [branch.producer for branch, _ in operator.heard]


def nodes_for(dataflow: Dataflow) -> Nodes:
    """The table of nodes of a dataflow, created on first use."""
    return dataflow.provenance or Nodes(dataflow)


class Labels(Arrange):
    """Assigns labels to new base rows; its output is arranged by label."""

    kind = "labels"

    def __init__(self, dataflow: Dataflow, cols: int, table: int, *, edges: bool) -> None:
        super().__init__(dataflow, dataflow.root, cols, stateless=True, label="labels", partitioning=SINGLE_SHARD)
        assert self.trace is not None
        words = [0] * labels_k.LABELS_WORDS
        words[forest_k.FOREST_FORM] = forest_k.FORM_OTHER
        words[undoing_k.OTHER_UNDO] = labels_k.undo_labels.address
        words[undoing_k.OTHER_FORGET] = labels_k.settle_labels.address
        words[labels_k.LABELS_SOURCE] = self.trace.address
        words[labels_k.LABELS_SCOPE] = dataflow.root.address
        words[labels_k.LABELS_COLS] = cols
        words[labels_k.LABELS_EDGES] = int(edges)
        words[labels_k.LABELS_BASE] = table * labels_k.LABELS_OF_TABLE
        words[labels_k.LABELS_SPARE] = words[labels_k.LABELS_FIRST] = words[labels_k.LABELS_LAST] = labels_k.NO_ROW
        self.order = self.forest = self.block(words)
        self.cols = cols + 1

    def instructions(self) -> list[Instruction]:
        return [(arrange_k.arrange.address, self.context), (labels_k.keep_labels.address, self.order)]

    def set_stream(self, address: int) -> None:
        structures.poke(self.order, labels_k.LABELS_STREAM, address)

    def kept_by(self, arrange: Operator) -> None:
        """Set the arrangement of its output."""
        assert arrange.trace is not None
        structures.poke(self.order, labels_k.LABELS_KEPT, arrange.trace.address)

    def traces_were_replaced(self) -> None:
        """The order is read from the arranged labels at the next change."""
        structures.poke(self.order, labels_k.LABELS_BUILT, 0)

    def measure(self) -> tuple[int, int, int]:
        return 0, 0, int(labels_k.about_labels(1, self.order))

    def _free(self) -> None:
        if self.forest:
            labels_k.about_labels(0, self.forest)
        super()._free()


def labelled(builder: Builder, node: Labelled) -> Flow:
    """Labels, and an arrangement of rows by their labels."""
    flow = builder.flow(node.child)
    dataflow = builder.dataflow
    nodes = nodes_for(dataflow)
    operator = Labels(dataflow, len(node.child.types), table_of(node).id, edges=node.edges)
    operator.listen(flow)
    operator.inputs.append(nodes)
    width = len(node.types)
    order = (width - 1, *range(width - 1))
    kept = Arrange(dataflow, dataflow.root, width, label="by label", partitioning=SINGLE_SHARD)
    said = columns(operator, node.types, tuple(range(width)))
    kept.listen(tuple(b.project(tuple(b.exprs[c] for c in order)) for b in said))
    operator.kept_by(kept)
    builder.arrangements.setdefault(builder.key(node), []).append(Arrangement(kept, order))
    return columns(kept, node.types, order)


def disjunction(builder: Builder, node: Disjunction) -> Flow:
    """A reduction that combines the expressions of equal rows."""
    keys = len(node.types) - 1
    source = builder.arrange(node.child, tuple(range(keys)), gather=not keys, now=True)
    nodes = nodes_for(builder.dataflow)
    operator = Reduce(builder.dataflow, source.operator.scope, keys, keys + 1, "or")
    operator.bind(source, reduction_k.KIND_FOLD)
    operator.spec = (node.nodes,)
    structures.poke(operator.context, reduction_k.REDUCE_SPEC, nodes.kernel(KernelCall("or", node.nodes)))
    operator.inputs.append(nodes)
    order = source.order
    builder.arrangements.setdefault(builder.key(node), []).append(Arrangement(operator, order))
    return columns(operator, node.types, order)
