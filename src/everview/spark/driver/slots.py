"""How many tasks run at once: what Spark has registered, not what it was told.

`defaultParallelism` is usually that number, but anyone may set it (`spark.default.parallelism`), and a barrier stage of
more tasks than there are slots waits for ever. Spark's own check before such a stage is asked instead. On clusters
whose executors come and go (dynamic allocation) Spark refuses barrier stages altogether; there tasks that wait for a
slot are what makes executors come, so a gang may have as many as the cluster may grow to.
"""

from __future__ import annotations

from typing import Any

UNLIMITED = 1 << 20


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
    return 1 if found > 1 and _dynamic(context) else found


def gang_slots(context: Any) -> int:
    """Tasks that a gang can have: as many as run at the same time, or would if the cluster grew."""
    found = slots(context)
    if not _dynamic(context):
        return found
    conf = context.getConf()
    cores = int(conf.get("spark.executor.cores", "1")) // int(conf.get("spark.task.cpus", "1"))
    return max(found, int(conf.get("spark.dynamicAllocation.maxExecutors", str(UNLIMITED))) * max(cores, 1))


def _dynamic(context: Any) -> bool:
    """Whether executors come and go; in local mode there is no such thing."""
    if context.master.startswith("local["):
        return False
    return bool(context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true")
