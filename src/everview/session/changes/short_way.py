"""The short way of a change: most transactions have nothing to do but their step.

A transaction that ends goes through a turn (`turns.turn`), which sees to limits, and through `Transactions.accept`,
which adds what follows from it: constraints' actions, numbers of sequences, what the clock's followers make of it, a
batch that queues it. In a session that has none of these now (`usual`), all that is left is `runtime.step`, and a
single change costs a few microseconds, of which every call of Python is a part.

It is the same because `usual` is asked where the turn would ask: signals wait already, and the locks are held, so that
nothing it looks at changes before the step. Whatever is not usual goes the long way, from its beginning. A turn's first
line (`prepare`) and its last ones (`failed`) are in both.

Ctrl-C need not wait for it in memory (`Runtime.sound`), unless somebody has subscribed and must be told: like what
another thread raises, it leaves the step complete or undone, and the next turn settles that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from everview.dataflow import shield
from everview.errors import EverviewError
from everview.runtime.base import COMMITTED, ChangeSet
from everview.session.changes.turns import failed, turn

if TYPE_CHECKING:
    from everview.session.core import Core
    from everview.session.relations import TableRelation


def usual(core: Core) -> bool:
    """Whether a transaction that ends now is its step and nothing else. The locks are held.

    >>> import everview as ev
    >>> from everview.session.core import core_of
    >>> db = ev.connect()
    >>> with core_of(db).lock:
    ...     usual(core_of(db))
    True
    >>> with db.batch(), core_of(db).lock:
    ...     usual(core_of(db))
    False
    """
    transactions, runtime = core.transactions, core.runtime
    return not (
        core.closed
        or core.limits
        or core.clock.agenda.ranked
        or core.constraints.acting
        or core.defaults.waiting
        or transactions.queued is not None
        or transactions.staged is not None
        or runtime.dataflow.serving
        or runtime.backing.read_only
    )


@shield.covered
def commit(
    core: Core,
    changes: ChangeSet,
    long_way: Callable[..., None],
    arguments: tuple[Any, ...],
    changed: TableRelation | None = None,
) -> None:
    """`turn(core, long_way, arguments)`, which makes a transaction of changes; `writing` and `lock` are held. `changed`
    is what may have been dropped while this thread waited for them.
    """
    runtime = core.runtime
    replaced = shield.up(runtime.sound and not runtime.captures.watched)
    try:
        if core.unsettled or core.released or core.stop is not None:
            core.prepare()
        if (changed is not None and changed.dropped) or not usual(core):
            turn(core, long_way, arguments)
            return
        core.unsettled = True
        try:
            outcome = runtime.step([changes])
            if outcome is not COMMITTED:
                core.transactions.tell(outcome, [changes])
        except EverviewError as error:
            failed(core, error)
            raise
        core.unsettled = False
    finally:
        shield.down(replaced)
