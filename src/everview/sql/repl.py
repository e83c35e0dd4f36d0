"""`everview sql`: SQL at a prompt, with history, completion and live subscriptions.

A statement ends with a semicolon and may have several lines. Lines that begin with a backslash are commands:

    \\d         tables and views          \\d name    columns, and the plan of a view
    \\timing    say how long it took      \\i file    run a script
    \\u name    end a subscription        \\q         leave

Editing, history and completion are those of Python's readline, where there is one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import TokenType, tokenize
from sqlglot.errors import TokenError

from everview.errors import EverviewError, InputError, did_you_mean
from everview.sql import script
from everview.sql.statements import Statements
from everview.sql.subscription import Subscription

if TYPE_CHECKING:
    from everview.session.session import Session

PROMPT, MORE = "everview> ", "      ... "

_WORDS = """
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT RIGHT FULL CROSS USING ON AS WITH RECURSIVE UNION ALL
    DISTINCT INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW MATERIALIZED SOURCE SINK DROP EXPLAIN SHOW TABLES
    VIEWS SUBSCRIBE TO BEGIN COMMIT ROLLBACK TRUNCATE RUN UNTIL CAUGHT UP OVER PARTITION QUALIFY EXISTS BETWEEN NULL
    INTERVAL TTL PRIMARY KEY
"""
KEYWORDS = _WORDS.split()

COMMANDS = ("\\d", "\\timing", "\\i", "\\u", "\\q", "\\?")


class Repl:
    """A conversation with a session: lines in, text out.

    >>> import everview as ev
    >>> repl = Repl(ev.connect(), show=print)
    >>> repl.run(["CREATE TABLE t (x int);", "INSERT INTO t", "VALUES (1), (2);", "SELECT x FROM t ORDER BY x DESC;"])
    x
    -
    2
    1
    """

    def __init__(self, session: Session, show: Callable[[str], Any] = print) -> None:
        self.session = session
        self.show = show
        self.timing = False
        self.statements = Statements(session)
        self.subscriptions: dict[str, Subscription] = {}
        self.waiting = ""

    def run(self, lines: Iterable[str]) -> None:
        """Take lines until there are no more, or one says to leave."""
        for line in lines:
            if not self.line(line):
                return

    def line(self, line: str) -> bool:
        """Take one line; whether to go on."""
        if not self.waiting and line.strip().startswith("\\"):
            word, _, rest = line.strip().partition(" ")
            if word == "\\q":
                return False
            self._guarded(lambda: self.command(word, rest.strip().rstrip(";")))
            return True
        self.waiting += line + "\n"
        if complete(self.waiting):
            text, self.waiting = self.waiting, ""
            self._guarded(lambda: self.execute(text))
        return True

    def execute(self, text: str) -> None:
        """Run statements and show what they give."""
        start = time.perf_counter()
        for _, answer in self.statements.answers(text):
            if isinstance(answer, Subscription):
                self.subscriptions[answer.name] = answer
            script.show_answer(answer, self.show)
        if self.timing:
            self.show(f"time {self.session.time}, {1000 * (time.perf_counter() - start):.2f} ms")

    def _guarded(self, action: Callable[[], None]) -> None:
        """Errors and Ctrl-C end the statement, not the conversation."""
        try:
            action()
        except EverviewError as error:
            self.show(str(error))
        except KeyboardInterrupt:
            self.show("interrupted")

    # ---------------------------------------------------------------------------------------- commands

    def command(self, word: str, rest: str) -> None:
        """A line that begins with a backslash."""
        if word == "\\d":
            self.show("\n".join(self.described(rest) if rest else self.listed()))
        elif word == "\\timing":
            self.timing = not self.timing
            self.show(f"timing is {'on' if self.timing else 'off'}")
        elif word == "\\i":
            script.run(self.session, Path(rest), show=self.show)
        elif word == "\\u":
            found = self.subscriptions.pop(rest, None)
            if found is None:
                hint = did_you_mean(rest, self.subscriptions)
                raise InputError("E_NAME", f"there is no subscription to {rest}", hint)
            found.close()
        elif word == "\\?":
            self.show("\n".join((__doc__ or "").split("\n")[4:8]))
        else:
            raise InputError("E_COMMAND", f"there is no command {word}", did_you_mean(word, COMMANDS))

    def listed(self) -> Iterator[str]:
        """Tables and views with their columns."""
        for kind, names in (("table", self.session.tables), ("view", self.session.views)):
            for name in names:
                yield f"{kind:5}  {name}  ({', '.join(self.session[name].schema())})"

    def described(self, name: str) -> Iterator[str]:
        """The columns of a table or view, and the plan of a view."""
        found = self.session[name]
        width = max(map(len, found.schema()))
        for column, declared in found.schema().items():
            yield f"{column:{width}}  {declared!r}"
        if name in self.session.views:
            yield from ("", *found.explain().split("\n"))

    # -------------------------------------------------------------------------------------- completion

    def candidates(self, start: str) -> list[str]:
        """What a word may become: names first, then keywords in the letters' case of the word."""
        names = [*self.session.tables, *self.session.views]
        columns = [c for name in names for c in self.session[name].schema()]
        known = [n for n in dict.fromkeys([*names, *columns]) if n.lower().startswith(start.lower())]
        lower = bool(start) and start.islower()
        words = [k.lower() if lower else k for k in KEYWORDS if k.startswith(start.upper())]
        commands = [c for c in COMMANDS if start.startswith("\\") and c.startswith(start)]
        return commands or [*known, *words]


def complete(text: str) -> bool:
    """Whether a text ends its last statement.

    >>> [complete(t) for t in ("SELECT 1", "SELECT 1;", "SELECT ';", "SELECT 1; -- and", "")]
    [False, True, False, True, True]
    """
    try:
        tokens = tokenize(text, read="postgres")
    except TokenError:
        return False  # an open quote or comment
    return not tokens or tokens[-1].token_type == TokenType.SEMICOLON


def main(session: Session) -> None:
    """Talk to a person (or to a pipe)."""
    repl = Repl(session)
    if not sys.stdin.isatty():
        repl.run(sys.stdin)
        if repl.waiting.strip():
            repl.line(";")
        return
    _prepare_editing(repl)
    repl.show("SQL ends with a semicolon; \\? for commands, \\q to leave.")
    while True:
        try:
            line = input(MORE if repl.waiting else PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            repl.waiting = ""
            repl.show("")
            continue
        if not repl.line(line):
            return


def _prepare_editing(repl: Repl) -> None:
    """History in a file, completion with Tab; without readline neither."""
    try:
        import readline
    except ImportError:
        return

    def completion(start: str, number: int) -> str | None:
        found = repl.candidates(start)
        return found[number] if number < len(found) else None

    readline.set_completer(completion)
    readline.set_completer_delims(" \t\n,;()=<>+-*/.")
    readline.parse_and_bind("tab: complete")
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "everview"
    history = state / "history"
    with contextlib.suppress(OSError):
        state.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(history)
    readline.set_history_length(10_000)

    def save() -> None:
        with contextlib.suppress(OSError):
            readline.write_history_file(history)

    atexit.register(save)
