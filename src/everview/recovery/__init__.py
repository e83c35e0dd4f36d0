"""Sessions that outlive their process: from a directory to a session, and from one runtime to the other.

Read in this order:

    opening      `everview.connect("directory")`: what a directory holds and who opens it
    loading      building a dataflow again and giving it its state
    directory    the write-ahead log and the checkpoints of a session that writes
    following    a session that reads what another process writes
    migration    a directory changes hands between the embedded runtime and shards
    restoring, checking    state and the operators it belongs to; is it true?
    stored_shards, followed_shards    directories of sessions on Spark: written, and followed
"""
