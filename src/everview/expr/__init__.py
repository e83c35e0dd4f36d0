"""Expressions: from what a person writes to what machines run.

In reading order:

    language      what a person writes: `col.x + 1`
    resolve       names become positions, types are told
    nodes         the typed expressions that plans hold
    functions     every built-in function, to the last corner
    common_types, type_rules    which types functions accept, and what they give
    library       more functions, in Python
    lower, lowering, instructions    as programs of the machine in `everview.kernels.expressions.vm`
    evaluate, texts    in Python, for what that machine cannot do
    few, valued, bits      few rows one by one; functions of Python values; bits of ints
    amounts, wordings      numerics, intervals, zones; values as PostgreSQL writes them
    documents, lists, jsonpath, jsonpath_reading    JSON, arrays, structs and maps
    variance, exact_variance    from sums
"""
