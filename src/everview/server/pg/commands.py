"""Classifies statements by their first words, before parsing.

Many statements of a PostgreSQL client are about its connection: transactions, settings, cursors, COPY to itself. Those
are handled here, from words; the rest goes to Everview's SQL or to the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from everview.server.pg.lexer import Piece, Word, words
from everview.server.pg.sqlstates import PgError

CHANGING = (
    "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "CREATE", "DROP", "ALTER", "COMMENT", "GRANT", "REVOKE",
    "REASSIGN",
)  # fmt: skip
"""First words of statements that change something."""

NOTHING = {
    "LISTEN": "LISTEN", "UNLISTEN": "UNLISTEN", "ANALYZE": "ANALYZE", "VACUUM": "VACUUM", "CHECKPOINT": "CHECKPOINT",
    "LOCK": "LOCK TABLE", "REINDEX": "REINDEX", "CLUSTER": "CLUSTER",
}  # fmt: skip
"""Statements without effect here, and their tags: accepted with a notice."""


@dataclass
class Command:
    """A statement and its words."""

    text: str
    start: int = 0
    """where it begins in what the client sent"""
    words: list[Word] = field(default_factory=list)

    @classmethod
    def of(cls, piece: Piece, database: str = "") -> Command:
        """The command of a text; the name of the database before names is taken out: it can only be this one."""
        found = words(piece.text)
        text = _without(piece.text, found, database) if database and database in piece.text else piece.text
        return cls(text, piece.start, found if text is piece.text else words(text))

    @property
    def first(self) -> str:
        """Its first word."""
        return self.words[0].upper if self.words else ""

    def is_(self, *wanted: str) -> bool:
        """Whether it begins with these words."""
        return tuple(w.upper for w in self.words[: len(wanted)]) == wanted

    @property
    def changing(self) -> bool:
        """Whether it may change anything: WITH, too, if one of its queries does."""
        if self.first == "WITH":
            return any(w.upper in ("INSERT", "UPDATE", "DELETE", "MERGE") for w in self.words)
        return self.first in CHANGING


def _without(text: str, found: list[Word], database: str) -> str:
    """A text in which `database.schema.name` is `schema.name`, every letter where it was.

    >>> _without('SELECT * FROM "d"."public"."t"', words('SELECT * FROM "d"."public"."t"'), "d")
    'SELECT * FROM     "public"."t"'
    """
    names = ("word", "quoted")
    for i in range(len(found) - 4):
        first, dot, _, other, last = found[i : i + 5]
        if first.kind not in names or first.text != database or dot.text != "." or other.text != ".":
            continue
        if last.kind in names and (i == 0 or found[i - 1].text != "."):
            text = text[: first.start] + " " * (dot.end - first.start) + text[dot.end :]
    return text


class Reader:
    """The words of a command, taken one after the other."""

    def __init__(self, command: Command, at: int = 0) -> None:
        self.command = command
        self.words = command.words
        self.at = at

    def next_is(self, *wanted: str) -> bool:
        """Take these words if they come next."""
        if tuple(w.upper for w in self.words[self.at : self.at + len(wanted)]) == wanted:
            self.at += len(wanted)
            return True
        return False

    def need(self, *wanted: str) -> None:
        """Take these words, which must come next."""
        if not self.next_is(*wanted):
            raise self.error(f"{' '.join(wanted)} is missing here")

    def more(self) -> bool:
        """Whether there is more."""
        return self.at < len(self.words)

    def take(self, what: str) -> Word:
        """Whatever comes next."""
        if not self.more():
            raise self.error(f"{what} is missing at the end")
        self.at += 1
        return self.words[self.at - 1]

    def name(self, what: str) -> str:
        """A name: in small letters unless it is quoted, with its schema if it has one."""
        parts = [self._part(what)]
        while self.next_is("."):
            parts.append(self._part(what))
        return ".".join(parts)

    def _part(self, what: str) -> str:
        word = self.take(what)
        if word.kind not in ("word", "quoted"):
            self.at -= 1
            raise self.error(f"{what} is missing here")
        return word.text if word.kind == "quoted" else word.text.lower()

    def brackets(self) -> tuple[int, int] | None:
        """Where brackets that come next begin and end, with them."""
        if not self.more() or self.words[self.at].upper != "(":
            return None
        start, depth = self.words[self.at].start, 0
        while self.more():
            word = self.take("a bracket")
            depth += (word.upper == "(") - (word.upper == ")")
            if depth == 0:
                return start, word.end
        raise self.error("a bracket is not closed")

    def end(self) -> None:
        """Refuse whatever comes next."""
        if self.more():
            raise self.error(f"{self.words[self.at].text!r} is not expected here")

    def error(self, what: str, hint: str = "") -> PgError:
        """An error at the present word."""
        error = PgError("E_SYNTAX", "42601", what, hint)
        place = self.words[min(self.at, len(self.words) - 1)].start if self.words else 0
        error.place = self.command.start + place
        return error


def tag_of(command: Command, rows: int | None, affected: int | None) -> str:
    """What a client is told when a statement is done.

    >>> tag_of(Command.of(Piece("insert into t values (1)", 0)), None, 1)
    'INSERT 0 1'
    >>> tag_of(Command.of(Piece("create or replace view v as select 1", 0)), None, None)
    'CREATE VIEW'
    """
    first = command.first
    if first == "WITH":
        inner = [w.upper for w in command.words if w.upper in ("INSERT", "UPDATE", "DELETE", "MERGE")]
        if rows is None and inner:
            first = inner[-1]
    count = affected if affected is not None else rows or 0
    match first:
        case "INSERT":
            return f"INSERT 0 {count}"
        case "UPDATE" | "DELETE" | "MERGE" | "COPY":
            return f"{first} {count}"
        case "TRUNCATE":
            return "TRUNCATE TABLE"
        case "CREATE" if affected is not None:  # CREATE TABLE ... AS
            return f"SELECT {count}"
        case "CREATE" | "DROP" | "ALTER":
            return f"{first} {_object(command)}"
        case "REASSIGN":
            return "REASSIGN OWNED"
        case "SHOW" | "EXPLAIN" | "DESCRIBE" | "WHY" | "COMMENT" | "SET":
            return first
    return f"SELECT {count}" if rows is not None else first


_KINDS = (
    "TABLE",
    "VIEW",
    "INDEX",
    "SCHEMA",
    "FUNCTION",
    "TYPE",
    "SOURCE",
    "SINK",
    "SEQUENCE",
    "POLICY",
    "ROLE",
    "TOKEN",
)


def _object(command: Command) -> str:
    """The kind of thing that a CREATE, DROP or ALTER is about."""
    found = [w.upper for w in command.words[1:6]]
    if found[:1] in (["USER"], ["GROUP"]):
        return "ROLE"
    kind = next((w for w in found if w in _KINDS), found[0] if found else "")
    return f"MATERIALIZED {kind}" if "MATERIALIZED" in found and kind == "VIEW" else kind
