"""Query execution: how a SELECT is answered, once or for every value of its parameters.

Read in this order:

    result                rows with column names
    one_off               how a SELECT is executed; `concurrent_select` is for sessions used by several threads
    lookups, files        rows found in an index; files in FROM
    parameters, prepared  `$name`: one dataflow for all values
    parameter_values      `$1` of a statement that a client prepares
    system_queries        queries about the session itself, schema `ev`
"""
