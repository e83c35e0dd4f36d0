"""The shell's terminal: editing, history, completion, colours, and a pager.

Everything here is for interactive use; pipes and scripts go through `everview.sql.shell.repl` alone. Colours are
disabled if `NO_COLOR` is set or the output is not a terminal.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from everview.sql.shell import live_display
from everview.sql.shell.output import Output
from everview.sql.shell.repl import Repl

if TYPE_CHECKING:
    from everview.session.session import Session

PROMPT, MORE = "everview> ", "      ... "

MAX_ROWS_SHOWN = 1000
"""Rows of an answer that are shown: of more, a file is the better place (`\\copy`)."""

WIDEST = 60

RED, BOLD, DIM, PLAIN = "\x1b[31m", "\x1b[1m", "\x1b[2m", "\x1b[0m"


def talk(session: Session, mode: str = "table") -> None:
    """Run the interactive loop."""
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    repl = Repl(
        session,
        lambda text: _show(text, coloured),
        complain=lambda text: print(f"{RED}{text}{PLAIN}" if coloured else text),
        output=Output(mode, rows=MAX_ROWS_SHOWN, widest=WIDEST),
        talkative=True,
        watch=live_display.watch,
    )
    editing = _prepare_editing(repl)
    print("SQL ends with a semicolon; help for commands, exit to leave.")
    while True:
        try:
            line = input(_prompt(MORE if repl.waiting else PROMPT, coloured and editing))
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            repl.waiting = ""
            print()
            continue
        if not repl.line(line):
            return


def _prompt(text: str, coloured: bool) -> str:
    """The prompt; readline must be told which letters take no room."""
    return f"\x01{BOLD}\x02{text}\x01{PLAIN}\x02" if coloured else text


def _show(text: str, coloured: bool) -> None:
    """Print a text, through a pager if it is longer or wider than the screen."""
    lines = text.split("\n")
    width, height = shutil.get_terminal_size()
    pager = _pager()
    if pager and sys.stdout.isatty() and (len(lines) >= height - 1 or max(map(len, lines)) > width):
        with contextlib.suppress(OSError, KeyboardInterrupt):
            subprocess.run(pager, input=text, text=True, check=False)
            return
    summary = len(lines) == 1 and text.startswith("(") and text.endswith(")")
    print(f"{DIM}{text}{PLAIN}" if coloured and summary else text)


def _pager() -> list[str]:
    """The user's pager, or less with long lines cut; none if there is neither."""
    chosen = os.environ.get("PAGER")
    if chosen is not None:
        return shlex.split(chosen)
    less = shutil.which("less")
    return [less, "-FRSX"] if less else []


def _prepare_editing(repl: Repl) -> bool:
    """History in a file, completion with Tab; whether there is a readline for it."""
    try:
        import readline
    except ImportError:
        return False

    def completion(start: str, number: int) -> str | None:
        before = (repl.waiting + readline.get_line_buffer())[: len(repl.waiting) + readline.get_begidx()]
        found = repl.candidates(start, before)
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
    return True
