"""Changes: INSERT, UPDATE, DELETE, TRUNCATE, MERGE, COPY.

Read in this order:

    changes                              INSERT, UPDATE, DELETE and TRUNCATE
    bound_changes                        repeated changes, bound once for all values
    code_inserts                         INSERT ... SELECT without decoding
    affected_rows, conflicts             RETURNING; ON CONFLICT
    merge_statement, modifying_ctes      MERGE; WITH queries that change rows
    own_changes, savepoints              a transaction's view of its own changes; savepoints
    transaction_modes                    BEGIN READ ONLY
    copy_files                           COPY from and to files
    omitted_columns, volatile_functions  missing values; nextval and random
    constraint_checks                    constraints at the end of statements
"""
