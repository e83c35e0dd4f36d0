"""The workers' side: `tasks` (what runs in Spark's tasks), `state` (the shards a worker keeps), `gang_member`,
`address_space`.
"""
