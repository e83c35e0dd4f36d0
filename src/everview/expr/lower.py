"""From expressions to programs of the machine in `everview.kernels.expressions.vm`.

`lower` turns a projection and an optional predicate into straight-line code over registers. Three ideas carry it:

**Values do not depend on where they are used, errors do.** An instruction computes all rows, so a value that cannot
fail is computed once, whatever branch asks for it. One that can fail is computed in a *context*: the rows that really
ask. A `case` evaluates each branch in the context of its condition, `a and b` evaluates b where a is not false, and the
outputs of a projection are evaluated where the predicate keeps the row. A value computed in a wider context serves the
narrower ones inside it.

**Masks are made when somebody needs them.** A context becomes a mask register only if something in it can fail.

**Registers are given out at the end.** Code is made with as many registers as it likes, each written once; one pass
over it re-uses those that are no longer read. A result never shares a register with an operand (see the hazard in
`kernels.vm`).

`everview.expr.lowering` has the code under construction, `everview.expr.instructions` what each function becomes.

What the machine cannot do (texts beyond equality, tuples, Python functions) makes `lower` give None;
`everview.expr.evaluate` takes such expressions apart.
"""

from __future__ import annotations

from everview.expr.instructions import HANDLERS
from everview.expr.lowering import EVERYWHERE, Context, EncodeLiteral, Lowering, NeedsPython, Program
from everview.expr.nodes import Expr


def lower(exprs: tuple[Expr, ...], predicate: Expr | None, ncols: int, encode_literal: EncodeLiteral) -> Program | None:
    """The program that computes `exprs` for the rows `predicate` keeps, or None if a part of it needs Python.

    >>> from everview.expr.nodes import Call, ColumnRef
    >>> from everview.types import INT
    >>> x = ColumnRef(INT, 0)
    >>> program = lower((Call(INT, "mul", (x, x)),), None, 1, lambda type, value: value)
    >>> print(program.explain())
    r2 = errors 1 0 0
    r3 = mul 0 0 -1
    """
    lowering = Lowering(ncols, encode_literal, HANDLERS)
    try:
        keep = None if predicate is None else lowering.value(predicate, EVERYWHERE)
        kept = EVERYWHERE if keep is None else Context(EVERYWHERE, lambda: keep)
        outputs = [lowering.value(e, kept) for e in exprs]
    except NeedsPython:
        return None
    return lowering.finish(outputs, keep)
