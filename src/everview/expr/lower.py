"""From expressions to programs of the machine in `everview.kernels.vm`.

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

What the machine cannot do (texts beyond equality, tuples, Python functions) makes `lower` give None;
`everview.expr.evaluate` takes such expressions apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.kernels import vm
from everview.kernels.scalars import DAY, HOUR, MINUS_ZERO, MINUTE, SECOND
from everview.types import INTERNED, NULL, DataType

EncodeLiteral = Callable[[DataType, Any], int]
"""The code of a Python value of a type."""


@dataclass(frozen=True)
class Program:
    """Code for the machine; `outputs`, `keep` (-1: all rows are kept) and `error` (-1: none can fail) are registers."""

    code: np.ndarray
    outputs: tuple[int, ...]
    keep: int
    error: int
    registers: int

    def explain(self) -> str:
        """One line per instruction, for people."""
        lines = []
        for word, dst, a, b, c in self.code.tolist():
            name = vm.NAMES[word % vm.CHECKED] + ("?" if word >= vm.CHECKED else "")
            lines.append(f"r{dst} = {name} {a} {b} {c}")
        return "\n".join(lines)


def lower(exprs: tuple[Expr, ...], predicate: Expr | None, ncols: int, encode_literal: EncodeLiteral) -> Program | None:
    """The program that computes `exprs` for the rows `predicate` keeps, or None if a part of it needs Python.

    >>> from everview.types import INT
    >>> x = ColumnRef(INT, 0)
    >>> program = lower((Call(INT, "mul", (x, x)),), None, 1, lambda type, value: value)
    >>> print(program.explain())
    r2 = errors 1 0 0
    r3 = mul 0 0 -1
    """
    lowering = _Lowering(ncols, encode_literal)
    try:
        keep = None if predicate is None else lowering.value(predicate, _EVERYWHERE)
        kept = _EVERYWHERE if keep is None else _Context(_EVERYWHERE, lambda: keep)
        outputs = [lowering.value(e, kept) for e in exprs]
    except NeedsPython:
        return None
    return lowering.finish(outputs, keep)


class NeedsPython(Exception):
    """The machine has no code for this expression."""


@dataclass(frozen=True, eq=False)
class _Register:
    """A register before registers are given out; `input` is its number if it is an input column."""

    input: int = -1


class _Context:
    """The rows that ask for a value: those of the parent where the condition is 1."""

    def __init__(self, parent: _Context | None, condition: Callable[[], _Register] | None) -> None:
        self.parent = parent
        self._condition = condition
        self._mask: _Register | None = None

    def mask(self, lowering: _Lowering) -> _Register | int:
        """The register that is 1 for these rows, -1 for all rows."""
        if self.parent is None or self._condition is None:
            return -1
        if self._mask is None:
            outer, here = self.parent.mask(lowering), self._condition()
            self._mask = here if isinstance(outer, int) else lowering.emit(vm.BOTH_TRUE, outer, here)
        return self._mask

    def within(self, other: _Context) -> bool:
        """Whether these are some of the other's rows."""
        return self is other or (self.parent is not None and self.parent.within(other))


_EVERYWHERE = _Context(None, None)

_Operand = _Register | int
_Handler = Callable[["_Lowering", Call, _Context], _Register]


