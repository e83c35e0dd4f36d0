"""Evaluates expressions over few rows, one row at a time: for single inserts into tables with hundreds of views.

`everview.expr.evaluate` works on whole columns. That is right for thousands of rows, but for one it means a quarter of
a millisecond of one-element arrays. This module compiles an expression, once, into Python functions of a row's codes:

- what the VM can compute runs there, or, for comparisons of ints and of ids, in Python;
- a function of texts uses the Python function that *equals* Arrow's: `upper` only of ASCII (Arrow maps code point to
  code point, Python turns ß into SS), `like` only of patterns without `_` and escapes;
- a function of Python values (numerics, JSON, arrays: `everview.expr.python_functions`) gets those of the row;
- every other function gets arrays of one element.

Results of the last two kinds are cached by the codes of their arguments, and whole rows with functions of Python values
by the codes of the row. Ids are hashes of contents, so their meaning never changes.

Results, errors, and which of two errors counts are the same as for whole columns. They must be: a row that was inserted
alone may be deleted among thousands, with the same result. `tests/expr` evaluates every expression both ways.

Calls of user functions and library functions are left to `evaluate`, and so are large expressions: a shared node would
be computed at each occurrence.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from everview.codes import Interner, encode_value
from everview.codes.arrays import floats_to_codes
from everview.codes.scalars import FIRST_MICROSECOND, LAST_MICROSECOND
from everview.codes.values import decoder, encoder
from everview.expr import python_functions
from everview.expr.bits import BITS
from everview.expr.evaluate import (
    Evaluated,
    TextFunction,
    Words,
    compared,
    evaluate,
    made_of,
    one_value,
    program_of,
    text_function,
)
from everview.expr.library import LIBRARY
from everview.expr.nesting import SHALLOW
from everview.expr.nodes import Call, ColumnRef, Expr, Literal
from everview.expr.numeric_columns import single_of
from everview.expr.program_builder import Program
from everview.expr.string_functions import CASTS, VALUES, RowFailure
from everview.kernels.expressions import vm
from everview.kernels.expressions.scalars import ERROR_OVERFLOW
from everview.types import INTERNED, NULL, DataType

ONE_BY_ONE_ROWS = 8
"""Up to this many rows are evaluated one by one: from about 20 on whole columns are faster."""

LARGE_CALLS = 64
"""Number of calls from which an expression is left to `evaluate`."""

KEPT = 4096
"""Maximum number of cached results per function."""

NO_ROWS: Words = np.empty(0, dtype=np.int64)

Row = Sequence[int]
Single = Callable[[Row], int]
Result = TypeVar("Result")


class FewRows:
    """Projection and filter of batches of any size; small ones row by row.

    >>> from everview.types import STR
    >>> interner = Interner()
    >>> run = FewRows((Call(STR, "upper", (ColumnRef(STR, 0),)),), None, interner)
    >>> [interner.value(c) for c in run(np.array([[interner.id("Ada")]])).codes[0].tolist()]
    ['ADA']
    """

    def __init__(self, exprs: tuple[Expr, ...], predicate: Expr | None, interner: Interner) -> None:
        self.exprs = exprs
        self.predicate = predicate
        self.interner = interner
        self._is_deep = any(e.depth > SHALLOW for e in (*exprs, *([] if predicate is None else [predicate])))
        self._made: tuple[list[Single], Single | None] | None = None
        self._one: Callable[[tuple[int, ...]], list[int] | None] | None = None
        self._refused = False
        self._nothing: Words = np.empty((len(exprs), 0), dtype=np.int64)

    def __call__(self, columns: Words) -> Evaluated:
        """The same as `evaluate`."""
        if columns.shape[1] > ONE_BY_ONE_ROWS or not self._ready(len(columns)):
            return evaluate(self.exprs, self.predicate, columns, self.interner)
        return self._row_by_row(columns)

    def lists(self, columns: Words) -> list[list[int] | None] | None:
        """The values of few rows as lists, None for a failed row; None for many rows. There is no predicate."""
        if columns.shape[1] > ONE_BY_ONE_ROWS or not self._ready(len(columns)):
            return None
        assert self._made is not None and self.predicate is None
        singles, _ = self._made
        found: list[list[int] | None] = []
        for row in columns.T.tolist():
            try:
                found.append([single(row) for single in singles])
            except RowFailure:
                found.append(None)
        return found

    def _ready(self, width: int) -> bool:
        if self._is_deep:
            return False  # `evaluate` makes room for it on the stack
        if self._made is None and not self._refused:
            try:
                made = _Making(width, self.interner)
                keep = made.single(self.predicate) if self.predicate is not None else None
                self._made = [made.single(e) for e in self.exprs], keep
                one = _whole_row(*self._made)
                self._one = _remembered(one) if made.costs else one
            except _Refused:
                self._refused = True
        return not self._refused

    def _row_by_row(self, columns: Words) -> Evaluated:
        assert self._one is not None
        kept: list[int] = []
        codes: list[list[int]] = []
        errors = np.zeros(columns.shape[1], dtype=np.int64)
        for i, row in enumerate(columns.T.tolist()):
            try:
                found = self._one(tuple(row))
            except RowFailure as failure:
                errors[i] = failure.code
                continue
            if found is not None:
                codes.append(found)
                kept.append(i)
        if not kept:
            return Evaluated(self._nothing, NO_ROWS, errors)
        made = np.array(codes, dtype=np.int64).reshape(len(kept), len(self.exprs)).T
        return Evaluated(np.ascontiguousarray(made), np.array(kept, dtype=np.int64), errors)


class _Refused(Exception):
    """Raised if an expression is left to `evaluate`."""


class _Making:
    """Compiles expressions over rows of one width into functions of a row."""

    def __init__(self, width: int, interner: Interner) -> None:
        self.width = width
        self.interner = interner
        self.calls = 0
        self.costs = False
        """Whether something is computed that costs more than a look-up of the whole row."""

    def single(self, expr: Expr) -> Single:
        if isinstance(expr, ColumnRef):
            return operator.itemgetter(expr.index)
        if isinstance(expr, Literal):
            code = NULL if expr.value is None else encode_value(expr.type, expr.value, self.interner)
            return lambda row: code
        self.calls += 1
        if not isinstance(expr, Call) or self.calls > LARGE_CALLS:
            raise _Refused
        return self._call(expr)

    def _call(self, expr: Call) -> Single:
        """In the order of `evaluate`, so that the same errors count."""
        if _compares(expr):
            return self._comparison(expr)
        if expr.op == "timestamp_add":
            return self._strictly(expr, _moved)
        if expr.op == "nullif" and _whole_numbers(expr):
            return self._nullif(expr)
        program = program_of(expr, self.width, self.interner)
        if program is not None:
            return _on_machine(program, lambda row: row)
        if expr.op in _LAZY:
            return _LAZY[expr.op](self, expr)
        if expr.op in BITS:
            bits = BITS[expr.op]
            return self._strictly(expr, lambda codes: _first(*bits(_columns(codes))))
        make = python_functions.maker(expr)
        if make is not None:
            return self._valued(expr, make)
        if expr.op == "tuple_make" or expr.op == "tuple_get":
            raise _Refused
        if expr.op in {"greatest", "least"} and expr.type.kind in INTERNED:
            raise _Refused
        if expr.op in LIBRARY:
            raise _Refused
        function = text_function(expr)
        if function is not None:
            return self._strictly(expr, self._text(expr, function))
        return self._strict(expr)

    def _strict(self, expr: Call) -> Single:
        """A function that the VM supports, of arguments that it does not."""
        args = [self.single(a) for a in expr.args]
        columns = tuple(a if isinstance(a, Literal) else ColumnRef(a.type, i) for i, a in enumerate(expr.args))
        program = program_of(replace(expr, args=columns), len(args), self.interner)
        if program is None:
            raise _Refused
        return _on_machine(program, lambda row: [arg(row) for arg in args])

    def _strictly(self, expr: Call, function: Callable[[tuple[int, ...]], int]) -> Single:
        """NULL of NULL; a result with NULL's code is out of range."""
        args = [(self.single(a), a.type.nullable) for a in expr.args]
        reserved = expr.type.nullable and expr.type.kind not in INTERNED

        def run(row: Row) -> int:
            codes = tuple([arg(row) for arg, _ in args])
            for code, (_, nullable) in zip(codes, args, strict=True):
                if nullable and code == NULL:
                    return NULL
            found = function(codes)
            if reserved and found == NULL:
                raise RowFailure(ERROR_OVERFLOW)
            return found

        return run

    def _valued(self, expr: Call, make: python_functions.Maker) -> Single:
        """A function of Python values, created once."""
        inner = [compared(expr, a) for a in expr.args]
        args = [self.single(a) for a in inner]
        decode = [decoder(a.type.optional(), self.interner) for a in inner]
        function, encode = made_of(expr, make), encoder(expr.type.optional(), self.interner)
        sees_nulls = expr.op in python_functions.SEES_NULLS
        of_digits = single_of(replace(expr, args=tuple(inner)), self.interner)
        self.costs = True

        def compute(codes: tuple[int, ...]) -> int:
            if NULL in codes and not sees_nulls:
                return NULL
            if of_digits is not None:
                return of_digits(codes)
            code, error = one_value(function, [d(c) for d, c in zip(decode, codes, strict=True)], encode)
            if error:
                raise RowFailure(error)
            return code

        # An aggregate that changes retracts the row that it made last time, which is in the cache of rows. This one
        # serves rows that have a value in common.
        cached = _remembered(compute)
        return lambda row: cached(tuple([arg(row) for arg in args]))

    def _comparison(self, expr: Call) -> Single:
        compare = _COMPARISONS[expr.op]
        a, b = (self.single(x) for x in expr.args)
        if any(x.type.nullable for x in expr.args):

            def checked(row: Row) -> int:
                one, other = a(row), b(row)
                return NULL if one == NULL or other == NULL else int(compare(one, other))

            return checked
        return lambda row: int(compare(a(row), b(row)))

    def _nullif(self, expr: Call) -> Single:
        a, b = (self.single(x) for x in expr.args)

        def run(row: Row) -> int:
            code = a(row)
            return NULL if code == b(row) else code

        return run

    # ---- texts

    def _text(self, expr: Call, function: TextFunction) -> Callable[[tuple[int, ...]], int]:
        """A function of texts by the codes of its arguments."""
        plain = _plain(expr)
        if plain is None:
            return _remembered(lambda codes: _first(*function(expr, _columns(codes), self.interner)))
        decode = [decoder(a.type, self.interner) for a in expr.args]
        encode = self._encoder(expr.type)

        def run(codes: tuple[int, ...]) -> int:
            values = [d(code) for d, code in zip(decode, codes, strict=True)]
            answer = plain(*values)
            if answer is NotImplemented:  # not applicable to this text
                return _first(*function(expr, _columns(codes), self.interner))
            return encode(answer)

        return run

    def _encoder(self, target: DataType) -> Callable[[Any], int]:
        """See `everview.expr.string_functions` for which results are codes already."""
        if target.kind == "str":
            return self.interner.text_id
        if target.kind == "bytes":
            return self.interner.bytes_id
        if target.kind == "float":
            return lambda value: int(floats_to_codes(np.array([value], dtype=np.float64))[0])
        return int

    # ---- parts that are evaluated only where needed

    def logic(self, expr: Call) -> Single:
        stop = 0 if expr.op == "and" else 1
        a, b = (self.single(x) for x in expr.args)

        def run(row: Row) -> int:
            one = a(row)
            if one == stop:
                return stop
            other = b(row)
            if other == stop:
                return stop
            return NULL if one == NULL or other == NULL else 1 - stop

        return run

    def case(self, expr: Call) -> Single:
        parts = [self.single(x) for x in expr.args]
        pairs, otherwise = [*zip(parts[:-1:2], parts[1::2], strict=True)], parts[-1]

        def run(row: Row) -> int:
            for condition, value in pairs:
                if condition(row) == 1:
                    return value(row)
            return otherwise(row)

        return run

    def coalesce(self, expr: Call) -> Single:
        parts = []
        for arg in expr.args:
            parts.append(self.single(arg))
            if not arg.type.nullable:
                break

        def run(row: Row) -> int:
            code = NULL
            for part in parts:
                code = part(row)
                if code != NULL:
                    break
            return code

        return run

    def attempt(self, expr: Call) -> Single:
        cast, source = (self.single(x) for x in expr.args)

        def run(row: Row) -> int:
            source(row)  # its failures are not the cast's
            try:
                return cast(row)
            except RowFailure:
                return NULL

        return run


