"""Expressions: from sqlglot's trees to the typed expressions of plans.

Read in this order:

    names                  types by their SQL names, and the names of columns
    constants              literals, and expressions of constants
    scalars                the binder, which dispatches on the kind of node; `forms` and `operands` describe handlers
    leaves, surroundings   columns, constants, parameters, subqueries; the current user and time
    arithmetic, division, comparisons, logic, casts    basic operators
    calls, typedcalls      functions by name; `users_functions` finds user-defined ones
    text_forms, moment_forms, zones, spans    special syntax: texts, dates, time zones, intervals
    array_forms, row_forms, json_forms, lambdas    compound values
    borrowed, time_windows, typenames    functions of other systems; time windows; names of types
"""
