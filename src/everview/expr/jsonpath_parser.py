"""The parser of SQL/JSON paths (`everview.expr.jsonpath`), from conditions down to single steps.

>>> items(compiled("$.a[*] ? (@ > 1)"), {"a": [1, 2, 3]})
[2, 3]
>>> items(compiled("exists($.b)"), {"a": 1})
[False]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.codes.digits import whole_number
from everview.expr import jsonpath as steps
from everview.expr.jsonpath import Bounds, Item, Path, Run, Step, Truth, items

__all__ = ["PathSyntax", "compiled", "items"]


class PathSyntax(ValueError):
    """The text is not a valid or supported path."""


@lru_cache(maxsize=1024)
def compiled(text: str) -> Path:
    """Compile a path."""
    return _Parser(text).path()


_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[^\W\d][\w]*)"""
    r"""|(?P<sign>\.\*\*|&&|\|\||==|!=|<>|<=|>=|[$@.*\[\](),?!<>+\-/%]))"""
)
Node = tuple[str, Any]
"""("path", a step) or ("test", a condition)"""


class _Parser:
    """Reads a path: from conditions down to single steps."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise PathSyntax(f"{text[at:].strip()[:20]!r} is not understood")
            at = found.end()
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
        self.at = 0

    def path(self) -> Path:
        mode = self.take_word("strict", "lax")
        node = self.disjunction()
        if self.at < len(self.tokens):
            raise PathSyntax(f"{self.tokens[self.at][1]!r} is not expected")
        return Path(self.step(node), mode == "strict", node[0] == "test")

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "its end")

    def take(self, *signs: str) -> str | None:
        kind, text = self.peek()
        if kind == "sign" and text in signs:
            self.at += 1
            return text
        return None

    def take_word(self, *words: str) -> str | None:
        kind, text = self.peek()
        if kind == "word" and text in words:
            self.at += 1
            return text
        return None

    def expect(self, sign: str) -> None:
        if self.take(sign) is None:
            raise PathSyntax(f"{sign!r} is expected before {self.peek()[1]!r}")

    def step(self, node: Node) -> Step:
        found: Step = steps.as_item(node[1]) if node[0] == "test" else node[1]
        return found

    def test(self, node: Node) -> Truth:
        if node[0] != "test":
            raise PathSyntax(f"a condition is expected before {self.peek()[1]!r}")
        found: Truth = node[1]
        return found

    def disjunction(self) -> Node:
        node = self.conjunction()
        while self.take("||"):
            node = ("test", steps.either(self.test(node), self.test(self.conjunction())))
        return node

    def conjunction(self) -> Node:
        node = self.negation()
        while self.take("&&"):
            node = ("test", steps.both(self.test(node), self.test(self.negation())))
        return node

    def negation(self) -> Node:
        if self.take("!"):
            return ("test", steps.negated(self.test(self.negation())))
        return self.comparison()

    def comparison(self) -> Node:
        node = self.sum()
        op = self.take("==", "!=", "<>", "<=", ">=", "<", ">")
        if op is not None:
            return ("test", steps.comparison(self.step(node), "!=" if op == "<>" else op, self.step(self.sum())))
        if self.take_word("starts"):
            if self.take_word("with") is None:
                raise PathSyntax("'with' is expected after 'starts'")
            return ("test", steps.text_test(self.step(node), _beginning(self.text())))
        if self.take_word("like_regex"):
            pattern = self.text()
            flags = self.text() if self.take_word("flag") else ""
            return ("test", steps.text_test(self.step(node), _pattern(pattern, flags)))
        if self.take_word("is"):
            if self.take_word("unknown") is None:
                raise PathSyntax("'unknown' is expected after 'is'")
            inner = self.test(node)
            return ("test", lambda run, given: inner(run, given) is None)
        return node

    def sum(self) -> Node:
        node = self.product()
        while op := self.take("+", "-"):
            node = ("path", steps.arithmetic(self.step(node), op, self.step(self.product())))
        return node

    def product(self) -> Node:
        node = self.signed()
        while op := self.take("*", "/", "%"):
            node = ("path", steps.arithmetic(self.step(node), op, self.step(self.signed())))
        return node

    def signed(self) -> Node:
        op = self.take("+", "-")
        return ("path", steps.signed(self.step(self.signed()), op)) if op else self.accessors()

    def accessors(self) -> Node:
        node = self.primary()
        found: list[Step] = []
        while one := self.accessor():
            found.append(one)
        return ("path", steps.chain([self.step(node), *found])) if found else node

    def primary(self) -> Node:
        kind, text = self.peek()
        if self.take("$"):
            if self.peek()[0] == "word":
                raise PathSyntax(f"there is no variable ${self.peek()[1]}")
            return ("path", lambda run, given: [run.root])
        if self.take("@"):
            return ("path", lambda run, given: given)
        if self.take("("):
            node = self.disjunction()
            self.expect(")")
            return node
        self.at += 1
        if kind == "word" and text == "exists":
            self.expect("(")
            operand = self.step(self.disjunction())
            self.expect(")")
            return ("test", steps.exists(operand))
        if kind == "word" and text in ("true", "false", "null"):
            return ("path", _constant({"true": True, "false": False, "null": None}[text]))
        if kind == "number":
            return ("path", _constant(int(text) if text.isdecimal() and len(text) < 4000 else Decimal(text)))
        if kind == "text":
            return ("path", _constant(json.loads(text)))
        raise PathSyntax(f"{text!r} is not expected")

    def text(self) -> str:
        kind, text = self.peek()
        if kind != "text":
            raise PathSyntax(f"a text is expected before {text!r}")
        self.at += 1
        return str(json.loads(text))

    def accessor(self) -> Step | None:
        if self.take(".**"):
            return steps.anything
        if self.take("."):
            return self.member()
        if self.take("["):
            return self.subscript()
        if self.take("?"):
            self.expect("(")
            test = self.test(self.disjunction())
            self.expect(")")
            return steps.filtered(test)
        return None

    def member(self) -> Step:
        if self.take("*"):
            return steps.any_member
        kind, text = self.peek()
        if kind not in ("word", "text"):
            raise PathSyntax(f"a name is expected before {text!r}")
        self.at += 1
        if kind == "word" and self.take("("):
            self.expect(")")
            if text not in steps.METHODS:
                raise PathSyntax(f"there is no method {text}()")
            return steps.method(text)
        return steps.member(json.loads(text) if kind == "text" else text)

    def subscript(self) -> Step:
        if self.take("*"):
            self.expect("]")
            return steps.any_element
        ranges: list[Bounds] = []
        while True:
            low = self.place()
            ranges.append((low, self.place() if self.take_word("to") else low))
            if not self.take(","):
                break
        self.expect("]")
        return steps.elements(ranges)

    def place(self) -> Callable[[Run, int], int]:
        """A number, or `last`, or an offset before it."""
        if self.take_word("last"):
            back = int(self.whole()) if self.take("-") else 0
            return lambda run, length: length - 1 - back
        number = self.whole()
        return lambda run, length: number

    def whole(self) -> int:
        minus = self.take("-") is not None
        kind, text = self.peek()
        if kind != "number" or not text.isdecimal():
            raise PathSyntax(f"a whole number is expected before {text!r}")
        self.at += 1
        return -whole_number(text) if minus else whole_number(text)


def _constant(value: Item) -> Step:
    return lambda run, given: [value]


def _beginning(start: str) -> Callable[[str], bool]:
    return lambda text: text.startswith(start)


def _pattern(pattern: str, flags: str) -> Callable[[str], bool]:
    if set(flags) - set("isq"):
        raise PathSyntax(f"the flags {flags!r} are not understood")
    letters = "".join(flag for flag in "is" if flag in flags)
    made = (f"(?{letters})" if letters else "") + (f"\\Q{pattern}\\E" if "q" in flags else pattern)
    try:
        pc.match_substring_regex(pa.scalar(""), pattern=made)
    except pa.ArrowInvalid as error:
        raise PathSyntax(f"{pattern!r} is not a pattern: {error}") from None
    return lambda text: bool(pc.match_substring_regex(pa.scalar(text), pattern=made).as_py())
