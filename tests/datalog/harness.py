"""Programs as text files: tables, rules, steps of changes and what must be there after each.

A `.dl` file is a header comment and blocks, parted by blank lines:

    table edge(src int, dst int)     a base table

    program                          rules, installed at once (several programs may follow each other)
    reach(X) :- ...

    step                             one transaction; rows are facts, + to insert and - to delete
    + edge(1, 2). edge(2, 3).
    - edge(3, 4).

    expect reach                     all rows of the relation, one per line
    1
    2

    error E_UNSAFE 1:3               the rules must be refused with that code at that line and column,
    the text                         and with a text that holds the next line
    p(X) :- edge(Y, _).

After every step, expected or not, all relations are compared with the evaluator in `oracle`, and the changes since
the step before must add up to the difference.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import everview as ev
from everview.codes.immutable import FrozenList
from everview.datalog import Rules
from everview.datalog.grammar import parse
from everview.datalog.syntax import DatalogError, Program
from tests.datalog.oracle import Row, evaluate, value


def blocks(path: Path) -> list[tuple[list[str], list[str], int]]:
    """(words of the first line, other lines, line number) of every block."""
    found = []
    lines = path.read_text().split("\n")
    start = 0
    for i, line in enumerate([*lines, ""]):
        if line.strip():
            continue
        chunk = [c for c in lines[start:i] if not c.startswith("#")]
        if chunk:
            found.append((chunk[0].split(maxsplit=2), chunk[1:], start + 1))
        start = i + 1
    return found


class World:
    """A session with tables and programs, and the same in plain Python."""

    def __init__(self) -> None:
        self.db = ev.connect()
        self.tables: dict[str, Counter[Row]] = {}
        self.program = Program()
        self.before: dict[str, set[Row]] = {}
        self.rules: dict[str, Rules] = {}

    def table(self, name: str, schema: dict[str, str]) -> None:
        self.db.table(name, schema)
        self.tables[name] = Counter()

    def add(self, text: str, plan: Any = None) -> None:
        """Install more rules."""
        rules = self.db.datalog(text, plan=plan)
        self.rules.update(dict.fromkeys(rules, rules))
        read = parse(text)
        self.program += read
        self.program.dominance += read.dominance
        self.program.declared |= read.declared
        self.before = self.expected()

    def expected(self) -> dict[str, set[Row]]:
        return evaluate(self.program, self.tables)

    def change(self, inserts: list[tuple[str, Row]], deletes: list[tuple[str, Row]]) -> None:
        """One transaction."""
        with self.db.transaction():
            for sign, rows in ((1, inserts), (-1, deletes)):
                for name, row in rows:
                    table: Any = self.db[name]
                    (table.insert if sign > 0 else table.delete)([row])
                    self.tables[name][row] += sign
                    if not self.tables[name][row]:
                        del self.tables[name][row]

    def check(self, since: int) -> None:
        """Every view holds what it should, as a set, and its changes say how it got there."""
        expected = self.expected()
        for name, rows in expected.items():
            view: Any = self.db[name]
            have = Counter(view.rows())
            assert have == Counter(rows), f"{name}: {have - Counter(rows)} too many, {Counter(rows) - have} missing"
            moved = Counter(self.before.get(name, ()))
            for row, _, diff in view.changes(since=since):
                moved[row] += diff
            assert {r for r, n in moved.items() if n} == rows, f"{name}: changes since {since}"
        self.before = expected

    def ask(self, name: str, args: Sequence[Any]) -> None:
        """A question with some arguments given (None: any) has the answers that the whole relation has."""
        fits = {row for row in self.before[name] if all(a in (None, v) for a, v in zip(args, row, strict=True))}
        answers = self.rules[name].query(name, *args)
        assert Counter(answers) == Counter(fits), f"{name}{tuple(args)}"


def run(path: Path, plan: Any = None) -> None:
    """Run a file, joining as `plan` says."""
    world = World()
    for (kind, *args), lines, number in blocks(path):
        where = f"{path.name}:{number}"
        text = "\n".join(lines)
        if kind == "table":
            world.table(*declared(" ".join(args)))
        elif kind == "program":
            world.add(text, plan)
            world.check(world.db.time)
        elif kind == "step":
            since = world.db.time
            world.change(*changes_of(lines))
            world.check(since)
        elif kind == "expect":
            rows = {_frozen(ast.literal_eval(f"({line},)")) for line in lines}
            have = set(world.db[args[0]].rows())
            assert have == rows, f"{where}: {args[0]} has {have - rows} too many, {rows - have} missing"
        elif kind == "error":
            _refused(world, args, lines, where)
        else:
            raise ValueError(f"{where}: {kind}")
    world.db.close()


def _frozen(value: Any) -> Any:
    """A value with its lists as those that rows hold."""
    if isinstance(value, tuple | list):
        return (FrozenList if isinstance(value, list) else tuple)(map(_frozen, value))
    return value


def declared(text: str) -> tuple[str, dict[str, str]]:
    """A table's name and columns."""
    name, columns = re.fullmatch(r"(\w+)\((.*)\)", text).groups()  # type: ignore[union-attr]
    return name, dict(c.split() for c in columns.split(","))


def changes_of(lines: Sequence[str]) -> tuple[list[tuple[str, Row]], list[tuple[str, Row]]]:
    """What a step inserts and deletes."""
    signed = [(line[0], _rows(line[1:])) for line in lines]
    inserts, deletes = ([row for s, rows in signed if s == sign for row in rows] for sign in "+-")
    return inserts, deletes


def _rows(text: str) -> list[tuple[str, Row]]:
    return [(fact.name, tuple(value(t, {}) for t in fact.head)) for fact in parse(text)]


def _refused(world: World, args: list[str], lines: list[str], where: str) -> None:
    code, place = args
    views = world.db.views
    try:
        world.db.datalog("\n".join(lines[1:]))
    except DatalogError as error:
        assert error.code == code and f"{error.line}:{error.column}" == place, f"{where}: {error}"
        assert lines[0] in str(error), f"{where}: {error}"
        assert world.db.views == views, f"{where}: something was installed"
        return
    raise AssertionError(f"{where}: not refused")
