"""Datalog over the same engine: `db.datalog(text)`.

The modules, in reading order:

    syntax        rules, literals, terms, and errors with their place
    grammar       the ordinary spelling, read by Lark
    solutions     ways to make literals hold, as plans
    bodies        from literals to solutions: safety, order, negation, disjunction
    aggregates    whose an aggregate is, and over what
    strata        from rules to plans: who reads whom, loops, types
    program       what `db.datalog` gives
"""

from __future__ import annotations

from everview.datalog.program import Rules
from everview.datalog.syntax import DatalogError

__all__ = ["DatalogError", "Rules"]
