"""Committed batches as memory that is mapped privately: kernels may write to it, the file does not change."""

from __future__ import annotations

import mmap

import pyarrow as pa

from everview.errors import StoreError
from everview.store.batches import Image, from_arrow, from_bytes, open_batch
from everview.store.files import Files
from everview.store.manifest import Ref
from everview.store.store import BATCHES, LOG


def map_privately(files: Files, name: str) -> mmap.mmap | None:
    """A file as memory that can be written to (kernels want that), which does not change the file; None if it is not
    nearby.
    """
    path = files.near(name)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        if files.local is None:  # the copy has just made room for others
            return None
        raise


def read_image(files: Files, ref: Ref) -> tuple[Image, mmap.mmap | None]:
    """A committed batch; a local file is mapped privately, and the map must be kept."""
    if ref.inline is not None:
        return from_bytes(ref.inline, files.where(LOG)), None
    name = f"{BATCHES}/{ref.file}"
    try:
        mapped = map_privately(files, name)
    except FileNotFoundError:
        raise StoreError("E_DAMAGED", f"{files.where(name)} is missing", "restore the file from a copy") from None
    if mapped is None:
        return open_batch(files, name), None
    return from_arrow(pa.py_buffer(mapped), files.where(name)), mapped
