"""A small vectorised machine for row expressions, compiled once.

Operators run inside a compiled executor and nothing is compiled per query, so projections and predicates are
*programs* made by `everview.expr.lower`. A program is a block of instructions, five words each:

    [op, dst, a, b, c]

One instruction is one typed operation over all rows of a chunk. Register r is the `VM_ROWS` words of the register
block from word `r * VM_ROWS`; its first n words are the rows. The caller puts input columns into registers 0, 1, ...

- `a`, `b` are registers, or for a few ops a plain number (a scale, a number of months, a constant).
- NULL: an op with the bit `CHECKED` set gives NULL where an operand is NULL; without it operands are never looked
  at, which is right exactly when their static types cannot be NULL.
- Row errors: `errors r s` clears register r and makes it the error register. A partial op (`add`, `div`, casts) puts an
  error code there, the first one of a row stays. The value of a failed row is rubbish. Register s is scratch space:
  a partial op notes there what it thinks of each row, and only if something failed is that looked at again.
- Laziness: word `c` of a partial op is a *mask* register: only rows where it is 1 can fail (-1: all rows). So every
  branch of a `case` is computed for all rows, and errors count only where the branch is taken.

- `call` is for what this machine does not know: word `c` is a block whose word 0 is the address of a kernel, which is
  called with a block of CALL_WORDS words and does all rows (see `everview.kernels.provenance`).

Hazard: an op whose result shares a register with an operand is right, but slow (it cannot be done several rows at a
time).
"""

from __future__ import annotations

from typing import Any

from everview.kernels.build.native import entry, fused, shared
from everview.kernels.expressions import scalars as f
from everview.kernels.expressions.scalars import ERROR_OVERFLOW, floor_to_multiple
from everview.kernels.memory import alloc, call_pointer, free, ld, raw_load, raw_store, st
from everview.types import NULL

VM_ROWS = 1024
CHECKED = 256
INSTRUCTION_WORDS = 5

NAMES = (
    "load errors add sub mul eq ne lt le and_ or_ not_ select coalesce equals differs both_true normal nullif "
    "fadd fsub fmul fdiv to_float floordiv mod neg abs sign greatest least hash "
    "rescale times decimal_to_float decimal_to_int float_to_int float_to_decimal check_decimal "
    "year month day weekday hour minute second trunc_months add_months to_date floor_to check_date check_timestamp "
    "ffloordiv fmod fneg fabs fsign sqrt exp ln log2 log10 pow floor ceil round call check_expression"
).split()
"""Names of the ops, in the order of their numbers."""

(
    LOAD, ERRORS, ADD, SUB, MUL, EQ, NE, LT, LE, AND, OR, NOT,
    SELECT, COALESCE, EQUALS, DIFFERS, BOTH_TRUE, NORMAL, NULLIF,
    FADD, FSUB, FMUL, FDIV, TO_FLOAT, FLOORDIV, MOD, NEG, ABS, SIGN, GREATEST, LEAST, HASH,
    RESCALE, TIMES, DECIMAL_TO_FLOAT, DECIMAL_TO_INT, FLOAT_TO_INT, FLOAT_TO_DECIMAL, CHECK_DECIMAL,
    YEAR, MONTH, DAY, WEEKDAY, HOUR, MINUTE, SECOND,
    TRUNC_MONTHS, ADD_MONTHS, TO_DATE, FLOOR_TO, CHECK_DATE, CHECK_TIMESTAMP,
    FFLOORDIV, FMOD, FNEG, FABS, FSIGN, SQRT, EXP, LN, LOG2, LOG10, POW, FLOOR, CEIL, ROUND, CALL, CHECK_EXPRESSION,
) = range(len(NAMES))  # fmt: skip


CALL_OF, CALL_REGS, CALL_TO, CALL_LEFT, CALL_RIGHT, CALL_ROWS, CALL_WORDS = range(7)
"""What a kernel that is called by an op is given: the block that names it, the registers, the first words of the result
and of both operands, the number of rows.
"""


