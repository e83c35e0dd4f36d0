"""Maps committed batches privately: kernels may write to the memory without changing the file."""

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

CHECKSUM_BYTES = 16 << 20
"""Bytes of a file processed at a time."""


def map_privately(files: Files, name: str) -> mmap.mmap | None:
    """A file as writable memory (as kernels require) without changing the file; None if it is not local."""
    path = files.near(name)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:  # which cannot be mapped
                raise damaged(files.where(name), 0, "it is empty")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        if files.local is None:  # the copy was just evicted
            return None
        raise


def read_image(files: Files, ref: Ref, *, check: bool = False) -> tuple[Image, mmap.mmap | None]:
    """A committed batch; a local file is mapped privately, and the mapping must be kept alive. With `check`, the whole
    file is read and verified.
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
    """The CRC of a mapped file, read piece by piece without holding it in memory."""
    found = 0
    with memoryview(mapped) as whole:
        for start in range(0, len(whole), CHECKSUM_BYTES):
            with whole[start : start + CHECKSUM_BYTES] as piece:
                found = zlib.crc32(piece, found)
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED, start, min(CHECKSUM_BYTES, len(whole) - start))
    return found
