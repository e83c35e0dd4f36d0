r"""`everview sql`: SQL at a prompt, with history, completion and live subscriptions.

A statement ends with a semicolon and may span several lines. A line that begins with a backslash is a shell command
(`HELP` lists them), and so are a few words known from other shells (`PLAIN`, `DOTS`).

The terminal's side of it (editing, colours, the pager) is in `everview.sql.shell.terminal`.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import TokenType, tokenize
from sqlglot.errors import TokenError

from everview.errors import EverviewError, InputError, did_you_mean
from everview.language.relation import relation_of
from everview.session.reads.rendering import counted
from everview.sql.answers.result import Result
from everview.sql.inspection import describe_statements
from everview.sql.shell import copy_command, script
from everview.sql.shell.output import MODES, Output
from everview.sql.statements import Statements
from everview.sql.streams.subscription import Subscription
from everview.sql.text.error_positions import SqlError

if TYPE_CHECKING:
    from everview.session.session import Session

_WORDS = """
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT RIGHT FULL CROSS USING ON AS WITH RECURSIVE UNION ALL
    DISTINCT INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE VIEW MATERIALIZED SOURCE SINK DROP EXPLAIN DESCRIBE SHOW
    TABLES VIEWS SUBSCRIBE TO BEGIN COMMIT ROLLBACK TRUNCATE RUN UNTIL CAUGHT UP OVER PARTITION QUALIFY EXISTS BETWEEN
    NULL INTERVAL TTL PRIMARY KEY
"""
KEYWORDS = _WORDS.split()

HELP = r"""
End a statement with a semicolon; it may take several lines.

