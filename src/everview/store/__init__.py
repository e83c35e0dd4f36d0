"""The durable store: versions of a dataflow's state in a directory, for embedded and Spark sessions alike.

In reading order: `files` and `objects` (where), `records` (bytes with checksums), `batches` (what kernels work on, as
files), `manifest` (what a version is), `owner` and `pins` (who writes, who reads), `store` (all together), `wal` and
`wal_objects` (the log of embedded sessions, in a file or as objects), `logs` (whichever it is), `reshard` (another
number of shards).

Further modules:

    disk, hdfs, locations, folder_names  storage backends and locations
    mapped, local_cache, stored_dictionary  batches and dictionaries in place
    steps, offsets, witness, attempts    log contents; positions of sources; proof of what was acknowledged
    chunked_merge, garbage, dictionary_gc, repair    merging, garbage collection, repair
"""

from everview.store.batches import Image, open_batch, write_batch
from everview.store.manifest import Commit, Manifest, Ref
from everview.store.store import Store

__all__ = ["Commit", "Image", "Manifest", "Ref", "Store", "open_batch", "write_batch"]
