"""Between processes: `handshake` (both prove that they know a secret), `channel` (sealed), `listener`, `message`,
`exchange` (shards among each other), `failures` (errors as data).

Besides:

    step_line              the line on which steps are sent to a task that stays
"""