\d               list tables and views
\d name          columns of a table or view, and the plan of a view
\watch name      show a table or view, updated in place; Ctrl-C stops
\u name          stop a SUBSCRIBE TO name
\x               switch between rows and one value per line
\mode csv        output format: table, line, csv, json, markdown
\rows 100        show at most 100 rows of an answer (or: all)
\timing          turn times on or off
\copy t to 'f'   write a table, view or (query): .csv, .json, .parquet
\copy t from 'f' load a file into a table
\i file.sql      run a script
\q               leave; so do exit, quit and Ctrl-D
""".strip()
"""The help text; it fits a terminal of 80 columns."""

COMMANDS = ("\\d", "\\x", "\\mode", "\\copy", "\\watch", "\\u", "\\timing", "\\rows", "\\i", "\\q", "\\?")

PLAIN = {
    "help": "\\?",
    "?": "\\?",
    "exit": "\\q",
    "quit": "\\q",
    ":q": "\\q",
    "\\h": "\\?",
    "\\dt": "\\d",
    "\\dv": "\\d",
}
"""Commands of other shells, and their equivalents here."""

DOTS = {".tables": "\\d", ".schema": "\\d", ".quit": "\\q", ".exit": "\\q", ".help": "\\?", ".read": "\\i"}
"""The same for commands with a dot; others lose the dot for a backslash."""

RELATIONS = frozenset(("from", "join", "into", "update", "describe", "\\d", "\\watch", "\\u", "\\copy"))
"""Words that precede the name of a table or view."""

Watch = Callable[["Session", str], None]


class Repl:
    """An interactive session: lines in, text out.

    >>> import everview as ev
    >>> repl = Repl(ev.connect(), show=print)
    >>> repl.run(["CREATE TABLE t (x int);", "INSERT INTO t", "VALUES (1), (2);", "SELECT x FROM t ORDER BY x DESC;"])
    x
    -
    2
    1
    True
    """

    def __init__(
        self,
        session: Session,
        show: Callable[[str], Any] = print,
        *,
        complain: Callable[[str], Any] | None = None,
        output: Output | None = None,
        talkative: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self.session = session
        self.show = show
        self.complain = complain or show
        """where errors are printed"""
        self.output = output or Output()
        self.talkative = talkative
        """whether each statement reports its number of rows"""
        self.timing = talkative
        self.watch = watch
        self.failed = 0
        """number of failed statements and commands"""
        self.statements = Statements(session)
        self.subscriptions: dict[str, Subscription] = {}
        self.waiting = ""
        self._name = ""
        """the script that the lines come from"""
        self._number = self._began = 0
        """the number of the last line, and of the first line of the pending statement; 0 at a prompt"""

    def run(self, lines: Iterable[str], *, keep_going: bool = True, script: str | None = None) -> bool:
        """Process lines until there are no more, one exits, or (unless `keep_going`) one fails. A last statement needs
        no semicolon. Returns whether all succeeded. With a `script`, errors show its name ("": it has none) and
        lines.
        """
        self._name, self._number = script or "", 0
        for line in lines:
            self._number += script is not None
            if not self.line(line.rstrip("\n")) or (self.failed and not keep_going):
                return not self.failed
        if self.waiting.strip():
            self.line(";")
        return not self.failed

    def line(self, line: str) -> bool:
        """Process one line; return whether to continue."""
        word, _, rest = line.strip().partition(" ")
        if not self.waiting and _is_command(line):
            word = PLAIN.get(word.rstrip(";").lower(), DOTS.get(word, word))
            word = f"\\{word[1:]}" if word.startswith(".") else word.rstrip(";")
            if word == "\\q":
                return False
            self._guarded(lambda: self.command(word, rest.strip().rstrip(";")))
            return True
        if not self.waiting:
            self._began = self._number
        self.waiting += line + "\n"
        if complete(self.waiting):
            text, self.waiting = self.waiting, ""
            above = "\n" * (self._began - 1)  # so that places are those of the script
            self._guarded(lambda: self.execute(above + text))
        return True

    def execute(self, text: str) -> None:
        """Run statements and show their results."""
        tell = self._teller()
        for _, answer in self.statements.answers(text):
            tell(answer, self.statements.affected)

    def _include(self, path: str) -> None:
        """Run a script, and show results as if its statements had been typed."""
        script.run(self.session, Path(path.strip("'\"")), show=self.show, tell=self._teller())

    def _teller(self) -> script.Tell:
        """What shows answers one after the other, with the time that each took."""
        start = time.perf_counter()

        def tell(answer: Any, affected: int | None) -> None:
            nonlocal start
            took = time.perf_counter() - start
            if isinstance(answer, Subscription):
                self.subscriptions[answer.name] = answer
            if isinstance(answer, Result):
                self.show(self.output.text(answer))
            else:
                script.show_answer(answer, self.show)
            self._sum_up(answer, affected, took)
            start = time.perf_counter()

        return tell

    def _sum_up(self, answer: Any, affected: int | None, took: float) -> None:
        """How many rows there are and how long it took, if that is wanted."""
        parts = []
        if self.talkative and isinstance(answer, Result):
            parts.append(counted(len(answer)))
        elif self.talkative and affected is not None:
            parts.append(f"{counted(affected)} changed")
        elif self.talkative:
            parts.append("done")
        if self.timing:
            parts += [f"time {self.session.time}", f"{1000 * took:.2f} ms"]
        if parts:
            self.show(f"({', '.join(parts)})" if self.talkative else ", ".join(parts))

    def _guarded(self, action: Callable[[], None]) -> None:
        """Errors and Ctrl-C end the statement, not the session."""
        try:
            action()
        except EverviewError as error:
            self.failed += 1
            if self._name:
                where = "," if isinstance(error, SqlError) else f", line {self._began}:"
                error.message = f"{self._name}{where} {error.message}"
            self.complain(str(error))
        except KeyboardInterrupt:
            self.failed += 1
            self.complain("interrupted")

    # ---------------------------------------------------------------------------------------- commands

    def command(self, word: str, rest: str) -> None:
        """A line that begins with a backslash."""
        actions: dict[str, Callable[[str], Any]] = {
            "\\d": lambda name: self.show("\n".join(self.described(name) if name else self.listed())),
            "\\x": lambda _: self._mode("table" if self.output.mode == "line" else "line"),
            "\\mode": lambda mode: self._mode(mode) if mode else self.show(f"{self.output.mode}; {', '.join(MODES)}"),
            "\\copy": lambda text: self.show(copy_command.copy(self.session, text)),
            "\\watch": self._watch,
            "\\u": self._unsubscribe,
            "\\timing": lambda _: self._timing(),
            "\\rows": self._rows,
            "\\i": self._include,
            "\\?": lambda _: self.show(HELP),
        }
        if word not in actions:
            close = difflib.get_close_matches(word, COMMANDS, n=1)
            hint = f"did you mean {close[0]}?" if close else "help lists the commands"
            raise InputError("E_COMMAND", f"there is no command {word}", hint)
        actions[word](rest)

    def _mode(self, mode: str) -> None:
        self.output.set_mode(mode)
        self.show(f"mode is {mode}")

    def _timing(self) -> None:
        self.timing = not self.timing
        self.show(f"timing is {'on' if self.timing else 'off'}")

    def _rows(self, number: str) -> None:
        if number not in ("", "all") and not number.isdecimal():
            raise InputError("E_OPTION", f"\\rows {number}", "give a number of rows, or all")
        if number:
            self.output.rows = None if number == "all" else int(number)
        self.show("showing all rows" if self.output.rows is None else f"showing at most {counted(self.output.rows)}")

    def _watch(self, name: str) -> None:
        if self.watch is None:
            raise InputError("E_COMMAND", "\\watch needs a terminal", f"SUBSCRIBE TO {name} prints what changes")
        self.watch(self.session, name)

    def _unsubscribe(self, name: str) -> None:
        found = self.subscriptions.pop(name, None)
        if found is None:
            raise InputError("E_NAME", f"there is no subscription to {name}", did_you_mean(name, self.subscriptions))
        found.close()
        self.show(f"no longer subscribed to {name}")

    def listed(self) -> Iterator[str]:
        """Tables and views with their columns."""
        width = max(map(len, [*self.session.tables, *self.session.views]), default=0)
        for kind, names in (("table", self.session.tables), ("view", self.session.views)):
            for name in names:
                yield f"{kind:5}  {name:{width}}  ({', '.join(self.session[name].schema())})"

    def described(self, name: str) -> Iterator[str]:
        """The columns of a table or view, and the plan of a view."""
        spelled = self.statements.spelled(name)
        found = self.session[spelled]
        yield Output().text(describe_statements.named(self.statements, spelled))
        if relation_of(found).label in self.session.views:
            yield from ("", *found.explain().split("\n"))

    # -------------------------------------------------------------------------------------- completion

    def candidates(self, start: str, before: str = "") -> list[str]:
        """Completions of a word: names first, then keywords in the case of the word. Where the text `before` it
        requires a table or view, only those.
        """
        names = [*self.session.tables, *self.session.views]
        if (before.split() or [""])[-1].lower() in RELATIONS:
            return [n for n in names if n.lower().startswith(start.lower())]
        columns = [c for name in names for c in self.session[name].schema()]
        known = [n for n in dict.fromkeys([*names, *columns]) if n.lower().startswith(start.lower())]
        lower = bool(start) and start.islower()
        words = [k.lower() if lower else k for k in KEYWORDS if k.startswith(start.upper())]
        commands = [c for c in COMMANDS if start.startswith("\\") and c.startswith(start)]
        return commands or [*known, *words]


def _is_command(line: str) -> bool:
    """Whether a line is for the shell, not for SQL.

    >>> [_is_command(t) for t in ("help", " \\\\d t", ".mode csv", "exit;", "help me", "SELECT 1", ".5")]
    [True, True, True, True, False, False, False]
    """
    text = line.strip()
    dotted = text.startswith(".") and text[1:2].isalpha()
    return text.startswith("\\") or dotted or text.rstrip(";").strip().lower() in PLAIN


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
