"""Multiplicities within 62 bits: checked products and sums.

Every stored diff has a magnitude of at most 2**62, so adding two of them never wraps around 64 bits, and an overflowing
sum shows in its two highest bits: they differ. Products are checked only if a factor is large, a well-predicted branch.
An overflow exits the call (see `early_exit`); the step is undone.

Merging committed batches must not fail, because their step is over: there, two updates whose sum does not fit stay two
(`fits`), and the error is found when they are read.
"""

from __future__ import annotations

from everview.kernels.build.native import inner, shared
from everview.kernels.early_exit import leave
from everview.kernels.guarded_calls import TOO_LARGE

SMALL_FACTOR = 2**29
"""Factors below: times an accumulator's part of a value, which has 32 bits, they stay within 62."""


@inner
def beyond(total):
    """Negative if a sum of two diffs is not one. Loops collect these with `|` and look once, behind their end."""
    return total ^ (total << 1)


@inner
def fits(total):
    """Whether a sum of two diffs is one, too."""
    return (total ^ (total << 1)) >= 0


@shared
def too_large():
    """A multiplicity does not fit: leave."""
    leave(TOO_LARGE)
    return 0


@inner
def plus(a, b):
    """The sum of two diffs."""
    total = a + b
    if (total ^ (total << 1)) < 0:
        too_large()
    return total


@inner
def must_fit(collected):
    """Leave if what was collected from `beyond` says so."""
    if collected < 0:
        too_large()


@shared
def checked_product(a, b):
    """The product of two words, neither of which is the lowest there is."""
    if a == 0 or b == 0:
        return 0
    x = a if a > 0 else -a
    y = b if b > 0 else -b
    if x > 2**62 // y:
        too_large()
    product = a * b
    if (product ^ (product << 1)) < 0:
        too_large()
    return product


@inner
def size(diff):
    """0 in all bits from 30 on if a diff is small. Loops collect these, too."""
    return diff + SMALL_FACTOR


@inner
def all_small(collected):
    """Whether all diffs were small whose sizes were collected."""
    return (collected >> 30) == 0


@inner
def times(a, b):
    """The product of two diffs."""
    if not all_small(size(a) | size(b)):
        return checked_product(a, b)
    return a * b
