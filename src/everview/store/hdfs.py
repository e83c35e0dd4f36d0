"""State on HDFS, through WebHDFS: `webhdfs://namenode:9870/path` (or `swebhdfs://`, by TLS).

HDFS is accessed over HTTP, which Hadoop enables by default and which needs nothing but Python; PyArrow's `hdfs://`
would need a Hadoop installation with its native library on every machine, and cannot claim a name. Spark itself, which
keeps its checkpoints beside our state, has Hadoop's own client and receives the `hdfs://` URI of the same place, as
reported by the name node.

*Claiming a name* is a rename: the name node lets exactly one of several renames to a free name succeed. A file is
therefore written under a hidden name first, and appears atomically.

*Compare-and-swap* (`swap`), which the owner's file needs, is not available in HDFS, but can be built from claims. Such
a file is a folder of numbered states, and whoever claims the number after the last one has made the swap. Old states
are deleted and their numbers become free again. A delayed writer might claim one, so it checks afterwards whether its
number is the last, and has lost if it is not. An empty state means that the file does not exist.

Authentication is Hadoop's simple one (`HADOOP_USER_NAME`, else the user's name); Kerberos is not supported.
"""

from __future__ import annotations

import getpass
import http.client
import json
import os
import secrets
import time
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pyarrow as pa

from everview.errors import InputError, StoreError
from everview.store.files import Files, joined

SCHEMES = ("webhdfs", "swebhdfs")
STATES = ".states"
"""Suffix of folders of numbered states."""

TRIES = 4
"""How often a request without a response is sent."""

TIMEOUT = 60.0
"""Seconds to wait for a response."""


