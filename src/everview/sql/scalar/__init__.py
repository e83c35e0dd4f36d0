"""Expressions: from sqlglot's trees to the typed expressions of plans.

Read in this order:

    names                  types by their SQL names, and the names of columns
    constants              literals, and expressions of constants
    scalars                the binder; `forms` says what a part of it looks like
    calls, typedcalls      functions by name
    text_forms, moment_forms, typed    what has a syntax of its own: texts, dates, arrays, JSON, intervals
"""
