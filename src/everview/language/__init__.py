"""What people write in Python: queries as values, without any state.

Read `collection` first, then what its methods lead to: `join`, `group`, `loop`.

Besides:

    relation, running, mistakes    what a collection is made of; which loops run; other libraries' words
"""
