"""Committed batches as memory that is mapped privately: kernels may write to it, the file does not change."""

from __future__ import annotations

import mmap
import os
import zlib

import pyarrow as pa

from everview.errors import StoreError
from everview.store.batches import Image, from_arrow, from_bytes, open_batch
from everview.store.files import Files
from everview.store.manifest import Ref
from everview.store.records import damaged
from everview.store.store import BATCHES, LOG

PIECE = 16 << 20
"""Bytes of a file that are looked at at a time."""


def map_privately(files: Files, name: str) -> mmap.mmap | None:
    """A file as memory that can be written to (kernels want that), which does not change the file; None if it is not
    nearby.
    """
    path = files.near(name)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:  # which cannot be mapped
                raise damaged(files.where(name), 0, "it is empty")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        if files.local is None:  # the copy has just made room for others
            return None
        raise


def read_image(files: Files, ref: Ref, *, check: bool = False) -> tuple[Image, mmap.mmap | None]:
    """A committed batch; a local file is mapped privately, and the map must be kept. With `check`, the file is read
    whole, and must be what was committed.
    """
    if ref.inline is not None:
        return from_bytes(ref.inline, files.where(LOG)), None
    name = f"{BATCHES}/{ref.file}"
    try:
        mapped = map_privately(files, name)
    except FileNotFoundError:
        raise StoreError("E_DAMAGED", f"{files.where(name)} is missing", "restore the file from a copy") from None
    if mapped is None:
        return open_batch(files, name, ref.crc if check else None), None
    if check and checksum(mapped) != ref.crc:
        raise damaged(files.where(name), 0, "its checksum is not the one that was committed")
    return from_arrow(pa.py_buffer(mapped), files.where(name)), mapped


def checksum(mapped: mmap.mmap) -> int:
    """The CRC of a mapped file, read piece by piece: what was read is not held in memory."""
    found = 0
    with memoryview(mapped) as whole:
        for start in range(0, len(whole), PIECE):
            with whole[start : start + PIECE] as piece:
                found = zlib.crc32(piece, found)
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED, start, min(PIECE, len(whole) - start))
    return found
