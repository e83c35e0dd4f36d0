"""The number of tasks that can run concurrently: as registered by Spark, not as configured.

`defaultParallelism` is usually that number, but it can be overridden (`spark.default.parallelism`), and a barrier stage
with more tasks than slots waits forever. So we query the value that Spark itself checks before such a stage. Under
dynamic allocation Spark refuses barrier stages; there, pending tasks make it request executors, so a gang may have as
many tasks as the cluster can grow to.
"""

from __future__ import annotations

from typing import Any

UNLIMITED = 1 << 20


def slots(context: Any) -> int:
    """Tasks that can run concurrently, at least 1; test doubles supply their own number."""
    try:
        scala = context._jsc.sc()
        found = int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
    except Exception:  # no real Spark, or one that has another name for it
        found = int(context.defaultParallelism)
    return max(found, 1)


def stage_slots(context: Any) -> int:
    """The largest number of tasks of a barrier stage."""
    found = slots(context)
    return 1 if found > 1 and _dynamic(context) else found


def gang_slots(context: Any) -> int:
    """The largest number of tasks of a gang: those that run concurrently, or would if the cluster grew."""
    found = slots(context)
    if not _dynamic(context):
        return found
    conf = context.getConf()
    cores = int(conf.get("spark.executor.cores", "1")) // int(conf.get("spark.task.cpus", "1"))
    return max(found, int(conf.get("spark.dynamicAllocation.maxExecutors", str(UNLIMITED))) * max(cores, 1))


def _dynamic(context: Any) -> bool:
    """Whether dynamic allocation is on; it does not apply in local mode."""
    if context.master.startswith("local["):
        return False
    return bool(context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true")
