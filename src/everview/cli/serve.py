"""`everview serve`: a server for psql, Python, browsers and anything else that speaks HTTP or PostgreSQL's protocol."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import everview
from everview.cli.app import TRUST, app
from everview.codes.durations import seconds
from everview.errors import InputError, did_you_mean
from everview.server import logs
from everview.server.settings import Settings, random_token

if TYPE_CHECKING:
    from everview.server.settings import Settings
    from everview.session.session import Session

HTTP, PG = 8080, 6432
"""Default ports."""


@app.command()
def serve(
    state: Annotated[str | None, typer.Argument(help="State directory. Without one, the session is in memory.")] = None,
    pg: Annotated[
        int | None, typer.Option(help=f"Port for the PostgreSQL protocol; default {PG}, 0 for any free port.")
    ] = None,
    http: Annotated[
        int | None, typer.Option(help=f"Port for HTTP and WebSocket; default {HTTP}, 0 for any free port.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="EVERVIEW_TOKEN", help="Token that clients must send. Default: a random one, printed at the start."
        ),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="No token needed. Only allowed on a loopback address.")
    ] = False,
    tls_cert: Annotated[str | None, typer.Option(help="TLS certificate file.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="TLS private key file.")] = None,
    jwt_key: Annotated[
        Path | None, typer.Option(help="File with the key of JWTs: a secret (HS256) or a public key (RS256, ES256).")
    ] = None,
    jwt_audience: Annotated[str | None, typer.Option(help="Audience that JWTs must be for.")] = None,
    jwt_issuer: Annotated[str | None, typer.Option(help="Issuer that JWTs must be from.")] = None,
    origin: Annotated[list[str] | None, typer.Option(help="Web origin allowed to connect. Repeatable.")] = None,
    name: Annotated[list[str] | None, typer.Option(help="Further host name of this server. Repeatable.")] = None,
    timeout: Annotated[str | None, typer.Option(help="Time limit per statement, such as 30s.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory limit per statement, such as 500MB.")] = None,
    history: Annotated[
        str | None,
        typer.Option(help="Past changes that can be read: transactions (default 1000), or a time such as 10m."),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(help="What the schema ev records: 'steps' (and statements), or 'operators' (their times, too)."),
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="Form of the log on standard error: 'text' or 'json'.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with these options.")] = None,
    master: Annotated[str | None, typer.Option(help="Run on Spark with this master.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Allow SQL to read and write files on this machine.")] = False,
    trust: Annotated[bool, typer.Option("--trust", help=TRUST)] = False,
) -> None:
    """Serve tables and views to others, until Ctrl-C or SIGTERM."""
    import asyncio

    from everview.server.direct_selector import new_loop
    from everview.server.server_process import serve as run

    given = {
        "state": state, "pg": pg, "http": http, "host": host, "token": token, "no_auth": no_auth or None,
        "tls_cert": tls_cert, "tls_key": tls_key, "origin": origin or None, "name": name or None, "timeout": timeout,
        "memory": memory, "history": history, "master": master, "files": files or None, "trust": trust or None,
        "jwt_key": None if jwt_key is None else str(jwt_key), "jwt_audience": jwt_audience, "jwt_issuer": jwt_issuer,
        "log": log, "log_format": log_format,
    }  # fmt: skip
    options = _configured(config) | {n: v for n, v in given.items() if v is not None}
    settings = _settings(options)
    settings.check()
    if "log_format" in options:
        logs.configure(options["log_format"])
    with _session(options) as session:
        _record(session, options.get("log"))
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(run(session, settings, _show))


def _show(line: str) -> None:
    print(line, flush=True)  # whoever waits for "ready" may read a pipe


_KINDS: dict[str, type | tuple[type, ...]] = {
    "state": str, "pg": int, "http": int, "host": str, "token": str, "no_auth": bool, "tls_cert": str, "tls_key": str,
    "origin": list, "name": list, "timeout": (str, int, float), "memory": (str, int), "history": (str, int),
    "master": str,
    "files": bool, "trust": bool, "jwt_key": str, "jwt_audience": str, "jwt_issuer": str,
    "log": str, "log_format": str,
}  # fmt: skip
"""Configuration keys and their types."""


def _configured(path: Path | None) -> dict[str, Any]:
    """Read a configuration file."""
    if path is None:
        return {}
    try:
        found = tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError("E_FILE", f"{path} cannot be read: {error.strerror}", "give the path of a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("E_FORMAT", f"{path} is not TOML: {error}", "write lines like http = 8080") from None
    for key, value in found.items():
        if key not in _KINDS:
            raise InputError("E_OPTION", f"{path}: there is no option {key!r}", did_you_mean(key, _KINDS))
        if not isinstance(value, _KINDS[key]) or (isinstance(value, bool) and _KINDS[key] is int):
            raise InputError("E_OPTION", f"{path}: {key} cannot be {value!r}", "see everview serve --help")
    return found


def _settings(options: dict[str, Any]) -> Settings:
    """The server's network settings."""
    from everview.session.limits import size_of

    if options.get("no_auth") and options.get("token"):
        raise InputError("E_OPTION", "--no-auth and a token exclude each other", "leave one of them out")
    token = "" if options.get("no_auth") else options.get("token", random_token())
    if not token and not options.get("no_auth"):
        raise InputError("E_OPTION", "the token is empty", "give one, or --no-auth")
    alone = options.get("http") is None and options.get("pg") is None
    settings = Settings(
        http=HTTP if alone else options.get("http"),
        pg=PG if alone else options.get("pg"),
        token=token,
        jwt_key=_read(options["jwt_key"]) if "jwt_key" in options else "",
        jwt_audience=options.get("jwt_audience", ""),
        jwt_issuer=options.get("jwt_issuer", ""),
        certificate=options.get("tls_cert", ""),
        private_key=options.get("tls_key", ""),
        origins=tuple(options.get("origin", ())),
        hosts=tuple(options.get("name", ())),
        seconds=seconds(options["timeout"]) if "timeout" in options else None,
        memory=size_of(options["memory"]) if "memory" in options else None,
    )
    return dataclasses.replace(settings, host=options["host"]) if "host" in options else settings


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        raise InputError("E_FILE", f"{path} cannot be read", "give a file with the key of JWTs") from None


def _record(session: Session, what: str | None) -> None:
    """Have the schema `ev` record what it does not record by default."""
    if what is None:
        return
    if what not in ("steps", "operators"):
        raise InputError("E_OPTION", f"--log {what} is not known", "use 'steps' or 'operators'")
    session.system.log()
    if what == "operators":
        session.system.time_operators()


@contextmanager
def _session(options: dict[str, Any]) -> Iterator[Session]:
    """The session to serve."""
    from everview.io import program

    state, trust = options.get("state"), bool(options.get("trust"))
    if "master" in options:
        settings = {"master": options["master"], **({"state": state} if state else {})}
        with program.connect(settings, trust=trust) as (session, _):
            session._core.may_use_files = bool(options.get("files"))
            yield session
        return
    more: dict[str, Any] = {"trust": trust} if state else {}
    if "history" in options:
        said = options["history"]
        more["history"] = int(said) if isinstance(said, str) and said.strip().isdecimal() else said
    with everview.connect(state, files=bool(options.get("files")), **more) as session:
        yield session