class _Lowering:
    """The code made so far, and where each value is."""

    def __init__(self, ncols: int, encode_literal: EncodeLiteral, *, folding: bool = True) -> None:
        self.encode_literal = encode_literal
        self._folding = folding
        self._failures = 0  # how many instructions can fail
        self.inputs = [_Register(i) for i in range(ncols)]
        self.code: list[tuple[int, _Register, _Operand, _Operand, _Operand]] = []
        self.error: _Register | None = None
        self._done: dict[Any, _Register] = {}
        self._failing: dict[Expr, list[tuple[_Context, _Register]]] = {}

    # ---- values

    def value(self, expr: Expr, where: _Context) -> _Register:
        """The register that holds the expression's value, made if there is none yet that will do."""
        if isinstance(expr, ColumnRef):
            return self.inputs[expr.index]
        if isinstance(expr, Literal):
            return self.constant(self.literal_code(expr))
        if not isinstance(expr, Call) or expr.op not in _HANDLERS:
            raise NeedsPython
        known = self._done.get(expr)
        if known is None:
            known = next((r for c, r in self._failing.get(expr, ()) if where.within(c)), None)
        return known if known is not None else self._compute(expr, where)

    def _compute(self, expr: Call, where: _Context) -> _Register:
        if self._folding and not expr.columns():
            code = self._folded(expr)
            if code is not None:
                return self.constant(code)
        before = self._failures
        register = _HANDLERS[expr.op](self, expr, where)
        if self._failures == before:
            self._done[expr] = register
        else:
            self._failing.setdefault(expr, []).append((where, register))
        return register

    def _folded(self, expr: Call) -> int | None:
        """The code of a constant expression, computed here and now; None if that fails."""
        inside = _Lowering(0, self.encode_literal, folding=False)
        program = inside.finish([_HANDLERS[expr.op](inside, expr, _EVERYWHERE)], None)
        out = np.zeros((2, 1), dtype=np.int64)
        wanted = np.array([program.outputs[0], max(program.error, 0)], dtype=np.int64)
        vm.run_on_arrays(program.code, program.registers, np.zeros((0, 1), dtype=np.int64), wanted, out)
        return None if program.error >= 0 and out[1, 0] != 0 else int(out[0, 0])

    def literal_code(self, expr: Literal) -> int:
        return NULL if expr.value is None else self.encode_literal(expr.type, expr.value)

    def constant(self, code: int) -> _Register:
        return self.emit(vm.LOAD, code)

    def number(self, expr: Expr, where: _Context) -> _Register:
        """The value, so that codes compare like numbers (-0.0 is 0.0)."""
        register = self.value(expr, where)
        return self.emit(vm.NORMAL, register) if expr.type.kind == "float" else register

    # ---- instructions

    def emit(self, op: int, a: _Operand, b: _Operand = 0, c: _Operand = 0, *, checked: bool = False) -> _Register:
        """An instruction that cannot fail (the same one is not made twice)."""
        key = (op, a, b, c, checked)
        if key not in self._done:
            self._done[key] = self._append(op, a, b, c, checked)
        return self._done[key]

    def emit_partial(self, op: int, a: _Operand, b: _Operand, where: _Context, *, checked: bool) -> _Register:
        """An instruction that can fail, for the rows that ask."""
        self._failures += 1
        if self.error is None:
            self.error = _Register()
        return self._append(op, a, b, where.mask(self), checked)

    def _append(self, op: int, a: _Operand, b: _Operand, c: _Operand, checked: bool) -> _Register:
        target = _Register()
        self.code.append((op | (vm.CHECKED if checked else 0), target, a, b, c))
        return target

    # ---- registers

    def finish(self, outputs: list[_Register], keep: _Register | None) -> Program:
        """Give out registers: each is free again after its last use; results and errors stay to the end."""
        code = self.code
        scratch = _Register()
        if self.error is not None:
            code = [(vm.ERRORS, self.error, scratch, 0, 0), *code]
        last = {operand: k for k, words in enumerate(code) for operand in words[2:] if isinstance(operand, _Register)}
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
            done = {o for o in operands if isinstance(o, _Register) and last[o] == k and o.input < 0}
            free.extend(number[o] for o in (*done, *([target] if target not in last else [])))
        words = [[w[0], *(number[o] if isinstance(o, _Register) else o for o in w[1:])] for w in code]
        return Program(
            np.array(words, dtype=np.int64).reshape(-1, vm.WORDS),
            tuple(number[r] for r in outputs),
            -1 if keep is None else number[keep],
            -1 if self.error is None else number[self.error],
            max(count, 1),
        )


# ---- what each function becomes --------------------------------------------------------------------------------------


def _nullable(call: Call) -> bool:
    return any(a.type.nullable for a in call.args)


def _kind(call: Call) -> str:
    return call.args[0].type.kind


def _power(scale: int) -> int:
    return int(10**scale)


