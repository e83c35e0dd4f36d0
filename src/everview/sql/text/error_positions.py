"""Error positions: every refusal names line and column, and shows the place.

sqlglot records the positions of identifiers, literals and functions. Other nodes (operators, clauses) are located by
their first part; an unread clause by its keyword.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import Token, exp
from sqlglot.errors import TokenError

from everview.errors import EverviewError, PlanError
from everview.expr.functions import NoCast, WrongTypes
from everview.sql.scalar.type_names import in_words
from everview.sql.text.annotations import Notes
from everview.types import DataType

if TYPE_CHECKING:
    from everview.sql.answers.parameters import Parameters


class SqlError(PlanError):
    """An invalid statement, or one that cannot be maintained, with its line and column.

    >>> error = SqlError("E_COLUMN", "there is no column c_nam", "did you mean 'c_name'?", 1, 8)
    >>> print(error)
    [E_COLUMN] line 1, column 8: there is no column c_nam
      hint: did you mean 'c_name'?
    >>> print(SqlError("E_COLUMN", "there is no column c_nam", "", 1, 8, "SELECT c_nam FROM customer"))
    [E_COLUMN] line 1, column 8: there is no column c_nam
      SELECT c_nam FROM customer
             ^
    """

    def __init__(self, code: str, message: str, hint: str = "", line: int = 0, column: int = 0, text: str = "") -> None:
        super().__init__(code, f"line {line}, column {column}: {message}", hint)
        self.line = line
        self.column = column
        self.excerpt = _excerpt(text, line, column)

    def __str__(self) -> str:
        head = f"[{self.code}] {self.message}"
        return "\n  ".join([head, *self.excerpt, *([f"hint: {self.hint}"] if self.hint else [])])


WORDS: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Select, "locks"): "FOR",
    (exp.Select, "sample"): "TABLESAMPLE",
    (exp.Table, "sample"): "TABLESAMPLE",
    (exp.Limit, "expressions"): "BY",
}
"""The keyword of a part, if it is neither the part's name nor its class's."""

SHOWN = 100
"""Letters of a long line that are shown around a mistake."""


def _excerpt(text: str, line: int, column: int) -> list[str]:
    """The line, and a caret under the column.

    >>> _excerpt("SELECT 1\\n  + x", 2, 5)
    ['+ x', '  ^']
    """
    lines = text.split("\n")
    if not text or not 1 <= line <= len(lines):
        return []
    start = max(0, column - 1 - SHOWN // 2)
    shown = lines[line - 1].replace("\t", " ")[start : start + SHOWN].rstrip()
    blank = min(len(shown) - len(shown.lstrip()), column - 1 - start)
    return [shown[blank:], " " * (column - 1 - start - blank) + "^"] if shown.strip() else []


SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "/", "mod": "%", "pow": "^", "neg": "-", "not": "NOT",
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "AND", "or": "OR", "like": "LIKE",
    "concat": "||", "json_concat": "||", "array_concat": "||", "band": "&", "bor": "|", "bxor": "#", "bnot": "~",
    "bshl": "<<", "bshr": ">>", "json_get": "->", "json_get_text": "->>", "json_path": "#>", "json_path_text": "#>>",
    "json_contains": "@>", "array_contains": "@>", "array_overlaps": "&&", "json_has": "?", "json_has_any": "?|",
    "json_has_all": "?&", "json_delete": "-", "json_delete_path": "#-", "startswith": "^@", "abs": "@", "sqrt": "|/",
}  # fmt: skip
"""Functions that are also written as operators, which is how errors show them then."""

_CLAUSES = [
    [w] for w in ["FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "AS", "UNION", "THEN", "ON", "AND", "OR"]
]

EXCERPT = 40
"""Letters of a text that are shown at most."""


@dataclass(frozen=True)
class Source:
    """The text of a script, for locating errors.

    >>> Source("select\\n  x").line_and_column(9)
    (2, 3)
    """

    text: str
    notes: Notes = field(default_factory=Notes)
    known: tuple[Token, ...] | None = None
    """The tokens, if they are known already."""
    dialect: str = "postgres"
    """What it is written in."""
    is_cut: bool = False
    """Whether those tokens are exactly the text's."""
    shown: str = ""
    """The text as it was written, with the forms that were noted and blanked out; errors show it."""
    zone: str = "UTC"
    """The session's time zone."""
    types: Mapping[str, DataType] = field(default_factory=dict)
    """Types that CREATE TYPE made, by name."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """What CREATE DOMAIN said, by name."""
    parameters: Parameters | None = None
    """What $1, $2, ... stand for, where a call gives them values (`everview.sql.answers.parameter_values`)."""
    clock: list[dt.datetime] = field(default_factory=list, repr=False, compare=False)
    """The value of now() in the statement: the clock is read once."""

    def now(self, read: Callable[[], dt.datetime]) -> dt.datetime:
        """What now() is in the statement; `read` reads the clock if nobody has.

        >>> moments = iter([dt.datetime(2026, 1, 31), dt.datetime(2026, 2, 1)])
        >>> source = Source("select now() = current_timestamp")
        >>> source.now(lambda: next(moments)) == source.now(lambda: next(moments))
        True
        """
        if not self.clock:
            self.clock.append(read())
        return self.clock[0]

    @cached_property
    def tokens(self) -> Sequence[Token]:
        """The text's tokens; none if it cannot be cut into any."""
        try:
            return sqlglot.tokenize(self.text, read=self.dialect) if self.known is None else self.known
        except TokenError:
            return []

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Both counted from 1."""
        return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)

    def offset(self, line: int, column: int) -> int:
        """Where a line and column are, both counted from 1."""
        return sum(len(text) + 1 for text in self.text.split("\n")[: line - 1]) + column - 1

    def error(self, at: exp.Expr | None, code: str, message: str, hint: str = "") -> SqlError:
        """An error at a node's place."""
        begin = self.tokens[0].start if self.tokens else 0  # where nothing is known of the place
        call = self._call(at)
        return self.error_at(call.start if call else max(offset_of(at), begin), code, message, hint)

    def _call(self, node: exp.Expr | None) -> Token | None:
        """The name in the text of a call that has no place of its own: the only function so called."""
        if not isinstance(node, exp.Func) or isinstance(node, exp.Anonymous) or _starts(node):
            return None
        names = {name.lower() for name in type(node).sql_names()}
        pairs = itertools.pairwise(self.tokens)
        found = [token for token, after in pairs if after.text == "(" and token.text.lower() in names]
        return found[0] if len(found) == 1 else None

    def error_at(self, offset: int, code: str, message: str, hint: str = "") -> SqlError:
        """An error at an offset in the text."""
        return SqlError(code, message, hint, *self.line_and_column(offset), self.shown or self.text)

    def refuse(self, at: exp.Expr | None, what: str, hint: str = "") -> SqlError:
        """The error for SQL that is understood but not supported."""
        return self.error(at, "E_UNSUPPORTED", what, hint)

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node with unknown parts: what is not understood must not be ignored."""
        for name, value in node.args.items():
            if value and name not in known:
                raise self.unread(node, name)

    def unread(self, node: exp.Expr, part: str) -> SqlError:
        """Return the error for an unread part of a node, in terms of the text."""
        token = self._written(node, part)
        if token is None:
            return self.refuse(node, f"this form of {self.written(node)} is not supported")
        hint = _HINTS.get((type(node), part), "")
        return self.error_at(token.start, "E_UNSUPPORTED", f"{token.text} is not supported here", hint)

    def written(self, node: exp.Expr) -> str:
        """A node as it is written: the function's name; else its words, never the parser's."""
        if call := self._call(node):
            return call.text.lower()
        start = node.meta.get("start")
        word = next((t.text for t in self.tokens if t.start == start), "") if start is not None else ""
        if word.isidentifier():
            return word.lower()
        named = node.meta.get("name") or (self.caller(offset_of(node)) if isinstance(node, exp.Func) else "")
        return str(named).lower() if named else self.excerpt(node)

    def caller(self, offset: int) -> str:
        """The function whose first argument stands at an offset, if there is one."""
        before = [t for t in self.tokens if t.start < offset][-2:]
        named = len(before) == 2 and before[1].text == "(" and before[0].text.isidentifier()
        return before[0].text if named else ""

    def excerpt(self, node: exp.Expr) -> str:
        """The words that a node begins with, to where a list, a clause or a bracket ends; a few if they are many."""
        starts = _starts(node)
        depth, last = 0, -1
        for token in self.tokens:
            if not starts or token.start < min(starts):
                continue
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
            if depth < 0 or (depth == 0 and (token.text == "," or token.text.upper().split()[:1] in _CLAUSES)):
                break
            last = token.end
        text = " ".join(self.text[min(starts) : last + 1].split()) if last >= 0 else "this"
        return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."

    def word_before(self, node: exp.Expr) -> str:
        """The word before a node, in upper case; brackets do not count."""
        start = offset_of(node)
        before = [t.text.upper() for t in self.tokens if t.start < start and t.text not in "()"]
        return before[-1] if before else ""

    def word_after(self, node: exp.Expr) -> str:
        """The word after the one at which a node begins, in upper case."""
        start = offset_of(node)
        return next((t.text.upper() for t in self.tokens if t.start > start), "")

    def _written(self, node: exp.Expr, part: str) -> Token | None:
        """The token by which a part of a node was written, as far as that can be told."""
        tokens = self.tokens
        value = node.args.get(part)
        value = value[0] if isinstance(value, list) and value else value
        after = [t for t in tokens if t.start >= offset_of(node)]
        for word in _words(node, part, value):
            for token in [*after, *tokens]:
                if token.text.upper() == word or token.text.upper().startswith(f"{word} "):
                    return token
        starts = _starts(value) if isinstance(value, exp.Expr) else []
        return next((t for t in tokens if starts and t.start == min(starts)), None)

    def placed(self, error: EverviewError, at: exp.Expr) -> SqlError:
        """An error of a lower layer, with its position added."""
        if isinstance(error, SqlError):
            return error
        hint = "cast one of them: CAST(x AS type)" if ".cast(" in error.hint else error.hint
        message = self._applied(error, at) if isinstance(error, WrongTypes) else error.message
        if isinstance(error, NoCast):
            hint = "cast it to text first" if "UDF" in hint else hint
            message = "{} cannot be cast to {}".format(*map(in_words, error.types))
        return self.error(at, error.code, message, hint)

    def _applied(self, error: WrongTypes, at: exp.Expr) -> str:
        """That an operator or a function does not take such values, as they are written."""
        given = [in_words(t) for t in error.types]
        sign = SIGNS.get(error.function)
        if sign is not None and "start" not in at.meta and len(given) < 3:
            return f"{f' {sign} '.join(given) if len(given) == 2 else f'{sign} {given[0]}'} does not exist"
        return f"{self._called(error.function, at)}({', '.join(given)}) does not exist"

    def _called(self, function: str, at: exp.Expr) -> str:
        """The name by which a function was called, if that is known."""
        start = at.meta.get("start")
        return next((t.text.lower() for t in self.tokens if t.start == start and t.text.isidentifier()), function)


QUERY = "reads tables"
"""What the meta of a call says whose function is a query (`everview.sql.ddl.sql_functions`)."""


_HINTS: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Select, "locks"): "leave it out: a transaction fails if others have changed the same rows first",
}
"""What to do about parts that are not supported."""


def has_query(node: exp.Expr) -> bool:
    """Whether there is a subquery in the expression, or a call that becomes one."""
    return any(isinstance(n, (exp.Query, exp.ArrayFilter, exp.Transform)) or QUERY in n.meta for n in node.walk())


def offset_of(node: exp.Expr | None) -> int:
    """The offset of a node in the text, or of its surroundings; 0 if unknown."""
    while node is not None:
        starts = _starts(node)
        if starts:
            return min(starts)
        node = node.parent
    return 0


def _starts(node: exp.Expr) -> list[int]:
    return [int(n.meta["start"]) for n in node.walk() if "start" in n.meta]


def _words(node: exp.Expr, part: str, value: object) -> Iterator[str]:
    """How a part may have been written: its text, its name, its class, the class of the node that it belongs to."""
    if (type(node), part) in WORDS:
        yield WORDS[type(node), part]
    if isinstance(value, str):
        yield value.upper()
        yield value.upper().split()[0]
    if isinstance(value, (exp.Identifier, exp.Var)):
        yield value.name.upper()
    name = part.strip("_").upper()
    yield name.replace("_", " ")
    yield from name.split("_")
    kind_of = value.args.get("kind") if isinstance(value, exp.Expr) else None
    if isinstance(kind_of, str):
        yield kind_of.upper()
    for kind in (value, node):
        if isinstance(kind, exp.Expr) and not isinstance(kind, (exp.Identifier, exp.Column, exp.Literal)):
            words = re.findall("[A-Z][a-z]*", type(kind).__name__)
            yield " ".join(words).upper()
            yield words[0].upper()
