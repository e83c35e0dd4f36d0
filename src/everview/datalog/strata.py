"""Strata: from rules to plans, what is read before what reads it.

Relations are sorted by who reads whom. Relations that read each other become one loop: each is a variable that starts
empty, and a round computes all of them from the round before, until nothing changes. A relation that could lose rows
because the recursion *grew* has no clear meaning, so negation and aggregates other than min and max must not go around
in a circle: the program is *stratified* or refused.

Types come from the rules that read nothing still open, then widen until all rules agree (an int column to which a rule
adds halves becomes float).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from everview.datalog import aggregates
from everview.datalog.bodies import Bodies, unsafe
from everview.datalog.scopes import apart
from everview.datalog.solutions import Relation, Solutions, cast_to, common, distinct, union
from everview.datalog.syntax import (
    COUNTING,
    Aggregate,
    Apply,
    Atom,
    Const,
    Literal,
    Place,
    Rule,
    Term,
    Var,
    Wild,
    mapped,
)
from everview.errors import PlanError, did_you_mean
from everview.expr import language, nodes
from everview.expr.language import UserFunction
from everview.expr.resolve import Column, Scope, literal
from everview.plan import joins
from everview.plan.aggregates import Aggregation
from everview.plan.check import widen
from everview.plan.nodes import Constant, Loop, LoopResult, Node, Project, Types, Variable
from everview.sql.recursion import components
from everview.types import DataType


class Untyped(Exception):
    """A rule reads a relation of the same loop whose columns are not known yet."""


class Strata:
    """Compiles the relations of a program; `outside` finds tables, views and the rules of other programs."""

    def __init__(
        self,
        rules: Iterable[Rule],
        outside: Callable[[str], Relation | None],
        known: Callable[[], Iterable[str]],
        functions: Mapping[str, UserFunction] | None = None,
    ) -> None:
        self.rules: dict[str, list[Rule]] = {}
        self.outside = outside
        self.known = known
        self.done: dict[str, Relation] = {}
        self.open: dict[str, Relation | None] = {}
        self.bodies = Bodies(self._find, self._suggest)
        for number, rule in enumerate(rules):
            for part in aggregates.split(apart(_with_functions(rule, functions or {})), number):
                self.rules.setdefault(part.name, []).append(part)
        self.shapes = {name: self._shape(rules) for name, rules in self.rules.items()}

    def compile(self) -> dict[str, Relation]:
        """The plan of every relation."""
        reads = {name: self._reads(name) for name in self.rules}
        for group in components(reads):
            if len(group) == 1 and group[0] not in reads[group[0]]:
                self.done[group[0]] = self._relation(group[0])
            else:
                self._check_stratified(group)
                self.done.update(self._fixed_point(group))
        return self.done

    # ------------------------------------------------------------------------------- who reads whom

    def _shape(self, rules: Sequence[Rule]) -> aggregates.Shape:
        for rule in rules:
            if not rule.head:
                raise rule.place.error("E_ARITY", f"{rule.name} has no columns", f"give it one: {rule.name}(yes)")
            if len(rule.head) != len(rules[0].head):
                first = rules[0]
                raise rule.place.error(
                    "E_ARITY",
                    f"{rule.name} has {len(rule.head)} columns here and {len(first.head)} in line {first.place.line}",
                    "all rules of a relation have the same columns",
                )
        return aggregates.shape(rules)

    def _atoms(self, name: str) -> Iterable[tuple[Rule, Atom, bool]]:
        for rule in self.rules[name]:
            for part in rule.body:
                for atom, negated in part.atoms():
                    if atom.name in self.rules:
                        yield rule, atom, negated

    def _reads(self, name: str) -> list[str]:
        return list(dict.fromkeys(atom.name for _, atom, _ in self._atoms(name)))

    def _check_stratified(self, group: Sequence[str]) -> None:
        for name in group:
            for rule, atom, negated in self._atoms(name):
                if atom.name not in group:
                    continue
                if negated:
                    raise atom.place.error(
                        "E_STRATIFY",
                        f"{_shown(name)} is made of its own absence: it reads not {_shown(atom.name)}"
                        + (f", which reads {_shown(name)}" if atom.name != name else ""),
                        "negation must not go around in a circle: negate a relation that does not read this one",
                    )
                totals = [t for t in rule.head if isinstance(t, Aggregate) and t.kind not in aggregates.RECURSIVE]
                if totals:
                    raise totals[0].place.error(
                        "E_STRATIFY",
                        f"{_shown(name)} is a {totals[0].kind} over itself",
                        "only min and max may be recursive: aggregate in a relation that the recursion does not read",
                    )

    def _find(self, atom: Atom) -> Relation | None:
        if atom.name in self.open:
            found = self.open[atom.name]
            if found is None:
                raise Untyped
            return found
        return self.done.get(atom.name) or self.outside(atom.name)

    def _suggest(self, name: str) -> str:
        return did_you_mean(name, [n for n in (*self.rules, *self.known()) if "'" not in n])

    # ------------------------------------------------------------------------------------ recursion

    def _fixed_point(self, group: Sequence[str]) -> dict[str, Relation]:
        """The relations of one loop."""
        self.open = dict.fromkeys(group)
        try:
            types = self._first_types(group)
            while True:
                columns = {n: _columns(self.rules[n]) for n in group}
                variables = {n: Variable(1, i, types[n]) for i, n in enumerate(group)}
                self.open = {n: Relation(variables[n], columns[n]) for n in group}
                bodies = {n: self._relation(n).node for n in group}
                wider = {n: _wider(types[n], bodies[n].types, self.rules[n][0].place, n) for n in group}
                if wider == types:
                    break
                types = wider
        finally:
            self.open = {}
        loop = Loop(1, (None,) * len(group), tuple(_as(bodies[n], types[n]) for n in group))
        return {n: Relation(LoopResult(loop, i), columns[n]) for i, n in enumerate(group)}

    def _first_types(self, group: Sequence[str]) -> dict[str, Types]:
        """Types as far as rules can tell that read nothing unknown."""
        found: dict[str, Types] = {}
        while len(found) < len(group):
            before = len(found)
            for name in group:
                if name not in found:
                    typed = [r for r in self.rules[name] if self._typed(name, [r])]
                    if typed:
                        found[name] = self._relation(name, typed).node.types
                        node = Variable(1, list(group).index(name), found[name])
                        self.open[name] = Relation(node, _columns(self.rules[name]))
            if len(found) == before:
                stuck = next(n for n in group if n not in found)
                raise self.rules[stuck][0].place.error(
                    "E_RECURSION",
                    f"{_shown(stuck)} can never hold: every rule for it reads the recursion itself",
                    "begin with a rule that does not, or a fact",
                )
        return found

    def _typed(self, name: str, rules: Sequence[Rule]) -> bool:
        try:
            self._relation(name, rules)
        except Untyped:
            return False
        return True

    # ------------------------------------------------------------------------------------ one relation

    def _relation(self, name: str, rules: Sequence[Rule] | None = None) -> Relation:
        rules = self.rules[name] if rules is None else rules
        shape = self.shapes[name]
        facts = [r for r in rules if r.is_fact]
        first = [r for r in rules if not r.is_fact or r is facts[0]]
        bag = any(kind in COUNTING for kind in shape.kinds)
        parts = [self.facts(facts) if r.is_fact else self._rule(r, bag) for r in first]
        places = [r.place for r in first]
        node = union(parts, places, _shown(name))
        node = self._aggregated(node, shape, rules) if shape.aggregates else distinct(node)
        return Relation(node, _columns(self.rules[name]))

    def facts(self, facts: Sequence[Rule]) -> Node:
        """Rows that are written down."""
        types: list[DataType] = []
        for terms in zip(*(f.head for f in facts), strict=True):
            wanted = literal(_value(terms[0])).type
            for term in terms:
                wanted = common(wanted, literal(_value(term)).type, term.place, repr(_value(term)))
            types.append(wanted)
        rows = (
            tuple(float(_value(t)) if c.kind == "float" else _value(t) for t, c in zip(f.head, types, strict=True))
            for f in facts
        )
        return Constant(tuple(dict.fromkeys(rows)), tuple(types))

    def _rule(self, rule: Rule, bag: bool) -> Node:
        """A row for every solution of the rule's body: the head, with the values that aggregates take."""
        needed = {v.name for t in rule.head for v in t.variables()}
        found = self.bodies.solve(rule.body, needed, bag=bag)
        return Project(found.node, tuple(_head_value(found, aggregates.contribution(t)) for t in rule.head))

    def _aggregated(self, node: Node, shape: aggregates.Shape, rules: Sequence[Rule]) -> Node:
        names = [f"c{i}" for i in range(len(shape.kinds))]
        scope = Scope(tuple(Column(n, t) for n, t in zip(names, node.types, strict=True)))
        keys = [i for i, kind in enumerate(shape.kinds) if kind is None]
        values = [i for i, kind in enumerate(shape.kinds) if kind is not None]
        work = Aggregation(node, tuple(joins.canonical(joins.refs(node.types)[i]) for i in keys), scope)
        try:
            slots = [work.slot(language.AggregateCall(shape.kinds[i], language.Named(names[i]))) for i in values]  # type: ignore[arg-type]
        except PlanError as error:
            raise rules[0].place.placed(error) from None
        reduced = work.node()
        refs = joins.refs(reduced.types)
        place = {i: refs[k] for k, i in enumerate(keys)} | dict(zip(values, slots, strict=True))
        exprs = tuple(place[i] for i in range(len(shape.kinds)))
        return reduced if exprs == refs else Project(reduced, exprs)


