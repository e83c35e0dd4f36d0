"""Syntax of Materialize, RisingWave, Flink and Feldera, found among a statement's tokens and removed from its text.

What has a meaning here is annotated, or rewritten:

    WITH MUTUALLY RECURSIVE r (a int) AS (...)       WITH RECURSIVE; the types are those of the columns
    CREATE MATERIALIZED VIEW v EMIT ON WINDOW CLOSE AS ...     the same as at the end
    CREATE TABLE t (ts timestamp LATENESS INTERVAL '1 hour')   WATERMARK FOR ts AS ts - INTERVAL '1 hour'
    x int NOT NULL FOREIGN KEY REFERENCES t (id)     REFERENCES t (id); ignored if that is no key
    a LEFT ASOF JOIN b                               ASOF LEFT JOIN
    mz_now()                                         now()
    CREATE RECURSIVE VIEW v (x) AS query             CREATE VIEW v AS WITH RECURSIVE v (x) AS (query) SELECT * FROM v
    CREATE LOCAL VIEW, DROP MATERIALIZED VIEW, DROP TEMPORARY TABLE    CREATE VIEW, DROP VIEW, DROP TABLE
    CREATE SOURCE t (...) WITH (...), DROP SOURCE t, ALTER SOURCE t    CREATE TABLE, DROP TABLE, ALTER TABLE
    CREATE TABLE t (a int, b int AS a + 1)           b is generated, as by b int GENERATED ALWAYS AS (a + 1) STORED

What does not affect results (placement, performance) is ignored with a *notice* to the author of the statement
(`everview.errors.Notice`).

    CREATE TABLE t (...) APPEND ONLY; WITH (connector = ...) FORMAT PLAIN ENCODE JSON; ROW FORMAT JSON; IN CLUSTER c;
    x int METADATA FROM 'offset' VIRTUAL; OPTIONS (LIMIT INPUT GROUP SIZE = 1000)

Statements that are about nothing else are in `everview.sql.ddl.elsewhere`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import Token

from everview.sql.text.annotations import Notes, WatermarkNote
from everview.sql.text.error_positions import Source

Remove = Callable[[int, int], None]
"""Blanks out tokens, from one to another."""

Write = Callable[[int, str], None]
"""Writes a word over a token that is at least as long."""


def note(text: str, tokens: Sequence[Token], words: list[str], notes: Notes, remove: Remove, write: Write) -> None:
    """Annotate other systems' syntax in a statement."""
    for i in range(len(words)):
        if words[i] in ("MZ_NOW", "MZ_LOGICAL_TIMESTAMP") and words[i + 1 : i + 3] == ["(", ")"]:
            write(i, "now")
        elif words[i : i + 3] == ["LEFT", "ASOF", "JOIN"]:
            write(i, "ASOF")
            write(i + 1, "LEFT")
        elif words[i : i + 3] == ["WITH", "MUTUALLY", "RECURSIVE"]:
            remove(i + 1, i + 1)
            _note_types(text, tokens, words, i + 3, notes, remove)
        elif words[i : i + 2] == ["OPTIONS", "("] and "SIZE" in words[i : _closing(words, i + 1)]:
            notes.notices.append("OPTIONS (... GROUP SIZE = n) is ignored: it changes no answer")
            remove(i, _closing(words, i + 1))
    if words[0] in ("DROP", "ALTER") and words[1:2] == ["SOURCE"]:
        write(1, "TABLE")
    if words[0] == "DROP" and words[1:2] in (["MATERIALIZED"], ["TEMPORARY"], ["TEMP"]):
        remove(1, 1)
    if words[0] == "CREATE":
        _note_create(text, tokens, words, notes, remove, write)


def _note_types(text: str, tokens: Sequence[Token], words: list[str], at: int, notes: Notes, remove: Remove) -> None:
    """The types of the columns of each query of a WITH MUTUALLY RECURSIVE."""
    if words[at : at + 1] == ["("]:  # (RETURN AT RECURSION LIMIT 10)
        at = _closing(words, at) + 1
    while words[at + 1 : at + 2] == ["("]:
        end = _closing(words, at + 1)
        starts = [at + 2, *(i + 1 for i in range(at + 2, end) if words[i] == "," and _depth(words, at + 1, i) == 1)]
        types: list[str] = []
        for first, behind in zip(starts, [*(s - 1 for s in starts[1:]), end], strict=True):
            if behind - first < 2:
                hint = "WITH MUTUALLY RECURSIVE r (a int, b text) AS (...)"
                token = tokens[first]
                raise Source(text).error_at(token.start, "E_SYNTAX", f"the column {token.text} has no type", hint)
            types.append(text[tokens[first + 1].start : tokens[behind - 1].end + 1])
            remove(first + 1, behind - 1)
        notes.types[tokens[at].start] = tuple(types)
        opened = next((i for i in range(end, len(words)) if words[i] == "("), len(words))
        at = _closing(words, opened) + 1
        if words[at : at + 1] != [","]:
            break
        at += 1