def _each(function: Any) -> Any:
    """The op dst = function(a)."""

    @fused("void")
    def loop(regs, checked, dst, a, n):
        d, p = dst * VM_ROWS, a * VM_ROWS
        for i in range(n):
            x = ld(regs, p + i)
            st(regs, d + i, NULL if checked & (x == NULL) else function(x))

    return loop


def _each_with(function: Any) -> Any:
    """The op dst = function(a, the number b)."""

    @fused("void")
    def loop(regs, checked, dst, a, b, n):
        d, p = dst * VM_ROWS, a * VM_ROWS
        for i in range(n):
            x = ld(regs, p + i)
            st(regs, d + i, NULL if checked & (x == NULL) else function(x, b))

    return loop


def _pairs(function: Any) -> Any:
    """The op dst = function(a, b)."""

    @fused("void")
    def loop(regs, checked, dst, a, b, n):
        d, p, q = dst * VM_ROWS, a * VM_ROWS, b * VM_ROWS
        for i in range(n):
            x, y = ld(regs, p + i), ld(regs, q + i)
            st(regs, d + i, NULL if checked & ((x == NULL) | (y == NULL)) else function(x, y))

    return loop


def _pairs_with(function: Any) -> Any:
    """The op dst = function(a, b, the number c)."""

    @fused("void")
    def loop(regs, dst, a, b, c, n):
        d, p, q = dst * VM_ROWS, a * VM_ROWS, b * VM_ROWS
        for i in range(n):
            st(regs, d + i, function(ld(regs, p + i), ld(regs, q + i), c))

    return loop


def _partial_each(function: Any, failure: Any) -> Any:
    """The op dst = function(a, the number b), where failure(a, b) may say no."""

    @fused("void")
    def loop(regs, errors, notes, checked, dst, a, b, mask, n):
        d, p, e = dst * VM_ROWS, a * VM_ROWS, notes * VM_ROWS
        failed = 0
        for i in range(n):
            x = ld(regs, p + i)
            null = checked & (x == NULL)
            result = function(x, b)
            why = 0 if null else failure(x, b) | (ERROR_OVERFLOW if checked & (result == NULL) else 0)
            st(regs, d + i, NULL if null else result)
            st(regs, e + i, why)
            failed |= why
        if failed != 0:
            _blame(regs, errors, notes, mask, n)

    return loop


def _partial_pairs(function: Any, failure: Any) -> Any:
    """The op dst = function(a, b), where failure(a, b) may say no."""

    @fused("void")
    def loop(regs, errors, notes, checked, dst, a, b, mask, n):
        d, p, q, e = dst * VM_ROWS, a * VM_ROWS, b * VM_ROWS, notes * VM_ROWS
        failed = 0
        for i in range(n):
            x, y = ld(regs, p + i), ld(regs, q + i)
            null = checked & ((x == NULL) | (y == NULL))
            result = function(x, y)
            why = 0 if null else failure(x, y) | (ERROR_OVERFLOW if checked & (result == NULL) else 0)
            st(regs, d + i, NULL if null else result)
            st(regs, e + i, why)
            failed |= why
        if failed != 0:
            _blame(regs, errors, notes, mask, n)

    return loop


@fused("void")
def _blame(regs, errors, notes, mask, n):
    """Take over what the op noted, for rows in the mask that had not failed before."""
    for i in range(n):
        why = ld(regs, notes * VM_ROWS + i)
        if why != 0 and (mask < 0 or ld(regs, mask * VM_ROWS + i) == 1) and ld(regs, errors * VM_ROWS + i) == 0:
            st(regs, errors * VM_ROWS + i, why)


@fused("void")
def _fill(regs, dst, value, n):
    for i in range(n):
        st(regs, dst * VM_ROWS + i, value)


