"""Evaluates expressions in Python over whole columns of codes: everything that the VM cannot do.

`evaluate` splits an expression by what can be compiled. A sub-expression that the VM supports runs there as a whole. Of
the rest,

- a function of texts is computed on the *distinct* codes of its column, then expanded again
(`everview.expr.string_functions`);
- a user function gets Python values row by row, or Arrow arrays if it is vectorised;
- an ordinary function of such values gets them as columns of a one-instruction program;
- `case`, `and`, `or`, `coalesce` evaluate their parts only for the rows that need them, so in a branch not taken a
  user function is never called and an error never counts.

A failed row gets an error code and an undefined value; Python functions never see rows that have failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import InvalidOperation
from functools import partial
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everview.cancellation import poll
from everview.codes import Interner, encode_value
from everview.codes.arrays import decode_arrow, decode_list, encode_column, floats_to_codes
from everview.codes.interner import item_tag
from everview.codes.multiplicity import available
from everview.codes.scalars import article
from everview.codes.values import decoder, encoder
from everview.errors import InputError, MemoryLimitError, StoreError, UdfError
from everview.expr import numeric_columns, python_functions
from everview.expr.bits import BITS
from everview.expr.library import LIBRARY
from everview.expr.library.signatures import Routine
from everview.expr.lower import lower
from everview.expr.nesting import room_for
from everview.expr.nodes import Call, ColumnRef, Expr, Literal, Udf
from everview.expr.program_builder import Program
from everview.expr.string_functions import ARRAYS, CASTS, ERROR_MORE_ROWS, VALUES, RowFailure
from everview.kernels.expressions import vm
from everview.kernels.expressions.scalars import (
    ERROR_CAST,
    ERROR_DIVISION,
    ERROR_DOMAIN,
    ERROR_NODES,
    ERROR_OVERFLOW,
)
from everview.types import INTERNED, NULL, DataType

Words = npt.NDArray[np.int64]

ERRORS: dict[int, str] = {
    ERROR_DIVISION: "division by zero",
    ERROR_OVERFLOW: "the result is out of range",
    ERROR_DOMAIN: "the function has no value there",
    ERROR_CAST: "the value cannot be cast",
    ERROR_MORE_ROWS: "a subquery in the place of a value has more than one row",
    ERROR_NODES: "the provenance expression has more nodes than its budget",
}
"""The meanings of the error codes of rows."""


class Evaluated(NamedTuple):
    """Codes of the outputs, one row each, for the rows that were kept; the numbers of these; the errors of all rows."""

    codes: Words
    kept: Words
    errors: Words


def evaluate(exprs: tuple[Expr, ...], predicate: Expr | None, columns: Words, interner: Interner) -> Evaluated:
    """Evaluate `exprs` for the rows that `predicate` keeps; a row that fails is not kept and has an error code.

    >>> from everview.types import STR
    >>> interner = Interner()
    >>> names = np.array([[interner.id("Ada"), interner.id("Grace")]])
    >>> result = evaluate((Call(STR, "upper", (ColumnRef(STR, 0),)),), None, names, interner)
    >>> [interner.value(code) for code in result.codes[0].tolist()]
    ['ADA', 'GRACE']
    """
    run = _Evaluation(columns, interner)
    rows = np.arange(columns.shape[1])
    with room_for(exprs if predicate is None else (*exprs, predicate)):
        if predicate is not None:
            keep = run.value(predicate, rows)
            rows = rows[(keep == 1) & (run.errors == 0)]
        results = [run.value(e, rows) for e in exprs]
    good = run.errors[rows] == 0
    codes = np.empty((len(exprs), int(good.sum())), dtype=np.int64)
    for k, result in enumerate(results):
        codes[k] = result[good]
    return Evaluated(codes, rows[good], run.errors)


_programs: WeakKeyDictionary[Interner, dict[tuple[Expr, int], Program | None]] = WeakKeyDictionary()


def program_of(expr: Expr, ncols: int, interner: Interner) -> Program | None:
    """The program of one expression, compiled once. It is cached in the expression: a shared cache would have to
    compare equal expressions.
    """
    last: tuple[ref[Interner], int, Program | None] | None = expr.__dict__.get(_LAST)
    if last is not None and last[0]() is interner and last[1] == ncols:
        return last[2]
    known = _programs.setdefault(interner, {})
    key = (expr, ncols)
    if key not in known:
        known[key] = lower((expr,), None, ncols, lambda declared, value: encode_value(declared, value, interner))
    found = known[key]
    expr.__dict__[_LAST] = (ref(interner), ncols, found)
    return found


_LAST = "_last_program"


_PLAIN = "_of_columns"


class _Evaluation:
    """One batch of rows: its columns, the errors so far, and the values already computed."""

    def __init__(self, columns: Words, interner: Interner) -> None:
        self.columns = np.ascontiguousarray(columns)
        self.interner = interner
        self.errors = np.zeros(columns.shape[1], dtype=np.int64)
        self._known: dict[tuple[Expr, int], tuple[Words, Words]] = {}
        self._of_all: dict[Expr, Words] = {}
        """values computed for all rows: in `f(x) = 1 OR f(x) = 2` the second f(x) is reused"""

    def value(self, expr: Expr, rows: Words) -> Words:
        """The codes of the expression for some rows (given by number)."""
        known = self._known.get((expr, id(rows)))
        if known is None:
            known = self._known[expr, id(rows)] = (rows, self._found(expr, rows))
        return known[1]

    def _found(self, expr: Expr, rows: Words) -> Words:
        if not isinstance(expr, Call | Udf):
            return self._compute(expr, rows)
        of_all = self._of_all.get(expr)
        if of_all is not None:
            some: Words = of_all[rows]
            return some
        found = self._compute(expr, rows)
        if rows.size == self.errors.size:
            self._of_all[expr] = found
        return found

    def _compute(self, expr: Expr, rows: Words) -> Words:
        if isinstance(expr, ColumnRef):
            column: Words = self.columns[expr.index, rows]
            return column
        if isinstance(expr, Literal):
            code = NULL if expr.value is None else encode_value(expr.type, expr.value, self.interner)
            return np.full(rows.size, code, dtype=np.int64)
        if isinstance(expr, Udf):
            return self._udf(expr, rows)
        assert isinstance(expr, Call)
        program = program_of(expr, len(self.columns), self.interner)
        if program is not None:
            return self._evaluate(program, self.columns[:, rows], rows)
        if expr.op in _LAZY:
            return _LAZY[expr.op](self, expr, rows)
        if expr.op in BITS:
            return self._strictly(expr, rows, BITS[expr.op])
        make = python_functions.maker(expr)
        if make is not None:
            return self._valued(expr, make, rows)
        if expr.op in _TUPLES:
            return _TUPLES[expr.op](self, expr, rows)
        if expr.op in {"greatest", "least"} and expr.type.kind in INTERNED:
            return self._extreme(expr, rows)
        if expr.op in LIBRARY:
            return self._routine(expr, LIBRARY[expr.op], rows)
        if text_function(expr) is not None:
            return self._text(expr, rows)
        return self._strict(expr, rows)

    def fail(self, rows: Words, codes: Words | int) -> None:
        """Mark rows as failed (earlier errors are kept)."""
        self.errors[rows] = np.where(self.errors[rows] == 0, codes, self.errors[rows])

    # ---- on the VM

    def _evaluate(self, program: Program, columns: Words, rows: Words) -> Words:
        fails = program.error >= 0
        wanted = np.array([program.outputs[0], program.error] if fails else [program.outputs[0]], dtype=np.int64)
        out: Words = np.empty((wanted.size, rows.size), dtype=np.int64)
        vm.run_on_arrays(program.code, program.registers, np.ascontiguousarray(columns), wanted, out)
        if fails:
            self.fail(rows, out[1])
        result: Words = out[0]
        return result

    def _strict(self, expr: Call, rows: Words) -> Words:
        """A function that the VM supports, of arguments that it does not: they become its columns."""
        columns = np.array([self.value(a, rows) for a in expr.args], dtype=np.int64).reshape(len(expr.args), rows.size)
        plain: Call | None = expr.__dict__.get(_PLAIN)
        if plain is None:  # cached per expression: a new one has to be compared with others
            args = tuple(a if isinstance(a, Literal) else ColumnRef(a.type, i) for i, a in enumerate(expr.args))
            plain = expr.__dict__[_PLAIN] = replace(expr, args=args)
        program = program_of(plain, len(expr.args), self.interner)
        if program is None:
            raise NotImplementedError(f"the function {expr.op} of {[a.type for a in expr.args]}")
        return self._evaluate(program, columns, rows)

    # ---- value by value

    def _valued(self, expr: Call, make: python_functions.Maker, rows: Words) -> Words:
        """A function of Python values, called once per distinct combination of arguments."""
        batch = numeric_columns.batch_of(expr) if rows.size >= numeric_columns.MIN_COLUMN_ROWS else None
        inner = [compared(expr, a) for a in expr.args] if batch is None else list(batch.args)
        args = [self.value(a, rows) for a in inner]
        good = self.errors[rows] == 0
        if expr.op not in python_functions.SEES_NULLS:
            for codes in args:
                good &= codes != NULL
        result = np.full(rows.size, NULL, dtype=np.int64)
        if good.any():
            given = [codes[good] for codes in args]
            if batch is None:
                result[good], errors = _by_values(expr, make, inner, given, self.interner)
            else:
                result[good], errors = batch.run(given, self.interner)
            self.fail(rows[good], errors)
        return result

    # ---- texts

    def _text(self, expr: Call, rows: Words) -> Words:
        function = text_function(expr)
        assert function is not None
        return self._strictly(expr, rows, lambda codes: self._spread(expr, codes, function))

    def _strictly(self, expr: Call, rows: Words, function: Callable[[list[Words]], tuple[Words, Words]]) -> Words:
        """Apply a function of codes to the rows that have not failed and hold no NULL; it returns codes and errors."""
        args = [self.value(a, rows) for a in expr.args]
        good = self.errors[rows] == 0
        result = np.full(rows.size, NULL, dtype=np.int64)
        for arg, codes in zip(expr.args, args, strict=True):
            if arg.type.nullable:
                good &= codes != NULL
        if good.any():
            result[good], errors = function([codes[good] for codes in args])
            if expr.type.nullable and expr.type.kind not in INTERNED:
                errors = np.where((result[good] == NULL) & (errors == 0), ERROR_OVERFLOW, errors)
            self.fail(rows[good], errors)
        return result

    def _spread(
        self, expr: Call, codes: list[Words], function: Callable[[Call, list[Words], Interner], tuple[Words, Words]]
    ) -> tuple[Words, Words]:
        """Compute on distinct values if only one argument varies."""
        varying = [i for i, a in enumerate(expr.args) if not isinstance(a, Literal)]
        if len(varying) > 1:
            return function(expr, codes, self.interner)
        place = varying[0] if varying else 0
        distinct, back = np.unique(codes[place], return_inverse=True)
        few = [distinct if i == place else c[: distinct.size] for i, c in enumerate(codes)]
        result, errors = function(expr, few, self.interner)
        return result[back], errors[back]

    def _routine(self, expr: Call, routine: Routine, rows: Words) -> Words:
        """A library function, for the rows that have not failed and, unless it accepts NULL, hold none."""
        args = [self.value(a, rows) for a in expr.args]
        good = self.errors[rows] == 0
        for arg, codes in zip(expr.args, args, strict=True):
            if arg.type.nullable and not routine.nulls:
                good &= codes != NULL
        result = np.full(rows.size, NULL, dtype=np.int64)
        if good.any():
            function = partial(_by_routine, routine)
            few = [codes[good] for codes in args] or [np.zeros(int(good.sum()), dtype=np.int64)]
            result[good], errors = self._spread(expr, few, function)
            self.fail(rows[good], errors)
        return result

    def _extreme(self, expr: Call, rows: Words) -> Words:
        args = [self.value(a, rows) for a in expr.args]
        good = self.errors[rows] == 0
        result = np.full(rows.size, NULL, dtype=np.int64)
        arrays = [decode_arrow(c[good], a.type.optional(), self.interner) for a, c in zip(expr.args, args, strict=True)]
        kernel = pc.max_element_wise if expr.op == "greatest" else pc.min_element_wise
        result[good] = self.interner.encode(kernel(*arrays), expr.type)
        return result

    # ---- parts that are evaluated only where needed

    def _where(self, expr: Expr, rows: Words, need: npt.NDArray[np.bool_], default: int) -> Words:
        """The expression for the rows that need it, `default` for the others."""
        if need.all():
            return self.value(expr, rows)
        result = np.full(rows.size, default, dtype=np.int64)
        if need.any():
            result[need] = self.value(expr, rows[need])
        return result

    def logic(self, expr: Call, rows: Words) -> Words:
        stop = 0 if expr.op == "and" else 1
        a = self.value(expr.args[0], rows)
        b = self._where(expr.args[1], rows, a != stop, stop)
        undecided = np.where((a == NULL) | (b == NULL), NULL, 1 - stop)
        return np.where((a == stop) | (b == stop), stop, undecided)

    def case(self, expr: Call, rows: Words) -> Words:
        result = np.zeros(rows.size, dtype=np.int64)
        left = np.ones(rows.size, dtype=np.bool_)
        for condition, value in zip(expr.args[:-1:2], expr.args[1::2], strict=True):
            taken = left & (self._where(condition, rows, left, 0) == 1)
            result = np.where(taken, self._where(value, rows, taken, 0), result)
            left = left & ~taken
        return np.where(left, self._where(expr.args[-1], rows, left, 0), result)

    def coalesce(self, expr: Call, rows: Words) -> Words:
        result = self.value(expr.args[0], rows)
        for before, arg in zip(expr.args, expr.args[1:], strict=False):
            if not before.type.nullable:
                break
            result = np.where(result == NULL, self._where(arg, rows, result == NULL, NULL), result)
        return result

    def attempt(self, expr: Call, rows: Words) -> Words:
        """NULL for rows whose cast fails. It is computed separately: elsewhere its failures would count."""
        cast, source = expr.args
        self.value(source, rows)
        apart = _Evaluation(self.columns, self.interner)
        apart.errors = self.errors.copy()
        codes = apart.value(cast, rows)
        return np.where(apart.errors[rows] == self.errors[rows], codes, NULL)

    # ---- tuples

    def tuple_make(self, expr: Call, rows: Words) -> Words:
        codes = np.array([self.value(a, rows) for a in expr.args], dtype=np.int64)
        good = self.errors[rows] == 0
        result = np.zeros(rows.size, dtype=np.int64)
        types = [a.type for a in expr.args]
        tags, nullable = [item_tag(t) for t in types], [t.nullable for t in types]
        none = np.zeros(int(good.sum()), dtype=np.bool_)
        result[good] = self.interner.encode_tuples(tags, nullable, codes[:, good], none)
        return result

    def tuple_get(self, expr: Call, rows: Words) -> Words:
        source, index = expr.args[0], expr.args[1].value  # type: ignore[attr-defined]
        codes = self.value(source, rows)
        good = self.errors[rows] == 0
        result = np.zeros(rows.size, dtype=np.int64)
        result[good] = self.interner.decode_tuples(codes[good], len(source.type.items))[0][index]
        return result

    # ---- users' functions

    def _udf(self, expr: Udf, rows: Words) -> Words:
        args = [self.value(a, rows) for a in expr.args]
        good = self.errors[rows] == 0
        result = np.zeros(rows.size, dtype=np.int64)
        if not good.any():
            return result
        call = _call_vectorized if expr.vectorized else _call_rows
        result[good] = call(expr, [c[good] for c in args], int(good.sum()), self.interner)
        return result


_LAZY: dict[str, Callable[[_Evaluation, Call, Words], Words]] = {
    "and": _Evaluation.logic,
    "or": _Evaluation.logic,
    "case": _Evaluation.case,
    "coalesce": _Evaluation.coalesce,
    "if_null": _Evaluation.coalesce,
    "attempt": _Evaluation.attempt,
}
_TUPLES: dict[str, Callable[[_Evaluation, Call, Words], Words]] = {
    "tuple_make": _Evaluation.tuple_make,
    "tuple_get": _Evaluation.tuple_get,
}


# ---- functions of values ---------------------------------------------------------------------------------------------


def compared(expr: Call, arg: Expr) -> Expr:
    """The operands to decode for a comparison. A number cast only for comparison with another kind has the same value
    without the cast, which saves packing it as a numeric.
    """
    plain = expr.op in _COMPARISONS and isinstance(arg, Call) and arg.op == "cast_numeric"
    return arg.args[0] if plain and arg.args[0].type.kind in ("int", "decimal") else arg  # type: ignore[attr-defined]


_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def _by_values(
    expr: Call, make: python_functions.Maker, args: Sequence[Expr], codes: list[Words], interner: Interner
) -> tuple[Words, Words]:
    """Codes and errors of a function, computed once per distinct combination of arguments."""
    count = len(codes[0]) if codes else 1
    out, errors = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    function = made_of(expr, make)
    decoders = [decoder(a.type.optional(), interner) for a in args]
    encode = encoder(expr.type.optional(), interner)
    known: dict[tuple[int, ...], tuple[int, int]] = {}
    for row, given in enumerate(zip(*(c.tolist() for c in codes), strict=True) if codes else [()]):
        if given not in known:
            known[given] = one_value(function, [d(c) for d, c in zip(decoders, given, strict=True)], encode)
        out[row], errors[row] = known[given]
    return out, errors


def made_of(expr: Call, make: python_functions.Maker) -> Callable[..., Any]:
    """The function of a call; if there is none for these types, one that fails every row."""
    try:
        return make(expr)
    except RowFailure as failure:
        return partial(_fail, failure.code)


def _fail(code: int, *values: Any) -> Any:
    raise RowFailure(code)


def one_value(function: Callable[..., Any], values: list[Any], encode: Callable[[Any], int]) -> tuple[int, int]:
    """The code of a function's value, and an error."""
    try:
        return encode(function(*values)), 0
    except RowFailure as failure:
        return 0, failure.code
    except (OverflowError, InvalidOperation):
        return 0, ERROR_OVERFLOW
    except InputError as error:
        return 0, ERROR_OVERFLOW if error.code == "E_RANGE" else ERROR_CAST
    except ValueError:
        return 0, ERROR_CAST


