"""Times inside compiled code: one 63-bit word each.

Outside every loop a time is the epoch itself, and times are totally ordered. Inside a loop nest the word holds one
field per enclosing loop and the epoch in the lowest bits,

    [c1][c2]...[ck][epoch within this step]

so the partial order is the product order of the fields, and comparing whole words as integers is a linear extension of
it: the order in which the executor visits loop times. `fields` is a block of one mask per field; there is exactly one
field outside loops. The join of two times is the field-wise maximum. A prioritised loop's coordinate is (priority,
round) packed into one field, hence compared lexicographically, as in mcsherry-2013 section 3.3.

Inside a nest epoch 0 means "before this step"; a step's own epochs are 1, 2, ... and fall back to 0 when the step
commits.
"""

from __future__ import annotations

from everview.kernels.build.native import inner
from everview.kernels.memory import ld


@inner
def lub(a, b, fields, count):
    """Least upper bound of two times."""
    if count == 1:
        return max(a, b)
    result = 0
    for f in range(count):
        mask = ld(fields, f)
        result |= max(a & mask, b & mask)
    return result


@inner
def leq(a, b, fields, count):
    """Whether time `a` is at or before `b` in the partial order."""
    if count == 1:
        return a <= b
    for f in range(count):
        mask = ld(fields, f)
        if (a & mask) > (b & mask):
            return False
    return True
