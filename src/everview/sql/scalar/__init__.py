"""Expressions: from sqlglot's trees to the typed expressions of plans.

Read in this order:

    names                                       types by their SQL names, and the names of columns
    constants                                   literals, and expressions of constants
    scalars                                     the binder, which dispatches on the kind of node
    handlers, operands                          what it dispatches to, and which parts of nodes those know
    leaves, session_functions                   columns, constants, parameters, subqueries; current user and time
    arithmetic, division, comparisons           basic operators
    logic, casts, roundings                     more of them
    calls, composite_functions                  functions by name; `named_functions` finds user-defined ones
    text_forms, moment_forms                    special syntax of texts and dates
    moments_elsewhere                           functions of moments of Flink, Spark and MySQL
    strftime                                    templates of moments in other dialects
    zones, interval_arithmetic                  time zones and intervals
    array_forms, row_forms, json_forms          compound values
    lambdas                                     functions of their elements
    foreign_functions, time_windows             functions of other systems; time windows
    dialect_forms                               forms that mean something else in other systems
    type_names                                  names of types
"""
