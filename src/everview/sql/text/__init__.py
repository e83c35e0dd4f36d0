"""From text to trees: what is read before anything is bound.

Read in this order:

    dialects, callnames    in which dialect a text is read, and which functions stay calls by name
    reading, words         the statements of a text, and the forms that sqlglot does not know
    notes                  what is noted about a statement on the way
    places                 where in the text a mistake is
    parts, tokens          nothing that was written is ignored
    complaints, foreign, nesting    what is wrong with a text; other systems' forms; deep statements
"""
