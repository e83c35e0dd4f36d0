"""Queries: from SELECT to plans.

Read in this order:

    scopes                            relations, and name resolution
    query, compiler                   a bound query; its binder: WITH, tables, and dispatch
    binding_stamp                     what binding depends on
    select_statement, outputs, stars  SELECT and its outputs; `values` has VALUES
    aliases                           aliases of outputs in HAVING and in later outputs
    limits, sort_keys                 DISTINCT, ORDER BY and LIMIT; `row_counts` parses row counts
    set_operations, row_types         UNION and the like; common types of rows
    from_clause                       tables and joins; `conditions` finds their keys
    join_order, join_plans            the order of joins, and how they are maintained
    memberships, base_tables          long IN lists; plans over one base table
    subqueries, demand                EXISTS, IN, ANY and values, as joins; `array_queries` makes arrays of them
    grouping                          GROUP BY and aggregates
    named_aggregates, exact_sums      aggregates by name; sums and averages of numerics and intervals
    variances, outer_aggregates       variances; aggregates of an enclosing query
    windows, window_lists             OVER, WINDOW and QUALIFY; array_agg and its like over frames
    recursion                         WITH RECURSIVE
    table_functions, stream_windows   functions in FROM; `row_functions` has those written in SQL
    asof, temporal_joins              joins with the version valid at a time
    pivots                            PIVOT and UNPIVOT in FROM
    functional_dependency             columns functionally dependent on GROUP BY
"""
