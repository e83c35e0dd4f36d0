"""Bitwise functions of ints, over columns of codes (an int is its own code)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from everview.kernels.expressions.scalars import ERROR_DOMAIN

Words = npt.NDArray[np.int64]
Bits = Callable[[list[Words]], tuple[Words, Words]]
"""From columns of the arguments to a column of results and one of errors."""


def _plain(function: Callable[..., Words]) -> Bits:
    return lambda args: (function(*args), np.zeros(len(args[0]), dtype=np.int64))


def _shift(function: Callable[[Words, Words], Words]) -> Bits:
    def run(args: list[Words]) -> tuple[Words, Words]:
        value, places = args
        good = (places >= 0) & (places < 64)
        return function(value, np.where(good, places, 0)), np.where(good, 0, ERROR_DOMAIN).astype(np.int64)

    return run


def _shift_unsigned(value: Words, places: Words) -> Words:
    moved: Words = (value.view(np.uint64) >> places.astype(np.uint64)).view(np.int64)
    return moved


BITS: dict[str, Bits] = {
    "band": _plain(np.bitwise_and),
    "bor": _plain(np.bitwise_or),
    "bxor": _plain(np.bitwise_xor),
    "bnot": _plain(np.bitwise_not),
    "bshl": _shift(np.left_shift),
    "bshr": _shift(np.right_shift),
    "bshru": _shift(_shift_unsigned),
}
"""The bitwise functions."""
