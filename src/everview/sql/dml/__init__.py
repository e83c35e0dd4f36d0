"""Changes: INSERT, UPDATE, DELETE, TRUNCATE, MERGE, COPY.

Read in this order:

    changes                INSERT, UPDATE, DELETE and TRUNCATE
    code_inserts           INSERT ... SELECT without decoding
    affected, conflicts    RETURNING; ON CONFLICT
    merging, modifying     MERGE; WITH queries that change rows
    own_changes, savepoints    a transaction's view of its own changes; savepoints
    copies                 COPY from and to files
    missing, volatile, obeying    missing values; nextval and random; constraints at the end of statements
"""
