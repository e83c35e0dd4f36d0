"""The driver's side: `cluster` (a step is a job and one commit), `job` (what is asked of tasks), `long_lived_task`
(steps that follow closely share one task), `merging`, `interrupts`, `slots`, `versions`.
"""