def _arithmetic(whole: int, floating: int, *, floating_fails: bool = False, fits: bool = False) -> _Handler:
    """A function of two numbers of one kind; a decimal result must fit 18 digits unless it always does (`fits`)."""

    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        a, b = (self.value(x, where) for x in call.args)
        checked = _nullable(call)
        if _kind(call) == "float":
            if floating_fails:
                return self.emit_partial(floating, a, b, where, checked=checked)
            return self.emit(floating, a, b, checked=checked)
        result = self.emit_partial(whole, a, b, where, checked=checked)
        if call.type.kind == "decimal" and not fits:
            result = self.emit_partial(vm.CHECK_DECIMAL, result, 0, where, checked=checked)
        return result

    return handler


def _float_function(op: int, *, fails: bool = True) -> _Handler:
    """A function of one or two floats."""

    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        operands: list[_Operand] = [self.value(x, where) for x in call.args]
        a, b = (*operands, 0)[:2]
        if fails:
            return self.emit_partial(op, a, b, where, checked=_nullable(call))
        return self.emit(op, a, b, checked=_nullable(call))

    return handler


def _sign_change(whole: int, floating: int) -> _Handler:
    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        a = self.value(call.args[0], where)
        if _kind(call) == "float":
            return self.emit(floating, a, checked=_nullable(call))
        return self.emit_partial(whole, a, 0, where, checked=_nullable(call))

    return handler


def _sign(self: _Lowering, call: Call, where: _Context) -> _Register:
    op = vm.FSIGN if _kind(call) == "float" else vm.SIGN
    return self.emit(op, self.value(call.args[0], where), checked=_nullable(call))


def _floor(self: _Lowering, call: Call, where: _Context) -> _Register:
    a, checked, scale = self.value(call.args[0], where), _nullable(call), call.type.scale
    if call.type.kind == "float":
        return self.emit(vm.FLOOR, a, checked=checked)
    if call.type.kind == "int" or scale == 0:
        return a
    return _decimal(self, self.emit(vm.FLOOR_TO, a, _power(scale), checked=checked), checked, where)


def _ceil(self: _Lowering, call: Call, where: _Context) -> _Register:
    a, checked, scale = self.value(call.args[0], where), _nullable(call), call.type.scale
    if call.type.kind == "float":
        return self.emit(vm.CEIL, a, checked=checked)
    if call.type.kind == "int" or scale == 0:
        return a
    mirrored = self.emit(vm.TIMES, a, -1, checked=checked)
    floor = self.emit(vm.FLOOR_TO, mirrored, _power(scale), checked=checked)
    return _decimal(self, self.emit(vm.TIMES, floor, -1, checked=checked), checked, where)


def _round(self: _Lowering, call: Call, where: _Context) -> _Register:
    a, checked = self.value(call.args[0], where), _nullable(call)
    digits = call.args[1].value if len(call.args) == 2 else 0  # type: ignore[attr-defined]
    if call.type.kind == "float":
        return self.emit(vm.ROUND, a, _power(digits), checked=checked)
    lost = call.type.scale - digits
    if call.type.kind == "int" or lost <= 0:
        return a
    shorter = self.emit(vm.RESCALE, a, _power(lost), checked=checked)
    return _decimal(self, self.emit(vm.TIMES, shorter, _power(lost), checked=checked), checked, where)


def _decimal(self: _Lowering, register: _Register, checked: bool, where: _Context) -> _Register:
    """The decimal, if it has no more than 18 digits."""
    return self.emit_partial(vm.CHECK_DECIMAL, register, 0, where, checked=checked)


def _compare(op: int, *, swapped: bool = False, ordered: bool = True) -> _Handler:
    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        if ordered and _kind(call) in INTERNED:
            raise NeedsPython
        a, b = (self.number(x, where) for x in call.args)
        a, b = (b, a) if swapped else (a, b)
        return self.emit(op, a, b, checked=_nullable(call))

    return handler


