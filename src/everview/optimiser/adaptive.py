"""Adaptive execution: a session's join plans follow the observed statistics (liu-2016, §4.4.4).

Periodically the observed statistics (`everview.session.statistics`) are passed to the optimiser, which maintains the
best plan of every join. A join whose plan is no longer the best goes through

    looking     the current plan would cost more than `margin` times the best, over the transactions of the next `ahead`
                seconds; what a new plan has to build counts as a cost, what the current one has does not
    before      the processor time of `trial` transactions is measured with the old plan
    after       plans are swapped (`Definitions.replan`), and as many are measured with the new one
    settled     a new plan that is not worth it (more than `worse` times the time per row) is swapped back, and the join
                is left alone for a period that doubles each time

It is a hook around a session's steps. A step pays for one call and a comparison, except during trials. Views created
with an explicit `plan=` keep it, and so do the joins they share with others.

Hazard: processor time of a few small steps is noisy. `trial` should have hundreds of transactions, or a few large ones.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from everview.dataflow import shield
from everview.errors import EverviewError, InputError, PlanError, did_you_mean
from everview.language.relation import relation_of
from everview.optimiser.best_plans import observed_rows, optimiser_of
from everview.optimiser.current_cost import PresentPlan
from everview.optimiser.model import Model
from everview.optimiser.problem import UNIT, Problem, logarithm
from everview.optimiser.replanning import LivingJoin, living_joins
from everview.plan import nodes as plan
from everview.runtime.base import ChangeSet, StepOutcome, row_count
from everview.runtime.step_hooks import Step, install_hook, remove_hook

if TYPE_CHECKING:
    from everview.session.core import Core

LEAST_WORK = 50
"""Minimum ratio of work to the duration of all checks: checking costs 2 % in the long run."""

ROUTINE = 0.5
"""Share of that for checks that are due by the time alone. What is left is for steps that become slower: a plan that
has just become wrong must not wait because earlier checks found nothing.
"""

GRACE = 0.05
"""Seconds of checking allowed beyond that, for the first five checks or so that lead to a new plan; one takes ten times
as long as one that finds nothing new. A plan that has just become slow must not wait because of the cost of the
previous check, nor a plan as written, at the start, because that of the first is not yet worked off.
"""

SLOWER = 1.5
"""The next check is due at once when steps take this many times as long as before the last one. It often comes too
soon: the data has only begun to move. So it is repeated after twice the time, until steps have taken as long all along.
"""

TIMES_ASKED = 16
"""How often the clock is read between two checks, if they are as frequent as the policy says. Steps are counted, which
is nearly free; but a plan that has become slow takes much longer for the same number, and must not be detected that
much later.
"""

SOONEST = 0.25
"""Fraction of the time between two checks after which slower steps can trigger the next one, at first."""

MOST_PATIENCE = 1 << 20
"""Maximum number of checks for which a join is left alone."""


@dataclass(frozen=True)
class Policy:
    """When plans change.

    The statistics are checked `every` so many seconds of processor time; `margin` is how many times cheaper another
    plan must be over the next `ahead` seconds; `trial` is the number of transactions for which a plan is measured, 0 to
    trust the model; a plan that takes more than `worse` times as long is undone.
    """

    every: float = 1.0
    margin: float = 1.5
    ahead: float = 60.0
    trial: int = 100
    worse: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("every", 0), ("margin", 1), ("ahead", 0), ("trial", 0), ("worse", 1)):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, (int, float)) or given < least:
                raise InputError("E_RANGE", f"{name}={given!r}", f"give a number, {least} or more")


class Watched:
    """A join under observation."""

    def __init__(self, living: LivingJoin, number: int) -> None:
        self.living = living
        self.number = number
        """of its problem, in the optimiser"""
        self.told: Problem = living.problem
        self._seen: dict[int, tuple[int, list[int]]] = {}
        self.best = -1
        """the cost of the best plan, by the statistics passed to the optimiser"""
        self.patience = 0
        """checks for which it is left alone"""
        self.wait = 8

    @property
    def node(self) -> plan.Node:
        """The node that identifies it."""
        return self.living.node

    def seen(self, problem: Problem, now: Mapping[int, int]) -> dict[int, int]:
        """The estimation errors for the sets of relations that this plan materialises, or an earlier one did: what was
        learned from a plan is kept when another replaces it, or the two would alternate forever. It is discarded when
        one of the relations has doubled or halved; but not what a condition leaves. The model knows nothing else of
        conditions, and the share of rows that meet one does not depend on their number.
        """
        self._seen |= {mask: (off, [r.rows for r in problem.members(mask)]) for mask, off in now.items()}
        tested = {mask for mask in self._seen if problem.has_condition(mask)}
        first = {mask for mask in tested if not any(other & mask == other != mask for other in tested)}
        for mask, (_, rows) in list(self._seen.items()):
            moved = any(abs(r.rows - then) > UNIT for r, then in zip(problem.members(mask), rows, strict=True))
            if moved and mask not in first:
                del self._seen[mask]
        return {mask: off for mask, (off, _) in self._seen.items()}


@dataclass
class Trial:
    """A plan on trial."""

    watched: Watched
    old: plan.Node
    new: plan.Node
    why: str
    left: int
    seconds: float = 0.0
    rows: int = 0
    before: float | None = None
    """seconds per row with the old plan"""

    def measured(self) -> float:
        """Seconds per row so far."""
        return self.seconds / max(self.rows, 1)

    def is_lost(self, policy: Policy) -> bool:
        """Whether a new plan that has been tried for a tenth of the time has already taken twice what the old one would
        for all of it: then the trial ends.
        """
        tried = policy.trial - self.left
        if self.before is None or tried < max(policy.trial / 10, 1):
            return False
        return self.seconds > 2 * policy.worse * self.before * self.rows * policy.trial / tried


class Adaptive:
    """Adapts the joins of a session."""

    def __init__(self, core: Core, policy: Policy) -> None:
        self.core = core
        self.policy = policy
        self.switches = 0
        self.returns = 0
        self.seconds = 0.0
        """processor time spent checking and swapping"""
        self._watched: dict[plan.Node, Watched] = {}
        self._trial: Trial | None = None
        self._off = False
        self._shape: tuple[Any, ...] = ()
        self._every = 1
        """number of steps between readings of the clock"""
        self._pause = 0.0
        """seconds between checks"""
        self._since = self._begun = time.thread_time()
        self._looked = 0.0
        """seconds spent in checks, except the first, which creates everything"""
        self._at = core.runtime.dataflow.time
        self._read = self._since, self._at
        """the clock and the session's time at the last reading"""
        self._usual = 0.0
        """seconds per step before the last check; more by `SLOWER` at most if it came because they were slower"""
        self._hurried = 0
        """the number of last checks that came for that"""
        self._rate = 0.0
        self._step: Step = core.runtime.step
        self._stepped, self._wait = _counting(self._step, self._attend)
        install_hook(core.runtime, self._stepped)

    def close(self) -> None:
        """Freeze all plans."""
        self._off = True
        remove_hook(self.core.runtime, self._stepped, self._step)

    # steps

    @shield.shielded
    def _attend(self, transactions: list[ChangeSet]) -> StepOutcome:
        """A step with pending work: checks happen before it, when nothing is in progress and no subscriber waits.
        Ctrl-C is deferred, which it need not be for a step alone: a plan may be half swapped.
        """
        if self._trial is not None and self._trial.left <= 0:
            self._next(self._trial)
        elif self._trial is None and not self._off:
            self._look_if_due()
        if self._trial is not None:
            return self._measured(self._trial, transactions)
        self._wait(self._every)
        return self._step(transactions)

    def _measured(self, trial: Trial, transactions: list[ChangeSet]) -> StepOutcome:
        start = time.thread_time()
        outcome = self._step(transactions)
        trial.seconds += time.thread_time() - start
        trial.rows += sum(row_count(rows) for changes in transactions for _, rows, _ in changes)
        trial.left -= len(transactions)
        if trial.is_lost(self.policy):
            trial.left = 0
        return outcome

    # looking

    def _look_if_due(self) -> None:
        """Check if due, and determine after how many steps to read the clock again."""
        now, at = time.thread_time(), self.core.runtime.dataflow.time
        passed, steps = now - self._since, at - self._at
        if steps and passed > 0:
            self._rate = steps / passed
            self._every = int(min(max(self._rate * self.policy.every / TIMES_ASKED, 1), 4 * self._every, 1 << 20))
        (then, before), self._read = self._read, (now, at)
        took = (now - then) / max(at - before, 1)
        soonest = self.policy.every * SOONEST * 2**self._hurried
        slower = 0 < self._usual * SLOWER < took and passed > soonest and self._debt(now) <= 0
        if slower or passed >= self._pause:
            self._hurried = self._hurried + 1 if slower else 0
            for watched in self._watched.values() if slower else ():
                watched.patience //= 2  # what a trial has shown may no longer be so
            pace = max(took, passed / max(steps, 1))
            self._usual = min(pace, self._usual * SLOWER) if slower else pace
            self._look_now()

    def _debt(self, now: float, share: float = 1.0) -> float:
        """Seconds of work until checks are within their share of the time, or a share of that."""
        return LEAST_WORK / share * (self._looked - GRACE) - (now - self._begun)

    def _look_now(self) -> None:
        start, now = time.thread_time(), self.core.runtime.dataflow.time
        try:
            self.look()
        except EverviewError as error:  # an error here must not surface in the user's change
            self._off = True
            warnings.warn(f"plans do not follow any more: {error}", stacklevel=2)
        finally:
            self._at, self._since = now, time.thread_time()
            self._read = self._since, now
            spent = self._since - start
            if self.seconds:
                self._looked += spent
            self._pause = max(self.policy.every, self._debt(self._since, ROUTINE)) if self.policy.every else 0.0
            self.seconds += spent

    def look(self) -> None:
        """Pass the observed statistics to the optimiser, and start with the join that has most to gain."""
        self.core.statistics.look()
        self._find_joins()
        for watched in self._watched.values():
            if watched.patience > 0:
                watched.patience -= 1
            elif (found := self.wanted(watched)) is not None:
                self._begin(watched, *found)
                return

    def _find_joins(self) -> None:
        """Find the current joins and remove the problems of others. Does nothing while no operator was created or
        dropped and relations have about the same size.
        """
        core = self.core
        shape = (core.runtime.dataflow.made, len(core.runtime.dataflow.operators()), *core.catalog.views)
        if shape == self._shape and not any(self._grown(watched) for watched in self._watched.values()):
            return
        self._shape = shape
        found: dict[plan.Node, LivingJoin] = {}
        pinned: set[plan.Node] = set()
        for view in list(core.catalog.views.values()):
            for living in living_joins(core, view):
                found[living.node] = living
                if relation_of(view).plan is not None:
                    pinned.add(living.node)
        for node in pinned:
            del found[node]
        for gone in [node for node in self._watched if node not in found]:
            optimiser_of(core).remove(self._watched.pop(gone).number)
        for node, living in found.items():
            if node not in self._watched:
                self._watched[node] = Watched(living, optimiser_of(core).add(living.problem))
            self._watched[node].living = living

    def _grown(self, watched: Watched) -> bool:
        """Whether a relation's size has changed since it was last examined."""
        rows = observed_rows(self.core)
        pairs = zip(watched.living.problem.relations, watched.living.join.tree.leaves, strict=True)
        known = ((relation.rows, rows(leaf)) for relation, leaf in pairs)
        return any(now is not None and _moved(before, logarithm(now)) for before, now in known)

    def wanted(self, watched: Watched) -> tuple[plan.Node, str] | None:
        """A sufficiently cheaper plan for a join, and why, if there is one."""
        present = self.core.runtime.builder.chosen.get(watched.node, watched.node)
        as_tree = PresentPlan(present, watched.living.join.tree.leaves)
        problem = self._problem(watched, as_tree)
        if self._tell(watched, problem) or watched.best < 0:
            watched.best = optimiser_of(self.core).cost(watched.number)
        cost = as_tree.cost(Model(problem))
        if cost <= self.policy.margin * watched.best:
            return None
        target = watched.living.by(optimiser_of(self.core).best(watched.number))
        if target == present:
            return None
        return target, f"it was {cost / max(watched.best, 1):.1f} times cheaper by what was seen"

    def _problem(self, watched: Watched, present: PresentPlan) -> Problem:
        """The current statistics of a join, with the changes of the planning period."""
        core, transactions = self.core, max(self._rate * self.policy.ahead, 1.0)
        relations = []
        for relation, leaf in zip(watched.living.problem.relations, watched.living.join.tree.leaves, strict=True):
            rate = core.statistics.rate_of(leaf)
            changes = relation.changes if rate is None else logarithm(rate * transactions)
            relations.append(replace(relation, changes=changes))
        steps = logarithm(transactions)
        problem = replace(watched.living.problem, relations=tuple(relations), factors={}, steps=steps)
        seen = watched.seen(problem, present.seen(problem, observed_rows(core)))
        return replace(problem, factors=present.factors(problem, seen))

    def _tell(self, watched: Watched, problem: Problem) -> bool:
        """Update the optimiser's statistics, skipping those that hardly moved; return whether any changed."""
        told, optimiser = watched.told, optimiser_of(self.core)
        pairs = list(enumerate(zip(told.relations, problem.relations, strict=True)))
        rows = {r: new.rows for r, (old, new) in pairs if _moved(old.rows, new.rows)}
        changes = {r: new.changes for r, (old, new) in pairs if _moved(old.changes, new.changes)}
        values = {
            (r, v): log for r, (old, new) in pairs for v, log in new.values.items() if _moved(old.values.get(v, 0), log)
        }
        masks = {*told.factors, *problem.factors}
        factors = {m: problem.factors.get(m, 0) for m in masks}
        factors = {m: log for m, log in factors.items() if _moved(told.factors.get(m, 0), log)}
        indexes = {r: new.indexes for r, (old, new) in pairs if old.indexes != new.indexes}
        steps = problem.steps if _moved(told.steps, problem.steps) else None
        if not (rows or changes or values or factors or indexes) and steps is None:
            return False
        optimiser.observe(
            watched.number, rows=rows, changes=changes, values=values, factors=factors, steps=steps, indexes=indexes
        )
        watched.told = problem
        return True

    # switching

    def _begin(self, watched: Watched, target: plan.Node, why: str) -> None:
        present = self.core.runtime.builder.chosen.get(watched.node, watched.node)
        if not self.policy.trial:
            self._swap(watched, target, why)
            return
        self._trial = Trial(watched, present, target, why, self.policy.trial)

    def _next(self, trial: Trial) -> None:
        """Proceed after a measurement: to the new plan, or to the end of the trial."""
        start = time.thread_time()
        try:
            if self._off or trial.watched.node not in self._watched:
                self._trial = None
            elif trial.before is None:
                again = replace(trial, before=trial.measured(), seconds=0.0, rows=0, left=self.policy.trial)
                self._trial = again if self._swap(trial.watched, trial.new, trial.why) else None
            else:
                self._trial = None
                times = trial.measured() / max(trial.before, 1e-12)
                if times > self.policy.worse:
                    self.returns += 1
                    self._swap(trial.watched, trial.old, f"the other took {times:.2f} times as long on trial")
                    self._be_patient(trial.watched)
        finally:
            self.seconds += time.thread_time() - start

    def _swap(self, watched: Watched, target: plan.Node, why: str) -> bool:
        try:
            self.core.definitions.plans.replan(watched.node, target, why)
        except PlanError:  # it cannot be swapped, or not now
            self._be_patient(watched)
            return False
        self.switches += 1
        return True

    def _be_patient(self, watched: Watched) -> None:
        watched.patience = watched.wait
        watched.wait = min(2 * watched.wait, MOST_PATIENCE)


def _counting(step: Step, attend: Step) -> tuple[Step, Callable[[int], None]]:
    """A step that only counts until attention is due, and a function that sets after how many. All steps pass here, so
    it is a closure, which takes a third of the time of a method.
    """
    left = 0

    def stepped(transactions: list[ChangeSet]) -> StepOutcome:
        nonlocal left
        left -= 1
        return step(transactions) if left > 0 else attend(transactions)

    def wait(steps: int) -> None:
        nonlocal left
        left = steps

    return stepped, wait


def _moved(before: int, now: int) -> bool:
    """Whether a statistic differs from the optimiser's by half a doubling."""
    return abs(before - now) > UNIT // 2


def adapt(core: Core, on: bool, options: Mapping[str, Any]) -> None:
    """Start or stop adapting a session's joins."""
    known = [field.name for field in fields(Policy)]
    if unknown := [name for name in options if name not in known]:
        raise InputError("E_OPTION", f"plans have no option {unknown[0]!r}", did_you_mean(unknown[0], known))
    policy = Policy(**options) if on else None
    found = core.attached.pop("adaptive", None)
    if found is not None:
        found.close()
    if policy is not None:
        core.attached["adaptive"] = Adaptive(core, policy)
