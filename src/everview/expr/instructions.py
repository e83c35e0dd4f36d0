"""Code generation: the VM instructions (`everview.kernels.expressions.vm`) of each function.

A handler receives the call and the context (the rows that need it), generates the code for its arguments, then its own,
and returns the register with the result. `HANDLERS` lists them; a function that is not there needs Python.
"""

from __future__ import annotations

from everview.expr.nodes import Call, Expr
from everview.expr.program_builder import Context, Handler, KernelCall, Lowering, NeedsPython, Operand, Register
from everview.kernels.expressions import vm
from everview.kernels.expressions.scalars import DAY_MICROS, HOUR_MICROS, MINUS_ZERO, MINUTE_MICROS, SECOND_MICROS
from everview.types import INT, INTERNED, NULL, DataType, bounds


def _nullable(call: Call) -> bool:
    return any(a.type.nullable for a in call.args)


def _kind(call: Call) -> str:
    return call.args[0].type.kind


def _power(scale: int) -> int:
    return int(10**scale)


def _arithmetic(whole: int, floating: int, *, fits: bool = False) -> Handler:
    """A function of two numbers of one kind; a decimal result must fit 18 digits unless it always does (`fits`)."""

    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        a, b = [lowering.value(x, where) for x in call.args]
        checked = _nullable(call)
        if _kind(call) == "float":
            return lowering.emit_partial(floating, a, b, where, checked=checked)
        result = lowering.emit_partial(whole, a, b, where, checked=checked)
        if call.type.kind == "decimal" and not fits:
            result = lowering.emit_partial(vm.CHECK_DECIMAL, result, 0, where, checked=checked)
        return result

    return handler


def _float_function(op: int) -> Handler:
    """A function of one or two floats."""

    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        operands: list[Operand] = [lowering.value(x, where) for x in call.args]
        a, b = (*operands, 0)[:2]
        return lowering.emit_partial(op, a, b, where, checked=_nullable(call))

    return handler


def _sign_change(whole: int, floating: int) -> Handler:
    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        a = lowering.value(call.args[0], where)
        if _kind(call) == "float":
            return lowering.emit(floating, a, checked=_nullable(call))
        return lowering.emit_partial(whole, a, 0, where, checked=_nullable(call))

    return handler


def _sign(lowering: Lowering, call: Call, where: Context) -> Register:
    op = vm.FSIGN if _kind(call) == "float" else vm.SIGN
    return lowering.emit(op, lowering.value(call.args[0], where), checked=_nullable(call))


def _floor(lowering: Lowering, call: Call, where: Context) -> Register:
    a, checked, scale = lowering.value(call.args[0], where), _nullable(call), call.type.scale
    if call.type.kind == "float":
        return lowering.emit(vm.FLOOR, a, checked=checked)
    if call.type.kind == "int" or scale == 0:
        return a
    return _decimal(lowering, lowering.emit(vm.FLOOR_TO, a, _power(scale), checked=checked), checked, where)


def _ceil(lowering: Lowering, call: Call, where: Context) -> Register:
    a, checked, scale = lowering.value(call.args[0], where), _nullable(call), call.type.scale
    if call.type.kind == "float":
        return lowering.emit(vm.CEIL, a, checked=checked)
    if call.type.kind == "int" or scale == 0:
        return a
    mirrored = lowering.emit(vm.TIMES, a, -1, checked=checked)
    floor = lowering.emit(vm.FLOOR_TO, mirrored, _power(scale), checked=checked)
    return _decimal(lowering, lowering.emit(vm.TIMES, floor, -1, checked=checked), checked, where)


def _round(lowering: Lowering, call: Call, where: Context) -> Register:
    a, checked = lowering.value(call.args[0], where), _nullable(call)
    digits = call.args[1].value if len(call.args) == 2 else 0  # type: ignore[attr-defined]
    if call.type.kind == "float":
        return lowering.emit(vm.ROUND, a, _power(digits), checked=checked)
    lost = call.type.scale - digits
    if call.type.kind == "int" or lost <= 0:
        return a
    shorter = lowering.emit(vm.RESCALE, a, _power(lost), checked=checked)
    return _decimal(lowering, lowering.emit(vm.TIMES, shorter, _power(lost), checked=checked), checked, where)


def _decimal(lowering: Lowering, register: Register, checked: bool, where: Context) -> Register:
    """The decimal, checked to have at most 18 digits."""
    return lowering.emit_partial(vm.CHECK_DECIMAL, register, 0, where, checked=checked)


