"""The fast path of a change: most transactions consist of their step and nothing else.

The general path of a commit goes through a turn (`turns.turn`), which enforces limits, and through
`Transactions.accept`. The latter adds the consequences: referential actions, sequence positions, clock followers,
queueing in a batch. In a session that currently has none of these (`usual`), only `runtime.step` is left. A single
change then takes a few microseconds, where every Python call counts.

Both paths are equivalent because `usual` runs at the point where the turn would check: signals are already deferred and
the locks are held, so nothing it reads changes before the step. If `usual` is false, the general path runs from its
start. The first line of a turn (`prepare`) and its error handling (`failed`) are part of both.

In memory (`Runtime.sound`), Ctrl-C need not be deferred unless there are subscribers to notify. Like an exception from
another thread, it leaves the step complete or undone, and the next turn settles that.

`commit_alone` acquires and releases the locks by calls, which take half the time of `with`. An exception can then occur
between a call and the statement after it. So each lock is acquired inside the `try` that releases it, by a thread that
did not hold it before: a lock that was not acquired then refuses to be released, and nothing else happens.
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
    """Whether committing now takes a step and nothing else. Call it with the locks held.

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


def commit_alone(core: Core, changes: ChangeSet, long_way: Callable[..., None], changed: TableRelation) -> None:
    """Commit the only change of a transaction, without `lock` held, and call subscribers. `long_way` takes the change
    as its arguments.
    """
    writing, lock = core.writing, core.lock
    try:
        if writing._is_owned():  # by a batch of this thread, which releasing what was not acquired would end
            with writing, lock:
                commit(core, changes, long_way, changes[0], changed)
            return
        try:
            writing.acquire()
            try:
                lock.acquire()
                commit(core, changes, long_way, changes[0], changed)
            except BaseException:
                try:  # noqa: SIM105  # at once: the call of anything else may be the place of the next exception
                    lock.release()
                except RuntimeError:  # it was not acquired
                    pass
                raise
            lock.release()
        except BaseException:
            try:  # noqa: SIM105
                writing.release()
            except RuntimeError:
                pass
            raise
        writing.release()
    finally:
        if core.subscriptions.pending:
            core.subscriptions.deliver()


@shield.covered
def commit(
    core: Core,
    changes: ChangeSet,
    long_way: Callable[..., None],
    arguments: tuple[Any, ...],
    changed: TableRelation | None = None,
    *,
    deferred: bool = False,
) -> None:
    """Equivalent to `turn(core, long_way, arguments)`, which commits changes; call it with `writing` and `lock` held.
    `changed` is the relation, which may have been dropped while this thread waited for the locks. `deferred`: the
    caller already defers signals, so a sound runtime need not look at the handlers again.
    """
    runtime = core.runtime
    sound = runtime.sound and not runtime.captures.watched
    replaced = shield.NOTHING if deferred and sound else shield.up(sound)
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
        if replaced or shield.missed:
            shield.down(replaced)
