"""Expressions: from the user-facing syntax to executable programs.

In reading order:

    language      the user-facing syntax: `col.x + 1`
    resolve       name resolution and type inference
    nodes, nesting    the typed expressions that plans hold; recursion limits for deep ones
    functions     the specification of every built-in function
    common_types, type_rules    argument and result types of functions
    library       more functions, in Python
    lower, program_builder, instructions  compilation for the VM in `everview.kernels.expressions.vm`
    evaluate, string_functions  evaluation in Python, for what the VM cannot do
    row_interpreter, bits       small batches row by row; bits of ints
    python_functions, python_function_types     functions of Python values, and their types
    numeric_columns        numerics over whole columns
    numeric_functions, text_conversion  numerics, intervals, zones; values in PostgreSQL's text format
    moment_texts                        dates and times in the forms that PostgreSQL reads
    json_functions, array_functions, jsonpath, jsonpath_parser   JSON, arrays, structs and maps
    variance, exact_variance    computed from sums
"""
