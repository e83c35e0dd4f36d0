"""Names that people give, as names of folders.

Tables and sources are called whatever people like, and some of them have a folder in the state directory (an inbox, a
stream's checkpoint). A name that is plain is the folder's name. Any other one (with `/`, a NUL, a dot in front, very
long) is not: what can be read of it stays, and a hash of all of it follows, so it cannot lead out of the directory and
no two share a folder. Nor can a plain name be mistaken for such a one, because of the `%`.

Hazard: on a file system that does not tell `A` from `a`, plain names that differ only in that share a folder.
"""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z0-9_\u0080-\ud7ff\ue000-\U0010ffff][A-Za-z0-9_. \-\u0080-\ud7ff\ue000-\U0010ffff]*")
LONGEST = 120
"""Bytes up to which a name can be a folder's: file systems take 255, and things are appended."""


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
    """Whether a text can be written down: halves of surrogate pairs cannot."""
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