def _extreme(op: int) -> _Handler:
    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        if _kind(call) in INTERNED:
            raise NeedsPython
        zero = MINUS_ZERO if _kind(call) == "float" else 0
        best = self.value(call.args[0], where)
        for arg in call.args[1:]:
            other = self.value(arg, where)
            if _nullable(call):
                best = self.emit(op, best, other, zero)
            else:
                best = _better(self, op, best, other, zero)
        return best

    return handler


def _better(self: _Lowering, op: int, best: _Register, other: _Register, zero: int) -> _Register:
    """The larger or smaller of two that cannot be NULL; the first of equals."""
    a, b = (best, other) if zero == 0 else (self.emit(vm.NORMAL, best), self.emit(vm.NORMAL, other))
    return self.emit(vm.SELECT, self.emit(vm.LT, *((a, b) if op == vm.GREATEST else (b, a))), other, best)


def _lazy(stop: int, op: int) -> _Handler:
    """`and`, `or`: the right side counts where the left is not `stop`."""

    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        left, right = call.args
        a = self.value(left, where)
        b = self.value(right, _Context(where, lambda: self.emit(vm.DIFFERS, a, stop)))
        return self.emit(op, a, b)

    return handler


def _not(self: _Lowering, call: Call, where: _Context) -> _Register:
    return self.emit(vm.NOT, self.value(call.args[0], where), checked=_nullable(call))


def _null_test(op: int) -> _Handler:
    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        a = self.value(call.args[0], where)
        if not _nullable(call):
            return self.constant(int(op == vm.DIFFERS))
        return self.emit(op, a, NULL)

    return handler


def _coalesce(self: _Lowering, call: Call, where: _Context) -> _Register:
    result = self.value(call.args[0], where)
    for before, arg in zip(call.args, call.args[1:], strict=False):
        if not before.type.nullable:
            break
        so_far = result
        where = _Context(where, lambda so_far=so_far: self.emit(vm.EQUALS, so_far, NULL))  # type: ignore[misc]
        result = self.emit(vm.COALESCE, so_far, self.value(arg, where))
    return result


def _nullif(self: _Lowering, call: Call, where: _Context) -> _Register:
    a, b = (self.number(x, where) for x in call.args)
    return self.emit(vm.NULLIF, self.value(call.args[0], where), self.emit(vm.EQ, a, b, checked=_nullable(call)))


def _case(self: _Lowering, call: Call, where: _Context) -> _Register:
    branches = []
    for condition, value in zip(call.args[:-1:2], call.args[1::2], strict=True):
        test = self.value(condition, where)
        branches.append((test, self.value(value, _Context(where, lambda test=test: test))))  # type: ignore[misc]
        where = _Context(where, lambda test=test: self.emit(vm.DIFFERS, test, 1))  # type: ignore[misc]
    result = self.value(call.args[-1], where)
    for test, value_register in reversed(branches):
        result = self.emit(vm.SELECT, test, value_register, result)
    return result


# ---- casts


def _cast_int(self: _Lowering, call: Call, where: _Context) -> _Register:
    source, a, checked = call.args[0].type, self.value(call.args[0], where), _nullable(call)
    if source.kind == "float":
        return self.emit_partial(vm.FLOAT_TO_INT, a, 0, where, checked=checked)
    if source.kind == "decimal" and source.scale > 0:
        return self.emit(vm.DECIMAL_TO_INT, a, _power(source.scale), checked=checked)
    return _same_code(source, a)


def _same_code(source: DataType, a: _Register) -> _Register:
    """A cast that only changes how the code is read."""
    if source.kind in INTERNED:
        raise NeedsPython
    return a


def _cast_float(self: _Lowering, call: Call, where: _Context) -> _Register:
    source, a, checked = call.args[0].type, self.value(call.args[0], where), _nullable(call)
    if source.kind == "decimal" and source.scale > 0:
        return self.emit(vm.DECIMAL_TO_FLOAT, a, _power(source.scale), checked=checked)
    if source.kind in {"int", "bool", "decimal"}:
        return self.emit(vm.TO_FLOAT, a, checked=checked)
    return _same_code(source, a)