def _compare(op: int, *, swapped: bool = False, ordered: bool = True) -> Handler:
    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        if ordered and _kind(call) in INTERNED:
            raise NeedsPython
        a, b = [lowering.number(x, where) for x in call.args]
        a, b = (b, a) if swapped else (a, b)
        return lowering.emit(op, a, b, checked=_nullable(call))

    return handler


def _extreme(op: int) -> Handler:
    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        if _kind(call) in INTERNED:
            raise NeedsPython
        zero = MINUS_ZERO if _kind(call) == "float" else 0
        best = lowering.value(call.args[0], where)
        for arg in call.args[1:]:
            other = lowering.value(arg, where)
            if _nullable(call):
                best = lowering.emit(op, best, other, zero)
            else:
                best = _better(lowering, op, best, other, zero)
        return best

    return handler


def _better(lowering: Lowering, op: int, best: Register, other: Register, zero: int) -> Register:
    """The larger or smaller of two values that cannot be NULL; the first of equals."""
    a, b = (best, other) if zero == 0 else (lowering.emit(vm.NORMAL, best), lowering.emit(vm.NORMAL, other))
    return lowering.emit(vm.SELECT, lowering.emit(vm.LT, *((a, b) if op == vm.GREATEST else (b, a))), other, best)


def _lazy(stop: int, op: int) -> Handler:
    """`and`, `or`: the right side counts where the left is not `stop`."""

    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        left, right = call.args
        a = lowering.value(left, where)
        b = lowering.value(right, Context(where, lambda: lowering.emit(vm.DIFFERS, a, stop)))
        return lowering.emit(op, a, b)

    return handler


def _not(lowering: Lowering, call: Call, where: Context) -> Register:
    return lowering.emit(vm.NOT, lowering.value(call.args[0], where), checked=_nullable(call))


def _null_test(op: int) -> Handler:
    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        a = lowering.value(call.args[0], where)
        if not _nullable(call):
            return lowering.constant(int(op == vm.DIFFERS))
        return lowering.emit(op, a, NULL)

    return handler


def _coalesce(lowering: Lowering, call: Call, where: Context) -> Register:
    result = lowering.value(call.args[0], where)
    for before, arg in zip(call.args, call.args[1:], strict=False):
        if not before.type.nullable:
            break
        so_far = result
        where = Context(where, lambda so_far=so_far: lowering.emit(vm.EQUALS, so_far, NULL))  # type: ignore[misc]
        result = lowering.emit(vm.COALESCE, so_far, lowering.value(arg, where))
    return result


def _nullif(lowering: Lowering, call: Call, where: Context) -> Register:
    a, b = [lowering.number(x, where) for x in call.args]
    return lowering.emit(
        vm.NULLIF, lowering.value(call.args[0], where), lowering.emit(vm.EQ, a, b, checked=_nullable(call))
    )


def _case(lowering: Lowering, call: Call, where: Context) -> Register:
    branches = []
    for condition, value in zip(call.args[:-1:2], call.args[1::2], strict=True):
        test = lowering.value(condition, where)
        branches.append((test, lowering.value(value, Context(where, lambda test=test: test))))  # type: ignore[misc]
        where = Context(where, lambda test=test: lowering.emit(vm.DIFFERS, test, 1))  # type: ignore[misc]
    result = lowering.value(call.args[-1], where)
    for test, value_register in reversed(branches):
        result = lowering.emit(vm.SELECT, test, value_register, result)
    return result


# ---- casts


def _cast_int(lowering: Lowering, call: Call, where: Context) -> Register:
    source, a, checked = call.args[0].type, lowering.value(call.args[0], where), _nullable(call)
    if source.kind == "float":
        return lowering.emit_partial(vm.FLOAT_TO_INT, a, 0, where, checked=checked)
    if source.kind == "decimal" and source.scale > 0:
        return lowering.emit(vm.DECIMAL_TO_INT, a, _power(source.scale), checked=checked)
    if source.kind == "int" and call.type.width not in (0, source.width):
        _check_range(lowering, a, call.type.width, where, checked)
    return _same_code(source, a)


def _check_range(lowering: Lowering, a: Register, bits: int, where: Context, checked: bool) -> None:
    """Fail for ints that do not fit so many bits (negative: unsigned). The range is centred on zero, as that of a
    decimal is: x fits if 2x + 1 - 2 * middle is between -2**bits and 2**bits, both excluded.
    """
    low, high = bounds(bits)
    twice = lowering.emit_partial(vm.MUL, a, lowering.constant(2), where, checked=checked)
    centred = lowering.emit_partial(vm.SUB, twice, lowering.constant(low + high), where, checked=checked)
    lowering.emit_partial(vm.CHECK_DECIMAL, centred, high - low + 1, where, checked=checked)


