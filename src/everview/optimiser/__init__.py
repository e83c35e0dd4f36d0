"""The cheapest plan of a join, kept up to date while statistics change.

The optimiser is a program in our own Datalog (liu-2016, chapter 4): statistics are rows of tables, the search space,
the costs and the best plan are views. A statistic that changes is a transaction, and the engine works off what
follows from it, which is why asking again costs a fraction of asking for the first time.

Reading order:

    problem              what is asked: relations, variables, statistics
    model                what a plan costs
    space                all plans, as an and-or graph
    rules                the program that finds the cheapest and keeps it
    pruning              what of the space the optimum does not need, as views over it
    bottom_up, top_down  the same answers by procedures, which the rules are compared with
    observed             problems made of plans and of what a session knows
    rebuilt              plans made of answers
    chosen               `plan="best"`
    alternatives         EXPLAIN ALTERNATIVES
    replanned            another plan for an existing view
    present, adaptive    plans that follow what is seen: what the present one costs, and when another takes its place
"""

from everview.optimiser.problem import Problem, Relation
from everview.optimiser.rules import Optimiser

__all__ = ["Optimiser", "Problem", "Relation"]