def _closing(words: list[str], at: int) -> int:
    """Where the bracket that opens at a place closes."""
    depth = 0
    for i in range(at, len(words)):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0:
            return i
    return len(words) - 1


def _depth(words: list[str], first: int, last: int) -> int:
    return words[first : last + 1].count("(") - words[first : last + 1].count(")")


_BEFORE = ("OR", "REPLACE", "TEMP", "TEMPORARY", "UNLOGGED", "MATERIALIZED", "RECURSIVE", "GLOBAL")


def _note_create(
    text: str, tokens: Sequence[Token], words: list[str], notes: Notes, remove: Remove, write: Write
) -> None:
    kind = next((i for i, word in enumerate(words) if i and word not in (*_BEFORE, "LOCAL")), 0)
    if "RECURSIVE" in words[1:kind] and words[kind] == "VIEW":
        at = words.index("RECURSIVE")
        notes.recursive = tokens[at].start
        remove(at, at)
    if "LOCAL" in words[1:kind] and words[kind] in ("VIEW", "TABLE"):
        at = words.index("LOCAL")
        remove(at, at)
    is_source = words[kind] == "SOURCE"
    if is_source and _is_declared(words, kind):
        write(kind, "TABLE")
        notes.notices.append("CREATE SOURCE without FROM makes a table: nothing is read into it, rows are inserted")
    if words[kind] == "TABLE" and words[kind + 1 : kind + 2] != ["("]:
        described = _format(words, kind)
        if described is not None:
            remove(described, len(words) - 1)
        if described is not None and not is_source:
            notes.notices.append(f"{tokens[described].text} ... is ignored: no messages are read here")
        _note_computed(text, tokens, words, kind, notes, remove)
    is_table = words[kind] in ("TABLE", "SOURCE")
    depth, i = 0, kind
    while i < len(words):
        depth += (words[i] == "(") - (words[i] == ")")
        following = words[i + 1 : i + 4]
        if depth == 0 and words[i] == "AS":
            break
        if depth == 0 and words[i] == "EMIT" and following == ["ON", "WINDOW", "CLOSE"] and i + 4 < len(words):
            notes.emit_at = tokens[i].start
            remove(i, i + 3)
            i += 3
        elif depth == 0 and words[i] == "IN" and following[:1] == ["CLUSTER"] and len(following) > 1:
            notes.notices.append(f"IN CLUSTER {tokens[i + 2].text} is ignored: there are no clusters here")
            remove(i, i + 2)
            i += 2
        elif depth == 0 and is_table and words[i] == "APPEND" and following[:1] == ["ONLY"]:
            notes.notices.append("APPEND ONLY is ignored: rows of the table can still be updated and deleted")
            remove(i, i + 1)
            i += 1
        elif depth == 1 and is_table and words[i] == "LATENESS":
            i = _note_lateness(text, tokens, words, i, notes, remove)
            continue
        elif depth == 1 and is_table and words[i] == "FOREIGN KEY" and following[:1] == ["REFERENCES"]:
            notes.loose_references = True
            remove(i, i)
        elif depth == 1 and is_table and words[i] == "ARRAY" and following[:1] and following[0] in _AFTER_TYPE:
            write(i, "[]")  # int ARRAY
        i += 1


_AFTER_TYPE = (",", ")", "NOT", "NULL", "DEFAULT", "PRIMARY", "UNIQUE", "CHECK")


def _is_declared(words: list[str], kind: int) -> bool:
    """Whether a CREATE SOURCE lists columns, but does not say from which file rows come."""
    opened = next((i for i in range(kind, len(words)) if words[i] == "("), 0)
    following = words[_closing(words, opened) + 1 : _closing(words, opened) + 2]
    return bool(opened) and following != ["FROM"] and "FROM" not in words[kind:opened]


_FORMATS = (
    "PLAIN",
    "UPSERT",
    "DEBEZIUM",
    "DEBEZIUM_MONGO",
    "MAXWELL",
    "CANAL",
    "NATIVE",
    "NONE",
    "JSON",
    "AVRO",
    "CSV",
)
"""FORMAT PLAIN ENCODE JSON of RisingWave, FORMAT JSON of Materialize; Spark's ROW FORMAT DELIMITED is none of them."""


