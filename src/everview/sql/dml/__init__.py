"""Changes: INSERT, UPDATE, DELETE, TRUNCATE, MERGE, COPY.

Read in this order:

    changes                INSERT, UPDATE, DELETE and TRUNCATE
    affected, conflicts    RETURNING; ON CONFLICT
    merging, modifying     MERGE; WITH queries that change rows
    own_changes, savepoints    what a transaction sees of itself, and goes back to
    copies                 COPY from and to files
    missing, volatile, obeying    values nobody gives; nextval and random; constraints at the end
"""
