"""Rule bodies: from literals to solutions.

Literals are evaluated in a feasible order: conditions and negations as soon as their variables are bound, relations in
textual order but preferring those that share a bound variable. If relations form a cycle, negations wait for all of
them, which are then joined at once (`everview.plan.multiway`) without intermediate state. A literal that can never be
evaluated has an unbound variable: the rule is *unsafe*.

    sum P : {}   the aggregate of another body for each solution, grouped by the variables they share
    not (...)    solutions for which the inner body has none; variables that occur only inside are existential
    (a ; b)      the *set* of bindings of either side, joined with the rest

Under an aggregate, multiplicities of solutions matter. A solution is a value for every variable, including each `_`;
one that several branches have counts once, so (a ; a) is a, and brackets around a change nothing.

An independent inner body is computed once and shared; one that needs outer variables, as in `(P < 5 ; home(X))`, is
computed from their distinct values ("sideways").
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from everview.datalog import variants
from everview.datalog.groups import aggregated
from everview.datalog.pulls import pulled
from everview.datalog.ranges import Range
from everview.datalog.scopes import (
    after,
    assigned,
    components,
    exports,
    gains,
    has_wild,
    neighbours,
    opened,
    shown,
    stuck,
)
from everview.datalog.solutions import CONDITIONS, Relation, Solutions, distinct, most, union
from everview.datalog.syntax import (
    AGGREGATES,
    COUNTING,
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
    Term,
    Test,
    Total,
    Var,
    Variant,
    Wild,
    is_record,
    names_of,
)
from everview.errors import EverviewError, did_you_mean
from everview.expr import functions, nodes
from everview.plan import joins
from everview.plan.nodes import ONE_ROW, Filter, FlatMap, Project
from everview.types import INT

PROPOSITION = ("holds",)
"""The column of a relation without columns: it has one row, true, or none."""

MOST_ALTERNATIVES = 1000
"""Maximum number of branches of a disjunction under an aggregate, with inner brackets expanded."""

Find = Callable[[Atom], Relation | None]
"""Returns the relation that an atom reads, if it exists."""


@dataclass
class Bodies:
    """Solves bodies over the relations found by `find`.

    `suggest` returns a hint for a relation that does not exist.
    """

    find: Find
    suggest: Callable[[str], str]
    _fresh: Iterator[int] = field(default_factory=itertools.count)

    def solve(self, body: Body, outside: set[str], start: Solutions | None = None, *, bag: bool = False) -> Solutions:
        """All solutions of the body, extending `start`; `outside`: variables that occur outside the body.

        `bag`: multiplicities of solutions matter, for an aggregate. Otherwise parts of the body that share no variable
        are solved separately, and of each only what is read outside is kept: of most, whether there is a solution at
        all.
        """
        parts = neighbours([part for literal in body for part in self._read(literal)], outside)
        have = start.bound if start is not None else set()
        groups = [[l for l, _ in parts]] if bag and parts else components([l for l, _ in parts], frozenset(have))
        current = start
        for group in sorted(groups, key=_only_computes):  # N = 3 needs no rows, and is added to existing ones
            mine = [(l, around) for l, around in parts if any(l is other for other in group)]
            names = names_of(tuple(group))
            if len(groups) == 1 or names & have or _only_computes(group):
                current = self._solve(mine, current, bag)
            else:
                found = self._only(self._solve(mine, None, bag), names & outside)
                current = found if current is None else current.joined(found, group[0].place)
        return current if current is not None else self._unit()

    def _solve(self, pending: list[tuple[Literal, set[str]]], current: Solutions | None, bag: bool) -> Solutions:
        """Evaluate literals, each with the names outside of it, one after the other."""
        pending = list(pending)
        cyclic = _cyclic([names_of((literal,)) for literal, _ in pending if isinstance(literal, Atom)])
        while pending:
            literal, around = pending.pop(self._next(pending, current, cyclic))
            current = self._take(literal, current, around, bag)
        assert current is not None
        return current

    def _only(self, found: Solutions, names: set[str]) -> Solutions:
        """The values of these variables, each once; without any: whether there is a solution."""
        if not names:
            return self._unit_if(found)
        return found if found.bound == names and None not in found.names else found.distinct(sorted(names))

    def _unit(self) -> Solutions:
        return Solutions(ONE_ROW, (None,) * len(ONE_ROW.types))

    def _read(self, literal: Literal) -> list[Literal]:
        """A literal with functions distinguished from relations, and computed arguments as separate conditions."""
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
        if atom.name in AGGREGATES and len(atom.args) <= 1:
            hint = f"N = {atom.name}(X) gives it a variable, to be compared with something"
            raise atom.place.error("E_AGGREGATE", f"{atom.name} is not allowed here", hint)
        raise self.unknown(atom)

    def unknown(self, atom: Atom) -> EverviewError:
        """Return the error for a relation that does not exist."""
        return atom.place.error("E_RELATION", f"there is no relation {atom.name}", self.suggest(atom.name))

    # ------------------------------------------------------------------------------- which comes next

    def _next(self, pending: list[tuple[Literal, set[str]]], current: Solutions | None, cyclic: bool) -> int:
        bound = current.bound if current is not None else set()
        patient = cyclic and any(isinstance(literal, Atom) for literal, _ in pending)
        sources = []
        for i, (literal, around) in enumerate(pending):
            if isinstance(literal, Atom) or (isinstance(literal, Or) and self._alone(literal, around)):
                sources.append(i)
            elif patient and isinstance(literal, Not):
                continue
            elif gains(literal, bound, around, self._read) is not None:
                return i
        for i in sources:
            if not bound or bound & names_of((pending[i][0],)):
                return i
        if sources:
            return sources[0]
        raise self._unsafe(pending, bound)

    def _alone(self, literal: Or, around: set[str]) -> bool:
        """Whether it needs nothing from outside, and so is a source of rows."""
        return exports(literal, set(), around, self._read) is not None

    def _unsafe(self, pending: list[tuple[Literal, set[str]]], bound: set[str]) -> EverviewError:
        found = stuck(pending, bound)
        if found is None:
            return pending[0][0].place.error("E_UNSAFE", "nothing binds the variables of this condition")
        variable, literal = found
        return unsafe(variable.place, variable.name, isinstance(literal, Not))

    # ---------------------------------------------------------------------------------- taking one

    def _take(self, literal: Literal, current: Solutions | None, around: set[str], bag: bool) -> Solutions:
        if isinstance(literal, Atom):
            rows = self.rows(literal)
            return rows if current is None else current.joined(rows, literal.place)
        if isinstance(literal, Or):
            return self._either(literal, current, around, bag)
        current = current if current is not None else self._unit()
        if isinstance(literal, Compare):
            return self._compare(literal, current)
        if isinstance(literal, Test):
            return current.where(_truth(current, literal.term))
        if isinstance(literal, Total):
            return self._total(literal, current, around)
        if isinstance(literal, Pull):
            return pulled(literal, current, self._attribute)
        assert isinstance(literal, Not)
        return self._negation(literal, current, around)

    def _attribute(self, name: str, place: Place) -> Relation:
        """The relation of an attribute."""
        atom = Atom(name, (Wild(), Wild()), place=place)
        found = self.find(atom)
        if found is None:
            raise self.unknown(atom)
        return found

    def rows(self, atom: Atom) -> Solutions:
        """The relation's rows that match the atom's constants and repeated variables."""
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
        gets = assigned(literal, current.bound)
        for variable, term in (gets,) if gets else ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(term, Apply) and term.op == "range" and term.function is None and literal.op == "eq":
                return _ranged(current, variable, term)
        if gets is not None:
            variable, term = gets
            return current.extended(variable.name, current.value(term))
        parted = opened(literal, current.bound)
        if parted is not None:
            return _taken_apart(current, parted[0], current.value(parted[1]))
        left, right = current.value(literal.left), current.value(literal.right)
        try:
            return current.where(functions.call(literal.op, left, right))
        except EverviewError as error:
            raise literal.place.placed(error) from None

    def _negation(self, literal: Not, current: Solutions, around: set[str]) -> Solutions:
        shared = sorted(names_of(literal.body) & current.bound)
        alone = after(literal.body, set(), around, self._read)
        start = None if alone is not None and set(shared) <= alone else current.distinct(shared)
        inner = self.solve(literal.body, around, start)
        names = tuple(n if n in shared else None for n in inner.names)
        return current.without(Solutions(inner.node, names), literal.place)

    def _total(self, literal: Total, current: Solutions, around: set[str]) -> Solutions:
        """The solutions with the aggregate of another body as a variable; without a value the default is used, or the
        solution dropped."""
        if literal.variable.name in current.bound:  # 0 = count : { ... } already bound it
            fresh = Var(f"'{next(self._fresh)}", place=literal.place)
            found = self._total(replace(literal, variable=fresh), current, around)
            return self._compare(Compare("eq", literal.variable, fresh, place=literal.place), found)
        inside = {v.name for v in literal.inside()}
        shared = sorted(inside & current.bound)
        read = around | literal.aggregates()
        alone = after(literal.body, set(), read, self._read)
        start = None if alone is not None and inside & current.bound <= alone else current.distinct(shared)
        inner = self.solve(literal.body, read, start, bag=literal.kind in COUNTING)
        value = inner.value(literal.arg if literal.arg is not None else Const(1, place=literal.place))
        columns = (*(nodes.ColumnRef(inner.node.types[inner.at(n)], inner.at(n)) for n in shared), value)
        kinds = (*(None for _ in shared), literal.kind)
        totals = Solutions(
            aggregated(Project(inner.node, columns), kinds, literal.place), (*shared, literal.variable.name)
        )
        found = current.joined(totals, literal.place)
        if literal.default is None:
            return found
        rest = current.without(Solutions(totals.node, (*shared, None)), literal.place)
        other = rest.extended(literal.variable.name, rest.value(literal.default))
        names = [*dict.fromkeys(n for n in other.names if n is not None)]
        both = [s.taken(names).node for s in (found, other)]
        return Solutions(union(both, [literal.place] * 2, f"the {literal.kind} and its default"), tuple(names))

    def _either(self, literal: Or, current: Solutions | None, around: set[str], bag: bool) -> Solutions:
        start: Solutions | None = None
        names = sorted(exports(literal, set(), around, self._read) or ())
        if not self._alone(literal, around):
            assert current is not None
            shared = sorted(names_of((literal,)) & current.bound)
            start = current.distinct(shared) if shared else None
            names = shared + sorted(exports(literal, current.bound, around, self._read) or ())
        branches = flat(self._all_named(literal)) if bag else literal.branches
        parts = [self.solve(branch, around, start, bag=bag) for branch in branches]
        places = [branch[0].place for branch in branches]
        if bag:
            rows = self._bag_of(parts, places, names)
        else:
            rows = self._set_of(parts, places, names)
        return rows if current is None else current.joined(rows, literal.place)

    def _set_of(self, parts: list[Solutions], places: list[Place], names: list[str]) -> Solutions:
        """The bindings of some variables in any branch, each once; of none: whether any branch has a solution."""
        if not names:
            return self._unit_if(
                Solutions(union([self._unit_if(p).node for p in parts], places, "the alternatives"), (None,))
            )
        node = distinct(union([p.taken(names).node for p in parts], places, "the alternatives"))
        return Solutions(node, tuple(names))

    def _bag_of(self, parts: list[Solutions], places: list[Place], names: list[str]) -> Solutions:
        """The solutions of all branches: equal bindings in two of them are one solution."""
        alike: dict[frozenset[str], list[int]] = {}
        for i in range(len(parts)):
            alike.setdefault(_named(parts[i]), []).append(i)
        nodes_found = []
        for group in alike.values():
            every = sorted(_named(parts[group[0]]))
            same = [parts[i].taken(every).node for i in group]
            whole = Solutions(most(same, [places[i] for i in group], "the alternatives"), tuple(every))
            nodes_found.append(whole.taken(names).node if names else Project(whole.node, (nodes.Literal(INT, 1),)))
        found = union(nodes_found, [places[group[0]] for group in alike.values()], "the alternatives")
        return Solutions(found, tuple(names) if names else (None,))

    def _all_named(self, either: Or) -> Or:
        """The alternatives with a name for every `_` outside negations, and for omitted columns."""

        def named(literal: Literal) -> Literal:
            if isinstance(literal, Or):
                return self._all_named(literal)
            relation = self.find(literal) if isinstance(literal, Atom) else None
            if not isinstance(literal, Atom) or relation is None:
                return literal
            args = (Var(f"_'{next(self._fresh)}") if isinstance(a, Wild) else a for a in _in_order(literal, relation))
            return Atom(literal.name, tuple(args), place=literal.place)

        return Or(tuple(tuple(map(named, branch)) for branch in either.branches), place=either.place)

    def _unit_if(self, found: Solutions) -> Solutions:
        return Solutions(distinct(Project(found.node, (nodes.Literal(INT, 1),))), (None,))


# ------------------------------------------------------------------------------------------ helpers


def flat(either: Or) -> list[Body]:
    """The branches, with inner alternatives expanded.

    >>> from everview.datalog.grammar import parse
    >>> len(flat(parse("p(X) :- t(X), (a(X), (b(X) ; c(X)) ; d(X)).")[0].body[1]))
    3
    """
    found: list[Body] = []
    for branch in either.branches:
        choices = [flat(l) if isinstance(l, Or) else [(l,)] for l in branch]
        if math.prod(map(len, choices)) + len(found) > MOST_ALTERNATIVES:
            raise either.place.error(
                "E_SIZE",
                f"an aggregate over more than {MOST_ALTERNATIVES} alternatives, multiplied out",
                "give the inner brackets a relation of their own",
            )
        found += [tuple(l for body in picked for l in body) for picked in itertools.product(*choices)]
    return found


def _only_computes(literals: Sequence[Literal]) -> bool:
    """Whether these are only conditions, without look-ups."""
    return all(isinstance(literal, Compare | Test) for literal in literals)


def _named(found: Solutions) -> frozenset[str]:
    """The variables of some solutions, without those of computed arguments."""
    return frozenset(n for n in found.bound if not n.startswith("'"))


def _cyclic(atoms: list[set[str]]) -> bool:
    """Whether atoms with these variables are cyclic: something is left after repeatedly removing variables of a single
    atom, and atoms contained in others (GYO).

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