@fused("void")
def _select(regs, dst, condition, a, b, n):
    d, c, p, q = dst * VM_ROWS, condition * VM_ROWS, a * VM_ROWS, b * VM_ROWS
    for i in range(n):
        x, y = ld(regs, p + i), ld(regs, q + i)
        st(regs, d + i, x if ld(regs, c + i) == 1 else y)


@fused("void")
def _floor_to(regs, checked, dst, a, unit, offset, n):
    d, p = dst * VM_ROWS, a * VM_ROWS
    for i in range(n):
        x = ld(regs, p + i)
        st(regs, d + i, NULL if checked & (x == NULL) else floor_to_multiple(x, unit, offset))


@fused("void")
def _nullif(regs, dst, a, b, n):
    d, p, c = dst * VM_ROWS, a * VM_ROWS, b * VM_ROWS
    for i in range(n):
        x = ld(regs, p + i)
        st(regs, d + i, NULL if ld(regs, c + i) == 1 else x)


@fused("void")
def _call(regs, block, dst, a, b, n):
    given = alloc(CALL_WORDS)
    st(given, CALL_OF, block)
    st(given, CALL_REGS, regs)
    st(given, CALL_TO, dst * VM_ROWS)
    st(given, CALL_LEFT, a * VM_ROWS)
    st(given, CALL_RIGHT, b * VM_ROWS)
    st(given, CALL_ROWS, n)
    call_pointer(ld(block, 0), given)
    free(given)


_add = _partial_pairs(f.int_add, f.int_add_failure)
_sub = _partial_pairs(f.int_sub, f.int_sub_failure)
_mul = _partial_pairs(f.int_mul, f.int_mul_failure)
_floordiv = _partial_pairs(f.int_floordiv, f.int_floordiv_failure)
_mod = _partial_pairs(f.int_mod, f.int_mod_failure)
_neg = _partial_each(f.int_neg, f.int_is_least)
_abs = _partial_each(f.int_abs, f.int_is_least)
_sign = _each(f.int_sign)
_eq, _ne, _lt, _le = _pairs(f.equal), _pairs(f.not_equal), _pairs(f.less), _pairs(f.less_equal)
_and, _or, _not = _pairs(f.logic_and), _pairs(f.logic_or), _each(f.logic_not)
_coalesce, _both_true = _pairs(f.coalesce), _pairs(f.both_true)
_equals, _differs = _each_with(f.equals_constant), _each_with(f.differs_from_constant)
_greatest, _least, _hash = _pairs_with(f.greatest), _pairs_with(f.least), _pairs(f.mix)
_normal = _each(f.float_normal)
_fadd, _fsub, _fmul = _pairs(f.float_add), _pairs(f.float_sub), _pairs(f.float_mul)
_fdiv = _partial_pairs(f.float_div, f.float_zero_divisor)
_ffloordiv = _partial_pairs(f.float_floordiv, f.float_zero_divisor)
_fmod = _partial_pairs(f.float_mod, f.float_zero_divisor)
_fneg, _fabs, _fsign = _each(f.float_neg), _each(f.float_abs), _each(f.float_sign)
_sqrt = _partial_each(f.float_sqrt, f.float_negative)
_exp = _each(f.float_exp)
_ln = _partial_each(f.float_ln, f.float_not_positive)
_log2 = _partial_each(f.float_log2, f.float_not_positive)
_log10 = _partial_each(f.float_log10, f.float_not_positive)
_pow = _partial_pairs(f.float_pow, f.float_pow_failure)
_floor, _ceil, _round = _each(f.float_floor), _each(f.float_ceil), _each_with(f.float_round)
_to_float, _decimal_to_float = _each(f.int_to_float), _each_with(f.decimal_to_float)
_float_to_decimal = _partial_each(f.float_to_decimal, f.float_to_decimal_failure)
_float_to_int = _partial_each(f.float_to_int, f.float_to_int_failure)
_check_decimal = _partial_each(f.same, f.decimal_failure)
_rescale, _times, _decimal_to_int = _each_with(f.divide_rounding), _each_with(f.times), _each_with(f.decimal_to_int)
_year, _month, _day = _each(f.date_year), _each(f.date_month), _each(f.date_day)
_hour, _minute, _second = _each(f.time_hour), _each(f.time_minute), _each(f.time_second)
_trunc_months, _to_date, _weekday = _each_with(f.date_trunc_months), _each(f.timestamp_to_date), _each(f.date_weekday)
_add_months = _partial_pairs(f.date_add_months, f.date_add_months_failure)
_check_date = _partial_each(f.same, f.date_failure)
_check_timestamp = _partial_each(f.same, f.timestamp_failure)
_check_expression = _partial_each(f.same, f.expression_failure)