class HdfsFiles(Files):
    """Files under a path of a Hadoop filesystem."""

    exclusive = True

    def __init__(self, uri: str) -> None:
        self.root = uri.rstrip("/")
        parts = urlsplit(self.root)
        if not parts.hostname:
            raise InputError("E_TARGET", f"{uri!r} names no host", "give webhdfs://namenode:9870/path")
        self._secure = parts.scheme == "swebhdfs"
        self._host = f"{parts.hostname}:{parts.port or (9871 if self._secure else 9870)}"
        self._path = parts.path
        self._user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()

    # files

    def read(self, name: str) -> bytes:
        try:
            return self._call("GET", "OPEN", name)
        except FileNotFoundError:
            return self.tagged(name)[0]

    def map(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self._call("GET", "OPEN", name))

    def write(self, name: str, data: Any, *, lasting: bool = True) -> None:
        whole = joined(data)
        hidden = self._hidden(name, whole)
        try:
            self._call("PUT", "RENAME", hidden, destination=self._at(name), renameoptions="OVERWRITE")
        except FileNotFoundError:  # it was done, and the answer lost; or somebody took the directory and tidied up
            if self.read(name) != whole:
                raise

    def create(self, name: str, data: Any) -> bool:
        whole = joined(data)
        hidden = self._hidden(name, whole)
        if self._rename(hidden, name):
            return True
        self.delete(hidden)
        try:
            return self.read(name) == whole  # the response to our own rename was lost
        except FileNotFoundError:
            return False

    def _hidden(self, name: str, data: bytes) -> str:
        """Write a file under a name that is not listed."""
        folder, _, last = name.rpartition("/")
        hidden = f"{folder}/.{last}.{secrets.token_hex(8)}".lstrip("/")
        self._call("PUT", "CREATE", hidden, data, overwrite="true")
        return hidden

    def _rename(self, old: str, new: str) -> bool:
        """Rename; return whether the new name was free and the old one existed."""
        return bool(json.loads(self._call("PUT", "RENAME", old, destination=self._at(new)))["boolean"])

    def exists(self, name: str) -> bool:
        try:
            return bool(self._status("GETFILESTATUS", name)["FileStatus"]["type"] == "FILE")
        except FileNotFoundError:
            return bool(self._state(name)[1])

    def ages(self, folder: str) -> dict[str, float]:
        now, found = time.time(), {}
        for entry in self._entries(folder):
            name = entry["pathSuffix"]
            if entry["type"] == "FILE" and not name.startswith("."):
                found[name] = now - entry["modificationTime"] / 1000
            elif name.endswith(STATES):
                states = [e for e in self._entries(name) if e["pathSuffix"].isdecimal()]
                last = max(states, key=lambda e: int(e["pathSuffix"]), default=None)
                if last is not None and last["length"]:
                    found[name.removesuffix(STATES)] = now - last["modificationTime"] / 1000
        return found

    def delete(self, name: str) -> None:
        if json.loads(self._call("DELETE", "DELETE", name))["boolean"] or "/" in name:
            return
        number, data = self._state(name)
        if data:
            self._claim(name, number + 1, b"")

    def delete_temporaries(self, folder: str) -> None:
        for entry in self._entries(folder):
            if entry["pathSuffix"].startswith("."):
                self.delete(f"{folder}/{entry['pathSuffix']}")

    def for_hadoop(self) -> str:
        """The URI for Hadoop's own clients."""
        answer = json.loads(self._call("PUT", "CREATE", ".nothing", noredirect="true"))  # this creates nothing yet
        told = parse_qs(urlsplit(answer["Location"]).query)
        return f"hdfs://{told['namenoderpcaddress'][0]}{self._path}"

    # states of files that are swapped

    def tagged(self, name: str) -> tuple[bytes, str]:
        number, data = self._state(name)
        if not data:
            raise FileNotFoundError(self.where(name))
        return data, str(number)

    def swap(self, name: str, data: bytes, tag: str | None) -> str | None:
        number, present = self._state(name)
        if (str(number) if present else None) != tag or not self._claim(name, number + 1, data):
            return None
        return str(number + 1)

    def _state(self, name: str) -> tuple[int, bytes]:
        """The last state's number and contents; (0, b"") if there never was one."""
        while numbers := self._numbers(name):
            try:
                return numbers[-1], self._call("GET", "OPEN", f"{name}{STATES}/{numbers[-1]}")
            except FileNotFoundError:  # another was claimed, and this one deleted, in the meantime
                continue
        return 0, b""

    def _claim(self, name: str, number: int, data: bytes) -> bool:
        mine = f"{name}{STATES}/{number}"
        hidden = self._hidden(mine, data)
        if not self._rename(hidden, mine):
            self.delete(hidden)
            return False
        numbers = self._numbers(name)
        for old in numbers[:-1]:
            self._call("DELETE", "DELETE", f"{name}{STATES}/{old}")
        return numbers[-1:] == [number]

    def _numbers(self, name: str) -> list[int]:
        return sorted(int(e["pathSuffix"]) for e in self._entries(name + STATES) if e["pathSuffix"].isdecimal())

    # requests

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}".rstrip("/") or "/"

    def _entries(self, folder: str) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self._status("LISTSTATUS", folder)["FileStatuses"]["FileStatus"]
            return found
        except FileNotFoundError:
            return []

    def _status(self, op: str, name: str) -> Any:
        return json.loads(self._call("GET", op, name))

    def _call(self, method: str, op: str, name: str, data: bytes | None = None, **options: str) -> bytes:
        """Send a request to the name node, following its redirect to a data node."""
        query = urlencode({"op": op, "user.name": self._user, **options})
        target = f"/webhdfs/v1{quote(self._at(name))}?{query}"
        try:
            status, place, answer = self._send(method, self._host, target, None)
            if status == 307:
                there = urlsplit(place)
                status, _, answer = self._send(method, there.netloc, f"{there.path}?{there.query}", data)
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(op, name, f"{type(error).__name__}: {error}") from error
        if status == 404:
            raise FileNotFoundError(self.where(name))
        if status >= 300:
            raise self._failed(op, name, _message(answer) or f"status {status}")
        return answer

    def _send(self, method: str, host: str, target: str, data: bytes | None) -> tuple[int, str, bytes]:
        """(status, redirect, response); retried without a response: all requests are idempotent."""
        for left in reversed(range(TRIES)):
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = kind(host, timeout=TIMEOUT)
            try:
                connection.request(method, target, data)
                answer = connection.getresponse()
                return answer.status, answer.getheader("Location") or "", answer.read()
            except (ConnectionError, http.client.HTTPException, TimeoutError):
                if not left:
                    raise
                time.sleep(0.2 * 2 ** (TRIES - left))
            finally:
                connection.close()
        raise AssertionError

    def _failed(self, op: str, name: str, why: str) -> StoreError:
        return StoreError(
            "E_DISK",
            f"cannot {op.lower()} {self.where(name)}: {why}",
            "check the address of the name node (its HTTP port), permissions and space, and try again",
        )


def _message(answer: bytes) -> str:
    """The server's error message."""
    try:
        return str(json.loads(answer)["RemoteException"]["message"]).split("\n")[0]
    except (ValueError, KeyError):
        return answer.decode(errors="replace")[:200]
