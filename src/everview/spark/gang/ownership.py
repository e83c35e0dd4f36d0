"""Assignment of shards to the members of a gang.

Every member gets the same number of shards, give or take one, preferably those whose newest version its process already
holds: Spark may schedule a task on any worker, and the shards do not move with it. So when a member joins or leaves,
only the minimum number of shards moves.
"""

from __future__ import annotations

from collections.abc import Sequence


def assign(shards: int, held: Sequence[dict[int, int]]) -> list[int]:
    """The member that runs each shard, given the shard versions that each member holds.

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
