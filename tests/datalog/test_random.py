"""Random programs and random changes against the evaluator from scratch.

Relations have levels: a body may read relations of its own level or below (so recursion, also mutual, is common) and
negate or total only relations below, which keeps every program stratified. Values in recursive rules come from tables,
so every loop ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.datalog.harness import World

TABLES = {"a": 2, "b": 2, "c": 1}
VARIABLES = ("X", "Y", "Z", "W")


@dataclass
class Writer:
    """Writes a program, one choice after the other."""

    data: st.DataObject
    arity: dict[str, int] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)

    def pick(self, *options: object) -> object:
        return self.data.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def program(self) -> str:
        for i in range(self.number(2, 5)):
            self.arity[f"p{i}"] = self.number(1, 2)
            self.level[f"p{i}"] = self.number(0, 2)
        return "\n".join(rule for name in self.arity for rule in self.rules(name))

    def rules(self, name: str) -> list[str]:
        """One rule over tables, so that types are known, then any."""
        if self.number(0, 5) == 0:
            return [self.total(name)]
        own = [n for n in self.arity if self.level[n] <= self.level[name]]
        found = [self.rule(name, list(TABLES))]
        found += [self.rule(name, [*TABLES, *own, *own]) for _ in range(self.number(0, 2))]
        if self.number(0, 4) == 0:
            found.append(f"{name}({', '.join(str(self.number(0, 3)) for _ in range(self.arity[name]))}).")
        return found

    def rule(self, name: str, relations: list[str]) -> str:
        body, names = self.body(name, relations)
        head = [self.pick(*names) if names else self.number(0, 3) for _ in range(self.arity[name])]
        return f"{name}({', '.join(map(str, head))}) :- {', '.join(body)}."

    def total(self, name: str) -> str:
        below = [n for n in self.arity if self.level[n] < self.level[name]]
        body, names = self.body(name, [*TABLES, *below])
        while not names:
            body, names = self.body(name, [*TABLES, *below])
        kind = self.pick("count", "sum", "min", "max", "count_distinct")
        value = self.pick(*names)
        value = f"{value} + {self.pick(*names)}" if self.number(0, 2) == 0 else value
        keys = [self.pick(*names)] if self.arity[name] == 2 else []
        if self.number(0, 2) == 0:
            test = f"T {self.pick('<', '>', '!=')} {self.number(0, 3)}"
            return f"{name}({', '.join([*map(str, keys), 'T'])}) :- {', '.join(body)}, T = {kind}({value}), {test}."
        return f"{name}({', '.join([*map(str, keys), f'{kind}({value})'])}) :- {', '.join(body)}."

    def body(self, name: str, relations: list[str]) -> tuple[list[str], list[str]]:
        """Literals in any order, and the variables they bind."""
        names: list[str] = []
        found = [self.atom(relations, VARIABLES, names) for _ in range(self.number(1, 3))]
        below = [*TABLES, *(n for n in self.arity if self.level[n] < self.level[name])]
        for _ in range(self.number(0, 2)):
            if names:
                found.append(self.condition(below, relations, names))
        return list(self.data.draw(st.permutations(found))), sorted(set(names))

    def atom(self, relations: list[str], variables: tuple[str, ...], names: list[str]) -> str:
        name = str(self.pick(*relations))
        args = []
        for _ in range({**TABLES, **self.arity}[name]):
            kind = self.number(0, 7)
            if kind == 0:
                args.append("_")
            elif kind == 1:
                args.append(str(self.number(0, 3)))
            else:
                args.append(str(self.pick(*variables)))
                names.append(args[-1])
        return f"{name}({', '.join(args)})"

    def condition(self, below: list[str], relations: list[str], names: list[str]) -> str:
        bound = tuple(sorted(set(names)))
        kind = self.number(0, 4)
        if kind == 0:
            return f"not {self.atom(below, bound, [])}"
        if kind == 1:
            inner = [self.atom(below, (*bound, "L"), []) for _ in range(2)]
            return f"not ({', '.join(inner)})"
        if kind == 2:
            return f"({self.test(bound)} ; {self.atom(relations, bound, [])})"
        if kind == 3:
            new = self.pick(*VARIABLES)
            first = f"{self.pick(*bound)} = {new}" if new not in bound else self.test(bound)
            return f"({first} ; {self.atom(relations, (*bound, str(new)), [])}, a({new}, _))"
        return self.test(bound)

    def test(self, names: tuple[str, ...]) -> str:
        right = self.pick(*names) if self.number(0, 1) else self.number(0, 3)
        return f"{self.pick(*names)} {self.pick('<', '=', '!=', '>=')} {right}"


def play(data: st.DataObject, steps: int) -> None:
    """Install a random program, change its tables, compare after every change."""
    text = Writer(data).program()
    note(text)
    world = World()
    for name, width in TABLES.items():
        world.table(name, dict(zip("xy"[:width], ["int"] * width, strict=True)))
    world.add(text, data.draw(st.sampled_from([None, "binary", "delta", "wco"])))
    values = st.integers(0, 3)
    for step in range(steps):
        rows = [
            (name, data.draw(st.lists(st.tuples(*[values] * w), max_size=4 if step else 8)))
            for name, w in TABLES.items()
        ]
        held = [(name, row) for name, have in world.tables.items() for row in have]
        deletes = data.draw(st.lists(st.sampled_from(held), unique=True, max_size=5)) if held else []
        since = world.db.time
        world.change([(name, row) for name, many in rows for row in many], deletes)
        world.check(since)
    for name in world.before:
        width = len(world.db[name].schema())
        world.ask(name, data.draw(st.lists(st.none() | values, min_size=width, max_size=width)))
    world.db.close()


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    play(data, steps=3)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_more_random_programs(part: int) -> None:
    """In parts: 200 programs take two minutes of CPU, and more on a busy machine than one test may take."""

    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def programs(data: st.DataObject) -> None:
        play(data, steps=5)

    programs()
