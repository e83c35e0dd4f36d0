"""Magic sets: rewrites rules for queries with bound arguments, so that only what the result needs is derived.

For the query `path(1, Y)`, the program

    path(X, Y) :- edge(X, Y).
    path(X, Z) :- path(X, Y), edge(Y, Z).

becomes one about the requested arguments. `path'bf` is path with the first column bound and the second free;
`path'bf'in` is the set of requested first columns:

    path'bf'in(X) :- 'seed(X).
    path'bf(X, Y) :- path'bf'in(X), edge(X, Y).
    path'bf(X, Z) :- path'bf(X, Y), edge(Y, Z).

The last rule need not check again whether X is requested: path'bf has nothing else.

The seed is a relation, not a constant: it may be a table of queries that come and go, and the results are maintained
like anything else. Negated relations, and relations inside a disjunction, are computed completely; so is everything if
the rewritten program is not stratified, which can happen when a query depends on a total.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from everview.datalog.syntax import Aggregate, Atom, Body, Compare, Const, Literal, Or, Rule, Term, Test, Var, names_of

SEED = "'seed"
ANSWER = "'answer"


def rewrite(rules: Iterable[Rule], goal: str, bound: Sequence[int], whole: Container[str] = ()) -> list[Rule]:
    """The program that answers `goal` for the rows of the relation `'seed` in the bound columns, as `'answer`.

    Relations named in `whole` are computed completely, because their rows depend on each other.

    >>> from everview.datalog.grammar import parse
    >>> program = parse("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
    >>> sorted({rule.name for rule in rewrite(program, "path", [0])})
    ["'answer", "path'bf", "path'bf'in"]
    """
    work = _Rewriting(rules, whole)
    width = len(work.rules[goal][0].head)
    pattern = "".join("b" if i in bound else "f" for i in range(width))
    found = work.adorned(goal, pattern)
    variables = tuple(Var(f"V{i}") for i in range(width))
    asked = tuple(variables[i] for i in bound)
    seeds = [Rule(_asks(goal, pattern), asked, (Atom(SEED, asked),))] if found != goal else []
    answer = Rule(ANSWER, variables, (Atom(SEED, asked), Atom(found, variables)))
    return [answer, *seeds, *work.written()]


def restriction(goal: str, width: int, bound: Sequence[int]) -> list[Rule]:
    """The program that computes all of `goal` and then filters it."""
    variables = tuple(Var(f"V{i}") for i in range(width))
    return [Rule(ANSWER, variables, (Atom(SEED, tuple(variables[i] for i in bound)), Atom(goal, variables)))]


class _Rewriting:
    def __init__(self, rules: Iterable[Rule], indivisible: Container[str]) -> None:
        self.indivisible = indivisible
        self.rules: dict[str, list[Rule]] = {}
        for rule in rules:
            self.rules.setdefault(rule.name, []).append(rule)
        self.new: dict[str, list[Rule]] = {}
        self.whole: dict[str, None] = {}

    def written(self) -> list[Rule]:
        """The rewritten rules, and those of relations that are computed completely."""
        todo = list(self.whole)
        seen: dict[str, None] = {}
        while todo:
            name = todo.pop()
            if name not in seen:
                seen[name] = None
                atoms = (a for rule in self.rules[name] for l in rule.body for a, _ in l.atoms())
                todo.extend(a.name for a in atoms if a.name in self.rules)
        whole = [rule for name in seen for rule in self.rules[name]]
        return [rule for rules in self.new.values() for rule in dict.fromkeys(rules)] + whole

    def adorned(self, name: str, pattern: str) -> str:
        """The name of the relation for a pattern of bound columns; its rules are written on first use."""
        aggregated = any(
            isinstance(rule.head[i], Aggregate) for rule in self.rules[name] for i, b in enumerate(pattern) if b == "b"
        )
        if "b" not in pattern or aggregated or name in self.indivisible:
            self.whole[name] = None
            return name
        new = f"{name}'{pattern}"
        if new not in self.new:
            self.new[new] = []
            for rule in self.rules[name]:
                self.new[new].append(self._rule(rule, new, pattern))
        return new

    def _rule(self, rule: Rule, new: str, pattern: str) -> Rule:
        asked = Atom(f"{new}'in", _bound(rule.head, pattern))
        have = {t.name for t in asked.args if isinstance(t, Var)}
        done: list[Literal] = [asked]
        pending = list(rule.body)
        while pending:
            literal = pending.pop(_next(pending, have))
            if isinstance(literal, Atom) and literal.name in self.rules and not literal.named:
                literal = self._asked_for(literal, have, done)
            else:
                self._read_whole(literal)
            done.append(literal)
            have |= _binds(literal, have)
        if any(isinstance(l, Atom) and l.name == new and _bound(l.args, pattern) == asked.args for l in done):
            done.remove(asked)  # derived from requested rows
        return Rule(new, rule.head, tuple(done), rule.place)

    def _asked_for(self, atom: Atom, have: set[str], done: list[Literal]) -> Literal:
        """The atom over the adorned relation; its request follows from the literals before it."""
        pattern = "".join("b" if _known(arg, have) else "f" for arg in atom.args)
        name = self.adorned(atom.name, pattern)
        if name == atom.name:
            return atom
        args = _bound(atom.args, pattern)
        ask = Atom(f"{name}'in", args)
        if ask not in done:
            self.new.setdefault(ask.name, []).append(Rule(ask.name, args, _asking(done), atom.place))
        return Atom(name, atom.args, place=atom.place)

    def _read_whole(self, literal: Literal) -> None:
        for atom, _ in literal.atoms():
            if atom.name in self.rules:
                self.whole[atom.name] = None


def _asks(name: str, pattern: str) -> str:
    return f"{name}'{pattern}'in"


def _bound(terms: Sequence[Term], pattern: str) -> tuple[Term, ...]:
    """The terms in the bound columns."""
    return tuple(term for term, b in zip(terms, pattern, strict=True) if b == "b")


def _known(term: Term, have: set[str]) -> bool:
    return isinstance(term, Const) or (isinstance(term, Var) and term.name in have)


def _next(pending: list[Literal], have: set[str]) -> int:
    """The first literal that can use the bound variables, else the first relation."""
    for i, literal in enumerate(pending):
        if isinstance(literal, Atom) and any(_known(a, have) for a in literal.args):
            return i
        if isinstance(literal, Compare | Test) and (names_of((literal,)) <= have or _binds(literal, have)):
            return i
    return next((i for i, literal in enumerate(pending) if isinstance(literal, Atom)), 0)


def _binds(literal: Literal, have: set[str]) -> set[str]:
    """Variables that are certainly bound after the literal."""
    if isinstance(literal, Atom):
        return {v.name for arg in literal.args if isinstance(arg, Var) for v in (arg,)}
    if isinstance(literal, Compare) and literal.op == "eq":
        for variable, term in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(variable, Var) and {v.name for v in term.variables()} <= have:
                return {variable.name}
    return set()


def _asking(done: Sequence[Literal]) -> Body:
    """The literals that determine a request: fewer only request more, so the difficult ones are left out."""
    kept: list[Literal] = []
    have: set[str] = set()
    for literal in done:
        simple = isinstance(literal, Atom) and all(
            isinstance(a, Var | Const) or not list(a.variables()) for a in literal.args
        )
        condition = isinstance(literal, Compare | Test) and (names_of((literal,)) <= have or _binds(literal, have))
        if (simple or condition) and not isinstance(literal, Or):
            kept.append(literal)
            have |= _binds(literal, have)
    return tuple(kept)
