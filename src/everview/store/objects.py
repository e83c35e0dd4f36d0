"""State on an object store: S3 and compatible ones, Google's, Azure's.

An object store has no folders, locks or renaming, but objects appear atomically, and a put can be conditional. *Put if
absent* (S3's `If-None-Match: *`) lets exactly one of several writers have a name, which is all that a commit needs;
*put if unchanged* (`If-Match`) lets an owner renew its claim only while it is still its own. PyArrow's filesystems
support neither, so this uses obstore, a client without dependencies; where it is not installed, such places are
refused.

Hazard of conditional puts: a client without a response retries, and then finds the name taken, by itself. A refusal is
therefore believed only after checking whose object it is.

Credentials, region and endpoint come from the environment, as for every other client (`AWS_ACCESS_KEY_ID`,
`AWS_REGION`, `AWS_ENDPOINT_URL` ...), because workers need them too and they do not belong in a manifest.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from everview.errors import InputError, StoreError
from everview.store.files import Files, joined

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
"""URI schemes of object stores."""


class ObjectFiles(Files):
    """Objects under a prefix; `root` is the URI, so that workers can open it too."""

    exclusive = True

    def __init__(self, uri: str, store: Any | None = None) -> None:
        """`store` is an existing obstore store; by default it is created from the URI."""
        self.root = uri.rstrip("/")
        self._client = _client()
        try:
            self._store = self._client.store.from_url(self.root) if store is None else store
        except (self._client.exceptions.BaseError, ValueError) as error:
            raise InputError(
                "E_TARGET",
                f"cannot open {uri!r}: {_first_line(error)}",
                "give s3://bucket/path; endpoint, region and keys come from AWS_ENDPOINT_URL, AWS_REGION, ...",
            ) from None

    def read(self, name: str) -> bytes:
        data: bytes = self._get(name).bytes().to_bytes()
        return data

    def map(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self._get(name).bytes())

    def tagged(self, name: str) -> tuple[bytes, str]:
        found = self._get(name)
        return found.bytes().to_bytes(), str(found.meta["e_tag"])

    def _get(self, name: str) -> Any:
        try:
            return self._client.get(self._store, name)
        except self._client.exceptions.BaseError as error:
            raise self._failed("read", name, error) from error

    def write(self, name: str, data: Any, *, lasting: bool = True) -> None:
        self._put(name, data, "overwrite")

    def create(self, name: str, data: Any) -> bool:
        whole = joined(data)
        return self._put(name, whole, "create") is not None or self.read(name) == whole

    def swap(self, name: str, data: bytes, tag: str | None) -> str | None:
        made = self._put(name, data, "create" if tag is None else {"e_tag": tag})
        if made is not None:
            return made
        try:
            found, now = self.tagged(name)
        except FileNotFoundError:
            return None
        return now if found == data else None

    def _put(self, name: str, data: Any, mode: Any) -> str | None:
        """The new object's tag; None if the condition did not hold."""
        known = self._client.exceptions
        try:
            return str(self._client.put(self._store, name, joined(data), mode=mode)["e_tag"])
        except (known.AlreadyExistsError, known.PreconditionError):
            return None
        except (FileNotFoundError, known.BaseError) as error:
            if isinstance(error, FileNotFoundError) and isinstance(mode, dict):
                return None  # the object to be replaced is gone; otherwise the bucket does not exist
            raise self._failed("write", name, error) from error

    def exists(self, name: str) -> bool:
        try:
            self._client.head(self._store, name)
        except FileNotFoundError:
            return False
        except self._client.exceptions.BaseError as error:
            raise self._failed("read", name, error) from error
        return True

    def ages(self, folder: str) -> dict[str, float]:
        now = dt.datetime.now(dt.UTC)
        try:
            found = self._client.list_with_delimiter(self._store, folder or None)["objects"]
        except self._client.exceptions.BaseError as error:
            raise self._failed("list", folder, error) from error
        return {o["path"].rsplit("/", 1)[-1]: (now - o["last_modified"]).total_seconds() for o in found}

    def delete(self, name: str) -> None:
        try:
            self._client.delete(self._store, name)
        except FileNotFoundError:
            pass
        except self._client.exceptions.BaseError as error:
            raise self._failed("delete", name, error) from error

    def _failed(self, what: str, name: str, error: Exception) -> StoreError:
        return StoreError(
            "E_DISK",
            f"cannot {what} {self.where(name)}: {_first_line(error)}",
            "check the bucket, the credentials and the network, and try again",
        )


def _client() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise InputError(
            "E_TARGET",
            "state on an object store needs the package obstore",
            'pip install "everview[s3]" (PyArrow cannot put an object only if its name is free)',
        ) from None
    return obstore


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300]