def _cast_bool(self: _Lowering, call: Call, where: _Context) -> _Register:
    source = call.args[0].type
    a = self.number(call.args[0], where)
    if source.kind in {"int", "float", "decimal"}:
        return self.emit(vm.NE, a, self.constant(0), checked=_nullable(call))
    return _same_code(source, a)


def _cast_date(self: _Lowering, call: Call, where: _Context) -> _Register:
    source, a, checked = call.args[0].type, self.value(call.args[0], where), _nullable(call)
    if source.kind == "timestamp":
        return self.emit(vm.TO_DATE, a, checked=checked)
    if source.kind == "int":
        return self.emit_partial(vm.CHECK_DATE, a, 0, where, checked=checked)
    return _same_code(source, a)


def _cast_timestamp(self: _Lowering, call: Call, where: _Context) -> _Register:
    source, a, checked = call.args[0].type, self.value(call.args[0], where), _nullable(call)
    if source.kind == "date":
        return self.emit(vm.TIMES, a, DAY, checked=checked)
    if source.kind == "int":
        return self.emit_partial(vm.CHECK_TIMESTAMP, a, 0, where, checked=checked)
    return _same_code(source, a)


def _cast_decimal(self: _Lowering, call: Call, where: _Context) -> _Register:
    source, a, checked = call.args[0].type, self.value(call.args[0], where), _nullable(call)
    if source.kind in INTERNED:
        raise NeedsPython
    if source.kind == "float":
        return self.emit_partial(vm.FLOAT_TO_DECIMAL, a, _power(call.type.scale), where, checked=checked)
    more = call.type.scale - (source.scale if source.kind == "decimal" else 0)
    if more < 0:
        return self.emit(vm.RESCALE, a, _power(-more), checked=checked)
    if more > 0:
        a = self.emit_partial(vm.MUL, a, self.constant(_power(more)), where, checked=checked)
    return a if more == 0 and source.kind == "decimal" else _decimal(self, a, checked, where)


def _cast_interned(self: _Lowering, call: Call, where: _Context) -> _Register:
    if _kind(call) != call.type.kind:
        raise NeedsPython
    return self.value(call.args[0], where)


# ---- dates


def _days(self: _Lowering, expr: Expr, where: _Context) -> _Register:
    """The day number of a date or a timestamp."""
    a = self.value(expr, where)
    return a if expr.type.kind == "date" else self.emit(vm.TO_DATE, a, checked=expr.type.nullable)


def _date_part(op: int) -> _Handler:
    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        return self.emit(op, _days(self, call.args[0], where), checked=_nullable(call))

    return handler


def _time_part(op: int) -> _Handler:
    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        return self.emit(op, self.value(call.args[0], where), checked=_nullable(call))

    return handler


_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_PERIODS = {"day": DAY, "hour": HOUR, "minute": MINUTE, "second": SECOND}


def _date_trunc(self: _Lowering, call: Call, where: _Context) -> _Register:
    unit, moment = call.args[0].value, call.args[1]  # type: ignore[attr-defined]
    checked, day = moment.type.nullable, 1 if moment.type.kind == "date" else DAY
    if unit in _MONTHS:
        first = self.emit(vm.TRUNC_MONTHS, _days(self, moment, where), _MONTHS[unit], checked=checked)
        return first if day == 1 else self.emit(vm.TIMES, first, DAY, checked=checked)
    a = self.value(moment, where)
    if unit == "week":
        return self.emit(vm.FLOOR_TO, a, 7 * day, 3 * day, checked=checked)  # 1970-01-01 is a Thursday
    return a if day == 1 else self.emit(vm.FLOOR_TO, a, _PERIODS[unit], checked=checked)


def _add_months(self: _Lowering, call: Call, where: _Context) -> _Register:
    moment, checked = call.args[0], _nullable(call)
    months = self.value(call.args[1], where)
    days = self.emit_partial(vm.ADD_MONTHS, _days(self, moment, where), months, where, checked=checked)
    if moment.type.kind == "date":
        return days
    a = self.value(moment, where)
    midnight = self.emit(vm.FLOOR_TO, a, DAY, checked=checked)
    time = self.emit_partial(vm.SUB, a, midnight, where, checked=checked)
    return self.emit_partial(vm.ADD, self.emit(vm.TIMES, days, DAY, checked=checked), time, where, checked=checked)


