"""From text to trees: everything before binding.

Read in this order:

    dialects, callnames    the dialect of a text, and which functions stay calls by name
    reading, words         the statements of a text, and syntax that sqlglot does not support
    notes                  annotations of a statement
    places                 positions of errors
    keywords, misspelt     which word is misspelt, and what it was meant to be
    parts, tokens          nothing in a statement is ignored
    rephrasing             syntax that is rewritten in terms of other syntax
    complaints, foreign    syntax errors; other systems' syntax
"""
