"""Names as SQL writes them."""

from __future__ import annotations


def quoted_name(name: str) -> str:
    """A name as SQL writes it: quoted if it has to be.

    >>> quoted_name("total"), quoted_name("My view")
    ('total', '"My view"')
    """
    plain = name.isidentifier() and name.isascii() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
