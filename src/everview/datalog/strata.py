"""Strata: from rules to plans, dependencies first.

Relations are sorted by dependency. Mutually recursive relations become one loop: each is a variable that starts empty,
and a round computes all of them from the previous round, until nothing changes. A relation that could lose rows because
the recursion *grew* has no clear meaning, so negation and aggregates other than min and max must not be part of a
cycle: the program is *stratified* or refused.

Types come from the rules that read nothing undetermined, then widen until all rules agree (an int column to which a
rule adds halves becomes float).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from everview.datalog import aggregates
from everview.datalog.bodies import PROPOSITION, Bodies, unsafe
from everview.datalog.groups import aggregated
from everview.datalog.scopes import apart
from everview.datalog.solutions import Relation, Solutions, cast_alike, cast_to, common, distinct, union
from everview.datalog.syntax import (
    COUNTING,
    Aggregate,
    Apply,
    Atom,
    Compare,
    Const,
    Declaration,
    Dominance,
    Holds,
    Literal,
    Or,
    Place,
    Program,
    Rule,
    Term,
    Var,
    Wild,
    mapped,
)
from everview.errors import did_you_mean
from everview.expr import nodes
from everview.expr.language import UserFunction
from everview.expr.resolve import literal
from everview.plan import joins
from everview.plan.check import widen
from everview.plan.components import components
from everview.plan.digest import digest
from everview.plan.nodes import Constant, Loop, LoopResult, Node, Project, TopK, Types, Variable
from everview.plan.rewrites import rewritten_plan
from everview.types import DataType


class UntypedRelation(Exception):
    """A rule reads a relation of the same loop whose columns are not known yet."""


class Strata:
    """Compiles the relations of a program; `outside` finds tables, views and the rules of other programs."""

    def __init__(
        self,
        rules: Iterable[Rule],
        outside: Callable[[str], Relation | None],
        known: Callable[[], Iterable[str]],
        functions: Mapping[str, UserFunction] | None = None,
        about: Program | None = None,
    ) -> None:
        self.about = about if about is not None else Program()
        self.rules: dict[str, list[Rule]] = {}
        self.outside = outside
        self.known = known
        self.done: dict[str, Relation] = {}
        self.open: dict[str, Relation | None] = {}
        self.bodies = Bodies(self._find, self._suggest)
        self.made_by: dict[Node, str] = {}
        """the text of the rule behind the plan of each head"""
        self._texts: dict[str, str] | None = None
        for number, rule in enumerate(rules):
            for part in aggregates.split(apart(_with_functions(rule, functions or {})), number):
                self.rules.setdefault(part.name, []).append(part)
        self.shapes = {name: self._shape(rules) for name, rules in self.rules.items()}
        self.dominance: dict[str, list[Dominance]] = {}
        for order in self.about.dominance:
            self.dominance.setdefault(order.name, []).append(order)

    def texts(self) -> Mapping[str, str]:
        """The rules as written, by the digests of their plans: as compiled, and as views are stored."""
        if self._texts is None:
            self._texts = {digest(rewritten_plan(node, ())): text for node, text in self.made_by.items()}
            self._texts |= {digest(node): text for node, text in self.made_by.items()}
        return self._texts

    def compile(self) -> dict[str, Relation]:
        """The plan of every relation."""
        reads = {name: self._reads(name) for name in self.rules}
        for group in components(reads):
            for name in group:
                self._check_about(name, group)
            if len(group) == 1 and group[0] not in reads[group[0]]:
                self.done[group[0]] = self._relation(group[0])
            else:
                self._check_stratified(group)
                self.done.update(self._fixed_point(group))
        return self.done

    # ------------------------------------------------------------------------------- dependencies

    def _shape(self, rules: Sequence[Rule]) -> aggregates.Shape:
        for rule in rules:
            if _width(rule) != _width(rules[0]):
                first = rules[0]
                raise rule.place.error(
                    "E_ARITY",
                    f"{rule.name} has {_width(rule)} columns here and {_width(first)} in line {first.place.line}",
                    "all rules of a relation have the same columns",
                )
        return aggregates.shape(rules)

    def _check_about(self, name: str, group: Sequence[str]) -> None:
        """Check the declarations about a relation."""
        declared = self.about.declared.get(name)
        recursive = len(group) > 1 or name in self._reads(name)
        if declared is not None and declared.choice is not None and recursive:
            raise declared.place.error(
                "E_STRATIFY",
                f"{_shown(name)} chooses among rows that follow from its choice",
                "choose in a relation that the recursion does not read, or aggregate with min or max",
            )
        for order in self.dominance.get(name, ()):
            for part in order.body:
                for atom, _ in part.atoms():
                    if atom.name in group:
                        raise atom.place.error(
                            "E_STRATIFY",
                            f"what dominates a row of {_shown(name)} depends on {_shown(atom.name)}, which it changes",
                            "compare the two rows' own values, or ask a relation below",
                        )

    def _atoms(self, name: str) -> Iterable[tuple[Rule, Atom, bool]]:
        for rule in self.rules[name]:
            for part in rule.body:
                for atom, negated in part.atoms():
                    if atom.name in self.rules:
                        yield rule, atom, negated
        for order in self.dominance.get(name, ()):
            for part in order.body:
                for atom, negated in part.atoms():
                    if atom.name in self.rules and atom.name != name:
                        yield self.rules[name][0], atom, negated

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
                raise UntypedRelation
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
                columns = {n: self._columns(n) for n in group}
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
        """Types inferred from rules that read nothing unknown."""
        found: dict[str, Types] = {}
        while len(found) < len(group):
            before = len(found)
            for name in group:
                if name not in found:
                    typed = [r for r in self.rules[name] if self._typed(name, [r])]
                    if typed:
                        found[name] = self._relation(name, typed).node.types
                        node = Variable(1, list(group).index(name), found[name])
                        self.open[name] = Relation(node, self._columns(name))
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
        except UntypedRelation:
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
        for part, casted, rule in zip(parts, cast_alike(parts, places, _shown(name)), first, strict=True):
            text = rule.place.text if not rule.is_fact or len(facts) == 1 else ""
            self.made_by.update(dict.fromkeys((part, casted), text))
        node = union(parts, places, _shown(name))
        node = aggregated(node, shape.kinds, rules[0].place) if shape.aggregates else distinct(node)
        found = Relation(node, self._columns(name))
        for order in self.dominance.get(name, ()):
            found = self._without_dominated(found, order)
        declared = self.about.declared.get(name)
        return found if declared is None else self._as_declared(found, declared)

    def _without_dominated(self, relation: Relation, order: Dominance) -> Relation:
        """The relation without dominated rows."""
        every = f"{order.name}'all"
        if len(order.lower) != len(relation.columns):
            raise order.place.error(
                "E_ARITY", f"{order.name} has {len(relation.columns)} columns, not {len(order.lower)}", "name them all"
            )
        self.done[every] = relation
        low, high = (
            tuple(Var(f"'{side}{i}") if isinstance(t, Wild) else t for i, t in enumerate(terms))
            for side, terms in (("l", order.lower), ("u", order.upper))
        )
        differ = tuple((Compare("ne", a, b, place=order.place),) for a, b in zip(low, high, strict=True) if a != b)
        if not differ:
            raise order.place.error("E_UNSAFE", "a row cannot dominate itself", "use two variables and compare them")
        either: Literal = differ[0][0] if len(differ) == 1 else Or(differ, place=order.place)
        body = (Atom(every, low, place=order.place), Atom(every, high, place=order.place), either, *order.body)
        rule = apart(Rule(order.name, low, body, order.place))
        worse = self.bodies.solve(rule.body, {v.name for t in low for v in t.variables()})
        gone = Project(worse.node, tuple(_head_value(worse, t) for t in low))
        keys = [joins.canonical(r) for r in joins.refs(relation.node.types)]
        lower = cast_to(gone, relation.node.types)
        others = [joins.canonical(r) for r in joins.refs(lower.types)]
        on = joins.Condition(
            tuple(e for k in keys for e in joins.null_safe(k)), tuple(e for k in others for e in joins.null_safe(k))
        )
        return Relation(joins.join(relation.node, lower, on, "anti"), relation.columns)

    def _as_declared(self, relation: Relation, declared: Declaration) -> Relation:
        """The relation with its declared types, and with one row for each value of a choice domain."""
        for i, (wanted, have) in enumerate(zip(declared.types, relation.node.types, strict=True)):
            if wanted is not None and TYPES.get(wanted, wanted) != have.kind:
                raise declared.place.error(
                    "E_TYPE",
                    f"column {declared.columns[i]} of {declared.name} is declared {wanted} and holds {have!r}",
                    f"the types are {', '.join(TYPES)}",
                )
        if declared.choice is None:
            return relation
        keys = tuple(declared.columns.index(c) for c in declared.choice)
        rest = tuple((i, False) for i in range(len(declared.columns)) if i not in keys)
        return Relation(TopK(distinct(relation.node), keys, rest, 1), relation.columns)

    def _columns(self, name: str) -> tuple[str, ...]:
        declared = self.about.declared.get(name)
        rules = self.rules[name]
        if declared is None:
            return _columns(rules)
        if len(declared.columns) != _width(rules[0]):
            raise declared.place.error(
                "E_ARITY",
                f"{name} is declared with {len(declared.columns)} columns and has {_width(rules[0])}",
                "declare all of its columns",
            )
        return declared.columns or PROPOSITION

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
        """A row for every solution of the rule's body: the head, with the inputs of aggregates."""
        needed = {v.name for t in rule.head for v in t.variables()}
        found = self.bodies.solve(rule.body, needed, bag=bag)
        return Project(found.node, tuple(_head_value(found, aggregates.contribution(t)) for t in rule.head))


