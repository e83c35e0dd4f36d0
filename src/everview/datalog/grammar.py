"""The ordinary syntax: rules as in Prolog.

    reach(X)     :- root(X).                                a capital letter begins a variable
    reach(Y)     :- reach(X), edge(X, Y).
    orphan(X)    :- edge(X, _), not reach(X).               _ is any value
    fanout(X, N) :- edge(X, Y), N = count(Y).
    near(X, D)   :- at(X, P), (P < 5 ; home(X)), D = abs(P - 3).
    likes(ann, "red wine").                                 a bare word is a string
    staff(S, N)  :- shop(S), N = count : { works(_, S) }.   0 where nobody works
    a(X), b(X)   :- c(X).                                   two heads
    p(X, A) <= p(X, B) :- A > B.                            of p, the smallest for each X

Lark parses it with an LALR(1) parser. A body is parsed as one expression, in which `;` binds less than `,` less than
`not` less than a comparison less than arithmetic; what is valid where is checked afterwards, with clearer errors. `%`
and `//` begin a comment where an operand is expected, and are modulo and division after one.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, v_args
from lark.exceptions import VisitError

from everview.codes.digits import whole_number
from everview.datalog import modules, variants
from everview.datalog.syntax import (
    AGGREGATES,
    COUNTING,
    RECORD,
    Aggregate,
    Apply,
    Atom,
    Body,
    Compare,
    Const,
    DatalogError,
    Declaration,
    Dominance,
    Holds,
    Literal,
    Not,
    Or,
    Place,
    Program,
    Rule,
    SumType,
    Term,
    Test,
    Total,
    Var,
    Variant,
    Wild,
    mapped,
)
from everview.errors import did_you_mean

GRAMMAR = r"""
    program: statement*
    ?statement: calls "."                        -> fact
              | calls IF body "."                -> rule
              | call COMPARE call IF body "."    -> dominance
              | DECL name "(" [column ("," column)*] ")" [CHOICE domain ("," domain)*]     -> declaration
              | COMP name [params] [":" name [params]] "{" statement* "}"      -> component
              | INIT name "=" name [params]      -> instance
              | TYPE name "=" form ("|" form)*   -> sum_type
    calls: call ("," call)*
    name: WORD | VAR
    column: name [":" name]
    ?domain: name | "(" name ("," name)* ")"
    params: "<" name ("," name)* ">"
    form: name "{" [column ("," column)*] "}"

    ?body: conjunction
         | conjunction (";" conjunction)+        -> either
    ?conjunction: negation
                | negation ("," negation)+       -> all_of
    ?negation: NOT negation                      -> negated
             | comparison
    ?comparison: bits
               | bits COMPARE bits               -> compare
    ?bits: sum
         | bits BITS sum                         -> binary
    ?sum: product
        | sum (PLUS | MINUS) product             -> binary
    ?product: unary
            | product (STAR | SLASH | SLASHES | PERCENT | MOD) unary   -> binary
    ?unary: power
          | MINUS unary                          -> negative
          | BNOT unary                           -> bnot
    ?power: primary
          | primary STARS unary                  -> binary
    ?primary: "(" body ")"                       -> group
            | call
            | VAR                                -> variable
            | FLOAT                              -> number
            | INT                                -> number
            | STRING                             -> string
            | WORD                               -> word
            | "[" bits ("," bits)* "]"           -> record
            | FORM ["(" [bits ("," bits)*] ")"]  -> variant
            | OVER [bits] ":" "{" body "}" [DEFAULT default]   -> over
    ?default: primary
            | MINUS primary                      -> negative

    call: FUNCTOR "(" [arg ("," arg)*] ")"
    ?arg: bits
        | (WORD | VAR) ":" bits                  -> named
        | STAR                                   -> star

    IF: ":-" | "<-"
    DECL: /\.decl\b/
    COMP: /\.comp\b/
    INIT: /\.init\b/
    TYPE: /\.type\b/
    FORM: /\$[A-Za-z_][A-Za-z_0-9]*/
    CHOICE.5: /choice-domain\b/
    DEFAULT.5: /default\b/
    BITS.4: /(band|bor|bxor|bshl|bshru|bshr)\b/
    BNOT.4: /bnot\b/
    OVER.6: /(%OVER%)\b(?=\s*:\s*\{|\s+(?![,)])([^:{};.]|\.\d)*:\s*\{)/
    NOT.4: /not\b/ | /!(?!=)/ | "\\+"
    MOD.4: /mod\b/
    COMPARE.3: "==" | "=<" | "<=" | ">=" | "!=" | "<>" | "\\=" | "=" | "<" | ">"
    STARS.3: "**"
    SLASHES.3: "//"
    STAR: "*"
    SLASH: "/"
    PERCENT.3: "%"
    PLUS: "+"
    MINUS: "-"
    FUNCTOR.3: /[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*)*(?=\s*\()/ | /`[^`\n]+`(?=\s*\()/
    VAR.2: /[A-Z_][A-Za-z_0-9]*/
    WORD: /[a-z][A-Za-z_0-9]*/
    FLOAT.2: /\d+\.\d+([eE][+-]?\d+)?/ | /\d+[eE][+-]?\d+/
    INT: /\d+/
    STRING: /"(\\.|[^"\\\n])*"/ | /'(\\.|[^'\\\n])*'/
    COMMENT.1: /%[^\n]*/ | /#[^\n]*/ | /\/\/[^\n]*/ | /\/\*(.|\n)*?\*\//
    %ignore COMMENT
    %ignore /\s+/
""".replace("%OVER%", "|".join((*AGGREGATES, "mean")))

COMPARISONS = {"=": "eq", "==": "eq", "!=": "ne", "<>": "ne", "\\=": "ne", "<": "lt", ">": "gt", ">=": "ge"}
COMPARISONS |= {"<=": "le", "=<": "le"}
BITS = ("band", "bor", "bxor", "bshl", "bshr", "bshru")
OPERATORS = {name: name for name in BITS}
OPERATORS |= {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod", "mod": "mod", "**": "pow"}

_EXPECTED = {
    "COMPARE": "a comparison",
    "IF": "':-'",
    "DOT": "'.'",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "LPAR": "'('",
    "RPAR": "')'",
    "FUNCTOR": "a relation",
    "VAR": "a variable",
    "WORD": "a word",
    "INT": "a number",
    "STRING": "a string",
    "NOT": "'not'",
}


def parse(text: str) -> Program:
    """Parse the rules of a text.

    >>> parse("big(X) :- size(X, N), N > 2 ; huge(X).")[0].name
    'big'
    >>> len(parse("big(X) :- size(X, N), N > 2 ; huge(X)."))
    2
    """
    try:
        tree = _lark().parse(text)
        reader = _Reader(text)
        statements: list[Any] = reader.transform(tree)
    except UnexpectedInput as error:
        raise syntax_error(text, error, "a rule ends with a full stop: p(X) :- q(X).") from None
    except VisitError as error:
        if isinstance(error.orig_exc, DatalogError):
            raise error.orig_exc from None
        raise
    return variants.resolved(modules.expanded(statements), reader.types)


@cache
def _lark() -> Lark:
    return Lark(GRAMMAR, start="program", parser="lalr", lexer="contextual", propagate_positions=True)


def syntax_error(text: str, error: UnexpectedInput, at_end_hint: str) -> DatalogError:
    """Convert a Lark error into ours."""
    token = getattr(error, "token", None)
    at_end = token is not None and token.type == "$END"
    if at_end:
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        what = "the text ends in the middle of a rule"
    else:
        line, column = error.line, error.column
        what = (
            f"{str(token)!r} is not allowed here"
            if token is not None
            else f"{text[error.pos_in_stream or 0]!r} is not a sign"
        )
    expected = set(getattr(error, "accepts", None) or getattr(error, "expected", None) or ())
    named = [_EXPECTED[e] for e in _EXPECTED if e in expected]
    hint = at_end_hint if at_end else f"expected {', '.join(named)}" if named else ""
    return Place(line, column).error("E_SYNTAX", what, hint)


class _Star:
    """The `*` of count(*)."""


@dataclass(frozen=True)
class _Called:
    """A name with arguments in brackets: a relation, a function or an aggregate, depending on its position."""

    name: str
    args: tuple[Any, ...]
    place: Place


@v_args(meta=True)
class _Reader(Transformer[Any, Any]):
    """Converts the tree to rules; a name followed by brackets is a _Called until its position decides what it is."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source = source
        self._words: dict[int, Place] = {}  # bare words and variables, by position
        self._variables: set[int] = set()
        self.types: list[SumType] = []
        """the declarations of `.type`, wherever they are"""

    def _refuse_small_variables(self, meta: Any, body: int) -> None:
        """Refuse a rule without a variable whose head and body share a bare word: `p(x) :- q(x, y).` would be about the
        string "x".
        """
        if any(meta.start_pos <= at < meta.end_pos for at in self._variables):
            return
        inside = [(at, place) for at, place in self._words.items() if meta.start_pos <= at < meta.end_pos]
        after = {place.word for at, place in inside if at > body}
        for at, place in inside:
            if at < body and place.word in after:
                what = f"{place.word} is a string here, and the rule has no variable"
                raise place.error("E_VARIABLE", what, place.capital())

    def program(self, _meta: Any, statements: list[Any]) -> list[Any]:
        return _flat(statements)

    def fact(self, meta: Any, parts: list[Any]) -> list[Rule]:
        text = self._text(meta)
        return [
            _rule(head, (), replace(head.place if len(parts[0]) > 1 else _place(meta), text=text)) for head in parts[0]
        ]

    def rule(self, meta: Any, parts: list[Any]) -> list[Rule]:
        heads, sign, body = parts
        self._refuse_small_variables(meta, sign.start_pos)
        found: list[Rule] = []
        for head in heads:
            place = replace(head.place if len(heads) > 1 else _place(meta), text=self._text(meta))
            whole = _rule(head, _conjunction(body), place)
            counts = any(isinstance(t, Aggregate) and t.kind in COUNTING for t in whole.head)
            branches = body.branches if isinstance(body, Or) and not counts else (_conjunction(body),)
            found += [_rule(head, branch, place) for branch in branches]
        return found

    def _text(self, meta: Any) -> str:
        """A statement as written, in one line."""
        return " ".join(self._source[meta.start_pos : meta.end_pos].split())

    def calls(self, _meta: Any, parts: list[Any]) -> list[Any]:
        return parts

    def dominance(self, meta: Any, parts: list[Any]) -> Any:
        lower, op, upper, _, body = parts
        place = _place(meta)
        if op not in ("<=", "=<") or lower.name != upper.name or len(lower.args) != len(upper.args):
            raise place.error(
                "E_SYNTAX", "a row is dominated by a row of the same relation", "p(X, A) <= p(X, B) :- ..."
            )
        low, high = (_rule(head, (), place) for head in (lower, upper))
        return Dominance(low.name, low.head, high.head, _conjunction(body), place)

    def name(self, _meta: Any, parts: list[Any]) -> str:
        return str(parts[0])

    def column(self, _meta: Any, parts: list[Any]) -> tuple[str, str | None]:
        return parts[0], parts[1]

    def domain(self, _meta: Any, parts: list[Any]) -> list[str]:
        return parts

    def params(self, _meta: Any, parts: list[Any]) -> list[str]:
        return parts

    def declaration(self, meta: Any, parts: list[Any]) -> Any:
        _, name, *rest = parts
        columns = [p for p in rest if isinstance(p, tuple)]
        domains = [p if isinstance(p, list) else [p] for p in rest if isinstance(p, list) or type(p) is str]
        place = _place(meta)
        if len(domains) > 1:
            hint = "put them into brackets to choose a row for each pair: choice-domain (x, y)"
            raise place.error("E_UNSUPPORTED", "a relation has one choice-domain", hint)
        names = tuple(c for c, _ in columns)
        for column in names:
            if names.count(column) > 1:
                raise place.error("E_DUPLICATE", f"{name} has two columns called {column}", "give each its own name")
        for chosen in domains[0] if domains else ():
            if chosen not in names:
                raise place.error("E_COLUMN", f"{name} has no column {chosen}", did_you_mean(chosen, names))
            if domains[0].count(chosen) > 1:
                raise place.error("E_DUPLICATE", f"the choice-domain of {name} has {chosen} twice", "name it once")
        choice = tuple(domains[0]) if domains else None
        return Declaration(name, names, tuple(t for _, t in columns), choice, place)

    def component(self, meta: Any, parts: list[Any]) -> Any:
        return modules.component(_place(meta), [p for p in parts[1:] if p is not None], _flat)

    def instance(self, meta: Any, parts: list[Any]) -> Any:
        _, name, of, params = parts
        return modules.Instance(name, of, tuple(params or ()), _place(meta))

    def form(self, meta: Any, parts: list[Any]) -> tuple[str, tuple[Any, ...], Place]:
        return parts[0], tuple(p for p in parts[1:] if p is not None), _place(meta)

    def sum_type(self, meta: Any, parts: list[Any]) -> list[Any]:
        _, name, *forms = parts
        self.types.append(variants.declared(name, forms, _place(meta)))
        return []

    def variant(self, meta: Any, parts: list[Any]) -> Any:
        form, *args = parts
        return Variant(str(form), tuple(_term(a) for a in args if a is not None), place=_place(meta))

    def record(self, meta: Any, parts: list[Any]) -> Any:
        return Apply(RECORD, tuple(map(_term, parts)), place=_place(meta))

    def bnot(self, meta: Any, parts: list[Any]) -> Any:
        return Apply("bnot", (_term(parts[1]),), place=_place(meta))

    def over(self, meta: Any, parts: list[Any]) -> Any:
        kind, arg, body, _, default = parts
        return _Over(
            {"mean": "avg"}.get(str(kind), str(kind)),
            None if arg is None else _term(arg),
            _conjunction(body),
            None if default is None else _term(default),
            place=_place(meta),
        )

    def either(self, meta: Any, parts: list[Any]) -> Any:
        return Or(tuple(_conjunction(p) for p in parts), place=_place(meta))

    def all_of(self, _meta: Any, parts: list[Any]) -> Any:
        return [literal for part in parts for literal in _conjunction(part)]

    def negated(self, meta: Any, parts: list[Any]) -> Any:
        return Not(_conjunction(parts[1]), place=_place(meta))

    def compare(self, meta: Any, parts: list[Any]) -> Any:
        left, op, right = parts
        return Compare(COMPARISONS[op], _term(left), _term(right), place=_place(meta))

    def binary(self, meta: Any, parts: list[Any]) -> Any:
        left, op, right = parts
        return Apply(OPERATORS[op], (_term(left), _term(right)), place=_place(meta))

    def negative(self, meta: Any, parts: list[Any]) -> Any:
        term = _term(parts[1])
        if isinstance(term, Const) and isinstance(term.value, int | float):
            return Const(-term.value, place=_place(meta))
        return Apply("neg", (term,), place=_place(meta))

    def group(self, _meta: Any, parts: list[Any]) -> Any:
        return parts[0]

    def variable(self, meta: Any, parts: list[Any]) -> Any:
        name = str(parts[0])
        self._variables.add(meta.start_pos)
        return Wild(place=_place(meta)) if name == "_" else Var(name, place=_place(meta))

    def number(self, meta: Any, parts: list[Any]) -> Any:
        token = parts[0]
        return Const(whole_number(str(token)) if token.type == "INT" else float(token), place=_place(meta))

    def string(self, meta: Any, parts: list[Any]) -> Any:
        try:
            return Const(ast.literal_eval(str(parts[0])), place=_place(meta))
        except (SyntaxError, ValueError):
            place = _place(meta)
            raise place.error("E_SYNTAX", "the string has a meaningless escape", "\\\\ is a backslash") from None

    def word(self, meta: Any, parts: list[Any]) -> Any:
        word = str(parts[0])
        if word in ("true", "false"):
            return Const(word == "true", place=_place(meta))
        place = replace(_place(meta), word=word)
        self._words[meta.start_pos] = place
        return Const(word, place=place)

    def star(self, _meta: Any, _parts: list[Any]) -> Any:
        return _Star()

    def named(self, _meta: Any, parts: list[Any]) -> Any:
        return str(parts[0]), _term(parts[1])

    def call(self, meta: Any, parts: list[Any]) -> Any:
        functor: Token = parts[0]
        args = [p for p in parts[1:] if p is not None]
        name, place = str(functor).strip("`"), _place(meta)
        if any(isinstance(a, _Star) for a in args) and (name != "count" or len(args) > 1):
            raise place.error("E_SYNTAX", "* is only allowed in count(*)", "name a value, or write _ for any")
        return _Called(name, tuple(args), place)


@dataclass(frozen=True)
class _Over(Term):
    """`sum P : { ... }` at its original place; `_lifted` replaces it by a variable and a literal."""

    kind: str
    arg: Term | None
    body: Body
    default: Term | None


_numbers = itertools.count()


def _lifted(part: Any, literals: list[Literal]) -> Any:
    """A term or literal with aggregates over bodies replaced by variables, and the literals that bind them."""

    def lift(thing: Any) -> Any:
        if not isinstance(thing, _Over):
            return thing
        variable = Var(f"'t{next(_numbers)}", place=thing.place)
        if (thing.arg is None) != (thing.kind == "count"):
            wants = f"{thing.kind} X : {{ ... }}" if thing.arg is None else "count : { ... }"
            raise thing.place.error("E_SYNTAX", f"{thing.kind} is written {wants}", "name what is aggregated")
        default = thing.default
        if default is None and thing.kind in ("count", "sum"):
            default = Const(0, place=thing.place)
        if default is not None and list(default.variables()):
            raise thing.place.error("E_SYNTAX", "the default must be a constant", "default 0")
        literals.append(Total(variable, thing.kind, thing.arg, thing.body, default, place=thing.place))
        return variable

    return mapped(part, lift)


def _flat(statements: list[Any]) -> list[Any]:
    return [s for group in statements for s in (group if isinstance(group, list) else [group])]


def _place(meta: Any) -> Place:
    return Place(meta.line, meta.column)


def _rule(head: Any, body: Body, place: Place) -> Rule:
    assert isinstance(head, _Called)
    if head.name in ("count", "count_distinct", "sum", "avg", "min", "max") and len(head.args) <= 1:
        raise place.error("E_SYNTAX", f"{head.name} is an aggregate, no name for a relation", "choose another name")
    if any(isinstance(a, tuple) for a in head.args):
        raise place.error("E_SYNTAX", "the head must be a relation with its columns in order", "name(X, Y) :- ...")
    more: list[Literal] = []
    terms = tuple(_lifted(_term(a), more) for a in head.args)
    return Rule(head.name, terms or (Holds(place=place),), (*body, *more), place)


def _term(part: Any) -> Term:
    """The part as a value."""
    if isinstance(part, Term):
        return part
    if isinstance(part, _Called) and not any(isinstance(a, tuple) for a in part.args):
        return _value(part)
    place = part.place if isinstance(part, Literal | _Called) else part[0].place
    raise place.error(
        "E_SYNTAX", "this is a condition, but a value is expected", "conditions are separated by commas: p(X), X > 3"
    )


def _value(call: _Called) -> Term:
    """A function's value, or an aggregate."""
    if call.name in AGGREGATES and len(call.args) <= 1:
        arg = call.args[0] if call.args and not isinstance(call.args[0], _Star) else None
        return Aggregate(call.name, None if arg is None else _term(arg), place=call.place)
    return Apply(call.name, tuple(map(_term, call.args)), place=call.place)


def _conjunction(part: Any) -> Body:
    """The part as literals."""
    if isinstance(part, list):
        return tuple(part)
    more: list[Literal] = []
    found = tuple(
        _lifted(literal, more) if not isinstance(literal, Not | Or) else literal for literal in _literals(part)
    )
    return (*found, *more)


def _literals(part: Any) -> Body:
    if isinstance(part, Literal):
        return (part,)
    if isinstance(part, _Called):
        if any(isinstance(a, _Star) for a in part.args):
            return (Test(_value(part), place=part.place),)
        named = tuple((a[0], a[1]) for a in part.args if isinstance(a, tuple))
        plain = tuple(_term(a) for a in part.args if not isinstance(a, tuple))
        return (Atom(part.name, plain, named, place=part.place),)
    assert isinstance(part, Term)
    return (Test(part, place=part.place),)
