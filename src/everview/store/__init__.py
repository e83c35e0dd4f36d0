"""The durable store: versions of a dataflow's state in a directory, for embedded and Spark sessions alike.

In reading order: `files` and `objects` (where), `records` (bytes with checksums), `batches` (what kernels work on, as
files), `manifest` (what a version is), `owner` and `pins` (who writes, who reads), `store` (all together), `wal` and
`wal_objects` (the log of embedded sessions, in a file or as objects), `logs` (whichever it is), `reshard` (another
number of shards).

Besides:

    disk, hdfs, locations, names    kinds of files, and where they are
    mapped, nearby, stored_dictionary    batches and dictionaries where they lie
    steps, offsets, witness, attempts    what is logged; how far sources are; what must be there
    chunked_merge, garbage, dictionary_gc, repair    merging, cleaning up, having back what can be had
"""

from everview.store.batches import Image, open_batch, write_batch
from everview.store.manifest import Commit, Manifest, Ref
from everview.store.store import Store

__all__ = ["Commit", "Image", "Manifest", "Ref", "Store", "open_batch", "write_batch"]
