"""Makes a failing random plan small: a greedy search that knows what plans look like, faster than Hypothesis' own.

    smaller = shrink(Example(specs, moments, steps), fails)

where `fails(example)` says whether it (still) does. Run as a program it reads an example that a test printed, as Python
keyword arguments, from stdin.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

Spec = tuple[Any, ...]


@dataclass(frozen=True)
class Example:
    """What a random test runs: plans, when each is installed, steps of changes."""

    specs: tuple[Spec, ...]
    moments: tuple[tuple[int, int], ...]
    steps: Any


def shrink(example: Example, fails: Callable[[Example], bool]) -> Example:
    """A small example that fails too."""
    improved = True
    while improved:
        improved = False
        for smaller in candidates(example):
            if fails(smaller):
                example, improved = smaller, True
                break
    return example


def candidates(example: Example) -> Iterator[Example]:
    """Examples that are a little smaller, most promising first."""
    if len(example.specs) > 1:
        for i in range(len(example.specs)):
            yield replace(example, specs=example.specs[:i] + example.specs[i + 1 :])
    for i, spec in enumerate(example.specs):
        for other in smaller_specs(spec):
            yield replace(example, specs=(*example.specs[:i], other, *example.specs[i + 1 :]))
    for i, (at, length) in enumerate(example.moments):
        for other in ((0, length), (at, 3)):
            if other != (at, length):
                yield replace(example, moments=(*example.moments[:i], other, *example.moments[i + 1 :]))
    yield from (replace(example, steps=steps) for steps in smaller_steps(example.steps))


def smaller_specs(spec: Spec) -> Iterator[Spec]:
    """The parts of a plan, and the plan with a part made smaller."""
    parts = [p for p in spec if isinstance(p, tuple)]
    yield from parts
    if parts and spec[0] not in ("table", "var"):
        yield from (("var", 0), ("table", "r"))
    for i, part in enumerate(spec):
        if isinstance(part, tuple):
            for other in smaller_specs(part):
                yield (*spec[:i], other, *spec[i + 1 :])
        elif isinstance(part, int) and not isinstance(part, bool) and part > 1:
            yield (*spec[:i], part - 1, *spec[i + 1 :])


def smaller_steps(steps: Any) -> Iterator[Any]:
    """The steps with one step, transaction or operation less."""
    for i, step in enumerate(steps):
        if len(steps) > 1:
            yield [*steps[:i], *steps[i + 1 :]]
        for j, transaction in enumerate(step):
            if len(step) > 1:
                yield [*steps[:i], [*step[:j], *step[j + 1 :]], *steps[i + 1 :]]
            for k in range(len(transaction)):
                less = [*transaction[:k], *transaction[k + 1 :]]
                yield [*steps[:i], [*step[:j], less, *step[j + 1 :]], *steps[i + 1 :]]


def main() -> None:
    """Shrink the example on stdin and print it."""
    import everview
    from tests.oracle.harness import Runtime
    from tests.oracle.test_random_plans import Skipped, attempt

    runtime = Runtime("embedded", everview.connect)

    def fails(example: Example) -> bool:
        try:
            attempt(runtime, example.specs, example.moments, example.steps)
        except Skipped:
            return False
        except Exception as error:
            return type(error) is kind[0]
        return False

    given = eval(f"dict({sys.stdin.read()})")
    specs = given.get("specs") or [given["spec"], given["other"]]
    example = Example(tuple(specs), tuple(given["moments"]), given["steps"])
    kind: list[type] = []
    try:
        attempt(runtime, example.specs, example.moments, example.steps)
    except Exception as error:
        kind.append(type(error))
        small = shrink(example, fails)
        print(f"specs={list(small.specs)},\nmoments={list(small.moments)},\nsteps={small.steps}")
        attempt(runtime, small.specs, small.moments, small.steps)


if __name__ == "__main__":
    main()
