"""Named objects: how tables and views are created, stored, altered and dropped.

Read in this order:

    catalog, entries   the names, and each definition as data that a directory can replay
    definitions        creating and dropping: shared by tables, views, indexes, constraint_views, sql_functions,
                       plan_swaps and metadata; replay performs entries again
    plan_preparation, estimates  plan rewrites before installation
    alter              ALTER
    entry_compaction   which entries are still needed
    plan_history       which joins were replanned, when and why
    hot_joins          on shards: joins whose keys become hot are replaced
    arguments, constraint_rules    argument checks; declared constraints
    overview, rollback    all names at once; atomic changes
"""
