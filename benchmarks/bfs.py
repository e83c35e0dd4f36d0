"""Hops from node 0 to every node it reaches."""

from __future__ import annotations

from functools import partial

import peers
import recursive
import rooted

workload = partial(rooted.workload, "bfs", recursive.distances, peers.distances, peers.distance_peers)

if __name__ == "__main__":
    rooted.main(workload, __doc__)
