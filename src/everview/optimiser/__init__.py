"""The join optimiser: the cheapest plan of a join, kept up to date as statistics change.

The optimiser is a program in our own Datalog (liu-2016, chapter 4): statistics are rows of tables; the search space,
the costs and the best plan are views. A changed statistic is a transaction whose consequences the engine computes
incrementally, so re-optimising costs a fraction of the first optimisation.

Reading order:

    problem                 the input: relations, variables, statistics
    model                   the cost model
    space                   all plans, as an and-or graph
    statistic_facts         changing a statistic quickly
    rules                   the program that maintains the cheapest plan
    pruning                 the parts of the space that the optimum does not need, as views
    bottom_up, top_down     procedural reference implementations
    observed_problem        problems from plans and a session's statistics
    plan_builder            plans from solutions
    best_plans              `plan="best"`
    alternatives            EXPLAIN ALTERNATIVES
    replanning              another plan for an existing view
    current_cost, adaptive  adaptive plans: the cost of the current one, and when to switch
"""

from everview.optimiser.problem import Problem, Relation
from everview.optimiser.rules import Optimiser

__all__ = ["Optimiser", "Problem", "Relation"]
