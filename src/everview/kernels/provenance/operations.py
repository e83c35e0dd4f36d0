"""Operations on expressions: a variable for a base row, AND for a join, OR for equal rows.

These kernels are called by address: `and_rows` and `variable_rows` by the op `call` of the expression VM, `or_values`
by fold reductions. Their block continues with the table of nodes and the node budget of an expression.
"""

from __future__ import annotations

from everview.kernels.build.native import operator
from everview.kernels.expressions.vm import CALL_LEFT, CALL_OF, CALL_REGS, CALL_RIGHT, CALL_ROWS, CALL_TO
from everview.kernels.memory import ld, st
from everview.kernels.provenance.node_storage import ready
from everview.kernels.provenance.nodes import (
    FALSE,
    NODE_CODE,
    OP_AND,
    OP_OR,
    TRUE,
    applied,
    bounded,
    enter,
    exit_,
    known_place,
    made,
    node_word,
)
from everview.kernels.reduce.context import REDUCE_FOLDING, REDUCE_FOUND, REDUCE_SPEC

OPERATION_KERNEL, OPERATION_NODES, OPERATION_MOST, OPERATION_WORDS = range(4)
"""The block: the kernel's address, the nodes, the most nodes of an expression."""


@operator
def variable_rows(given):
    """The expressions that are a variable each, by labels."""
    ctx = ld(ld(given, CALL_OF), OPERATION_NODES)
    regs = ld(given, CALL_REGS)
    enter(ctx)
    ready(ctx)
    for i in range(ld(given, CALL_ROWS)):
        place = made(ctx, ld(regs, ld(given, CALL_LEFT) + i), FALSE, TRUE)
        st(regs, ld(given, CALL_TO) + i, node_word(ctx, place, NODE_CODE))
    exit_(ctx)
    return 0


@operator
def and_rows(given):
    """The conjunctions of two columns of expressions."""
    block = ld(given, CALL_OF)
    ctx = ld(block, OPERATION_NODES)
    regs = ld(given, CALL_REGS)
    most = ld(block, OPERATION_MOST)
    enter(ctx)
    ready(ctx)
    for i in range(ld(given, CALL_ROWS)):
        a = ld(regs, ld(given, CALL_LEFT) + i)
        b = ld(regs, ld(given, CALL_RIGHT) + i)
        if a == b or b == TRUE:
            result = a
        elif a == TRUE:
            result = b
        else:
            place = applied(ctx, OP_AND, known_place(ctx, a), known_place(ctx, b))
            result = node_word(ctx, bounded(ctx, place, most), NODE_CODE)
        st(regs, ld(given, CALL_TO) + i, result)
    exit_(ctx)
    return 0


@operator
def or_values(reduction):
    """The disjunction of the values that a reduction has found."""
    block = ld(reduction, REDUCE_SPEC)
    found = ld(reduction, REDUCE_FOUND)
    ctx = ld(block, OPERATION_NODES)
    most = ld(block, OPERATION_MOST)
    enter(ctx)
    ready(ctx)
    place = known_place(ctx, ld(found, 1))
    for i in range(1, ld(reduction, REDUCE_FOLDING)):
        place = bounded(ctx, applied(ctx, OP_OR, place, known_place(ctx, ld(found, 1 + i))), most)
    code = node_word(ctx, place, NODE_CODE)
    exit_(ctx)
    return code
