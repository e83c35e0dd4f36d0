"""The driver's side.

Read in this order: `cluster` (tasks run a step, which becomes one commit), `job` (requests and answers), `placing` (one
task or several), `submitting`, `lingering` (tasks stay for the next step), `long_lived_task`, `gang`, `merging`,
`interrupts`, `slots`, `versions`, `alive` (is Spark still there), `resharding`.
"""
