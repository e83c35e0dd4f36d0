"""Expressions: from sqlglot's trees to the typed expressions of plans.

Read in this order:

    names                  types by their SQL names, and the names of columns
    constants              literals, and expressions of constants
    scalars                the binder: finds what binds a node; `forms` and `operands` say what that looks like
    leaves, surroundings   columns, constants, parameters, subqueries; who asks, and when
    arithmetic, division, comparisons, logic, casts    what every expression is made of
    calls, typedcalls      functions by name; `users_functions` finds the users' own
    text_forms, moment_forms, zones, spans    what has a syntax of its own: texts, dates, time zones, intervals
    array_forms, row_forms, json_forms, lambdas    values with values inside
    borrowed, time_windows, typenames    functions of other systems; windows of time; what types are called
"""