@shared
def run(code, instructions, regs, n):
    """Run the first `instructions` instructions of block `code` over n <= VM_ROWS rows in the register block `regs`."""
    errors, notes = 0, 0
    for k in range(instructions):
        w = k * INSTRUCTION_WORDS
        word, d, a, b, c = ld(code, w), ld(code, w + 1), ld(code, w + 2), ld(code, w + 3), ld(code, w + 4)
        op = word & 255
        null = word >= CHECKED
        if op == LOAD:
            _fill(regs, d, a, n)
        elif op == ERRORS:
            errors, notes = d, a
            _fill(regs, d, 0, n)
        elif op == ADD:
            _add(regs, errors, notes, null, d, a, b, c, n)
        elif op == SUB:
            _sub(regs, errors, notes, null, d, a, b, c, n)
        elif op == MUL:
            _mul(regs, errors, notes, null, d, a, b, c, n)
        elif op == EQ:
            _eq(regs, null, d, a, b, n)
        elif op == NE:
            _ne(regs, null, d, a, b, n)
        elif op == LT:
            _lt(regs, null, d, a, b, n)
        elif op == LE:
            _le(regs, null, d, a, b, n)
        elif op == AND:
            _and(regs, False, d, a, b, n)
        elif op == OR:
            _or(regs, False, d, a, b, n)
        elif op == NOT:
            _not(regs, null, d, a, n)
        elif op == SELECT:
            _select(regs, d, a, b, c, n)
        elif op == COALESCE:
            _coalesce(regs, False, d, a, b, n)
        elif op == EQUALS:
            _equals(regs, False, d, a, b, n)
        elif op == DIFFERS:
            _differs(regs, False, d, a, b, n)
        elif op == BOTH_TRUE:
            _both_true(regs, False, d, a, b, n)
        elif op == NORMAL:
            _normal(regs, False, d, a, n)
        elif op == NULLIF:
            _nullif(regs, d, a, b, n)
        elif op == FADD:
            _fadd(regs, null, d, a, b, n)
        elif op == FSUB:
            _fsub(regs, null, d, a, b, n)
        elif op == FMUL:
            _fmul(regs, null, d, a, b, n)
        elif op == FDIV:
            _fdiv(regs, errors, notes, null, d, a, b, c, n)
        elif op == TO_FLOAT:
            _to_float(regs, null, d, a, n)
        elif op == FLOORDIV:
            _floordiv(regs, errors, notes, null, d, a, b, c, n)
        elif op == MOD:
            _mod(regs, errors, notes, null, d, a, b, c, n)
        elif op == NEG:
            _neg(regs, errors, notes, null, d, a, b, c, n)
        elif op == ABS:
            _abs(regs, errors, notes, null, d, a, b, c, n)
        elif op == SIGN:
            _sign(regs, null, d, a, n)
        elif op == GREATEST:
            _greatest(regs, d, a, b, c, n)
        elif op == LEAST:
            _least(regs, d, a, b, c, n)
        elif op == HASH:
            _hash(regs, False, d, a, b, n)
        elif op == RESCALE:
            _rescale(regs, null, d, a, b, n)
        elif op == TIMES:
            _times(regs, null, d, a, b, n)
        elif op == DECIMAL_TO_FLOAT:
            _decimal_to_float(regs, null, d, a, b, n)
        elif op == DECIMAL_TO_INT:
            _decimal_to_int(regs, null, d, a, b, n)
        elif op == FLOAT_TO_INT:
            _float_to_int(regs, errors, notes, null, d, a, b, c, n)
        elif op == FLOAT_TO_DECIMAL:
            _float_to_decimal(regs, errors, notes, null, d, a, b, c, n)
        elif op == CHECK_DECIMAL:
            _check_decimal(regs, errors, notes, null, d, a, b, c, n)
        elif op == YEAR:
            _year(regs, null, d, a, n)
        elif op == MONTH:
            _month(regs, null, d, a, n)
        elif op == DAY:
            _day(regs, null, d, a, n)
        elif op == WEEKDAY:
            _weekday(regs, null, d, a, n)
        elif op == HOUR:
            _hour(regs, null, d, a, n)
        elif op == MINUTE:
            _minute(regs, null, d, a, n)
        elif op == SECOND:
            _second(regs, null, d, a, n)
        elif op == TRUNC_MONTHS:
            _trunc_months(regs, null, d, a, b, n)
        elif op == ADD_MONTHS:
            _add_months(regs, errors, notes, null, d, a, b, c, n)
        elif op == TO_DATE:
            _to_date(regs, null, d, a, n)
        elif op == FLOOR_TO:
            _floor_to(regs, null, d, a, b, c, n)
        elif op == CHECK_DATE:
            _check_date(regs, errors, notes, null, d, a, b, c, n)
        elif op == CHECK_TIMESTAMP:
            _check_timestamp(regs, errors, notes, null, d, a, b, c, n)
        elif op == FFLOORDIV:
            _ffloordiv(regs, errors, notes, null, d, a, b, c, n)
        elif op == FMOD:
            _fmod(regs, errors, notes, null, d, a, b, c, n)
        elif op == FNEG:
            _fneg(regs, null, d, a, n)
        elif op == FABS:
            _fabs(regs, null, d, a, n)
        elif op == FSIGN:
            _fsign(regs, null, d, a, n)
        elif op == SQRT:
            _sqrt(regs, errors, notes, null, d, a, b, c, n)
        elif op == EXP:
            _exp(regs, null, d, a, n)
        elif op == LN:
            _ln(regs, errors, notes, null, d, a, b, c, n)
        elif op == LOG2:
            _log2(regs, errors, notes, null, d, a, b, c, n)
        elif op == LOG10:
            _log10(regs, errors, notes, null, d, a, b, c, n)
        elif op == POW:
            _pow(regs, errors, notes, null, d, a, b, c, n)
        elif op == FLOOR:
            _floor(regs, null, d, a, n)
        elif op == CEIL:
            _ceil(regs, null, d, a, n)
        elif op == ROUND:
            _round(regs, null, d, a, b, n)
        elif op == CALL:
            _call(regs, c, d, a, b, n)
        elif op == CHECK_EXPRESSION:
            _check_expression(regs, errors, notes, null, d, a, b, c, n)
    return 0


@entry("matrix", "int", "matrix", "words", "matrix", lasting=False)
def run_on_arrays(code, instructions, words, registers, columns, cols, rows, wanted, n_wanted, out, _out, n_out):
    """Run a program over whole columns (rows of `columns`); the registers named in `wanted` become rows of `out`."""
    regs = alloc(registers * VM_ROWS)
    program = alloc(max(instructions * words, 1))
    for w in range(instructions * words):
        st(program, w, raw_load(code, w))
    for start in range(0, n_out, VM_ROWS):
        n = min(VM_ROWS, n_out - start)
        for r in range(cols):
            for i in range(n):
                st(regs, r * VM_ROWS + i, raw_load(columns, r * rows + start + i))
        run(program, instructions, regs, n)
        for k in range(n_wanted):
            for i in range(n):
                raw_store(out, k * n_out + start + i, ld(regs, raw_load(wanted, k) * VM_ROWS + i))
    free(program)
    free(regs)
    return 0
