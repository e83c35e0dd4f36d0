"""Keys that become hot while views live: on shards, the joins that read them are replaced by joins that split them.

A view is created with the keys that are hot then (`everview.plan.hot_keys`). Later, the samples are read again whenever
a table has doubled. A join with new hot keys is swapped as the optimiser swaps plans (`everview.dataflow.plan_swap`):
new operators are built and verified beside the old, readers see nothing, and the change is durable. It costs the join
computed once more, so in total not more than a constant times what came.

It is a hook around a session's steps: a step pays for one call and a comparison. The swap happens before a step, when
nothing is in progress.

Not replaced are joins in loops and those of many inputs at once, and those of views with `plan="verbatim"`. A key that
is no longer hot stays split, which costs some copies.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from everview.dataflow import shield
from everview.errors import EverviewError, PlanError
from everview.language.relation import relation_of
from everview.plan import nodes as plan
from everview.plan.hot_keys import HotJoin, split_anew
from everview.runtime.base import ChangeSet, StepOutcome
from everview.runtime.step_hooks import Step, install_hook

if TYPE_CHECKING:
    from everview.runtime.sharded import ShardedRuntime
    from everview.session.core import Core


class HotJoins:
    """Follows the hot keys of a session on shards.

    >>> from everview.session.local_shards import local_shards
    >>> with local_shards(2) as db:
    ...     follows, user = db.table("follows", {"who": int, "whom": int}), db.table("user", {"id": int, "age": int})
    ...     v = db.view("v", follows.join(user, follows.whom == user.id).select(follows.who, user.age))
    ...     user.insert([(7, 30)])
    ...     follows.insert([(who, 7) for who in range(20_000)])
    ...     follows.insert([(1, 8)])
    ...     print(v.explain().splitlines()[4])
    plan since time 2: (follows join user), because 1 key has become hot and is split over shards
    """

    def __init__(self, core: Core, runtime: ShardedRuntime) -> None:
        self._core = core
        self._runtime = runtime
        self._refused: set[plan.Node] = set()
        self._off = False
        self._step: Step = runtime.step
        install_hook(runtime, self._stepped)

    def _stepped(self, transactions: list[ChangeSet]) -> StepOutcome:
        if self._runtime.row_samples.grown and not self._off:
            self._look()
        return self._step(transactions)

    @shield.shielded
    def _look(self) -> None:
        """Replace the joins that have new hot keys. Ctrl-C is deferred: a plan may be half swapped."""
        self._runtime.row_samples.looked()
        try:
            for join in [*self._joins()]:
                self._follow(join)
        except EverviewError as error:  # it must not surface in the user's change
            self._off = True
            warnings.warn(f"hot keys are not followed any more: {error}", stacklevel=3)

    def _follow(self, join: plan.Join) -> None:
        now = self._runtime.builder.chosen.get(join, join)
        if not isinstance(now, plan.Join):
            return  # the optimiser has chosen another plan
        target = split_anew(now, self._runtime.row_samples.hot(now, self._runtime.cluster.shards))
        if not isinstance(target, HotJoin) or target is now or target in self._refused:
            return
        new = len(target.hot) - (len(now.hot) if isinstance(now, HotJoin) else 0)
        many = "1 key has become hot and is" if new == 1 else f"{new} keys have become hot and are"
        try:
            self._core.definitions.plans.replan(join, target, f"{many} split over shards")
        except PlanError:  # it is read in a loop, say
            self._refused.add(target)

    def _joins(self) -> Iterator[plan.Join]:
        """The joins of two inputs outside loops."""
        builder, catalog = self._runtime.builder, self._core.catalog
        seen: set[plan.Node] = set()
        for view in catalog.views.values():
            if relation_of(view).plan == "verbatim":
                continue
            own = catalog.canonical(relation_of(view).node)
            todo = [builder.built.get(own, own)]
            while todo:
                node = todo.pop()
                if node in seen:
                    continue
                seen.add(node)
                if isinstance(node, plan.Join):
                    yield node
                if not isinstance(node, plan.LoopResult):
                    todo.extend(node.children())


def follow_hot_keys(core: Core, runtime: ShardedRuntime) -> None:
    """From now on, replace joins whose keys become hot."""
    core.attached["hot joins"] = HotJoins(core, runtime)
