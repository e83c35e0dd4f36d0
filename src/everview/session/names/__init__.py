"""What has a name: tables and views, how they are made, kept, changed and dropped.

Read in this order:

    catalog, entries   the names, and every definition as data, so that a directory can repeat it
    definitions        making and dropping: what tables, views, indexes, guards (constraints), sql_functions,
                       plan_swaps and remarks share; replay does again what entries say
    rewriting, estimates    what is made of a plan before it is installed
    altering           ALTER
    surviving          which entries are still needed
    plan_history       which joins were given another plan, when and why
    arguments, rules, overview, taken_back    checks; constraints as declared; all at once; whole or not at all
"""