# ------------------------------------------------------------------------------------------ helpers


def _with_functions(rule: Rule, functions: Mapping[str, UserFunction]) -> Rule:
    """The rule with the user's own functions in their places; in an atom's place, should it be no relation."""

    def own(thing: Term | Literal) -> Any:
        if isinstance(thing, Apply) and thing.op.lower() in functions:
            return replace(thing, function=functions[thing.op.lower()])
        if isinstance(thing, Atom) and thing.name.lower() in functions:
            return replace(thing, function=functions[thing.name.lower()])
        return thing

    if not functions:
        return rule
    body = tuple(mapped(literal, own) for literal in rule.body)
    return replace(rule, head=tuple(mapped(t, own) for t in rule.head), body=body)


def _value(term: Term) -> Any:
    assert isinstance(term, Const)
    return term.value


def _head_value(found: Solutions, term: Term) -> nodes.Expr:
    if isinstance(term, Wild):
        raise term.place.error("E_UNSAFE", "the head cannot hold any value at all", "name it and bind it in the body")
    for variable in term.variables():
        if variable.name not in found.bound:
            raise unsafe(variable.place, variable.name)
    return found.value(term)


def _columns(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Names for a relation's columns: the variables of its heads in small letters, else c1, c2, ..."""
    names: list[str] = []
    for i, terms in enumerate(zip(*(r.head for r in rules), strict=True)):
        spelled = [t.name.lower().lstrip("?") for t in terms if isinstance(t, Var)]
        spelled += [t.name.lower().lstrip("?") or t.kind for t in terms if isinstance(t, Aggregate)]
        free = [n for n in spelled if n not in names and n.strip("_")]
        names.append(free[0] if free else f"c{i + 1}")
    return tuple(names)


def _shown(name: str) -> str:
    return name.split("'")[0]


def _wider(types: Types, others: Types, place: Place, name: str) -> Types:
    pairs = enumerate(zip(types, others, strict=True))
    return tuple(common(a, b, place, f"column {i + 1} of {_shown(name)}") for i, (a, b) in pairs)


def _as(node: Node, types: Types) -> Node:
    return widen(cast_to(node, types), types)
