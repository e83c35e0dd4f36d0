"""Commands about a server that is running: `everview support`; and how `everview top` knows one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.error import HTTPError, URLError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import typer

from everview.cli.app import app
from everview.client.transport import Address, address_of
from everview.errors import StoreError
from everview.wire.error_records import error_of
from everview.wire.values import parsed

Token = Annotated[str, typer.Option(envvar="EVERVIEW_TOKEN", help="Token of the server, if it is a server.")]
Certificate = Annotated[str, typer.Option(help="File with the certificate to trust, if it is not a public one.")]


def is_server(text: str) -> bool:
    """Whether an argument is a server's address.

    >>> is_server("everview://127.0.0.1:8080"), is_server("state")
    (True, False)
    """
    return text.startswith(("everview://", "everviews://"))


@app.command()
def support(
    address: Annotated[str, typer.Argument(help="Server, such as everview://127.0.0.1:8080.")],
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path("everview-support.zip"),
    token: Token = "",
    certificate: Certificate = "",
) -> None:
    """Write a support bundle of a server, without data in it."""
    file.write_bytes(_fetched(address_of(address, token, 60.0, certificate), "/v1/support"))
    typer.echo(f"{file}: values are masked; names of tables, views and columns are in it")


def _fetched(address: Address, path: str) -> bytes:
    host = f"[{address.host}]" if ":" in address.host else address.host
    url = f"http{'s' if address.secure else ''}://{host}:{address.port}{path}"
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=address.context()))
    try:
        with opener.open(Request(url, headers={"Authorization": address.authorization}), timeout=60) as answer:
            data: bytes = answer.read()
            return data
    except HTTPError as error:
        raise error_of(parsed(error.read())["error"]) from None
    except (URLError, OSError) as error:
        raise StoreError(
            "E_SERVER", f"the server cannot be reached: {error}", "is `everview serve` running there?"
        ) from None
