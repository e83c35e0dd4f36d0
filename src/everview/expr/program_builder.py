"""Programs under construction: registers, contexts, and the code so far.

See `everview.expr.lower` for the three ideas behind this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from everview.expr import python_functions
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.kernels.expressions import vm
from everview.types import NULL, DataType

EncodeLiteral = Callable[[DataType, Any], int]
"""The code of a Python value of a type."""


@dataclass(frozen=True)
class Program:
    """A VM program; `outputs`, `keep` (-1: all rows are kept) and `error` (-1: none can fail) are registers."""

    code: np.ndarray
    outputs: tuple[int, ...]
    keep: int
    error: int
    registers: int

    def explain(self) -> str:
        """A listing, one line per instruction."""
        lines = []
        for word, dst, a, b, c in self.code.tolist():
            name = vm.NAMES[word % vm.CHECKED] + ("?" if word >= vm.CHECKED else "")
            lines.append(f"r{dst} = {name} {a} {b} {c}")
        return "\n".join(lines)


class NeedsPython(Exception):
    """The VM has no code for this expression."""


@dataclass(frozen=True, eq=False)
class Register:
    """A virtual register; `input` is its number if it is an input column."""

    input: int = -1


class Context:
    """The rows that need a value: those of the parent where the condition is 1."""

    def __init__(self, parent: Context | None, condition: Callable[[], Register] | None) -> None:
        self.parent = parent
        self._condition = condition
        self._mask: Register | None = None

    def mask(self, lowering: Lowering) -> Register | int:
        """The register that is 1 for these rows; -1 for all rows."""
        if self.parent is None or self._condition is None:
            return -1
        if self._mask is None:
            outer, here = self.parent.mask(lowering), self._condition()
            self._mask = here if isinstance(outer, int) else lowering.emit(vm.BOTH_TRUE, outer, here)
        return self._mask

    def within(self, other: Context) -> bool:
        """Whether these are a subset of the other's rows."""
        return self is other or (self.parent is not None and self.parent.within(other))


EVERYWHERE = Context(None, None)


class KernelCall(NamedTuple):
    """A kernel outside the VM that an instruction calls: its name, and a number for it. As a literal it becomes the
    address of the block that the op `call` takes; only a dataflow has those (`everview.dataflow.provenance`).
    """

    name: str
    number: int


Operand = Register | int
Handler = Callable[["Lowering", Call, Context], Register]


class Lowering:
    """The code so far, and the register of each value."""

    def __init__(
        self, ncols: int, encode_literal: EncodeLiteral, handlers: Mapping[str, Handler], *, folding: bool = True
    ) -> None:
        self.encode_literal = encode_literal
        self._handlers = handlers
        self._folding = folding
        self._failures = 0  # number of instructions that can fail
        self.inputs = [Register(i) for i in range(ncols)]
        self.code: list[tuple[int, Register, Operand, Operand, Operand]] = []
        self.error: Register | None = None
        self._done: dict[Any, Register] = {}
        self._failing: dict[Expr, list[tuple[Context, Register]]] = {}

    # ---- values

    def value(self, expr: Expr, where: Context) -> Register:
        """The register that holds the expression's value, computed if necessary."""
        if isinstance(expr, ColumnRef):
            return self.inputs[expr.index]
        if isinstance(expr, Literal):
            return self.constant(self.literal_code(expr))
        if not isinstance(expr, Call) or expr.op not in self._handlers or python_functions.maker(expr) is not None:
            raise NeedsPython
        known = self._done.get(expr)
        if known is None:
            known = next((r for c, r in self._failing.get(expr, ()) if where.within(c)), None)
        return known if known is not None else self._compute(expr, where)

    def _compute(self, expr: Call, where: Context) -> Register:
        if self._folding and not expr.columns():
            code = self._folded(expr)
            if code is not None:
                return self.constant(code)
        before = self._failures
        register = self._handlers[expr.op](self, expr, where)
        if self._failures == before:
            self._done[expr] = register
        else:
            self._failing.setdefault(expr, []).append((where, register))
        return register

    def _folded(self, expr: Call) -> int | None:
        """The code of a constant expression, computed at compile time; None if it fails."""
        inside = Lowering(0, self.encode_literal, self._handlers, folding=False)
        program = inside.finish([self._handlers[expr.op](inside, expr, EVERYWHERE)], None)
        out = np.zeros((2, 1), dtype=np.int64)
        wanted = np.array([program.outputs[0], max(program.error, 0)], dtype=np.int64)
        vm.run_on_arrays(program.code, program.registers, np.zeros((0, 1), dtype=np.int64), wanted, out)
        return None if program.error >= 0 and out[1, 0] != 0 else int(out[0, 0])

    def literal_code(self, expr: Literal) -> int:
        """The code of a constant."""
        return NULL if expr.value is None else self.encode_literal(expr.type, expr.value)

    def constant(self, code: int) -> Register:
        """The same code in every row."""
        return self.emit(vm.LOAD, code)

    def number(self, expr: Expr, where: Context) -> Register:
        """The value normalised so that codes compare like numbers (-0.0 is 0.0)."""
        register = self.value(expr, where)
        return self.emit(vm.NORMAL, register) if expr.type.kind == "float" else register

    # ---- instructions

    def emit(self, op: int, a: Operand, b: Operand = 0, c: Operand = 0, *, checked: bool = False) -> Register:
        """Emit an instruction that cannot fail (duplicates are shared)."""
        key = (op, a, b, c, checked)
        if key not in self._done:
            self._done[key] = self._append(op, a, b, c, checked)
        return self._done[key]

    def emit_partial(self, op: int, a: Operand, b: Operand, where: Context, *, checked: bool) -> Register:
        """Emit an instruction that can fail, for the rows that need it."""
        self._failures += 1
        if self.error is None:
            self.error = Register()
        return self._append(op, a, b, where.mask(self), checked)

    def _append(self, op: int, a: Operand, b: Operand, c: Operand, checked: bool) -> Register:
        target = Register()
        self.code.append((op | (vm.CHECKED if checked else 0), target, a, b, c))
        return target

    # ---- registers

    def finish(self, outputs: list[Register], keep: Register | None) -> Program:
        """Allocate registers: each is free after its last use; results and errors live to the end."""
        code = self.code
        scratch = Register()
        if self.error is not None:
            code = [(vm.ERRORS, self.error, scratch, 0, 0), *code]
        last = {operand: k for k, words in enumerate(code) for operand in words[2:] if isinstance(operand, Register)}
        for result in (*outputs, keep, self.error, scratch):
            if result is not None:
                last[result] = len(code)
        number = {r: r.input for r in self.inputs}
        count = len(self.inputs)
        if self.error is not None:
            number[scratch], count = count, count + 1
        free: list[int] = []
        for k, (_, target, *operands) in enumerate(code):
            if free:
                number[target] = free.pop()
            else:
                number[target], count = count, count + 1
            done = {o for o in operands if isinstance(o, Register) and last[o] == k and o.input < 0}
            free.extend(number[o] for o in (*done, *([target] if target not in last else [])))
        words = [[w[0], *(number[o] if isinstance(o, Register) else o for o in w[1:])] for w in code]
        return Program(
            np.array(words, dtype=np.int64).reshape(-1, vm.INSTRUCTION_WORDS),
            tuple(number[r] for r in outputs),
            -1 if keep is None else number[keep],
            -1 if self.error is None else number[self.error],
            max(count, 1),
        )
