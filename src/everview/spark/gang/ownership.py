"""Which member of a gang runs which shards.

Each gets its share, the same number give or take one, and where possible the shards whose newest version its process
holds already: Spark gives tasks to any worker, and shards need not move with them. So when a member comes or goes only
as many shards move as must.
"""

from __future__ import annotations

from collections.abc import Sequence


def assign(shards: int, held: Sequence[dict[int, int]]) -> list[int]:
    """The member that runs each shard, from the versions of shards that each member holds.

    >>> assign(4, [{2: 7, 3: 7, 0: 5}, {0: 7, 3: 6}])
    [1, 1, 0, 0]
    >>> assign(6, [{0: 7, 2: 7, 4: 7}, {1: 7, 3: 7, 5: 7}, {}])  # a third member has come: two shards move
    [0, 1, 0, 1, 2, 2]
    """
    room = [len(range(task, shards, len(held))) for task in range(len(held))]
    owners: dict[int, int] = {}
    known = sorted((-version, shard, task) for task, each in enumerate(held) for shard, version in each.items())
    for shard, task in [(s, t) for _, s, t in known] + [(s, t) for s in range(shards) for t in range(len(held))]:
        if shard not in owners and room[task]:
            owners[shard] = task
            room[task] -= 1
    return [owners[shard] for shard in range(shards)]
