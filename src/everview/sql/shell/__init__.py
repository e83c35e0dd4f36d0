"""`everview sql` and `everview run`.

Read in this order:

    script                a file of statements
    repl                  the prompt; `terminal` edits, completes and pages, `copy_command` is its \\copy
    output, live_display  answers, and views that update themselves on the screen
"""
