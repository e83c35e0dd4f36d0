"""Datalog over the same engine: `db.datalog(text)`.

The modules, in reading order:

    syntax        rules, literals, terms, and errors with their place
    variants      types with several forms, kept as JSON
    modules       components, copied under names of their own
    grammar       the ordinary spelling, read by Lark
    edn           the Datomic-like spelling
    attributes    facts (entity, attribute, value)
    solutions     ways to make literals hold, as plans
    scopes        which variable a name means, and when a literal can be taken
    bodies        from literals to solutions: order, negation, disjunction
    pulls         documents about entities
    ranges        a row for every number of a range
    aggregates    whose an aggregate is, and over what
    groups        aggregates as plans
    strata        from rules to plans: who reads whom, loops, types
    magic         rules rewritten for questions with arguments
    program       what `db.datalog` and `db.register` give
"""

from __future__ import annotations

from everview.datalog.program import Rules, datalog
from everview.datalog.syntax import DatalogError

__all__ = ["DatalogError", "Rules", "datalog"]
