"""Compiles expressions for the VM in `everview.kernels.expressions.vm`.

`lower` turns a projection and an optional predicate into straight-line code over registers. It rests on three ideas:

**Values do not depend on where they are used, errors do.** An instruction computes all rows, so a value that cannot
fail is computed once, whichever branch needs it. One that can fail is computed in a *context*: the rows that really
need it. A `case` evaluates each branch in the context of its condition, `a and b` evaluates b where a is not false, and
the outputs of a projection are evaluated where the predicate keeps the row. A value computed in a wider context also
serves the narrower ones inside it.

**Masks are created on demand.** A context becomes a mask register only if something in it can fail.

**Registers are allocated at the end.** Code is generated in single-assignment form with unlimited registers; one final
pass reuses those that are no longer read. A result never shares a register with an operand (see the hazard in
`kernels.vm`).

`everview.expr.program_builder` has the code under construction, `everview.expr.instructions` the code of each function.

`lower` returns None for what the VM cannot do (texts beyond equality, tuples, Python functions);
`everview.expr.evaluate` splits such expressions.
"""

from __future__ import annotations

from everview.expr.instructions import HANDLERS
from everview.expr.nesting import room_for
from everview.expr.nodes import Expr
from everview.expr.program_builder import EVERYWHERE, Context, EncodeLiteral, Lowering, NeedsPython, Program


def lower(exprs: tuple[Expr, ...], predicate: Expr | None, ncols: int, encode_literal: EncodeLiteral) -> Program | None:
    """The program that computes `exprs` for the rows that `predicate` keeps, or None if a part of it needs Python.

    >>> from everview.expr.nodes import Call, ColumnRef
    >>> from everview.types import INT
    >>> x = ColumnRef(INT, 0)
    >>> program = lower((Call(INT, "mul", (x, x)),), None, 1, lambda type, value: value)
    >>> print(program.explain())
    r2 = errors 1 0 0
    r3 = mul 0 0 -1
    """
    with room_for(exprs if predicate is None else (*exprs, predicate)):
        return _lower(exprs, predicate, Lowering(ncols, encode_literal, HANDLERS))


def _lower(exprs: tuple[Expr, ...], predicate: Expr | None, lowering: Lowering) -> Program | None:
    try:
        keep = None if predicate is None else lowering.value(predicate, EVERYWHERE)
        kept = EVERYWHERE if keep is None else Context(EVERYWHERE, lambda: keep)
        outputs = [lowering.value(e, kept) for e in exprs]
    except NeedsPython:
        return None
    return lowering.finish(outputs, keep)
