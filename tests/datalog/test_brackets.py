"""Brackets inside brackets, disjunctions under aggregates, negation inside: single rules, many of them, by seed.

A rule that the evaluator from scratch can order must be accepted, one that it cannot must be refused as unsafe, and
what is accepted must say what the evaluator says, before and after changes.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import everview as ev
from everview.datalog import DatalogError
from everview.datalog.aggregates import split
from everview.datalog.grammar import parse
from tests.datalog.oracle import Row, Tables, evaluate, safe
from tests.datalog.writer import TABLES, Seeded, Writer


class Room:
    """A session with tables, in which one program after the other is tried."""

    def __init__(self) -> None:
        self.db = ev.connect()
        self.tables: dict[str, Counter[Row]] = {}
        for name, width in TABLES.items():
            self.db.table(name, {f"c{i}": int for i in range(width)})
            self.tables[name] = Counter()

    def change(self, rng: random.Random) -> None:
        """Some rows come, some go; now and then one is there twice."""
        with self.db.transaction():
            for name, width in TABLES.items():
                new = [tuple(rng.randint(0, 2) for _ in range(width)) for _ in range(rng.randint(0, 3))]
                old = [row for row in self.tables[name].elements() if rng.random() < 0.4]
                self.db[name].insert(new)
                self.db[name].delete(old)
                self.tables[name] = self.tables[name] + Counter(new) - Counter(old)

    def compare(self, text: str, rng: random.Random) -> bool:
        """Whether the program was accepted, and then right."""
        program = parse(text)
        fine = all(safe(part) for number, rule in enumerate(program) for part in split(rule, number))
        try:
            rules = self.db.datalog(text, plan=rng.choice([None, None, "binary", "delta", "wco"]))
        except DatalogError as error:
            assert error.code == "E_UNSAFE" and not fine, f"{text}\n{error}"
            return False
        assert fine, f"{text}\nis unsafe and was accepted"
        for _ in range(2):
            expected = evaluate(program, self.tables)
            for name in rules:
                assert Counter(rules[name].rows()) == Counter(expected[name]), f"{text}\n{_shown(self.tables)}"
            self.change(rng)
        rules.drop()
        return True


def _shown(tables: Tables) -> str:
    return "\n".join(f"{name}: {sorted(rows.elements())}" for name, rows in tables.items())


def rules_by_seed(seed: int, many: int) -> int:
    """Try rules; how many were safe."""
    rng = random.Random(seed)
    room = Room()
    accepted = 0
    for _ in range(many):
        writer = Writer(Seeded(rng), {"p": rng.randint(1, 2)}, {"p": 1}, depth=2)
        text = writer.any_total("p") if rng.random() < 0.4 else writer.any_rule("p", list(TABLES))
        accepted += room.compare(text, rng)
    room.db.close()
    return accepted


def test_random_rules_with_brackets() -> None:
    assert rules_by_seed(1, 150) > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_more_random_rules_with_brackets(seed: int) -> None:
    assert rules_by_seed(seed, 1000) > 320
