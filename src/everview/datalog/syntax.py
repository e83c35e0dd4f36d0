"""The syntax tree of a program: rules, literals, terms, and their positions in the text.

Both syntaxes (`everview.datalog.grammar`, `everview.datalog.edn`) produce these; nothing after them sees the text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from everview.errors import EverviewError, PlanError
from everview.expr.language import UserFunction


@dataclass(frozen=True)
class Place:
    """Line and column, counted from 1."""

    line: int
    column: int
    word: str = field(default="", repr=False, compare=False)
    """the bare word at this place: a string, unless a variable was meant"""
    text: str = field(default="", repr=False, compare=False)
    """the statement that begins there, as written"""

    def error(self, code: str, message: str, hint: str = "") -> DatalogError:
        """An error at this place."""
        return DatalogError(code, message, hint, self.line, self.column)

    def placed(self, error: EverviewError) -> DatalogError:
        """An error of a lower layer, with its position added."""
        if isinstance(error, DatalogError):
            return error
        hint = "convert one: int(X), str(X), date(X), ..." if ".cast(" in error.hint else error.hint
        if self.word and error.code == "E_TYPE":
            return self.error(error.code, f"the string {self.word!r} does not fit: {error.message}", self.capital())
        return self.error(error.code, error.message, hint)

    def capital(self) -> str:
        """A hint in case the word here was meant as a variable."""
        variable = self.word[:1].upper() + self.word[1:]
        return f"variables begin with a capital letter: {variable}; a string that is meant goes into quotes"


NOWHERE = Place(1, 1)


class DatalogError(PlanError):
    """An invalid program, with the line and column of the error.

    >>> print(Place(1, 8).error("E_UNSAFE", "Y is bound by nothing", "name it in a positive literal"))
    [E_UNSAFE] line 1, column 8: Y is bound by nothing
      hint: name it in a positive literal
    """

    def __init__(self, code: str, message: str, hint: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(code, f"line {line}, column {column}: {message}", hint)
        self.line = line
        self.column = column


# -------------------------------------------------------------------------------------------- terms


@dataclass(frozen=True)
class Term:
    """A value in a rule; positions are ignored in comparisons."""

    place: Place = field(default=NOWHERE, compare=False, kw_only=True)

    def variables(self) -> Iterator[Var]:
        """The variables in it, from left to right."""
        return iter(())


@dataclass(frozen=True)
class Var(Term):
    """A variable."""

    name: str

    def variables(self) -> Iterator[Var]:
        yield self


@dataclass(frozen=True)
class Wild(Term):
    """`_`: any value."""


@dataclass(frozen=True)
class Const(Term):
    """A constant."""

    value: Any


@dataclass(frozen=True)
class Holds(Const):
    """The value of the single column of a relation without columns."""

    value: Any = True


@dataclass(frozen=True)
class Apply(Term):
    """A function or an operator applied to terms; `function` if it is the user's own."""

    op: str
    args: tuple[Term, ...]
    function: UserFunction | None = None

    def variables(self) -> Iterator[Var]:
        for arg in self.args:
            yield from arg.variables()


@dataclass(frozen=True)
class Variant(Apply):
    """`$Circle(R)`: a value of a type with several forms, constructed or destructured; `fields`: the types of its
    parts."""

    fields: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """The name of its form."""
        return self.op.removeprefix("$")


SPREADS = ("variance", "variance_pop", "stddev", "stddev_pop")
"""Aggregates of dispersion: of a sample, or of the population."""

COUNTING = ("count", "sum", "avg", "median", *SPREADS)
"""Aggregates that depend on multiplicities."""

AGGREGATES = ("count_distinct", "min", "max", *COUNTING)


@dataclass(frozen=True)
class Aggregate(Term):
    """An aggregate of a term over a group's solutions; without a term: their number.

    `name` is its variable in the body, if any.
    """

    kind: str
    arg: Term | None
    name: str = ""

    def variables(self) -> Iterator[Var]:
        if self.arg is not None:
            yield from self.arg.variables()


# ----------------------------------------------------------------------------------------- literals


@dataclass(frozen=True)
class Literal(ABC):
    """A literal of a body."""

    place: Place = field(default=NOWHERE, compare=False, kw_only=True)

    @abstractmethod
    def variables(self) -> Iterator[Var]:
        """The variables in it."""

    def atoms(self) -> Iterator[tuple[Atom, bool]]:
        """The relations it reads, and whether under a negation."""
        return iter(())


@dataclass(frozen=True)
class Atom(Literal):
    """`name(a, b)`, or by columns' names: `name(column: a)`; `function` if the user has one of that name."""

    name: str
    args: tuple[Term, ...]
    named: tuple[tuple[str, Term], ...] = ()
    function: UserFunction | None = None

    def variables(self) -> Iterator[Var]:
        for arg in (*self.args, *(value for _, value in self.named)):
            yield from arg.variables()

    def atoms(self) -> Iterator[tuple[Atom, bool]]:
        yield self, False


@dataclass(frozen=True)
class Compare(Literal):
    """Two terms compared; `eq` with an unbound variable on one side binds it."""

    op: str
    left: Term
    right: Term

    def variables(self) -> Iterator[Var]:
        yield from self.left.variables()
        yield from self.right.variables()


@dataclass(frozen=True)
class Test(Literal):
    """A term that must be true."""

    term: Term

    def variables(self) -> Iterator[Var]:
        return self.term.variables()


Body = tuple[Literal, ...]
"""Literals that must all hold."""


