"""Datalog over the same engine: `db.datalog(text)`.

The modules, in reading order:

    syntax        rules, literals, terms, and errors with their place
    variants      types with several forms, kept as JSON
    modules       components, instantiated under their own names
    grammar       the ordinary spelling, read by Lark
    edn           the Datomic-like spelling
    attributes    facts (entity, attribute, value)
    solutions     the bindings that satisfy literals, as plans
    scopes        variable scoping, and when a literal can be evaluated
    bodies        from literals to solutions: order, negation, disjunction
    pulls         documents about entities
    ranges        a row for every number of a range
    aggregates    what an aggregate belongs to, and what it ranges over
    groups        aggregates as plans
    strata        from rules to plans: dependencies, loops, types
    magic         magic sets: rules rewritten for queries with arguments
    program       the results of `db.datalog` and `db.register`
"""

from __future__ import annotations

from everview.datalog.program import Rules, datalog
from everview.datalog.syntax import DatalogError

__all__ = ["DatalogError", "Rules", "datalog"]
