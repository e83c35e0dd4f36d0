"""The support bundle: what somebody needs who is to find out what is wrong with a server, and no data.

It is a zip file with versions and settings, the metrics, and the relations of the schema `ev`. Names of tables, views
and columns are in it. Values are not: numbers and texts in statements, plans and names of operators are replaced by
question marks, and tokens, passwords, keys and positions of sources are left out.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import platform
import re
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import everview
from everview.session import doors
from everview.session.core import core_of

if TYPE_CHECKING:
    from everview.server.settings import Settings
    from everview.session.session import Session

SECRET = ("token", "jwt_key", "private_key", "certificate")
"""Settings that are left out."""

LEFT_OUT = ("positions", "quotas")
"""Relations that are: file names and offsets, and who may do what."""

PACKAGES = ("numpy", "pyarrow", "sqlglot", "numba", "pyspark", "starlette", "uvicorn", "websockets")

_VALUES = re.compile(
    r"""[a-z&]*'(?:[^']|'')*(?:'|$)          # 'text', E'text'; one that was cut off, too
      | \$(\w*)\$.*?(?:\$\1\$|$)             # $$text$$
      | (?<![\w."$])[0-9][\w.]*              # numbers, not those in names or $1
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def masked(text: str) -> str:
    """A text without values.

    >>> masked("SELECT a1 FROM t WHERE x = 'it''s' AND y > 1.5e3 AND z = $1")
    'SELECT a1 FROM t WHERE x = ? AND y > ? AND z = $1'
    """
    return _VALUES.sub("?", text)


def bundle(session: Session, settings: Settings, metrics: str) -> bytes:
    """A zip file; on the engine's thread."""
    core_of(session).access.may_manage("make a support bundle")
    system = doors.system(core_of(session))
    found = system.present(None)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("about.json", json.dumps(_about(settings), indent=1))
        file.writestr("metrics.txt", metrics)
        for name, rows in sorted(found.items()):
            if name not in LEFT_OUT:
                columns = list(system[name].schema())
                file.writestr(f"ev/{name}.json", "\n".join(_line(columns, row) for row in rows) + "\n")
    return out.getvalue()


def _line(columns: list[str], row: tuple[Any, ...]) -> str:
    return json.dumps(dict(zip(columns, map(_shown, row), strict=True)))


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    return value.isoformat() if isinstance(value, dt.datetime) else value


def _about(settings: Settings) -> Mapping[str, Any]:
    said = {name: value for name, value in asdict(settings).items() if name not in SECRET}
    return {
        "everview": everview.__version__,
        "python": sys.version,
        "machine": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "settings": said | {"tls": bool(settings.certificate), "jwt": bool(settings.jwt_key)},
        "at": dt.datetime.now(dt.UTC).isoformat(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
