"""The workers' side.

Read in this order: `tasks` (what runs in Spark tasks), `state` (the shards that a worker keeps), `gang_member`,
`address_space`, `prestart` (starts workers ahead of time).
"""