def _moment_plus(check: int) -> _Handler:
    def handler(self: _Lowering, call: Call, where: _Context) -> _Register:
        a, b = (self.value(x, where) for x in call.args)
        moved = self.emit_partial(vm.ADD, a, b, where, checked=_nullable(call))
        return self.emit_partial(check, moved, 0, where, checked=_nullable(call))

    return handler


def _extract_epoch(self: _Lowering, call: Call, where: _Context) -> _Register:
    a, checked = self.value(call.args[0], where), _nullable(call)
    if _kind(call) == "timestamp":
        return self.emit(vm.DECIMAL_TO_FLOAT, a, SECOND, checked=checked)
    return self.emit(vm.TO_FLOAT, self.emit(vm.TIMES, a, DAY // SECOND, checked=checked), checked=checked)


def _hash(self: _Lowering, call: Call, where: _Context) -> _Register:
    result = self.constant(0)
    for arg in call.args:
        result = self.emit(vm.HASH, result, self.number(arg, where))
    return result


_HANDLERS: dict[str, _Handler] = {
    "add": _arithmetic(vm.ADD, vm.FADD),
    "sub": _arithmetic(vm.SUB, vm.FSUB),
    "mul": _arithmetic(vm.MUL, vm.FMUL),
    "floordiv": _arithmetic(vm.FLOORDIV, vm.FFLOORDIV, floating_fails=True),
    "mod": _arithmetic(vm.MOD, vm.FMOD, floating_fails=True, fits=True),
    "div": _float_function(vm.FDIV),
    "neg": _sign_change(vm.NEG, vm.FNEG),
    "abs": _sign_change(vm.ABS, vm.FABS),
    "pow": _float_function(vm.POW),
    "sqrt": _float_function(vm.SQRT),
    "exp": _float_function(vm.EXP, fails=False),
    "ln": _float_function(vm.LN),
    "log2": _float_function(vm.LOG2),
    "log10": _float_function(vm.LOG10),
    "floor": _floor,
    "ceil": _ceil,
    "round": _round,
    "sign": _sign,
    "greatest": _extreme(vm.GREATEST),
    "least": _extreme(vm.LEAST),
    "eq": _compare(vm.EQ, ordered=False),
    "ne": _compare(vm.NE, ordered=False),
    "lt": _compare(vm.LT),
    "le": _compare(vm.LE),
    "gt": _compare(vm.LT, swapped=True),
    "ge": _compare(vm.LE, swapped=True),
    "and": _lazy(0, vm.AND),
    "or": _lazy(1, vm.OR),
    "not": _not,
    "is_null": _null_test(vm.EQUALS),
    "is_not_null": _null_test(vm.DIFFERS),
    "coalesce": _coalesce,
    "if_null": _coalesce,
    "nullif": _nullif,
    "case": _case,
    "cast_int": _cast_int,
    "cast_float": _cast_float,
    "cast_bool": _cast_bool,
    "cast_str": _cast_interned,
    "cast_bytes": _cast_interned,
    "cast_date": _cast_date,
    "cast_timestamp": _cast_timestamp,
    "cast_decimal": _cast_decimal,
    "year": _date_part(vm.YEAR),
    "month": _date_part(vm.MONTH),
    "day": _date_part(vm.DAY),
    "dayofweek": _date_part(vm.WEEKDAY),
    "hour": _time_part(vm.HOUR),
    "minute": _time_part(vm.MINUTE),
    "second": _time_part(vm.SECOND),
    "date_trunc": _date_trunc,
    "date_add_days": _moment_plus(vm.CHECK_DATE),
    "date_diff_days": _arithmetic(vm.SUB, vm.FSUB),
    "add_months": _add_months,
    "extract_epoch": _extract_epoch,
    "timestamp_add": _moment_plus(vm.CHECK_TIMESTAMP),
    "timestamp_diff": _arithmetic(vm.SUB, vm.FSUB),
    "hash": _hash,
}