def unsafe(place: Place, name: str, negated: bool = False) -> EverviewError:
    """Return the error for an unbound variable."""
    hint = "write _ for any value, or bind it" if negated else "bind it"
    name = shown(name)
    return place.error("E_UNSAFE", f"nothing gives {name} a value", f"{hint} in a positive literal: relation({name})")


def _ranged(current: Solutions, variable: Term, term: Apply) -> Solutions:
    """With a row for every number of the range."""
    if not 2 <= len(term.args) <= 3:
        raise term.place.error("E_ARITY", f"range takes 2 or 3 arguments, not {len(term.args)}", "range(0, 10, 2)")
    bounds = [current.value(arg) for arg in term.args]
    for bound in bounds:
        if bound.type.kind != "int":
            raise term.place.error("E_TYPE", f"range takes ints, not {bound.type!r}", "convert it: int(X)")
    width = len(current.names)
    child = Project(current.node, (*joins.refs(current.node.types), *bounds))
    node = FlatMap(child, Range(width), (*current.node.types, INT))
    if isinstance(variable, Var) and variable.name not in current.bound:
        return Solutions(node, (*current.names, variable.name))
    found = Solutions(node, (*current.names, None))
    same = _equal(found.value(variable), nodes.ColumnRef(INT, width), term.place)
    return Solutions(Filter(node, same), found.names)


