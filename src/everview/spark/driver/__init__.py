"""The driver's side: `cluster` (a step is run by tasks and is one commit), `job` (what is asked of tasks), `placing`
(one task or several), `submitting`, `lingering` (tasks stay for the next step): `long_lived_task`, `gang`; `merging`,
`interrupts`, `slots`, `versions`.

Besides:

    alive, resharding      whether Spark is there; another number of shards
"""
