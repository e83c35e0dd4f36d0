"""Durability: restoring sessions from directories, and moving them between runtimes.

Read in this order:

    opening      `everview.connect("directory")`: which kind of session opens a directory
    rebuild      rebuilding a dataflow and restoring its state
    directory    the write-ahead log and the checkpoints of a session that writes
    follower     a session that follows another process's directory
    migration    moving a directory between the embedded runtime and shards
    outdated_shards  shards that another version of Everview built otherwise: their views are computed
    stored_state, verification  matching stored state to operators; checking its correctness
    stored_shards, shard_follower     directories of sessions on Spark: written, and followed
"""
