"""Which operators a step visits, and which traces it commits: those for which something has come.

A session with a thousand views has thousands of operators, and a change reaches a few of them. Calling the others, only
to hear that nothing has come for them, would take most of a small step. So there is a bit for every instruction of the
program; a step calls those whose bit is set. Bits are set by whatever gives an operator something to do:

    a row in its empty batcher      `wake`, from `everview.kernels.operators.batcher.room`
    a change of a trace it reads    `wake`, from `everview.kernels.trace.trace.add_delta`

Which instructions these are is written down with the program: STEP_WAKES has lists, each a number and as many
instructions; a batcher and a trace know where theirs begins (0: there is none). An instruction's bit is cleared when it
is called. Instructions of loops keep theirs, because a loop that has nothing to do is jumped over as a whole; so do
operators that keep state of their own (`everview.kernels.frontier`). After a new program, or a step that was undone,
all bits are set.

A step lists the traces that it adds to (STEP_TOUCHED, by their place in the executor's list), and commits or undoes
these alone. The others have no batch of the step, no change and no stamp. Hazard: their TRACE_SINCE lags behind, which
only means that times stay distinguishable; `everview.dataflow.operators.Trace.since` tells what it would be.

On shards every instruction is called (STEP_READY is 0) and every trace is committed (`touch_all`).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from everview.kernels.build.native import inner, primitive
from everview.kernels.memory import ld, st
from everview.kernels.run.step import STEP_NTOUCHED, STEP_READY, STEP_READY_WORDS, STEP_TOUCHED, STEP_WAKES

READY_BITS = 64
NO_PLACE = -1
"""The place of a trace that no executor has listed."""


@primitive("int64(int64)")
def lowest(builder: Any, word: Any) -> Any:
    """Which bit of a word is the lowest that is set; the word is not 0."""
    return builder.cttz(word, ir.Constant(ir.IntType(1), 1))


@inner
def wake(step, at):
    """Let the step visit the instructions of the list that begins at word `at`."""
    wakes = ld(step, STEP_WAKES)
    ready = ld(step, STEP_READY)
    for i in range(at + 1, at + 1 + ld(wakes, at)):
        set_ready(ready, ld(wakes, i))


@inner
def set_ready(ready, pc):
    """Set the bit of an instruction."""
    st(ready, pc >> 6, ld(ready, pc >> 6) | (1 << (pc & 63)))


@inner
def clear_ready(ready, pc):
    """Clear the bit of an instruction."""
    st(ready, pc >> 6, ld(ready, pc >> 6) & ~(1 << (pc & 63)))


@inner
def next_ready(ready, pc, length):
    """The first instruction from `pc` on whose bit is set; `length` if there is none before."""
    if pc >= length:
        return length
    w = pc >> 6
    word = ld(ready, w) & (-1 << (pc & 63))
    while word == 0:
        w += 1
        if w << 6 >= length:
            return length
        word = ld(ready, w)
    return min((w << 6) + lowest(word), length)


@inner
def wake_all(step):
    """Let the next step visit everything."""
    ready = ld(step, STEP_READY)
    if ready != 0:
        for w in range(ld(step, STEP_READY_WORDS)):
            st(ready, w, -1)


@inner
def list_touched(step, place):
    """Note that the step adds to the trace of this place, which it has not done before."""
    n = ld(step, STEP_NTOUCHED)
    st(ld(step, STEP_TOUCHED), n, place)
    st(step, STEP_NTOUCHED, n + 1)