def _format(words: list[str], kind: int) -> int | None:
    """Where it says how messages are read, at the end of CREATE TABLE t (...) WITH (...)."""
    depth = 0
    for i in range(kind, len(words)):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0 and words[i] in ("AS", "SELECT"):
            return None
        is_row = words[i : i + 2] == ["ROW", "FORMAT"]
        named = words[i + 1 + is_row : i + 2 + is_row]
        if depth == 0 and words[i - 1] == ")" and (is_row or words[i] == "FORMAT") and named and _is_format(named[0]):
            return i
    return None


def _is_format(word: str) -> bool:
    return word in _FORMATS or word.partition("_")[0] in _FORMATS


def _note_computed(
    text: str, tokens: Sequence[Token], words: list[str], kind: int, notes: Notes, remove: Remove
) -> None:
    """x int AS a + b: a generated column; x int METADATA FROM 'offset' VIRTUAL: a column that no message fills."""
    opened = next((i for i in range(kind, len(words)) if words[i] == "("), len(words))
    if "AS" in words[kind:opened]:
        return  # of a query
    for first, behind in _listed(words, opened):
        if words[first] in _NO_COLUMNS or words[first + 1 : first + 2] == ["FOR"]:  # a misspelt WATERMARK
            continue
        for i in range(first + 2, behind):
            inside = words[first + 1 : i]
            if words[i] == "METADATA":
                written = " ".join(t.text for t in tokens[first:behind])
                notes.notices.append(f"{tokens[first].text} METADATA is a column like others: {written} reads nothing")
                remove(i, behind - 1)
                break
            is_bracket = words[i + 1 : i + 2] == ["("] and _closing(words, i + 1) == behind - 1
            if (
                words[i] == "AS"
                and _depth(words, first, i) == 0
                and not is_bracket
                and not _OTHERS.intersection(inside)
            ):
                notes.computed[tokens[first].start] = text[tokens[first + 1].start : tokens[i - 1].end + 1]
                remove(first + 1, i - 1)
                break


_NO_COLUMNS = ("CONSTRAINT", "PRIMARY", "PRIMARY KEY", "UNIQUE", "CHECK", "FOREIGN", "FOREIGN KEY", "WATERMARK", "LIKE")
_OTHERS = frozenset({"GENERATED", "ALWAYS", "DEFAULT", "CHECK", "REFERENCES", "CONSTRAINT", "LATENESS", "NOT"})
"""What may stand before AS in a column that is not computed in this form."""


def _listed(words: list[str], opened: int) -> list[tuple[int, int]]:
    """Where each item of a list in brackets begins, and what is behind it. ROW<a int, b text> is one item."""
    if opened >= len(words):
        return []
    end, angles, starts = _closing(words, opened), 0, [opened + 1]
    depth = 0
    for i in range(opened, end):
        depth += (words[i] == "(") - (words[i] == ")")
        angles += words[i].count("<") - words[i].count(">") if words[i] in ("<", ">", ">>") else 0
        if words[i] == "," and depth == 1 and angles <= 0:
            starts.append(i + 1)
    return [(a, b) for a, b in zip(starts, [*(s - 1 for s in starts[1:]), end], strict=True) if a < b]


def _note_lateness(text: str, tokens: Sequence[Token], words: list[str], at: int, notes: Notes, remove: Remove) -> int:
    """ts timestamp LATENESS INTERVAL '1 hour': the watermark that says so; where the text goes on."""
    first = at
    while first > 0 and not (words[first - 1] in ("(", ",") and _depth(words, 0, first - 1) == 1):
        first -= 1
    end = at
    while end + 1 < len(words) and words[end + 1] not in (",", ")", "NOT", "NULL", "DEFAULT", "PRIMARY", "WATERMARK"):
        end += 1
    if end == at or notes.watermark is not None:
        token = tokens[at]
        hint = "ts timestamp LATENESS INTERVAL '1 hour'"
        what = "LATENESS is followed by an interval, once a table"
        raise Source(text).error_at(token.start, "E_SYNTAX", what, hint)
    column, span = tokens[first], text[tokens[at + 1].start : tokens[end].end + 1]
    query = "\n" * (tokens[at].line - 1) + f"SELECT {column.text} - {span}"
    notes.watermark = WatermarkNote(column.text, column.start, query)
    remove(at, end)
    return end + 1