# ------------------------------------------------------------------------------------------ helpers


def _with_functions(rule: Rule, functions: Mapping[str, UserFunction]) -> Rule:
    """The rule with user functions resolved; also in place of an atom that is not a relation."""

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


TYPES = {"number": "int", "symbol": "str", "unsigned": "int"}
TYPES |= {name: name for name in ("int", "float", "str", "bool", "bytes", "date", "timestamp", "decimal")}
"""Types allowed in a declaration."""


def _width(rule: Rule) -> int:
    """The number of columns of a head as written."""
    return 0 if any(isinstance(term, Holds) for term in rule.head) else len(rule.head)


def _columns(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Names for a relation's columns: the variables of its heads in lower case, else c1, c2, ..."""
    if not _width(rules[0]):
        return PROPOSITION
    names: list[str] = []
    for i, terms in enumerate(zip(*(r.head for r in rules), strict=True)):
        spelled = [t.name.lower().lstrip("?") for t in terms if isinstance(t, Var)]
        spelled += [t.name.lower().lstrip("?") or t.kind for t in terms if isinstance(t, Aggregate)]
        free = [n for n in spelled if n not in names and n.strip("_") and "'" not in n]
        names.append(free[0] if free else f"c{i + 1}")
    return tuple(names)


def _shown(name: str) -> str:
    return name.split("'")[0]


def _wider(types: Types, others: Types, place: Place, name: str) -> Types:
    pairs = enumerate(zip(types, others, strict=True))
    return tuple(common(a, b, place, f"column {i + 1} of {_shown(name)}") for i, (a, b) in pairs)


def _as(node: Node, types: Types) -> Node:
    return widen(cast_to(node, types), types)