_LAZY: dict[str, Callable[[_Making, Call], Single]] = {
    "and": _Making.logic,
    "or": _Making.logic,
    "case": _Making.case,
    "coalesce": _Making.coalesce,
    "if_null": _Making.coalesce,
    "attempt": _Making.attempt,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_WHOLE = {"int", "bool", "date", "timestamp"}  # kinds whose codes compare like their values


def _compares(expr: Call) -> bool:
    if expr.op not in _COMPARISONS:
        return False
    kinds = {a.type.kind for a in expr.args}
    return _whole_numbers(expr) or (len(kinds) == 1 and expr.op in ("eq", "ne") and kinds <= {"str", "bytes"})


def _whole_numbers(expr: Call) -> bool:
    kinds = {a.type.kind for a in expr.args}
    return len(kinds) == 1 and kinds <= _WHOLE


def _on_machine(program: Program, columns_of: Callable[[Row], Row]) -> Single:
    """Run a program on a single row."""
    fails = program.error >= 0
    wanted = np.array([program.outputs[0], program.error] if fails else [program.outputs[0]], dtype=np.int64)

    def run(row: Row) -> int:
        columns = np.array(columns_of(row), dtype=np.int64).reshape(-1, 1)
        out = np.empty((len(wanted), 1), dtype=np.int64)
        vm.run_on_arrays(program.code, program.registers, columns, wanted, out)
        if fails and out[1, 0]:
            raise RowFailure(int(out[1, 0]))
        return int(out[0, 0])

    return run


def _moved(codes: tuple[int, ...]) -> int:
    """A moment plus microseconds, as the VM computes it."""
    moved = codes[0] + codes[1]
    if not FIRST_MICROSECOND <= moved <= LAST_MICROSECOND:
        raise RowFailure(ERROR_OVERFLOW)
    return moved


def _columns(codes: tuple[int, ...]) -> list[Words]:
    return [np.array([code], dtype=np.int64) for code in codes]


def _first(results: Words, errors: Words) -> int:
    if errors[0]:
        raise RowFailure(int(errors[0]))
    return int(results[0])


def _whole_row(singles: list[Single], keep: Single | None) -> Callable[[tuple[int, ...]], list[int] | None]:
    """The values of a row; None if the predicate does not keep it."""
    if keep is None:
        return lambda row: [single(row) for single in singles]
    return lambda row: [single(row) for single in singles] if keep(row) == 1 else None


def _remembered(function: Callable[[tuple[int, ...]], Result]) -> Callable[[tuple[int, ...]], Result]:
    """Cache results, but not failures, nor None."""
    known: dict[tuple[int, ...], Result] = {}

    def run(codes: tuple[int, ...]) -> Result:
        answer = known.get(codes)
        if answer is None:
            answer = function(codes)
            if len(known) >= KEPT:
                known.clear()
            known[codes] = answer
        return answer

    return run


# ---- what Python does like Arrow -------------------------------------------------------------------------------------


def _plain(expr: Call) -> Callable[..., Any] | None:
    """The function of values that equals what `evaluate` does with whole columns; None if there is none."""
    kinds = {a.type.kind for a in expr.args}
    if expr.op.startswith("cast_"):
        cast, target = CASTS[expr.args[0].type.kind, expr.type.kind], expr.type
        return lambda value: cast(value, target)
    if expr.op == "like":
        return _like(expr.args[1])
    if expr.op == "length":
        return len
    if expr.op == "concat":
        return (lambda *texts: "".join(texts)) if kinds == {"str"} else None
    if expr.op in _COMPARISONS:  # code points sort as their UTF-8 does
        return _COMPARISONS[expr.op] if kinds in ({"str"}, {"bytes"}) else None
    if expr.op in _ASCII or expr.op in VALUES:
        return (_ASCII | VALUES)[expr.op] if expr.args[0].type.kind == "str" else None
    return None


_ASCII: dict[str, Callable[[str], Any]] = {
    "lower": lambda text: text.lower() if text.isascii() else NotImplemented,
    "upper": lambda text: text.upper() if text.isascii() else NotImplemented,
    "reverse": lambda text: text[::-1],
}


def _like(pattern: Expr) -> Callable[[str, str], bool] | None:
    """A pattern of texts separated by %: the first must be a prefix, the last a suffix, and the others are matched
    greedily in between.
    """
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or set(pattern.value) & {"_", "\\"}:
        return None
    if "%" not in pattern.value:
        return operator.eq
    first, *middle, last = pattern.value.split("%")

    def like(text: str, _: str) -> bool:
        if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return like
