"""Sharded sessions within this process; tests use them to verify that sharding does not change results."""

from __future__ import annotations

from everview.codes.interner import Interner
from everview.dataflow.replica import Replica
from everview.runtime.sharded import LocalCluster, ShardedRuntime
from everview.session.core import Core
from everview.session.names.hot_joins import follow_hot_keys
from everview.session.session import Session


def local_shards(shards: int = 2, *, history: int = 1000, merge_effort: int = 4) -> Session:
    """Return an in-memory session with several shards.

    >>> with local_shards(3) as db:
    ...     t = db.table("t", {"k": int, "v": int})
    ...     v = db.view("v", t.group_by("k").agg(s=t.v.sum()))
    ...     t.insert([(k % 4, k) for k in range(8)])
    ...     sorted(v.rows())
    [(0, 4), (1, 6), (2, 8), (3, 10)]
    """
    replica = Replica(Interner(), merge_effort)
    runtime = ShardedRuntime(replica, LocalCluster(replica, shards))
    core = Core(runtime, history=history)
    follow_hot_keys(core, runtime)
    return Session(core)
