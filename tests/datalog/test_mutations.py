"""Every program of the text files, slightly wrong: literals dropped, doubled, swapped, put into brackets; other terms.

A mutated program is refused with an error of ours that has a place, or it says what the evaluator from scratch says,
before and after changes. The number of mutations and the seed come from the environment for longer hunts:

    EVERVIEW_MUTATIONS=50000 EVERVIEW_SEED=7 pytest tests/datalog/test_mutations.py
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.datalog import DatalogError
from everview.datalog.grammar import parse
from tests.datalog.harness import blocks, changes_of, declared
from tests.datalog.oracle import Row, Unsafe, evaluate

MANY = int(os.environ.get("EVERVIEW_MUTATIONS", "250"))
SEED = int(os.environ.get("EVERVIEW_SEED", "13"))
FILES = [p for p in sorted(Path(__file__).parent.glob("*.dl")) if p.stem != "errors"]

REFUSED = {"E_UNSAFE", "E_SYNTAX", "E_TYPE", "E_ARITY", "E_RELATION", "E_FUNCTION", "E_STRATIFY", "E_RECURSION"}
REFUSED |= {"E_AGGREGATE", "E_NAME", "E_COLUMN", "E_DUPLICATE", "E_LITERAL", "E_PATTERN", "E_RANGE", "E_SIZE", "E_UNIT"}
REFUSED |= {"E_COMPONENT", "E_UNSUPPORTED"}
FAILED = {"E_LOOP_LIMIT", "E_ROW", "E_ROWS", "E_UDF", "E_ROW_ERRORS", "E_TIMEOUT", "E_MEMORY"}
"""What may become of programs whose rows cannot be computed, or never settle."""


class File:
    """The tables and rules of a file, with all the rows that its steps insert."""

    def __init__(self, path: Path) -> None:
        self.db = ev.connect()
        self.tables: dict[str, Counter[Row]] = {}
        self.rules: list[str] = []
        for (kind, *args), lines, _ in blocks(path):
            if kind == "table":
                name, schema = declared(" ".join(args))
                self.db.table(name, schema)
                self.tables[name] = Counter()
            elif kind == "program":
                self.rules += _rules("\n".join(lines))
            elif kind == "step":
                for name, row in changes_of(lines)[0]:
                    self.tables[name][row] = min(2, self.tables[name][row] + 1)
        for name, rows in self.tables.items():
            self.db[name].insert(list(rows.elements()))
        grows = re.compile(r"\b(dist|cost|level|reach)\(")  # these add up around circles, and changed may never settle
        self.mutable = [i for i, rule in enumerate(self.rules) if not grows.search(rule)]

    def limited(self) -> Any:
        """For programs that never settle: some make longer texts in every round."""
        return self.db.limits(seconds=20, memory="1GB")

    def change(self, rng: random.Random) -> None:
        """Some rows go, and those that went before come back."""
        after: dict[str, Counter[Row]] = {}
        with self.db.transaction():
            for name, rows in self.tables.items():
                gone = [row for row in rows.elements() if rng.random() < 0.3]
                self.db[name].delete(gone)
                self.db[name].insert(gone[::2])
                after[name] = rows - Counter(gone) + Counter(gone[::2])
        self.tables = after

    def restore(self, before: dict[str, Counter[Row]]) -> None:
        with self.db.transaction():
            for name, rows in before.items():
                self.db[name].insert(list((rows - self.tables[name]).elements()))
        self.tables = {name: Counter(rows) for name, rows in before.items()}

    def program(self, at: int, mutated: str) -> str:
        """The mutated rule with the rules that it, and they, read."""
        if any(r.startswith(".") for r in self.rules):  # components read more than can be seen here
            return "\n".join(mutated if i == at else rule for i, rule in enumerate(self.rules))
        wanted = set(re.findall(r"(\w+)\s*\(", mutated))
        chosen = {at}
        while True:
            more = {i for i, r in enumerate(self.rules) if i not in chosen and _head(r) in wanted}
            if not more:
                break
            chosen |= more
            wanted |= {name for i in more for name in re.findall(r"(\w+)\s*\(", self.rules[i])}
        return "\n".join(mutated if i == at else self.rules[i] for i in sorted(chosen))


def _head(rule: str) -> str:
    return re.search(r"\w+", rule).group()  # type: ignore[union-attr]


def _rules(text: str) -> list[str]:
    text = re.sub(r"/\*(.|\n)*?\*/|(^|\s)(%|//|#)[^\n]*", " ", text)
    return [r.strip() + "." for r in re.split(r"\.(?=\s|$)", text) if r.strip()]


def pieces(body: str) -> list[str]:
    """The literals of a body, parted at commas outside of brackets."""
    found, depth, start = [], 0, 0
    for i, sign in enumerate(body):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth:
            found.append(body[start:i].strip())
            start = i + 1
    return [*found, body[start:].strip()]


def mutate(rule: str, rng: random.Random) -> str:
    """The rule with one thing wrong."""
    if ":-" not in rule or rng.random() < 0.1:
        return _token(rule, rng)
    head, body = rule.rstrip(".").split(":-", 1)
    parts = pieces(body)
    i, k = rng.randrange(len(parts)), rng.randrange(len(parts))
    match rng.randrange(8):
        case 0 if len(parts) > 1:
            del parts[i]
        case 1:
            parts.insert(k, parts[i])
        case 2:
            parts[i], parts[k] = parts[k], parts[i]
        case 3:
            parts[i] = f"not ({parts[i]})" if rng.random() < 0.6 else f"not {parts[i]}"
        case 4:
            parts[i] = f"({parts[i]} ; {parts[k]})"
        case 5:
            parts[i] = f"({parts[k]}, ({parts[i]} ; {rng.choice(parts)}) ; {rng.choice(parts)})"
        case _:
            return _token(rule, rng)
    return f"{head}:- {', '.join(parts)}."


def _token(rule: str, rng: random.Random) -> str:
    """One token dropped, doubled, or taken for another of the rule."""
    tokens = re.findall(r"\s+|\w+|\"[^\"]*\"|:-|[<>!=]=?|.", rule)
    solid = [i for i, t in enumerate(tokens) if t.strip()]
    i, k = rng.choice(solid), rng.choice(solid)
    match rng.randrange(4):
        case 0:
            tokens[i] = ""
        case 1:
            tokens[i] *= 2
        case _:
            same = [j for j in solid if tokens[j][:1].isalnum() == tokens[i][:1].isalnum()]
            tokens[i] = tokens[rng.choice(same) if same else k]
    return "".join(tokens)


def try_one(file: File, text: str, rng: random.Random) -> str:
    """What became of a program: an error's code, "right", or "failed" if rows cannot be computed."""
    try:
        with file.limited():
            rules = file.db.datalog(text)
    except DatalogError as error:
        assert error.code in REFUSED and error.line >= 1 and error.column >= 1, f"{text}\n{error}"
        if error.code == "E_UNSAFE":
            _check_unsafe(file, text, error)
        return error.code
    except (ev.LoopError, ev.RowErrors, ev.EverviewError) as error:
        assert error.code in FAILED, f"{text}\n{error}"
        return error.code
    before = {name: Counter(rows) for name, rows in file.tables.items()}
    try:
        for _ in range(2):
            with file.limited():  # before the evaluator, which has none
                found = {name: Counter(rules[name].rows()) for name in rules}
            try:
                expected = evaluate(parse(text), file.tables)
            except (ArithmeticError, TypeError, ValueError):
                return "failed"
            for name, have in found.items():
                assert have == Counter(expected[name]), f"{text}\n{name}: {have} instead of {expected[name]}"
            with file.limited():
                file.change(rng)
    except (ev.RowErrors, ev.EverviewError) as error:
        assert error.code in FAILED, f"{text}\n{error}"
        return error.code
    finally:
        rules.drop()
        file.restore(before)
    return "right"