# ---- functions of texts ----------------------------------------------------------------------------------------------

TextFunction = Callable[[Call, list[Words], Interner], tuple[Words, Words]]


def text_function(expr: Call) -> TextFunction | None:
    """How a function of texts is computed: by Arrow, by value, or not here (None)."""
    if expr.op.startswith("cast_"):
        return _cast_values if (expr.args[0].type.kind, expr.type.kind) in CASTS else None
    if expr.op in _ARRAYS_ONLY and expr.args[0].type.kind in INTERNED:
        return _by_arrays
    constants = all(isinstance(a, Literal) for a in expr.args[1:])
    if expr.op in ARRAYS and (constants or expr.op not in VALUES):
        return _by_array
    if expr.op in VALUES and expr.args[0].type.kind in INTERNED:
        return _by_value
    return None


def _by_array(expr: Call, codes: list[Words], interner: Interner) -> tuple[Words, Words]:
    array = decode_arrow(codes[0], expr.args[0].type, interner)
    constants = [a.value for a in expr.args[1:]]  # type: ignore[attr-defined]
    try:
        return _codes(ARRAYS[expr.op](array, *constants), expr.type, interner), np.zeros(len(array), dtype=np.int64)
    except RowFailure as failure:  # a constant argument makes all rows fail
        return np.zeros(len(array), dtype=np.int64), np.full(len(array), failure.code, dtype=np.int64)


