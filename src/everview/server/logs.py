"""The server's log: lines for people, or one JSON object a line for programs that collect logs.

    {"at": "2026-11-18T07:00:00.000Z", "level": "WARNING", "logger": "everview.server", "message": "..."}

Messages never contain tokens or passwords, nor values of rows.
"""

from __future__ import annotations

import datetime as dt
import json
import logging

from everview.errors import InputError

FORMATS = ("text", "json")


class JsonLines(logging.Formatter):
    """A record as a JSON object.

    >>> record = logging.LogRecord("everview.server", logging.INFO, "", 0, "port %d", (80,), None)
    >>> json.loads(JsonLines().format(record))["message"]
    'port 80'
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        said = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said)


def configure(form: str) -> None:
    """Write the log of everything that is the server's to standard error."""
    if form not in FORMATS:
        raise InputError("E_OPTION", f"--log-format {form} is not known", f"use one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else plain)
    for name in ("everview", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
    logging.getLogger("everview").setLevel(logging.INFO)
