"""Answers: how a SELECT is answered, once or for every value of its parameters.

Read in this order:

    result                 rows with column names
    asking                 which way a SELECT goes; `company` is for sessions that several threads use
    lookups, files         rows found in an index; files in FROM
    parameters, prepared   `$name`: one dataflow for all values
    given                  `$1` of a statement that a client prepares
    observed               questions about the session itself, schema `ev`
"""
