"""From text to trees: everything before binding.

Read in this order:

    dialects, call_names            the dialect of a text, and which functions stay calls by name
    statement_reader, token_reader  the statements of a text, and syntax that sqlglot does not support
    annotations                     annotations of a statement
    error_positions                 positions of errors
    keywords, misspellings          which word is misspelt, and what it was meant to be
    consumed_parts, tokens          nothing in a statement is ignored
    word_order                      clauses out of order, and words that are absent
    equivalent_forms                syntax that is rewritten in terms of other syntax
    syntax_errors, foreign_syntax   syntax errors; other systems' syntax
"""
