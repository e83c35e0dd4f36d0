"""Communication between the processes of a job.

Read in this order: `handshake` (mutual authentication by a shared secret), `channel` (authenticated messages),
`listener`, `message` (encoding), `exchange` (between shards), `failures` (errors as data), `step_line` (steps sent to a
long-lived task).
"""
