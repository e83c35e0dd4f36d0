"""The driver's side.

Read in this order: `cluster` (tasks run a step, which becomes one commit), `job` (requests and answers), `placement`
(one task or several), `submission`, `idle_tasks` (tasks stay for the next step), `long_lived_task`, `gang`,
`compaction`, `interrupts`, `slots`, `versions`, `liveness` (is Spark still there), `shard_count`.
"""
