"""Random programs: literals, conditions, and brackets inside brackets.

Relations have levels: a body may read relations of its own level or below (so recursion, also mutual, is common) and
negate or total only relations below, which keeps every program stratified. Values in recursive rules come from tables,
so every loop ends. What is chosen, hypothesis chooses or a seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hypothesis import strategies as st

from everview.datalog.aggregates import split
from everview.datalog.grammar import parse
from tests.datalog.oracle import safe

TABLES = {"a": 2, "b": 2, "c": 1}
VARIABLES = ("X", "Y", "Z", "W")


class Chooser(Protocol):
    """Chooses."""

    def pick(self, options: Sequence[Any]) -> Any: ...

    def number(self, low: int, high: int) -> int: ...

    def shuffled(self, things: list[str]) -> list[str]: ...


@dataclass
class Drawn:
    """By hypothesis, which makes failures small."""

    data: st.DataObject

    def pick(self, options: Sequence[Any]) -> Any:
        return self.data.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def shuffled(self, things: list[str]) -> list[str]:
        return list(self.data.draw(st.permutations(things)))


@dataclass
class Seeded:
    """By a generator, which is quick."""

    rng: random.Random

    def pick(self, options: Sequence[Any]) -> Any:
        return self.rng.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def shuffled(self, things: list[str]) -> list[str]:
        return self.rng.sample(things, len(things))


@dataclass
class Writer:
    """Writes a program, one choice after the other."""

    chooser: Chooser
    arity: dict[str, int] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)
    most_tries: int = 8
    depth: int = 1

    def pick(self, *options: object) -> object:
        return self.chooser.pick(options)

    def number(self, low: int, high: int) -> int:
        return self.chooser.number(low, high)

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
        for _ in range(self.most_tries):
            text = self.any_rule(name, relations)
            if safe(parse(text)[0]):
                return text
        return f"{name}({', '.join('X' * self.arity[name])}) :- a(X, _)."

    def any_rule(self, name: str, relations: list[str]) -> str:
        """A rule that need not be safe."""
        body, names = self.body(name, relations)
        head = [self.pick(*names) if names else self.number(0, 3) for _ in range(self.arity[name])]
        return f"{name}({', '.join(map(str, head))}) :- {', '.join(body)}."

    def total(self, name: str) -> str:
        for _ in range(self.most_tries):
            text = self.any_total(name)
            if all(safe(part) for part in split(parse(text)[0], 0)):
                return text
        return f"{name}({'X, ' * (self.arity[name] - 1)}count()) :- a(X, _)."

    def any_total(self, name: str) -> str:
        """A rule with an aggregate that need not be safe."""
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
        return self.chooser.shuffled(found), sorted(set(names))

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
        kind = self.number(0, 6)
        if kind > 4:
            return self.bracket(below, relations, names, self.depth)
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

    def bracket(self, below: list[str], relations: list[str], names: Sequence[str], depth: int) -> str:
        """Alternatives or a negation, with brackets inside; variables from outside, new ones, or some of each."""
        pool = (*VARIABLES, "L", *names, *names)
        kind = self.number(0, 5)
        if kind < 2:
            return f"not ({self.inside(below, below, pool, depth)})"
        if kind == 2:
            return self.over(below, pool, depth)
        branches = [self.inside(below, relations, pool, depth) for _ in range(self.number(2, 3))]
        return f"({' ; '.join(branches)})"

    def over(self, below: list[str], pool: tuple[str, ...], depth: int) -> str:
        """An aggregate of a body within a body."""
        kind = self.pick("count", "sum", "min", "max", "count_distinct")
        value = "" if kind == "count" else f" {self.pick(*pool)}"
        default = f" default {self.number(0, 3)}" if self.number(0, 1) else ""
        left = self.pick(*pool) if self.number(0, 1) else self.number(0, 3)
        inner = f"{kind}{value} : {{ {self.inside(below, below, pool, depth)} }}{default}"
        return f"{left} {self.pick('=', '=', '<', '!=')} {inner}"

    def inside(self, below: list[str], relations: list[str], pool: tuple[str, ...], depth: int) -> str:
        """A body within brackets."""
        found = []
        for _ in range(self.number(1, 3)):
            kind = self.number(0, 5)
            if kind < 3:
                found.append(self.atom(relations, pool, []))
            elif kind == 3 or not depth:
                found.append(self.test(pool))
            else:
                found.append(self.bracket(below, relations, pool[-3:], depth - 1))
        return ", ".join(found)

    def test(self, names: tuple[str, ...]) -> str:
        right = self.pick(*names) if self.number(0, 1) else self.number(0, 3)
        return f"{self.pick(*names)} {self.pick('<', '=', '!=', '>=')} {right}"
