"""Sinks that call a web address or a program.

Each time's changes are one call. A failed call and a lost response cannot be distinguished, so delivery is at least
once: the receiver can deduplicate by the time (and by the header `Idempotency-Key`). The last acknowledged time is kept
in a file, if one is named (`position`); otherwise each start begins with the current contents, as for functions.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from everview.errors import InputError
from everview.io.formats import json_text
from everview.io.listing import Place, folder
from everview.io.sink import Sink, SinkMode
from everview.session.changes.batch import Batch
from everview.types import DataType

AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Response codes after which a call is retried."""


class Call(Sink, ABC):
    """The common part: rows as JSON, and the file with the receiver's position."""

    def __init__(self, position: str | os.PathLike[str] | None) -> None:
        self._file = None if position is None else Path(Place(position).root)
        self._identity = ""

    def open(self, identity: str, columns: dict[str, DataType], mode: SinkMode) -> int | None:
        self._identity = identity
        if self._file is None or not self._file.exists():
            return None
        whose, _, last = self._file.read_text().partition(" ")
        if whose != identity:
            raise InputError(
                "E_SINK", f"{self._file} says how far another sink is", "give each sink a file of its own, or remove it"
            )
        return int(last)

    def write(self, batch: Batch) -> None:
        self._call(batch.to_arrow().to_pylist(), batch.time)

    def replace(self, rows: pa.Table, time: int) -> None:
        self._call(rows.to_pylist(), time)

    def held(self) -> pa.Table:
        raise InputError(
            "E_SINK",
            f"{self.describe()} is so far behind that the view does not know its changes any more",
            "keep more history (db.view(..., history=...)), or remove its position file to start over",
        )

    def _call(self, rows: list[dict[str, Any]], at: int) -> None:
        self._give([json.dumps(row, ensure_ascii=False, default=json_text) for row in rows], at)
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._file.with_name(f".{self._file.name}.new")
            fresh.write_text(f"{self._identity} {at}")
            os.replace(fresh, self._file)

    @abstractmethod
    def _give(self, lines: list[str], at: int) -> None: ...


class Webhook(Call):
    """A web address that receives each time's changes; created by `everview.io.webhook`."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        retries: int,
        timeout: float,
        position: str | os.PathLike[str] | None,
    ) -> None:
        super().__init__(position)
        if not url.startswith(("http://", "https://")):
            raise InputError(
                "E_OPTION", f"{url!r} is not a web address", "give one that begins with https:// or http://"
            )
        self._url = url
        self._headers = dict(headers)
        self._retries = retries
        self._timeout = timeout

    def describe(self) -> str:
        return f"webhook {self._url}"

    def _give(self, lines: list[str], at: int) -> None:
        body = f'{{"time": {at}, "changes": [{", ".join(lines)}]}}'.encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{self._identity}-{at}", **self._headers}
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(min(0.25 * 2**attempt, 10.0))
            request = urllib.request.Request(self._url, body, headers, method="POST")
            try:
                with urllib.request.urlopen(request, timeout=self._timeout):
                    return
            except urllib.error.HTTPError as error:
                reason = f"it answered {error.code} {error.reason}"
                if error.code not in AGAIN:
                    break
            except (urllib.error.URLError, OSError) as error:
                reason = str(getattr(error, "reason", error))
        raise InputError(
            "E_SINK",
            f"{self.describe()} did not take the changes of time {at}: {reason}",
            "they come again when the pipeline is run again",
        )


OF_SHELLS = frozenset(("<", ">", ">>", "2>", "|", "||", "&", "&&", ";"))
"""Words that only a shell understands."""


def _split(text: str) -> list[str]:
    """Split a command into words, without a shell.

    >>> _split("mail-alert --to 'the whole team'")
    ['mail-alert', '--to', 'the whole team']
    """
    try:
        words = shlex.split(text)
    except ValueError:
        raise InputError("E_OPTION", f"{text!r}: a quote is never closed", "close it") from None
    for word in words:
        if word in OF_SHELLS:
            hint = f"run one: sh -c {shlex.quote(text)}"
            raise InputError("E_OPTION", f"{word} in {text!r} is for a shell, and the command is run without one", hint)
    return words


class Command(Call):
    """A program that is run for each time's changes; created by `everview.io.command`."""

    def __init__(
        self, arguments: str | Sequence[str], timeout: float | None, position: str | os.PathLike[str] | None
    ) -> None:
        super().__init__(position)
        self._arguments = _split(arguments) if isinstance(arguments, str) else list(arguments)
        if not self._arguments:
            raise InputError("E_OPTION", "the command is empty", 'give a program: "mail-alert --to ops"')
        self._timeout = timeout
        self._folder = folder()

    def describe(self) -> str:
        return f"command {shlex.join(self._arguments)}"

    def _give(self, lines: list[str], at: int) -> None:
        told = {"EVERVIEW_TIME": str(at), "EVERVIEW_SINK": self._identity}
        try:
            done = subprocess.run(
                self._arguments,
                input="".join(f"{line}\n" for line in lines).encode(),
                stderr=subprocess.PIPE,
                timeout=self._timeout,
                cwd=self._folder,
                env={**os.environ, **told},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._failed(at, f"it was not done after {self._timeout} s") from None
        except OSError as error:
            raise self._failed(at, error.strerror or str(error)) from None
        if done.returncode:
            last = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise self._failed(at, f"exit code {done.returncode}{f', {last}' if last else ''}")

    def _failed(self, at: int, reason: str) -> InputError:
        return InputError(
            "E_SINK",
            f"{self.describe()} did not take the changes of time {at}: {reason}",
            "they come again when the pipeline is run again",
        )
