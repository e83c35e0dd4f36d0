"""The Python query API: queries as immutable values.

Read `collection` first, then the modules behind its methods: `join`, `group`, `loop`.

Further modules:

    relation, active_loops, hints  the internals of a collection; active loops; hints for users of other libraries
"""
