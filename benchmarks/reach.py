"""The nodes that node 0 reaches."""

from __future__ import annotations

from functools import partial

import peers
import recursive
import rooted

workload = partial(rooted.workload, "reach", recursive.reachable, peers.reachable, peers.reach_peers)

if __name__ == "__main__":
    rooted.main(workload, __doc__)
