"""Queries: from SELECT to plans.

Read in this order:

    scopes                 relations, and how names find columns
    query, stars           SELECT, set operations, WITH, ORDER BY and LIMIT; `counts` reads how many rows
    from_clause            tables and joins; `conditions` finds keys, `join_order` and `choice` how they are joined
    memberships, base_tables    long IN lists; what a plan takes of one table
    subqueries, demand     EXISTS, IN, ANY and values, as joins; `array_queries` makes arrays of them
    grouping               GROUP BY; `named_aggregates`, `composed` and `outer_aggregates` have the aggregates
    windows                OVER, WINDOW and QUALIFY
    recursion              WITH RECURSIVE
    table_functions, stream_windows    functions in FROM
    asof, temporal_joins   joins with what was valid at a time
"""
