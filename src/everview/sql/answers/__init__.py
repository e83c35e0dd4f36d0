"""Query execution: how a SELECT is answered, once or for every value of its parameters.

Read in this order:

    result                 rows with column names
    asking                 how a SELECT is executed; `company` is for sessions used by several threads
    lookups, files         rows found in an index; files in FROM
    parameters, prepared   `$name`: one dataflow for all values
    given                  `$1` of a statement that a client prepares
    observed               queries about the session itself, schema `ev`
"""