_ARRAYS_ONLY: dict[str, Callable[..., pa.Array]] = {
    "concat": lambda *arrays: pc.binary_join_element_wise(*arrays, ""),
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}


def _by_arrays(expr: Call, codes: list[Words], interner: Interner) -> tuple[Words, Words]:
    arrays = [decode_arrow(c, a.type, interner) for a, c in zip(expr.args, codes, strict=True)]
    result = _ARRAYS_ONLY[expr.op](*arrays)
    return _codes(result, expr.type, interner), np.zeros(len(result), dtype=np.int64)


def _by_value(expr: Call, codes: list[Words], interner: Interner) -> tuple[Words, Words]:
    lists = [decode_list(c, a.type, interner) for a, c in zip(expr.args, codes, strict=True)]
    return _map_values(VALUES[expr.op], expr.type, lists, interner)


LETTERS_PER_LOOK = 1 << 28
"""Letters of results between two looks at the memory that is left."""


class Letters:
    """The size of the texts that a function returns. It may be asked to stop between any two of them; and texts that
    would not fit into memory beside their copy in the dictionary are an error of the call, not the end of the process.
    """

    def __init__(self) -> None:
        self._sum = 0
        self._look = LETTERS_PER_LOOK

    def noted(self, value: Any) -> Any:
        """Take note of a result."""
        poll()
        if type(value) is str or type(value) is bytes:
            self._sum += len(value)
            if self._sum > self._look:
                self._check()
        return value

    def _check(self) -> None:
        if self._sum > available():
            what = f"the texts that a function returns take more than {self._sum / 1e9:,.1f} GB"
            raise MemoryLimitError("E_MEMORY", what, "compute fewer rows at a time, or shorter texts")
        self._look = self._sum + LETTERS_PER_LOOK