def _check_unsafe(file: File, text: str, error: DatalogError) -> None:
    """What is refused as unsafe the evaluator cannot order either."""
    try:
        evaluate(parse(text), file.tables)
    except (Unsafe, KeyError, DatalogError, ArithmeticError, TypeError, ValueError):
        return
    raise AssertionError(f"{text}\nis safe, but {error}")


def test_mutated_programs() -> None:
    mutations(SEED, MANY)


@pytest.mark.parametrize("text", ["p(X) :- e(X), X < {}.", "p({}) :- e(X).", "p(X) :- X = range(0, {})."])
def test_a_number_with_more_digits_than_python_reads(text: str) -> None:
    db = ev.connect()
    db.table("e", {"x": int})
    with pytest.raises(DatalogError):
        db.datalog(text.format("9" * 5000))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_more_mutated_programs(seed: int) -> None:
    mutations(seed, 500)


def mutations(seed: int, many: int) -> None:
    """Try some."""
    rng = random.Random(seed)
    files = [File(path) for path in FILES]
    became: Counter[str] = Counter()
    for _ in range(many):
        file = rng.choice(files)
        at = rng.choice(file.mutable)
        text = file.program(at, mutate(file.rules[at], rng))
        became[try_one(file, text, rng)] += 1
    for file in files:
        file.db.close()
    assert became["right"] > many // 4 and became["E_UNSAFE"] and became["E_SYNTAX"], became
