"""Expressions: from sqlglot's trees to the typed expressions of plans.

Read in this order:

    names                  types by their SQL names, and the names of columns
    constants              literals, and expressions of constants
    scalars                the binder, which dispatches on the kind of node; `handlers` and `operands` describe handlers
    leaves, session_functions  columns, constants, parameters, subqueries; the current user and time
    arithmetic, division, comparisons, logic, casts    basic operators
    calls, composite_functions  functions by name; `named_functions` finds user-defined ones
    text_forms, moment_forms, zones, interval_arithmetic  special syntax: texts, dates, time zones, intervals
    array_forms, row_forms, json_forms, lambdas    compound values
    foreign_functions, time_windows, type_names  functions of other systems; time windows; names of types
"""