def _by_routine(routine: Routine, expr: Call, codes: list[Words], interner: Interner) -> tuple[Words, Words]:
    types = [a.type.optional(routine.nulls) for a in expr.args]
    lists = [decode_list(c, t, interner) for t, c in zip(types, codes, strict=False)]
    given = zip(*lists, strict=True) if lists else iter([()] * codes[0].size)
    results: list[Any] = []
    errors = np.zeros(codes[0].size, dtype=np.int64)
    letters = Letters()
    for i, values in enumerate(given):
        try:
            results.append(letters.noted(routine.function(*values)))
        except RowFailure as failure:
            errors[i] = failure.code
            results.append(None)
        except (ValueError, ArithmeticError):
            errors[i] = ERROR_DOMAIN
            results.append(None)
    try:
        return encode_column(results, expr.type.optional(), interner), errors
    except InputError:  # too large for its type: find out which
        return _encoded_singly(results, errors, expr.type, interner)


def _encoded_singly(results: list[Any], errors: Words, target: DataType, interner: Interner) -> tuple[Words, Words]:
    codes = np.full(len(results), NULL, dtype=np.int64)
    for i, value in enumerate(results):
        try:
            codes[i] = encode_column([value], target.optional(), interner)[0]
        except InputError:
            errors[i] = errors[i] or ERROR_OVERFLOW
    return codes, errors


