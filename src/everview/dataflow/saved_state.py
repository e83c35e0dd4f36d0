"""The state of a dataflow as images, and back.

Between steps all state is in traces (`everview.kernels.trace.trace`). A dataflow is saved by writing the batches of
every trace, and restored by building the same operators and putting the batches back: nothing is computed. Operators
are matched by `fingerprints` (`everview.dataflow.identity`), never by order of creation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np

from everview.dataflow.dataflow import Dataflow
from everview.dataflow.identity import identity
from everview.dataflow.operators import Arrange, Operator, Trace
from everview.kernels import structures
from everview.kernels.trace import image as image_k
from everview.kernels.trace import trace as trace_k
from everview.store import garbage
from everview.store.batches import Image
from everview.store.garbage import Tally


def live(dataflow: Dataflow) -> list[Operator]:
    """The existing operators in order of creation: their positions here are their numbers in files."""
    return [o for o in dataflow.numbered if o is not None]


def state_of(operator: Operator) -> Trace | None:
    """The trace that holds an operator's state, if it has any."""
    return None if operator.trace is None or operator.trace.stateless else operator.trace


def images(trace: Trace) -> Iterator[Image]:
    """The batches of a trace."""
    return images_at(trace.address)


def images_at(trace: int) -> Iterator[Image]:
    """The batches of the trace at an address."""
    number = 0
    while words := image_k.stored_words(trace, number):
        out = np.empty(words, dtype=np.int64)
        image_k.write_stored(trace, number, out)
        yield image_of(out)
        number += 1


def header(image: Image) -> np.ndarray:
    """The first words of an image, as the kernels take them."""
    constant_time, constant_diff = image.time is not None, image.diff is not None
    words = [image.rows, image.cols, image.diffs, constant_time, image.time or 0, constant_diff, image.diff or 0]
    return np.array(words, dtype=np.int64)


def image_of(words: np.ndarray, body: np.ndarray | None = None) -> Image:
    """The image in an array of words; or, if the array is only its header, with `body` as the rest."""
    rows, cols, diffs, timed, time, weighed, diff = words[: image_k.IMAGE_HEADER_WORDS].tolist()
    body = words[image_k.IMAGE_HEADER_WORDS :] if body is None else body
    return Image(rows, cols, diffs, time if timed else None, diff if weighed else None, body)


def image_words(rows: int, cols: int, diffs: int, timed: int, weighed: int) -> int:
    """The number of words of an image: `timed` and `weighed` mean that all rows have the same time, and the same
    diff."""
    return image_k.IMAGE_HEADER_WORDS + rows * (cols + (not timed) + (0 if weighed else diffs))


def packed_entries(packed: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Packed batches one by one: the operator number, and the words of the image."""
    at = 0
    while at < len(packed):
        rows, cols, diffs, timed, _, weighed, _ = packed[at + 1 : at + 1 + image_k.IMAGE_HEADER_WORDS].tolist()
        words = image_words(rows, cols, diffs, timed, weighed)
        yield int(packed[at]), packed[at + 1 : at + 1 + words]
        at += 1 + words


def fresh_words(trace: int) -> np.ndarray:
    """The image of what a folded step adds to the trace at an address, as words."""
    out = np.empty(image_k.fresh_words(trace), dtype=np.int64)
    image_k.write_fresh(trace, out)
    return out


def fresh_image(trace: int) -> Image:
    """The same as an image, which lies in the trace's own memory if possible: use it before the trace changes."""
    head = np.empty(image_k.IMAGE_HEADER_WORDS, dtype=np.int64)
    address = image_k.fresh_header(trace, head)
    if not address:
        return image_of(fresh_words(trace))
    words = ctypes.c_int64 * (int(image_k.fresh_words(trace)) - image_k.IMAGE_HEADER_WORDS)
    return image_of(head, np.ctypeslib.as_array(words.from_address(address)))


def put_back(trace: Trace, image: Image, time: int) -> None:
    """Append a batch to a trace; `time` is the last complete time."""
    append(trace.address, image, time)


def append(trace: int, image: Image, time: int) -> None:
    """The same for the trace at an address."""
    words = np.concatenate([[0], header(image), image.body])
    image_k.unpack(np.array([trace], dtype=np.int64), words, time)


def tally_of(trace: Trace, image: Image, time: int) -> Tally:
    """What would be left of one of a trace's batches; `time` is the current time, used for all epochs inside a loop."""
    in_loop = not trace.scope.is_root
    return garbage.of(image, time if in_loop else garbage.latest(image), apart=in_loop)


def since(trace: Trace) -> int | None:
    """The time from which on a trace distinguishes times; None inside loops, where epochs are not kept."""
    return trace.since if trace.scope.is_root else None


def set_since(trace: Trace, time: int) -> None:
    """Make times before this one indistinguishable in the trace's batches."""
    structures.poke(trace.block, trace_k.TRACE_SINCE, max(time, trace.stored_since))


def restore_since(trace: Trace, time: int) -> None:
    """Make times from this one on distinguishable, although the trace was created later."""
    structures.poke(trace.block, trace_k.TRACE_SINCE, time)


def fingerprints(dataflow: Dataflow) -> tuple[str, ...]:
    """The description and identity of each operator, in the order of `live`.

    >>> import everview as ev
    >>> from everview.session.core import core_of
    >>> db = ev.connect()
    >>> t = db.table("t", {"x": int})
    >>> v = db.view("v", t.distinct())
    >>> [text.rpartition(" ")[0] for text in fingerprints(core_of(db).runtime.dataflow)]
    ["table 't' 1x1 depth 0", "reduce 'distinct' 1x1 depth 0"]
    """
    return tuple(map(fingerprint, live(dataflow)))


def fingerprint(operator: Operator) -> str:
    """The description and identity of an operator."""
    return f"{describe(operator)} {identity(operator)}"


def held(dataflow: Dataflow) -> dict[str, Operator]:
    """The stateful operators by fingerprint; equal fingerprints mean equal contents."""
    named = zip(fingerprints(dataflow), live(dataflow), strict=False)
    return {text: operator for text, operator in named if state_of(operator) is not None}


def describe(operator: Operator) -> str:
    """A short description of an operator, not unique."""
    kind = "table" if is_table(operator) else operator.kind
    trace = state_of(operator)
    width = f"{operator.cols}"
    if trace is not None:
        width = f"{trace.cols}x{trace.diffs}"
    return f"{kind} {operator.label!r} {width} depth {operator.scope.depth}"


def is_table(operator: Operator) -> bool:
    """Whether it is a base table's index."""
    return isinstance(operator, Arrange) and operator.checked
