"""The workers' side: `tasks` (what runs in Spark's tasks), `state` (the shards a worker keeps), `address_space`."""