def _cast_values(expr: Call, codes: list[Words], interner: Interner) -> tuple[Words, Words]:
    source = expr.args[0].type
    cast = CASTS[source.kind, expr.type.kind]
    values = decode_list(codes[0], source, interner)
    return _map_values(lambda value: cast(value, expr.type), expr.type, [values], interner)


_FILLER: dict[str, Any] = {"str": "", "bytes": b"", "float": 0.0, "bool": False}


def _map_values(
    function: Callable[..., Any], target: DataType, lists: list[list[Any]], interner: Interner
) -> tuple[Words, Words]:
    """Apply a function of single values to lists of them."""
    results: list[Any] = []
    errors = np.zeros(len(lists[0]), dtype=np.int64)
    letters = Letters()
    for i, values in enumerate(zip(*lists, strict=True)):
        try:
            results.append(letters.noted(function(*values)))
        except RowFailure as failure:
            errors[i] = failure.code
            results.append(_FILLER.get(target.kind, 0))
    return _codes(results, target, interner), errors


def _codes(values: pa.Array | list[Any], target: DataType, interner: Interner) -> Words:
    """Codes of results of text functions (see `everview.expr.string_functions` for which results are codes already)."""
    if target.kind in {"str", "bytes"}:
        return interner.encode(values, target.kind)
    if isinstance(values, list):
        return (
            floats_to_codes(np.array(values, dtype=np.float64))
            if target.kind == "float"
            else np.array(values, np.int64)
        )
    numbers: Words = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


