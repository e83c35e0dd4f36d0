"""The program of a dataflow: the executor's list of instructions.

An instruction is four words. Operators are called in order, those for which something has come (`wakes`); a loop is the
part between its LOOP and its END, which jumps back. With shards there are *barriers*, where all of them wait for each
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from everview.dataflow.operators import Operator
from everview.dataflow.scopes import Scope
from everview.kernels.run import executor as x


class Barrier(NamedTuple):
    """A position in the program where shards wait for each other: before a loop's next pass, at the end, or before an
    operator that other shards may have rows for.
    """

    scope: Scope | None
    last: bool


Item = Operator | Scope | Barrier


class Program(NamedTuple):
    """The owner of each instruction (an operator or a loop, and which), its words, and the operators in order."""

    at: list[tuple[Item, int]]
    words: list[int]
    operators: list[Operator]
    outside: dict[Operator, tuple[int, ...]]
    """The instructions of operators outside loops, each of which is only called if something has come for it."""


def written(root: Scope, tail: Iterable[Operator], waiting: set[Operator], *, sharded: bool) -> Program:
    """The program of all operators; `waiting` are those that may have rows in an outbox at its start."""
    words: list[int] = []
    at: list[tuple[Item, int]] = []

    def write(item: Item, which: int, *instruction: int) -> int:
        at.append((item, which))
        words.extend(instruction)
        return len(at) - 1

    def stop(scope: Scope | None = None, *, last: bool = False) -> int:
        return write(Barrier(scope, last), 0, x.INSTRUCTION_STOP, 0, 0, 0)

    operators: list[Operator] = []
    outside: dict[Operator, tuple[int, ...]] = {}
    call = x.INSTRUCTION_CALL

    def visit(items: Iterable[Operator | Scope], unsent: set[Operator], stays: int = 0) -> None:
        """`unsent`: operators that may have rows in an outbox here; `stays`: whether they are called in any case.

        Runs over all operators whenever a view is created, so it must be cheap per operator.
        """
        for item in items:
            if isinstance(item, Scope):
                start = stop(item) if sharded else len(at)
                loop = write(item, 0, x.INSTRUCTION_LOOP, 0, item.address, 0)
                visit(item.items, set(), x.STAYS_READY)
                write(item, 1, x.INSTRUCTION_END, 0, item.address, start)
                words[4 * loop + 3] = len(at)
                unsent.clear()
                continue
            operators.append(item)
            if unsent and item in unsent:
                stop()
                unsent.clear()
            first = len(at)
            always = stays or (x.STAYS_READY if item.forest else 0)
            for which, (address, context) in enumerate(item.instructions()):
                at.append((item, which))
                words.extend((call, address, context, always))
            if not always:
                outside[item] = tuple(range(first, len(at)))
            if sharded and item.stream is not None:
                unsent.update(s.target for s in item.stream.sinks if s.target.outbox)

    visit(root.items, waiting)
    visit(tail, set())
    if sharded:
        stop(last=True)
    return Program(at, words, operators, outside)


class Wakes(NamedTuple):
    """Which instructions are called for what (`everview.kernels.run.ready`): lists, and (address, place of its list) of
    each batcher and trace.
    """

    lists: list[int]
    batchers: list[int]
    traces: list[int]


def wakes(program: Program, *, sharded: bool) -> Wakes:
    """Rows wake the operator in whose batcher they arrive, changes of a trace the operators that read it in place."""
    readers: dict[Operator, list[int]] = {}
    for operator, instructions in () if sharded else program.outside.items():
        for read in operator.reads():
            readers.setdefault(read, []).extend(instructions)
    lists = [0]  # no list begins at 0

    def listed(instructions: Sequence[int]) -> int:
        if not instructions:
            return 0
        lists.extend((len(instructions), *instructions))
        return len(lists) - len(instructions) - 1

    batchers: list[int] = []
    traces: list[int] = []
    for operator in program.operators:
        if operator.batcher and not sharded:
            batchers += operator.batcher, listed(program.outside.get(operator, ()))
        if operator.trace is not None:
            operator.read_in_place(operator in readers)
            traces += operator.trace.block, listed(readers.get(operator, ()))
    return Wakes(lists, batchers, traces)