@dataclass(frozen=True)
class Not(Literal):
    """There is no way to make all of these hold."""

    body: Body

    def variables(self) -> Iterator[Var]:
        for literal in self.body:
            yield from literal.variables()

    def atoms(self) -> Iterator[tuple[Atom, bool]]:
        for literal in self.body:
            for atom, _ in literal.atoms():
                yield atom, True


@dataclass(frozen=True)
class Or(Literal):
    """One of these bodies holds."""

    branches: tuple[Body, ...]

    def variables(self) -> Iterator[Var]:
        for branch in self.branches:
            for literal in branch:
                yield from literal.variables()

    def atoms(self) -> Iterator[tuple[Atom, bool]]:
        for branch in self.branches:
            for literal in branch:
                yield from literal.atoms()


@dataclass(frozen=True)
class Total(Literal):
    """`sum P : { ... }`: a variable that is the aggregate over the body's solutions; `default` if there are none."""

    variable: Var
    kind: str
    arg: Term | None
    body: Body
    default: Term | None = None

    def variables(self) -> Iterator[Var]:
        yield self.variable
        yield from self.inside()

    def aggregates(self) -> set[str]:
        """The variables in the aggregated term."""
        return set() if self.arg is None else {v.name for v in self.arg.variables()}

    def inside(self) -> Iterator[Var]:
        """The variables inside its braces, and those of the aggregated term."""
        if self.arg is not None:
            yield from self.arg.variables()
        for literal in self.body:
            yield from literal.variables()

    def atoms(self) -> Iterator[tuple[Atom, bool]]:
        for literal in self.body:
            for atom, _ in literal.atoms():
                yield atom, True


@dataclass(frozen=True)
class Want:
    """A part of a pull pattern: an attribute, shown as `key`; None: the entity itself.

    `back`: the entities that have this one as a value. `nested`: the pattern for the values, which are entities.
    """

    key: str
    attribute: str | None
    back: bool = False
    nested: tuple[Want, ...] | None = None
    place: Place = field(default=NOWHERE, compare=False)

    def names(self) -> Iterator[str]:
        """The attributes that it reads."""
        if self.attribute is not None:
            yield self.attribute
        for want in self.nested or ():
            yield from want.names()


@dataclass(frozen=True)
class Pull(Literal):
    """`(pull ?e [:a {:b [:c]}])`: a variable that is a document about an entity."""

    variable: Var
    entity: Var
    wants: tuple[Want, ...]

    def variables(self) -> Iterator[Var]:
        yield self.variable
        yield self.entity

    def atoms(self) -> Iterator[tuple[Atom, bool]]:
        for want in self.wants:
            for name in want.names():
                yield Atom(name, (Wild(), Wild()), place=self.place), True


@dataclass(frozen=True)
class Dominance:
    """`p(X, A) <= p(X, B) :- body.`: a row of p is removed if another dominates it (subsumption)."""

    name: str
    lower: tuple[Term, ...]
    upper: tuple[Term, ...]
    body: Body
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Declaration:
    """`.decl p(x, y: number) choice-domain x`: names of columns, types if given, and the columns that choose a row."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str | None, ...]
    choice: tuple[str, ...] | None = None
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class SumType:
    """`.type Shape = Circle { r: number } | Empty {}`: the forms of a type, and the types of each one's fields."""

    name: str
    forms: dict[str, tuple[str, ...]]
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Rule:
    """The head holds wherever the body does; a fact has no body."""

    name: str
    head: tuple[Term, ...]
    body: Body
    place: Place = field(default=NOWHERE, compare=False)

    @property
    def is_fact(self) -> bool:
        return not self.body and all(isinstance(t, Const) for t in self.head)


class Program(list[Rule]):
    """The rules of a text, with its declarations."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        super().__init__(rules)
        self.dominance: list[Dominance] = []
        self.declared: dict[str, Declaration] = {}


def is_record(term: Term) -> TypeGuard[Apply]:
    """Whether it is `[a, b, ...]` or `$Form(a, b, ...)`, which can be constructed and destructured."""
    return isinstance(term, Variant) or (isinstance(term, Apply) and term.op == RECORD and term.function is None)


RECORD = "tuple_make"
"""The function that makes a record."""


def names_of(literals: Body) -> set[str]:
    """Names of the variables in some literals."""
    return {v.name for literal in literals for v in literal.variables()}


def mapped(thing: Any, change: Callable[[Any], Any]) -> Any:
    """A literal or term with `change` applied to every term and atom, inner ones first."""

    def all_of(things: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(mapped(t, change) for t in things)

    match thing:
        case Apply():
            return change(replace(thing, args=all_of(thing.args)))
        case Aggregate():
            return change(thing if thing.arg is None else replace(thing, arg=mapped(thing.arg, change)))
        case Term():
            return change(thing)
        case Atom():
            named = tuple((name, mapped(value, change)) for name, value in thing.named)
            return change(replace(thing, args=all_of(thing.args), named=named))
        case Compare():
            return replace(thing, left=mapped(thing.left, change), right=mapped(thing.right, change))
        case Test():
            return replace(thing, term=mapped(thing.term, change))
        case Not():
            return replace(thing, body=all_of(thing.body))
        case Or():
            return replace(thing, branches=tuple(all_of(b) for b in thing.branches))
        case Total():
            arg = None if thing.arg is None else mapped(thing.arg, change)
            return replace(thing, variable=change(thing.variable), arg=arg, body=all_of(thing.body))
        case Pull():
            return replace(thing, variable=change(thing.variable), entity=change(thing.entity))
    raise TypeError(f"neither literal nor term: {thing!r}")
