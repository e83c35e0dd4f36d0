"""`everview serve` as a process of its own, to be ended in any way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import Any

TOKEN = "a token for tests"


class Process:
    """A server; `port` stays the same when it is started again."""

    def __init__(self, *arguments: str, port: int = 0, token: str = TOKEN, scheme: str = "http") -> None:
        self.port = port
        self.lines: list[str] = []
        environment = {**os.environ, "EVERVIEW_TOKEN": token} if token else dict(os.environ)
        command = [sys.executable, "-m", "everview.cli", "serve", *arguments, "--http", str(port)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if self.lines[-1] == "ready":
                break
        else:
            raise AssertionError("\n".join(self.lines))
        found = re.search(rf"{scheme}://127\.0\.0\.1:(\d+)", "\n".join(self.lines))
        assert found is not None
        self.port = int(found[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"everview://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it as a fault would."""
        self.process.kill()
        self.process.wait(60)
        self._read()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._read()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        self.process.stdout.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: Any) -> None:
        if self.process.poll() is None:
            self.kill()
