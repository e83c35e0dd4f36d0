"""Regular expressions over edge labels, as minimal deterministic automata.

    label  'any text'  .        an edge with this label, with any label
    !a   !(a | b)   !(a | ^b)   an edge with any label but these (`^b`: against its direction, any but b)
    ^x                          x against the direction of the edges
    x / y      x | y            one after the other; either
    x*  x+  x?  x{2}  x{1,3}  x{2,}  x{,3}

Deterministic, because a path query keeps a row for every (source, node, state): equivalent states would multiply rows
and work. The text is parsed into a tree, converted into Thompson's automaton with empty moves, made deterministic by
the subset construction, and minimised by Moore's refinement. Each label mentioned by name is a letter; `.` stands for
all of them and for one further letter, "any other label".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from everview.errors import PlanError

MOST_STATES = 1000
"""Repetitions are expanded, so `a{1,100000}` would be as many states."""


@dataclass(frozen=True)
class Letter:
    """One edge: its label (None: `.`, in an automaton any label not mentioned), traversed forwards or backwards."""

    label: str | None
    back: bool = False

    def __str__(self) -> str:
        return ("^" if self.back else "") + ("." if self.label is None else self.label)


@dataclass(frozen=True)
class Except:
    """One edge with any label but these, or with none."""

    labels: frozenset[str]
    back: bool = False

    def __str__(self) -> str:
        return ("^" if self.back else "") + f"!({'|'.join(sorted(self.labels))})"


@dataclass(frozen=True)
class Sequence:
    """Parts one after the other; none: the empty path."""

    parts: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class Choice:
    """One of the parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Repeat:
    """The part, from `least` to `most` times (None: any number)."""

    part: Tree
    least: int
    most: int | None


Tree = Letter | Except | Sequence | Choice | Repeat


@dataclass(frozen=True)
class Automaton:
    """States 0 (the start), 1, ...; where each letter leads; which states accept; the letters that are not "any other".

    >>> print(compile_expression("knows+ / works_at"))
    0 -knows-> 1
    1 -knows-> 1
    1 -works_at-> 2 (accepts)
    """

    moves: dict[tuple[int, Letter], int]
    accepting: frozenset[int]
    known: frozenset[Letter] = frozenset()

    def __str__(self) -> str:
        first = ["0 accepts"] * (0 in self.accepting)
        lines = [
            f"{s} -{letter}-> {t}" + " (accepts)" * (t in self.accepting)
            for (s, letter), t in sorted(self.moves.items(), key=lambda move: (move[0][0], str(move[0][1])))
        ]
        return "\n".join([*first, *lines])

    def labels(self, back: bool) -> list[str]:
        """The labels mentioned, in one direction, whether or not they lead anywhere.

        >>> compile_expression("!(a | b) / c").labels(back=False), compile_expression("!a | a").labels(back=False)
        (['a', 'b', 'c'], [])
        """
        return sorted({a.label for a in self.known if a.back == back and a.label is not None})


def compile_expression(text: str) -> Automaton:
    """Compile an expression into an automaton.

    >>> print(compile_expression("(a | ^b)?"))
    0 accepts
    0 -^b-> 1 (accepts)
    0 -a-> 1 (accepts)
    """
    return _without_idle_letters(_minimal(_deterministic(_Thompson(parse(text)))))


# ------------------------------------------------------------------------------------------------ text

_TOKEN = re.compile(
    r"""\s*(?:(?P<label>[^\W\d][\w-]*(?::[\w-]+)?|\d+) | '(?P<quoted>(?:[^'\\]|\\.)*)' | (?P<sign>[|/()^.*+?!])
    | \{\s*(?P<least>\d+|(?=,\s*\d))\s*(?P<comma>,)?\s*(?P<most>\d+)?\s*\})""",
    re.VERBOSE,
)


def parse(text: str) -> Tree:
    """Parse an expression.

    >>> parse("a / ^b")
    Sequence(parts=(Letter(label='a', back=False), Letter(label='b', back=True)))
    """
    return _Parser(text).whole()