def _taken_apart(current: Solutions, record: Apply, value: nodes.Expr) -> Solutions:
    """The solutions whose record has these items, binding the variables among them."""
    current, parts = _parts(current, record, value)
    for item, part in zip(record.args, parts, strict=True):
        if isinstance(item, Var) and item.name not in current.bound:
            current = current.extended(item.name, part)
        elif is_record(item) and (has_wild(item) or not {v.name for v in item.variables()} <= current.bound):
            current = _taken_apart(current, item, part)
        elif not isinstance(item, Wild):
            current = current.where(_equal(part, current.value(item), item.place))
    return current


def _parts(current: Solutions, record: Apply, value: nodes.Expr) -> tuple[Solutions, list[nodes.Expr]]:
    """The solutions whose value has this many items, or this form, and its items."""
    have = value.type
    if isinstance(record, Variant):
        return current.where(variants.has_form(record, value)), variants.items(record, value)
    if have.kind != "tuple" or len(have.items) != len(record.args):
        raise record.place.error(
            "E_TYPE", f"a record of {len(record.args)} items is expected, but this is {have!r}", "count the items"
        )
    if have.nullable:
        current = current.where(functions.call("is_not_null", value))
    return current, [functions.call("tuple_get", value, nodes.Literal(INT, i)) for i in range(len(record.args))]


def _equal(a: nodes.Expr, b: nodes.Expr, place: Place) -> nodes.Expr:
    try:
        return functions.call("eq", a, b)
    except EverviewError as error:
        raise place.placed(error) from None


def _truth(current: Solutions, term: Term) -> nodes.Expr:
    value = current.value(term)
    if value.type.kind != "bool":
        raise term.place.error(
            "E_TYPE", f"a condition must be true or false, but this is {value.type!r}", "compare it with something"
        )
    return value


def _in_order(atom: Atom, relation: Relation) -> list[Term]:
    """The atom's arguments, one per column of the relation."""
    columns = relation.columns
    if columns == PROPOSITION and not atom.args and not atom.named:
        return [Holds(place=atom.place)]
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
