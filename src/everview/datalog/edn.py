"""The Datomic-like syntax: queries and rules as nested lists.

    [:find ?company (sum ?salary)                       the result; aggregates group by the rest
     :where [?company :company/employee ?e]             a fact: entity, attribute, value
            [?e :employee/salary ?salary]
            (senior ?e)                                 a rule, a table or a view
            (not [?e :employee/left _])
            (or [?e :lives ?where] (and [?e :works ?o] [?o :city ?where]))
            [(< ?salary 1000)]                          a condition
            [(* ?salary 12) ?year]]                     a value

    [(senior ?e) [?e :employee/since ?y] [(< ?y 2000)]]  a rule

    [:find (pull ?e [:name {:works/for [:name]}]) :where [?e :name]]    a document about each entity

It has the same meaning as the ordinary syntax and yields the same `Rule`s: an attribute is a relation of two columns.
Several forms may follow each other; a query is called `answer` unless it has a `:name`. `:with` is accepted and has no
effect, because aggregates are over bags of solutions here.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, v_args

from everview.datalog.grammar import syntax_error
from everview.datalog.syntax import (
    AGGREGATES,
    Aggregate,
    Apply,
    Atom,
    Body,
    Compare,
    Const,
    Holds,
    Literal,
    Not,
    Or,
    Place,
    Pull,
    Rule,
    Term,
    Test,
    Var,
    Want,
    Wild,
    mapped,
    names_of,
)

GRAMMAR = r"""
    start: form*
    ?form: "[" form* "]"      -> vector
         | "(" form* ")"      -> list
         | "{" form* "}"      -> map
         | KEYWORD
         | FLOAT
         | INT
         | STRING
         | SYMBOL
    KEYWORD: /:[^\s\[\](){},"]+/
    FLOAT.2: /-?\d+\.\d+([eE][+-]?\d+)?/
    INT.1: /-?\d+(?![^\s\[\](){},"])/
    STRING: /"(\\.|[^"\\])*"/
    SYMBOL: /[^\s\[\](){},":][^\s\[\](){},"]*/
    COMMENT.3: /;[^\n]*/
    %ignore COMMENT
    %ignore /[\s,]+/
"""

COMPARISONS = {"=": "eq", "==": "eq", "!=": "ne", "not=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "quot": "floordiv", "mod": "mod"}
NAMES = {
    "starts-with?": "startswith",
    "ends-with?": "endswith",
    "includes?": "contains",
    "count-distinct": "count_distinct",
}
MOST_LEVELS = 10
"""Maximum depth of {:attribute depth}."""

NAMES |= {"upper-case": "upper", "lower-case": "lower", "subs": "substr", "nil?": "is_null"}


@dataclass(frozen=True)
class Form:
    """A list or vector of forms, or a token."""

    kind: str
    parts: tuple[Form, ...]
    text: str
    place: Place

    def error(self, message: str, hint: str = "") -> Exception:
        return self.place.error("E_SYNTAX", message, hint)


def parse(text: str) -> list[Rule]:
    """Parse the rules and queries of a text.

    >>> rule, = parse("[:find ?x (count ?y) :where [?x :knows ?y] (not [?y :age 3])]")
    >>> rule.name, [type(t).__name__ for t in rule.head], [type(l).__name__ for l in rule.body]
    ('answer', ['Var', 'Aggregate'], ['Atom', 'Not'])
    """
    try:
        tree = _lark().parse(text)
    except UnexpectedInput as error:
        raise syntax_error(text, error, "every ( and [ needs its partner") from None
    forms: list[Form] = _Reader().transform(tree)
    return [_finished(rule) for form in forms for rule in _rules(form)]


@cache
def _lark() -> Lark:
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True)


@v_args(meta=True)
class _Reader(Transformer[Any, Any]):
    def start(self, _meta: Any, parts: list[Any]) -> list[Form]:
        return [_form(p) for p in parts]

    def vector(self, meta: Any, parts: list[Any]) -> Form:
        return Form("vector", tuple(_form(p) for p in parts), "[...]", Place(meta.line, meta.column))

    def list(self, meta: Any, parts: list[Any]) -> Form:
        return Form("list", tuple(_form(p) for p in parts), "(...)", Place(meta.line, meta.column))

    def map(self, meta: Any, parts: Sequence[Any]) -> Form:
        return Form("map", tuple(_form(p) for p in parts), "{...}", Place(meta.line, meta.column))


def _form(part: Form | Token) -> Form:
    if isinstance(part, Form):
        return part
    return Form(part.type.lower(), (), str(part), Place(part.line or 1, part.column or 1))


# ------------------------------------------------------------------------------------ rules, queries


def _rules(form: Form) -> Iterator[Rule]:
    first = form.parts[0] if form.kind == "vector" and form.parts else None
    if first is None:
        raise form.error("expected a query or a rule", "[:find ?x :where ...] or [(name ?x) ...]")
    if first.kind == "keyword":
        yield _query(form)
    elif first.kind == "list":
        name = _symbol(first.parts[0] if first.parts else first)
        pulls: list[Pull] = []
        head = tuple(_head(part, pulls) for part in first.parts[1:]) or (Holds(place=first.place),)
        yield Rule(name, head, (*_clauses(form.parts[1:]), *pulls), first.place)
    else:
        for inner in form.parts:
            yield from _rules(inner)


def _query(form: Form) -> Rule:
    sections: dict[str, list[Form]] = {}
    for part in form.parts:
        if part.kind == "keyword":
            if part.text not in (":find", ":where", ":with", ":name"):
                raise part.error(f"{part.text} means nothing here", ":find, :where, :with and :name do")
            section = sections.setdefault(part.text, [])
        else:
            section.append(part)
    if not sections.get(":find") or not sections.get(":where"):
        raise form.error("a query has a :find and a :where", "[:find ?x :where [?x :attribute ?y]]")
    name = _symbol(sections[":name"][0]) if sections.get(":name") else "answer"
    pulls: list[Pull] = []
    head = tuple(_head(part, pulls) for part in sections[":find"])
    return Rule(name, head, (*_clauses(sections[":where"]), *pulls), form.place)


def _head(form: Form, pulls: list[Pull]) -> Term:
    """The columns of a :find; a document is a variable, bound by a literal."""
    if form.kind == "list" and form.parts and form.parts[0].text == "pull":
        pulls.append(_pull(form, f"'pull{len(pulls)}"))
        return pulls[-1].variable
    if form.kind == "list" and form.parts:
        kind = _symbol(form.parts[0])
        if kind in AGGREGATES and len(form.parts) <= 2:
            arg = _term(form.parts[1]) if len(form.parts) == 2 else None
            return Aggregate(kind, arg, place=form.place)
    return _term(form)


# ------------------------------------------------------------------------------------------- pull


def _pull(form: Form, name: str) -> Pull:
    """(pull ?e [:attribute {:attribute [...]} ...])"""
    parts = form.parts
    if len(parts) != 3 or not parts[1].text.startswith("?") or parts[2].kind != "vector":
        raise form.error("pull takes an entity's attributes", "(pull ?e [:name {:works/for [:name]}])")
    return Pull(
        Var(name, place=form.place), Var(parts[1].text, place=parts[1].place), _wants(parts[2]), place=form.place
    )


def _wants(pattern: Form) -> tuple[Want, ...]:
    found: list[Want] = []
    for part in pattern.parts:
        if part.kind == "map":
            if not part.parts or len(part.parts) % 2:
                raise part.error("attributes and what is pulled of them are due", "{:works/for [:name]}")
            found += [_nested(pattern, a, of) for a, of in zip(part.parts[::2], part.parts[1::2], strict=True)]
        else:
            found.append(_want(part))
    if not found:
        raise pattern.error("nothing is pulled", "name attributes: [:name]")
    for i, want in enumerate(found):
        if want.key in {other.key for other in found[:i]}:
            raise want.place.error("E_DUPLICATE", f":{want.key} is pulled twice", "name it once")
    return tuple(found)


def _want(form: Form) -> Want:
    if form.kind != "keyword":
        raise form.error(
            f"expected an attribute, not {form.text}", ":name, or {:works/for [:name]} for what it points to"
        )
    key = form.text[1:]
    if key in ("id", "db/id"):
        return Want(key, None, place=form.place)
    space, slash, word = key.rpartition("/")
    back = word.startswith("_")
    return Want(key, f"{space}{slash}{word.removeprefix('_')}", back, place=form.place)


def _nested(pattern: Form, attribute: Form, of: Form) -> Want:
    """{:friend [...]}, or {:friend 3}: the same pattern for that many levels."""
    want = _want(attribute)
    if want.attribute is None:
        raise attribute.error(f"{attribute.text} is the entity itself", "it points to nothing")
    if of.kind == "vector":
        return replace(want, nested=_wants(of))
    if of.kind != "int" or not 1 <= int(of.text) <= MOST_LEVELS:
        hint = "documents are of fixed depth: {:friend 3}"
        raise of.error(f"a pattern, or a depth from 1 to {MOST_LEVELS}, is due, not {of.text}", hint)
    return replace(want, nested=_levels(pattern, attribute, int(of.text)))


def _levels(pattern: Form, attribute: Form, depth: int) -> tuple[Want, ...]:
    """The pattern around an attribute, including the attribute itself while levels remain."""
    deeper = replace(attribute, kind="int", text=str(depth - 1))
    parts = []
    for part in pattern.parts:
        pairs = list(zip(part.parts[::2], part.parts[1::2], strict=True)) if part.kind == "map" else []
        if any(a.text == attribute.text for a, _ in pairs):
            kept = [(a, deeper if a.text == attribute.text else of) for a, of in pairs]
            kept = [(a, of) for a, of in kept if of is not deeper or depth > 1]
            if not kept:
                continue
            part = replace(part, parts=tuple(form for pair in kept for form in pair))
        parts.append(part)
    return _wants(replace(pattern, parts=tuple(parts))) if parts else (Want("id", None, place=attribute.place),)


def _symbol(form: Form) -> str:
    if form.kind not in ("symbol", "keyword") or form.text.startswith("?"):
        raise form.error(f"expected a name, not {form.text}")
    return NAMES.get(form.text, form.text.lstrip(":"))


# ------------------------------------------------------------------------------------------- clauses


def _clauses(forms: Sequence[Form]) -> Body:
    return tuple(literal for form in forms for literal in _clause(form))


def _clause(form: Form) -> Body:
    if not form.parts:
        raise form.error(f"expected a clause, not {form.text}", "[?e :attribute ?v], (rule ?x), [(< ?x 3)]")
    if form.kind == "vector":
        return (_expression(form) if form.parts[0].kind == "list" else _fact(form),)
    head, *rest = form.parts
    match head.text:
        case "and":
            return _clauses(rest)
        case "not":
            return (Not(_clauses(rest), place=form.place),)
        case "or":
            return (Or(tuple(_clause(c) for c in rest), place=form.place),)
        case "not-join":
            return (Not(_local(_clauses(rest[1:]), rest[0]), place=form.place),)
        case "or-join":
            return (Or(tuple(_local(_clause(c), rest[0]) for c in rest[1:]), place=form.place),)
    return (Atom(_symbol(head), tuple(map(_term, rest)), place=form.place),)


def _fact(form: Form) -> Literal:
    """[entity attribute value]: a row of the attribute's relation."""
    parts = form.parts
    if not 2 <= len(parts) <= 3 or parts[1].kind != "keyword":
        raise form.error(
            "a fact is [entity :attribute value]", "the attribute must be named; the value may be left out"
        )
    value = _term(parts[2]) if len(parts) == 3 else Wild(place=form.place)
    return Atom(parts[1].text[1:], (_term(parts[0]), value), place=form.place)


def _expression(form: Form) -> Literal:
    """[(condition ...)] or [(function ...) ?result]."""
    inner, *rest = form.parts
    if len(rest) > 1 or not inner.parts:
        raise form.error("an expression is [(condition ...)] or [(function ...) ?result]")
    if rest:
        return Compare("eq", _term(rest[0]), _term(inner), place=form.place)
    name = inner.parts[0].text
    if name in COMPARISONS and len(inner.parts) == 3:
        return Compare(COMPARISONS[name], _term(inner.parts[1]), _term(inner.parts[2]), place=inner.place)
    return Test(_term(inner), place=inner.place)


def _term(form: Form) -> Term:
    place = form.place
    match form.kind:
        case "int":
            return Const(int(form.text), place=place)
        case "float":
            return Const(float(form.text), place=place)
        case "string":
            return Const(ast.literal_eval(form.text.replace("\n", "\\n")), place=place)
        case "keyword":
            return Const(form.text[1:], place=place)
        case "symbol" if form.text == "_":
            return Wild(place=place)
        case "symbol" if form.text.startswith("?"):
            return Var(form.text, place=place)
        case "symbol" if form.text in ("true", "false"):
            return Const(form.text == "true", place=place)
        case "list" if form.parts:
            return _call(form)
    raise form.error(f"expected a value, not {form.text}", 'a variable ?x, a number, a "string", true or false')


def _call(form: Form) -> Term:
    name, args = form.parts[0].text, tuple(map(_term, form.parts[1:]))
    if name == "-" and len(args) == 1:
        return Apply("neg", args, place=form.place)
    if name in OPERATORS and len(args) >= 2:
        found = args[0]
        for arg in args[1:]:
            found = Apply(OPERATORS[name], (found, arg), place=form.place)
        return found
    return Apply(COMPARISONS.get(name) or _symbol(form.parts[0]), args, place=form.place)


# ---------------------------------------------------------------------------------- local variables

_numbers = itertools.count()


def _local(body: Body, shared: Form) -> Body:
    """The body with all variables renamed except those shared with the outside."""
    kept = {f.text for f in shared.parts}
    number = next(_numbers)

    def renamed(thing: Any) -> Any:
        if isinstance(thing, Var) and thing.name not in kept:
            return replace(thing, name=f"{thing.name}'{number}")
        return thing

    return tuple(mapped(literal, renamed) for literal in body)


def _finished(rule: Rule) -> Rule:
    """In `(not [?x :a ?y])` a ?y that occurs nowhere else is any value."""
    head = {v.name for t in rule.head for v in t.variables()}
    body = []
    for literal in rule.body:
        if isinstance(literal, Not) and len(literal.body) == 1 and isinstance(literal.body[0], Atom):
            atom = literal.body[0]
            others = head | names_of(tuple(l for l in rule.body if l is not literal))
            mine = [v.name for v in atom.variables()]
            args = tuple(
                Wild(place=a.place) if isinstance(a, Var) and a.name not in others and mine.count(a.name) == 1 else a
                for a in atom.args
            )
            literal = replace(literal, body=(replace(atom, args=args),))
        body.append(literal)
    return replace(rule, body=tuple(body))
