"""Bodies: from literals to solutions.

Literals are taken in the order in which they can be: conditions and negations as soon as their variables have
values, relations in the order of the text but those first that share a variable with what is there. Where relations
go round in a circle, negations wait for all of them: these are then joined at once (`everview.plan.multiway`), and no
part of the pattern is kept. A literal that can never be taken has a variable that nothing binds: the rule is *unsafe*.

    not (...)    solutions for which the inner body has none; variables that occur only inside mean "any"
    (a ; b)      a rule without a name: the *set* of what either side binds, joined with the rest

An inner body that can stand alone is computed alone and shared; one that needs variables from outside, as in
`(P < 5 ; home(X))`, is computed from the distinct values those have ("sideways").
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from everview.datalog.solutions import CONDITIONS, Relation, Solutions, distinct, union
from everview.datalog.syntax import (
    Aggregate,
    Apply,
    Atom,
    Body,
    Compare,
    Const,
    Literal,
    Not,
    Or,
    Place,
    Term,
    Test,
    Var,
    Wild,
    names_of,
)
from everview.errors import EverviewError, did_you_mean
from everview.expr import functions, nodes
from everview.plan import joins
from everview.plan.nodes import ONE_ROW, Project
from everview.types import INT

Find = Callable[[Atom], Relation | None]
"""The relation that an atom reads, if there is one."""


@dataclass
class Bodies:
    """Solves bodies over the relations that `find` knows.

    `suggest` gives a hint for a relation that does not exist.
    """

    find: Find
    suggest: Callable[[str], str]
    _fresh: Iterator[int] = field(default_factory=itertools.count)

    def solve(self, body: Body, needed: set[str], start: Solutions | None = None) -> Solutions:
        """All ways to make the body hold, extending `start`; `needed` variables are read outside the body."""
        pending = [part for literal in body for part in self._read(literal)]
        current = start
        cyclic = _cyclic([{v.name for v in part.variables()} for part in pending if isinstance(part, Atom)])
        while pending:
            at = self._next(pending, current, needed, cyclic)
            literal = pending.pop(at)
            bound = current.bound if current is not None else set()
            current = self._take(literal, current, needed | bound | names_of(tuple(pending)))
        return current if current is not None else self._unit()

    def _unit(self) -> Solutions:
        return Solutions(ONE_ROW, (None,) * len(ONE_ROW.types))

    def _read(self, literal: Literal) -> list[Literal]:
        """A literal with functions told from relations, and computed arguments as conditions of their own."""
        if not isinstance(literal, Atom):
            return [literal]
        if self.find(literal) is None:
            return [self._function(literal)]
        args: list[Term] = []
        more: list[Literal] = []
        for arg in literal.args:
            args.append(self._plain(arg, more))
        named = tuple((column, self._plain(value, more)) for column, value in literal.named)
        return [Atom(literal.name, tuple(args), named, place=literal.place), *more]

    def _plain(self, arg: Term, more: list[Literal]) -> Term:
        if isinstance(arg, Var | Wild | Const):
            return arg
        if isinstance(arg, Aggregate):
            raise arg.place.error("E_AGGREGATE", "an aggregate cannot be an argument", f"N = {arg.kind}(X)")
        variable = Var(f"'{next(self._fresh)}", place=arg.place)
        more.append(Compare("eq", variable, arg, place=arg.place))
        return variable

    def _function(self, atom: Atom) -> Literal:
        if (atom.function is not None or atom.name in CONDITIONS) and not atom.named:
            return Test(Apply(atom.name, atom.args, atom.function, place=atom.place), place=atom.place)
        raise self.unknown(atom)

    def unknown(self, atom: Atom) -> EverviewError:
        """The error for a relation that does not exist."""
        return atom.place.error("E_RELATION", f"there is no relation {atom.name}", self.suggest(atom.name))

    # ------------------------------------------------------------------------------- which comes next

    def _next(self, pending: list[Literal], current: Solutions | None, needed: set[str], cyclic: bool) -> int:
        bound = current.bound if current is not None else set()
        patient = cyclic and any(isinstance(literal, Atom) for literal in pending)
        sources = []
        for i, literal in enumerate(pending):
            if isinstance(literal, Atom):
                sources.append(i)
            if isinstance(literal, Atom) or (patient and isinstance(literal, Not)):
                continue
            how = self._ready(literal, bound, needed | bound | _others(pending, i))
            if how == "now":
                return i
            if how == "source":
                sources.append(i)
        for i in sources:
            if not bound or bound & {v.name for v in pending[i].variables()}:
                return i
        if sources:
            return sources[0]
        raise self._unsafe(pending, bound)

    def _ready(self, literal: Literal, bound: set[str], outside: set[str]) -> str:
        """Whether a literal can be taken: now, as a source of rows, or not yet."""
        names = {v.name for v in literal.variables()}
        if isinstance(literal, Compare):
            return "now" if names <= bound or _assigned(literal, bound) is not None else "no"
        if isinstance(literal, Test):
            return "now" if names <= bound else "no"
        if isinstance(literal, Not):
            simple = len(literal.body) == 1 and isinstance(literal.body[0], Atom)
            free = names - bound
            ready = not (free if simple else free & outside) and self._binds(literal.body, bound) is not None
            return "now" if ready else "no"
        assert isinstance(literal, Or)
        if self._exports(literal, set(), outside) is not None:
            return "source"
        return "now" if self._exports(literal, bound, outside) is not None else "no"

    def _binds(self, body: Body, bound: set[str]) -> set[str] | None:
        """The variables bound after the body, or None if it cannot be taken from these."""
        have = set(bound)
        pending = [part for literal in body for part in self._read(literal)]
        while pending:
            for i, literal in enumerate(pending):
                outside = have | _others(pending, i)
                if isinstance(literal, Atom):
                    gained: set[str] | None = {v.name for v in literal.variables()}
                elif isinstance(literal, Or):
                    gained = self._exports(literal, set(), outside)
                    gained = gained if gained is not None else self._exports(literal, have, outside)
                elif self._ready(literal, have, outside) == "now":
                    assigned = _assigned(literal, have) if isinstance(literal, Compare) else None
                    gained = set() if assigned is None else {assigned[0].name}
                else:
                    gained = None
                if gained is not None:
                    have |= gained
                    del pending[i]
                    break
            else:
                return None
        return have

    def _exports(self, either: Or, bound: set[str], outside: set[str]) -> set[str] | None:
        """The variables that every branch binds and others read; None if branches disagree or cannot be taken."""
        found: set[str] | None = None
        for branch in either.branches:
            have = self._binds(branch, bound)
            if have is None:
                return None
            mine = (have & outside & (names_of(branch) | bound)) - bound
            if found is not None and mine != found:
                return None
            found = mine
        return found

    def _unsafe(self, pending: list[Literal], bound: set[str]) -> EverviewError:
        for literal in pending:
            for variable in literal.variables():
                if variable.name not in bound:
                    name = variable.name if not variable.name.startswith("'") else "the argument"
                    return unsafe(variable.place, name, isinstance(literal, Not))
        return pending[0].place.error("E_UNSAFE", "nothing binds the variables of this condition")

    # ---------------------------------------------------------------------------------- taking one

    def _take(self, literal: Literal, current: Solutions | None, outside: set[str]) -> Solutions:
        if isinstance(literal, Atom):
            rows = self.rows(literal)
            return rows if current is None else current.joined(rows, literal.place)
        if isinstance(literal, Or):
            return self._either(literal, current, outside)
        current = current if current is not None else self._unit()
        if isinstance(literal, Compare):
            return self._compare(literal, current)
        if isinstance(literal, Test):
            return current.where(_truth(current, literal.term))
        assert isinstance(literal, Not)
        return self._negation(literal, current)

    def rows(self, atom: Atom) -> Solutions:
        """The relation's rows that fit the atom's constants and repeated variables."""
        relation = self.find(atom)
        assert relation is not None
        args = _in_order(atom, relation)
        names: list[str | None] = []
        tests: list[nodes.Expr] = []
        refs = joins.refs(relation.node.types)
        for ref, arg in zip(refs, args, strict=True):
            if isinstance(arg, Const):
                tests.append(_equal(ref, Solutions(relation.node, (None,) * len(refs)).value(arg), arg.place))
            if isinstance(arg, Var) and arg.name in names:
                tests.append(_equal(refs[names.index(arg.name)], ref, arg.place))
            names.append(arg.name if isinstance(arg, Var) and arg.name not in names else None)
        found = Solutions(relation.node, tuple(names))
        return found.where(functions.conjunction(tests)) if tests else found

    def _compare(self, literal: Compare, current: Solutions) -> Solutions:
        assigned = _assigned(literal, current.bound)
        if assigned is not None:
            variable, term = assigned
            return current.extended(variable.name, current.value(term))
        left, right = current.value(literal.left), current.value(literal.right)
        try:
            return current.where(functions.call(literal.op, left, right))
        except EverviewError as error:
            raise literal.place.placed(error) from None

    def _negation(self, literal: Not, current: Solutions) -> Solutions:
        shared = sorted(names_of(literal.body) & current.bound)
        alone = self._binds(literal.body, set()) is not None
        start = None if alone else current.distinct(shared)
        inner = self.solve(literal.body, set(shared), start)
        names = tuple(n if n in shared else None for n in inner.names)
        return current.without(Solutions(inner.node, names), literal.place)

    def _either(self, literal: Or, current: Solutions | None, outside: set[str]) -> Solutions:
        exports = self._exports(literal, set(), outside)
        start: Solutions | None = None
        names = sorted(exports or ())
        if exports is None:
            assert current is not None
            shared = sorted(names_of((literal,)) & current.bound)
            start = current.distinct(shared) if shared else None
            names = shared + sorted(self._exports(literal, current.bound, outside) or ())
        parts = []
        for branch in literal.branches:
            found = self.solve(branch, set(names), start)
            if not names:  # nobody reads its variables: it only says whether there is a solution
                found = self._unit_if(found)
            else:
                found = Solutions(joins.take(found.node, [found.at(n) for n in names]), tuple(names))
            parts.append(found)
        places = [branch[0].place for branch in literal.branches]
        node = distinct(union([p.node for p in parts], places, "the alternatives"))
        rows = Solutions(node, parts[0].names)
        return rows if current is None else current.joined(rows, literal.place)

    def _unit_if(self, found: Solutions) -> Solutions:
        return Solutions(distinct(Project(found.node, (nodes.Literal(INT, 1),))), (None,))


# ------------------------------------------------------------------------------------------ helpers


def _cyclic(atoms: list[set[str]]) -> bool:
    """Whether atoms with these variables go round in a circle: something is left when variables of one atom only, and
    atoms within others, have been taken away again and again.

    >>> _cyclic([{"A", "B"}, {"B", "C"}, {"C", "A"}]), _cyclic([{"A", "B"}, {"B", "C"}, {"C", "D"}])
    (True, False)
    """
    left = [set(atom) for atom in atoms]
    while True:
        counts = Counter(name for atom in left for name in atom)
        shared = [{name for name in atom if counts[name] > 1} for atom in left]
        kept = [a for i, a in enumerate(shared) if not any(a < b or (a == b and i < k) for k, b in enumerate(shared))]
        if kept == left:
            return len(kept) > 1
        left = kept


def _others(pending: list[Literal], i: int) -> set[str]:
    """Variables that other literals than number i read; those inside two negations are two variables."""
    others = (p for k, p in enumerate(pending) if k != i)
    return names_of(tuple(p for p in others if not (isinstance(pending[i], Not) and isinstance(p, Not))))


def unsafe(place: Place, name: str, negated: bool = False) -> EverviewError:
    """The error for a variable without values."""
    hint = "write _ for any value, or bind it" if negated else "bind it"
    return place.error("E_UNSAFE", f"nothing gives {name} a value", f"{hint} in a positive literal: relation({name})")


def _assigned(literal: Compare, bound: set[str]) -> tuple[Var, Term] | None:
    """The variable that an equality binds, and the term it gets."""
    if literal.op != "eq":
        return None
    for variable, term in ((literal.left, literal.right), (literal.right, literal.left)):
        if isinstance(variable, Var) and variable.name not in bound and {v.name for v in term.variables()} <= bound:
            return variable, term
    return None


def _equal(a: nodes.Expr, b: nodes.Expr, place: Place) -> nodes.Expr:
    try:
        return functions.call("eq", a, b)
    except EverviewError as error:
        raise place.placed(error) from None


def _truth(current: Solutions, term: Term) -> nodes.Expr:
    value = current.value(term)
    if value.type.kind != "bool":
        raise term.place.error(
            "E_TYPE", f"a condition must be true or false, and this is {value.type!r}", "compare it with something"
        )
    return value


def _in_order(atom: Atom, relation: Relation) -> list[Term]:
    """The atom's arguments, one per column of the relation."""
    columns = relation.columns
    if len(atom.args) > len(columns) or (not atom.named and len(atom.args) != len(columns)):
        raise atom.place.error(
            "E_ARITY",
            f"{atom.name} has {len(columns)} columns, not {len(atom.args)}",
            f"{atom.name}({', '.join(columns)}); write _ for columns that do not matter",
        )
    found: list[Term] = [*atom.args, *[Wild(place=atom.place)] * (len(columns) - len(atom.args))]
    for i, (name, value) in enumerate(atom.named):
        if name in dict(atom.named[:i]):
            raise value.place.error(
                "E_DUPLICATE", f"the column {name} is named twice", "compare two variables with =: X = Y"
            )
        if name not in columns[len(atom.args) :]:
            raise value.place.error(
                "E_COLUMN", f"{atom.name} has no further column {name}", did_you_mean(name, columns[len(atom.args) :])
            )
        found[columns.index(name)] = value
    return found