def _same_code(source: DataType, a: Register) -> Register:
    """A cast that only changes how the code is read."""
    if source.kind in INTERNED:
        raise NeedsPython
    return a


def _cast_float(lowering: Lowering, call: Call, where: Context) -> Register:
    source, a, checked = call.args[0].type, lowering.value(call.args[0], where), _nullable(call)
    if source.kind == "decimal" and source.scale > 0:
        return lowering.emit(vm.DECIMAL_TO_FLOAT, a, _power(source.scale), checked=checked)
    if source.kind in {"int", "bool", "decimal"}:
        return lowering.emit(vm.TO_FLOAT, a, checked=checked)
    return _same_code(source, a)


def _cast_bool(lowering: Lowering, call: Call, where: Context) -> Register:
    source = call.args[0].type
    a = lowering.number(call.args[0], where)
    if source.kind in {"int", "float", "decimal"}:
        return lowering.emit(vm.NE, a, lowering.constant(0), checked=_nullable(call))
    return _same_code(source, a)


def _cast_date(lowering: Lowering, call: Call, where: Context) -> Register:
    source, a, checked = call.args[0].type, lowering.value(call.args[0], where), _nullable(call)
    if source.kind in ("timestamp", "timestamptz"):
        return lowering.emit(vm.TO_DATE, a, checked=checked)
    if source.kind == "int":
        return lowering.emit_partial(vm.CHECK_DATE, a, 0, where, checked=checked)
    return _same_code(source, a)


def _cast_timestamp(lowering: Lowering, call: Call, where: Context) -> Register:
    source, a, checked = call.args[0].type, lowering.value(call.args[0], where), _nullable(call)
    if source.kind == "date":
        return lowering.emit(vm.TIMES, a, DAY_MICROS, checked=checked)
    if source.kind == "int":
        return lowering.emit_partial(vm.CHECK_TIMESTAMP, a, 0, where, checked=checked)
    return _same_code(source, a)


def _cast_decimal(lowering: Lowering, call: Call, where: Context) -> Register:
    """A decimal, checked to have no more digits than its type."""
    found, source, width = _scaled(lowering, call, where), call.args[0].type, call.type.width
    fits = source.kind == "decimal" and source.scale == call.type.scale and 0 < source.width <= width
    if not width or fits:
        return found
    return lowering.emit_partial(vm.CHECK_DECIMAL, found, _power(width), where, checked=_nullable(call))


def _scaled(lowering: Lowering, call: Call, where: Context) -> Register:
    source, a, checked = call.args[0].type, lowering.value(call.args[0], where), _nullable(call)
    if source.kind in INTERNED:
        raise NeedsPython
    if source.kind == "float":
        return lowering.emit_partial(vm.FLOAT_TO_DECIMAL, a, _power(call.type.scale), where, checked=checked)
    more = call.type.scale - (source.scale if source.kind == "decimal" else 0)
    if more < 0:
        return lowering.emit(vm.RESCALE, a, _power(-more), checked=checked)
    if more > 0:
        a = lowering.emit_partial(vm.MUL, a, lowering.constant(_power(more)), where, checked=checked)
    return a if more == 0 and source.kind == "decimal" else _decimal(lowering, a, checked, where)


def _cast_interned(lowering: Lowering, call: Call, where: Context) -> Register:
    if _kind(call) != call.type.kind and {_kind(call), call.type.kind} != {"char", "str"}:
        raise NeedsPython
    return lowering.value(call.args[0], where)


# ---- dates


def _days(lowering: Lowering, expr: Expr, where: Context) -> Register:
    """The day number of a date or a timestamp."""
    a = lowering.value(expr, where)
    return a if expr.type.kind == "date" else lowering.emit(vm.TO_DATE, a, checked=expr.type.nullable)


def _date_part(op: int) -> Handler:
    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        return lowering.emit(op, _days(lowering, call.args[0], where), checked=_nullable(call))

    return handler


def _time_part(op: int) -> Handler:
    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        return lowering.emit(op, lowering.value(call.args[0], where), checked=_nullable(call))

    return handler


_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_PERIODS = {"day": DAY_MICROS, "hour": HOUR_MICROS, "minute": MINUTE_MICROS, "second": SECOND_MICROS}


