"""Maps user-chosen names to folder names.

Tables and sources have arbitrary names, and some of them have a folder in the state directory (an inbox, a stream's
checkpoint). A plain name is used directly. For any other one (with `/`, a NUL, a leading dot, very long) the readable
part is kept and a hash of the whole name appended, so it cannot escape the directory and no two names share a folder.
Because of the `%`, a plain name cannot be confused with such a one.

Hazard: on a case-insensitive file system, plain names that differ only in case share a folder.
"""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z0-9_\u0080-\ud7ff\ue000-\U0010ffff][A-Za-z0-9_. \-\u0080-\ud7ff\ue000-\U0010ffff]*")
LONGEST = 120
"""Maximum length in bytes of a plain folder name: file systems allow 255, and suffixes are appended."""


def folder_of(name: str) -> str:
    """The folder of a table or source.

    >>> folder_of("sale"), folder_of("../../etc")
    ('sale', 'etc%74ccf3c5b4c19a81')
    """
    data = name.encode("utf-8", "surrogatepass")
    if _PLAIN.fullmatch(name) and len(data) <= LONGEST:
        return name
    readable = "".join(re.findall(r"[A-Za-z0-9_-]", name))[:40]
    return f"{readable}%{hashlib.sha256(data).hexdigest()[:16]}"


def encodable(text: str) -> bool:
    """Whether a text can be encoded: lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_path(text: str) -> bool:
    r"""Whether a text can be a path at all.

    >>> is_path("state"), is_path(""), is_path("a\0b")
    (True, False, False)
    """
    return bool(text) and "\0" not in text and encodable(text)
