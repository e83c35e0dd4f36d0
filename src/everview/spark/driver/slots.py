"""How many tasks run at once: what Spark has registered, not what it was told.

`defaultParallelism` is usually that number, but anyone may set it (`spark.default.parallelism`), and a barrier stage of
more tasks than there are slots waits for ever. Spark's own check before such a stage is asked instead. On clusters
whose executors come and go (dynamic allocation) Spark refuses barrier stages altogether.
"""

from __future__ import annotations

from typing import Any


def slots(context: Any) -> int:
    """Tasks that can run at the same time, at least 1; a stand-in for Spark says so itself."""
    try:
        scala = context._jsc.sc()
        found = int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
    except Exception:  # no real Spark, or one that has another name for it
        found = int(context.defaultParallelism)
    return max(found, 1)


def stage_slots(context: Any) -> int:
    """Tasks that a barrier stage can have."""
    found = slots(context)
    if found > 1 and not context.master.startswith("local["):
        dynamic = context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true"
        return 1 if dynamic else found
    return found