def _date_trunc(lowering: Lowering, call: Call, where: Context) -> Register:
    unit, moment = call.args[0].value, call.args[1]  # type: ignore[attr-defined]
    checked, day = moment.type.nullable, 1 if moment.type.kind == "date" else DAY_MICROS
    if unit in _MONTHS:
        first = lowering.emit(vm.TRUNC_MONTHS, _days(lowering, moment, where), _MONTHS[unit], checked=checked)
        return first if day == 1 else lowering.emit(vm.TIMES, first, DAY_MICROS, checked=checked)
    a = lowering.value(moment, where)
    if unit == "week":
        return lowering.emit(vm.FLOOR_TO, a, 7 * day, 3 * day, checked=checked)  # 1970-01-01 is a Thursday
    return a if day == 1 else lowering.emit(vm.FLOOR_TO, a, _PERIODS[unit], checked=checked)


def _add_months(lowering: Lowering, call: Call, where: Context) -> Register:
    moment, checked = call.args[0], _nullable(call)
    months = lowering.value(call.args[1], where)
    days = lowering.emit_partial(vm.ADD_MONTHS, _days(lowering, moment, where), months, where, checked=checked)
    if moment.type.kind == "date":
        return days
    a = lowering.value(moment, where)
    midnight = lowering.emit(vm.FLOOR_TO, a, DAY_MICROS, checked=checked)
    time = lowering.emit_partial(vm.SUB, a, midnight, where, checked=checked)
    return lowering.emit_partial(
        vm.ADD, lowering.emit(vm.TIMES, days, DAY_MICROS, checked=checked), time, where, checked=checked
    )


def _moment_plus(check: int) -> Handler:
    def handler(lowering: Lowering, call: Call, where: Context) -> Register:
        a, b = [lowering.value(x, where) for x in call.args]
        moved = lowering.emit_partial(vm.ADD, a, b, where, checked=_nullable(call))
        return lowering.emit_partial(check, moved, 0, where, checked=_nullable(call))

    return handler


def _extract_epoch(lowering: Lowering, call: Call, where: Context) -> Register:
    a, checked = lowering.value(call.args[0], where), _nullable(call)
    if _kind(call) == "timestamp":
        return lowering.emit(vm.DECIMAL_TO_FLOAT, a, SECOND_MICROS, checked=checked)
    return lowering.emit(
        vm.TO_FLOAT, lowering.emit(vm.TIMES, a, DAY_MICROS // SECOND_MICROS, checked=checked), checked=checked
    )


def _hash(lowering: Lowering, call: Call, where: Context) -> Register:
    result = lowering.constant(0)
    for arg in call.args:
        result = lowering.emit(vm.HASH, result, lowering.number(arg, where))
    return result


def _variable(lowering: Lowering, call: Call, where: Context) -> Register:
    kernel = lowering.encode_literal(INT, KernelCall("variable", 0))
    return lowering.emit(vm.CALL, lowering.value(call.args[0], where), 0, kernel)


def _conjunction(lowering: Lowering, call: Call, where: Context) -> Register:
    a, b = [lowering.value(x, where) for x in call.args[:2]]
    kernel = lowering.encode_literal(INT, KernelCall("and", call.args[2].value))  # type: ignore[attr-defined]
    return lowering.emit(vm.CALL, a, b, kernel)


def _checked_expression(lowering: Lowering, call: Call, where: Context) -> Register:
    return lowering.emit_partial(vm.CHECK_EXPRESSION, lowering.value(call.args[0], where), 0, where, checked=False)


HANDLERS: dict[str, Handler] = {
    "add": _arithmetic(vm.ADD, vm.FADD),
    "sub": _arithmetic(vm.SUB, vm.FSUB),
    "mul": _arithmetic(vm.MUL, vm.FMUL),
    "floordiv": _arithmetic(vm.FLOORDIV, vm.FFLOORDIV),
    "mod": _arithmetic(vm.MOD, vm.FMOD, fits=True),
    "div": _float_function(vm.FDIV),
    "neg": _sign_change(vm.NEG, vm.FNEG),
    "abs": _sign_change(vm.ABS, vm.FABS),
    "pow": _float_function(vm.POW),
    "sqrt": _float_function(vm.SQRT),
    "exp": _float_function(vm.EXP),
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
    "cast_timestamptz": _cast_timestamp,
    "cast_char": _cast_interned,
    "enum_place": lambda lowering, call, where: lowering.value(call.args[0], where),
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
    "provenance_variable": _variable,
    "provenance_and": _conjunction,
    "provenance_checked": _checked_expression,
}
