"""Queries: from SELECT to plans.

Read in this order:

    scopes                 relations, and how names find columns
    query, compiler        a bound query; what binds one: WITH, tables, and which file has the rest
    selects, outputs, stars    SELECT, and what it gives; `values` has VALUES
    limits, sort_keys      DISTINCT, ORDER BY and LIMIT; `counts` reads how many rows
    set_operations, row_types  UNION and its kin; the types that several rows have in common
    from_clause            tables and joins; `conditions` finds keys, `join_order` and `choice` how they are joined
    memberships, base_tables    long IN lists; what a plan takes of one table
    subqueries, demand     EXISTS, IN, ANY and values, as joins; `array_queries` makes arrays of them
    grouping               GROUP BY; `named_aggregates`, `composed` and `outer_aggregates` have the aggregates
    windows                OVER, WINDOW and QUALIFY
    recursion              WITH RECURSIVE
    table_functions, stream_windows    functions in FROM
    asof, temporal_joins   joins with what was valid at a time
    dependent              columns that a GROUP BY decides without naming them
"""
