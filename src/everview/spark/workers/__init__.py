"""The workers' side: `tasks` (what runs in Spark's tasks), `state` (the shards a worker keeps), `gang_member`,
`address_space`.

Besides:

    early                  workers that are there before they are needed
"""