# ---- users' functions ------------------------------------------------------------------------------------------------


def _call_rows(expr: Udf, codes: list[Words], count: int, interner: Interner) -> Words:
    lists = [decode_list(c, a.type, interner) for a, c in zip(expr.args, codes, strict=True)]
    rows: list[tuple[Any, ...]] = list(zip(*lists, strict=True)) if lists else [()] * count
    results = []
    for row in rows:
        poll()
        try:
            results.append(expr.function(*row))
        except StoreError:  # it was not called: the function was not supplied
            raise
        except Exception as error:
            _raise(expr, row, f"raised {type(error).__name__}: {error}", error)
    try:
        return encode_column(results, expr.type, interner)
    except InputError as error:
        place = getattr(error, "row", 0)
        _raise(
            expr,
            rows[place],
            f"gave {results[place]!r}, which is not {article(repr(expr.type))}: {error.message}",
            error,
        )


def _call_vectorized(expr: Udf, codes: list[Words], count: int, interner: Interner) -> Words:
    arrays = [decode_arrow(c, a.type, interner) for a, c in zip(expr.args, codes, strict=True)]

    def row(i: int) -> tuple[Any, ...]:
        return tuple(a[i].as_py() for a in arrays)

    try:
        results = expr.function(*arrays)
    except StoreError:
        raise
    except Exception as error:
        _raise(expr, row(0), f"raised {type(error).__name__}: {error} (first of {count} rows shown)", error)
    try:
        if len(results) != count:
            _raise(expr, row(0), f"gave {len(results)} values for {count} rows", None)
        return encode_column(results, expr.type, interner)
    except InputError as error:
        _raise(expr, row(getattr(error, "row", 0)), f"gave values that are no {expr.type!r}: {error.message}", error)
    except TypeError as error:
        _raise(expr, row(0), f"gave a {type(results).__name__}, not an Arrow array", error)


def _raise(expr: Udf, row: tuple[Any, ...], problem: str, cause: Exception | None) -> NoReturn:
    name = getattr(expr.function, "__name__", repr(expr.function))
    shown = ", ".join(map(repr, row))
    raise UdfError(
        "E_UDF", f"{name}({shown}) {problem}", "correct the function, or leave such rows out with a filter before it"
    ) from cause