class _Parser:
    """Recursive descent: choice, sequence, repeat, primary."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise PlanError("E_RPQ", f"{text!r} is not a path expression", "write one as a text: knows+ / ^works_at")
        self.text = text
        self.at = 0
        self.tokens: list[tuple[int, re.Match[str]]] = []
        end = len(text.rstrip())
        place = 0
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                rest = len(text) - len(text[place:].lstrip())
                raise self.error(rest, f"cannot read {text[rest : rest + 8]!r}")
            self.tokens.append((match.end() - len(match.group().lstrip()), match))
            place = match.end()

    def error(self, place: int, what: str) -> PlanError:
        return PlanError(
            "E_RPQ",
            f"path expression, column {place + 1}: {what}\n    {self.text}\n    {' ' * place}^",
            "labels, 'quoted labels' and . with / | * + ? {1,3} ^ ! and brackets, e.g. knows+ / ^works_at",
        )

    def whole(self) -> Tree:
        tree = self.choice()
        if self.at < len(self.tokens):
            place, match = self.tokens[self.at]
            raise self.error(place, f"{match.group().strip()!r} is not expected here")
        return tree

    def sign(self, wanted: str) -> bool:
        """Consume the token if it is next."""
        if self.at < len(self.tokens) and self.tokens[self.at][1]["sign"] == wanted:
            self.at += 1
            return True
        return False

    def choice(self) -> Tree:
        parts = [self.sequence()]
        while self.sign("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self) -> Tree:
        parts = [self.repeat()]
        while self.sign("/"):
            parts.append(self.repeat())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeat(self) -> Tree:
        tree = self.primary()
        while self.at < len(self.tokens):
            place, match = self.tokens[self.at]
            if match["least"] is not None:
                least = int(match["least"] or 0)
                most = int(match["most"]) if match["most"] else None if match["comma"] else least
                if most is not None and most < least:
                    raise self.error(place, f"{match.group().strip()} goes from more to less")
                tree = Repeat(tree, least, most)
            elif match["sign"] and match["sign"] in "*+?":
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[match["sign"]]
                tree = Repeat(tree, least, most)
            else:
                break
            self.at += 1
        return tree

    def primary(self) -> Tree:
        if self.sign("^"):
            return turned(self.repeat())
        if self.sign("("):
            tree = self.choice()
            if not self.sign(")"):
                raise self.error(len(self.text), "a bracket is not closed")
            return tree
        if self.sign("."):
            return Letter(None)
        if self.sign("!"):
            return self.excepted()
        return self.label()

    def excepted(self) -> Tree:
        """What follows `!`: labels, forwards or backwards; each direction that is named is traversed, except for its
        labels."""
        letters = []
        if self.sign("("):
            letters.append(self.direction())
            while self.sign("|"):
                letters.append(self.direction())
            if not self.sign(")"):
                raise self.error(self.place(), "labels parted by | and a closing bracket are expected after !(")
        else:
            letters.append(self.direction())
        ways = dict.fromkeys(letter.back for letter in letters)
        parts = tuple(Except(frozenset(str(a.label) for a in letters if a.back == back), back) for back in ways)
        return parts[0] if len(parts) == 1 else Choice(parts)

    def direction(self) -> Letter:
        """A label, possibly against its direction."""
        back = self.sign("^")
        return Letter(self.label().label, back)

    def place(self) -> int:
        """Where the next sign stands."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else len(self.text)

    def label(self) -> Letter:
        if self.at == len(self.tokens):
            raise self.error(len(self.text), "something is missing")
        place, match = self.tokens[self.at]
        label = match["label"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
        if label is None:
            raise self.error(place, f"a label is expected, not {match.group().strip()!r}")
        self.at += 1
        return Letter(label)


def turned(tree: Tree) -> Tree:
    """The same paths traversed from their other end."""
    if isinstance(tree, Letter):
        return Letter(tree.label, not tree.back)
    if isinstance(tree, Except):
        return Except(tree.labels, not tree.back)
    if isinstance(tree, Repeat):
        return Repeat(turned(tree.part), tree.least, tree.most)
    parts = tuple(map(turned, tree.parts))
    return Choice(parts) if isinstance(tree, Choice) else Sequence(parts[::-1])


# ------------------------------------------------------------------------------------------- automata


class _Thompson:
    """An automaton with empty moves, from 0 to `end`."""

    def __init__(self, tree: Tree) -> None:
        self.moves: list[tuple[int, Letter | Except | None, int]] = []
        self.states = 1
        self.end = self.add(tree, 0)

    def new(self) -> int:
        if self.states > 4 * MOST_STATES:
            raise PlanError(
                "E_RPQ", f"the path expression has more than {MOST_STATES} states", "repeat less, or with * or +"
            )
        self.states += 1
        return self.states - 1

    def add(self, tree: Tree, start: int) -> int:
        """Append a tree after a state; return the state after it."""
        if isinstance(tree, Letter | Except):
            end = self.new()
            self.moves.append((start, tree, end))
            return end
        if isinstance(tree, Sequence):
            return reduce(lambda at, part: self.add(part, at), tree.parts, start)
        if isinstance(tree, Choice):
            end = self.new()
            for part in tree.parts:
                self.moves.append((self.add(part, start), None, end))
            return end
        return self._repeat(tree, start)

    def _repeat(self, tree: Repeat, start: int) -> int:
        for _ in range(tree.least):
            start = self.add(tree.part, start)
        if tree.most is None:
            around = self.new()
            self.moves.append((start, None, around))
            self.moves.append((self.add(tree.part, around), None, around))
            start, around = around, self.new()
            self.moves.append((start, None, around))
            return around
        end = self.new()
        self.moves.append((start, None, end))
        for _ in range(tree.most - tree.least):
            start = self.add(tree.part, start)
            self.moves.append((start, None, end))
        return end


def _deterministic(nfa: _Thompson) -> Automaton:
    """The subset construction; a mentioned label also goes where `.` goes, and where others are excepted."""
    excepted = {a for _, a, _ in nfa.moves if isinstance(a, Except)}
    letters = {a for _, a, _ in nfa.moves if isinstance(a, Letter)}
    letters |= {Letter(label, a.back) for a in excepted for label in (None, *a.labels)}
    letters |= {Letter(a.label, not a.back) for a in letters if Letter(None, not a.back) in letters}
    onwards: dict[tuple[int, Letter | Except | None], set[int]] = {}
    for s, a, t in nfa.moves:
        onwards.setdefault((s, a), set()).add(t)

    def closed(states: Iterable[int]) -> frozenset[int]:
        found, todo = set(states), list(states)
        while todo:
            new = onwards.get((todo.pop(), None), set()) - found
            found |= new
            todo.extend(new)
        return frozenset(found)

    numbers = {closed([0]): 0}
    moves: dict[tuple[int, Letter], int] = {}
    todo = list(numbers)
    for subset in todo:
        for letter in sorted(letters, key=str):
            others = [a for a in excepted if a.back == letter.back and letter.label not in a.labels]
            fitting: tuple[Letter | Except, ...] = (letter, Letter(None, letter.back), *others)
            target = closed({t for s in subset for a in fitting for t in onwards.get((s, a), ())})
            if target:
                if target not in numbers:
                    numbers[target] = len(numbers)
                    todo.append(target)
                moves[numbers[subset], letter] = numbers[target]
    return Automaton(moves, frozenset(n for subset, n in numbers.items() if nfa.end in subset), frozenset(letters))


def _minimal(dfa: Automaton) -> Automaton:
    """Merge states with equal futures (Moore), numbered from the start."""
    letters = sorted({a for _, a in dfa.moves}, key=str)
    states = range(1 + max((max(s, t) for (s, _), t in dfa.moves.items()), default=0))
    kind = {s: int(s in dfa.accepting) for s in states}
    while True:
        futures = {s: (kind[s], *(kind.get(dfa.moves.get((s, a), -1), -1) for a in letters)) for s in states}
        classes = {future: i for i, future in enumerate(dict.fromkeys(futures.values()))}
        if len(classes) == len(set(kind.values())):
            break
        kind = {s: classes[futures[s]] for s in states}
    numbers = {k: i for i, k in enumerate(dict.fromkeys(kind[s] for s in states))}
    moves = {(numbers[kind[s]], a): numbers[kind[t]] for (s, a), t in dfa.moves.items()}
    return Automaton(moves, frozenset(numbers[kind[s]] for s in dfa.accepting), dfa.known)


def _without_idle_letters(dfa: Automaton) -> Automaton:
    """Without labels that always lead where any other label leads: `.` covers them without reading the label.

    >>> print(compile_expression("a | ."))
    0 -.-> 1 (accepts)
    """
    states = {s for s, _ in dfa.moves}

    def leads(letter: Letter) -> list[int | None]:
        return [dfa.moves.get((s, letter)) for s in states]

    idle = {a for a in dfa.known if a.label is not None and leads(a) == leads(Letter(None, a.back))}
    kept = {move: t for move, t in dfa.moves.items() if move[1] not in idle}
    return Automaton(kept, dfa.accepting, dfa.known - idle)
