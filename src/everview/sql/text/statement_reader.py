"""Splits a text into statements, handling the syntax that sqlglot does not support.

That syntax is found among the tokens, annotated, and blanked out of the text, so that plain SQL remains with all
positions unchanged:

    WITH RECURSIVE (RETURN AT RECURSION LIMIT 10) ...      how many rounds, and whether reaching them is an error
    FROM readings [size 300 time]                          a window on a table: its rows of the last 300 seconds
    FROM readings [size 1 tuple partition by sensor]       the last row of each sensor
    SELECT ... AS OF 17                                    the answer at an earlier time
    CREATE TABLE t (..., WATERMARK FOR ts AS ts - INTERVAL '5 seconds')     how late rows may be
    CREATE VIEW v AS SELECT ... EMIT ON WINDOW CLOSE       only windows that are complete
    SELECT /*+ plan(delta) */ ...                          how joins are kept (`everview.sql.select.join_plans`)

Two liberties follow Liu's thesis: a statement may end with a bracket if the next begins with CREATE, and `WITH
RECURSIVE r AS (...)` without a query creates a view for each name.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from everview.codes.digits import whole_number
from everview.sql.select.join_plans import hinted
from everview.sql.text import foreign_syntax, keywords, misspellings, syntax_errors
from everview.sql.text.annotations import SESSION, WINDOW, Notes, TableWindow, WatermarkNote
from everview.sql.text.call_names import PARSERS_OWN
from everview.sql.text.consumed_parts import recorded
from everview.sql.text.dialects import DEFAULT, protected, reader
from everview.sql.text.equivalent_forms import rephrased
from everview.sql.text.error_positions import Source, SqlError
from everview.sql.text.tokens import (
    MOST_NESTED,
    deep_brackets,
    empty_lists,
    stray_commas,
    stray_units,
    stray_words,
    typed_numbers,
)
from everview.sql.text.word_order import misplaced

Remove = Callable[[int, int], None]
"""Blanks out tokens, from one to another."""

QUERIES = (exp.Query, exp.Values)
"""What can be asked: VALUES too."""

SECONDS = {"time": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


@dataclass(frozen=True)
class Statement:
    """One statement: its text with everything else blanked, and its annotations."""

    text: str
    notes: Notes
    first: str
    """its first word in upper case"""
    start: str
    """its first two words"""
    tokens: tuple[Token, ...] = ()
    """what it is made of, without what was noted"""

    dialect: str = DEFAULT
    plain: bool = False
    """whether the tokens are the text's: nothing was written in place of something else"""
    shown: str = ""
    """the text as it was written, which errors show"""

    def source(self) -> Source:
        """The text to find places in."""
        return Source(self.text, self.notes, self.tokens, self.dialect, is_cut=self.plain, shown=self.shown)


def line_of(statement: Statement) -> int:
    """The line where a statement begins.

    >>> [line_of(s) for s in statements("SELECT 1;\\n\\nSELECT 2")]
    [1, 3]
    """
    return statement.text[: statement.tokens[0].start].count("\n") + 1 if statement.tokens else 1


def deepest(statement: Statement) -> int:
    """Where a statement is nested most deeply, by its brackets and CASEs; where it begins if it has none.

    >>> deepest(next(statements("SELECT (a), (((b))) FROM t")))
    14
    """
    depth, most, place = 0, 0, 0
    for token in statement.tokens:
        opens = token.token_type in (TokenType.L_PAREN, TokenType.CASE)
        depth += opens - (token.token_type in (TokenType.R_PAREN, TokenType.END))
        if opens and depth > most:
            most, place = depth, token.start
    return place


def statements(text: str, dialect: Callable[[], str] = lambda: DEFAULT) -> Iterator[Statement]:
    """The statements of a text; `dialect` tells before each in which it is written.

    >>> [(s.text.strip(), s.notes.as_of) for s in statements("SELECT 1; SELECT x FROM t AS OF 3")]
    [('SELECT 1', None), ('SELECT x FROM t', 3)]
    """
    start = 0
    while start < len(text):
        current = dialect()
        tokens, end = _tokens(text, start, current)
        for part in _parts(tokens):
            yield replace(_noted(text, part), dialect=current)
            start = part[-1].end + 1
            if current != dialect():
                break
        else:
            start = end


# a prepared statement or a dashboard runs the same text repeatedly, and parsing is most of the cost of a small
# statement, so tokens and trees of the last few texts are cached; tokens are immutable, trees are copied, because
# binding records in them what was read

KEPT, KEPT_LETTERS = 256, 2_000
"""Texts of which tokens and trees are kept, and how long they may be."""


def _tokenized(text: str, dialect: str) -> Sequence[Token]:
    return (_tokenized_once if len(text) <= KEPT_LETTERS else _tokenized_once.__wrapped__)(text, dialect)


@lru_cache(KEPT)
def _tokenized_once(text: str, dialect: str) -> tuple[Token, ...]:
    return tuple(sqlglot.tokenize(_guarded(text, dialect), read=reader(dialect)))


def _tree(text: str, dialect: str, tokens: Sequence[Token] | None = None) -> exp.Expr:
    """sqlglot's tree. Known tokens of a long text are reused."""
    if len(text) <= KEPT_LETTERS:
        return _tree_once(text, dialect).copy()
    if tokens is None:
        return _tree_once.__wrapped__(text, dialect)
    return _read(lambda: _only(reader(dialect)().parser().parse(list(tokens), _guarded(text, dialect))))


@lru_cache(KEPT)
def _tree_once(text: str, dialect: str) -> exp.Expr:
    return _read(lambda: sqlglot.parse_one(_guarded(text, dialect), read=reader(dialect)))


def _only(trees: list[exp.Expr | None]) -> exp.Expr:
    if trees[0] is None:
        raise ParseError("there is no statement")
    return trees[0]


def _read(parse: Callable[[], exp.Expr]) -> exp.Expr:
    try:
        return parse()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, (ParseError, TokenError)):
            raise
        raise ParseError("this is not SQL that can be read") from None  # the parser itself fails on it


def _guarded(text: str, dialect: str) -> str:
    return protected(text) if dialect == DEFAULT else text


_SET_DIALECT = re.compile(r"\bset\s+dialect\b[^;]*;", re.IGNORECASE)


def _tokens(text: str, start: int, dialect: str) -> tuple[list[Token], int]:
    """The tokens from an offset on, and their end: after SET dialect, if the rest depends on it."""
    blank = re.sub(r"[^\n]", " ", text[:start])
    try:
        return list(_tokenized(blank + text[start:], dialect)), len(text)
    except TokenError:
        change = _SET_DIALECT.search(text, start)
        if change is not None and change.end() < len(text):
            return _tokens(text[: change.end()], start, dialect)
        at, what = syntax_errors.never_closed(text, start)
        raise Source(text).error_at(at, "E_SYNTAX", what) from None


def _parts(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        closed = depth == 0 and bool(part) and part[-1].token_type == TokenType.R_PAREN
        if token.token_type == TokenType.SEMICOLON or (token.token_type == TokenType.CREATE and closed):
            if part:
                yield part
            part = []
        if token.token_type != TokenType.SEMICOLON:
            part.append(token)
    if part:
        yield part


def _noted(text: str, tokens: list[Token]) -> Statement:
    """Blank out the surroundings of the statement, and the annotated syntax."""
    notes = Notes(plan=hinted(tokens))
    blank = re.sub(r"[^\n]", " ", text)
    shown = blank[: tokens[0].start] + text[tokens[0].start : tokens[-1].end + 1]
    letters = list(shown)

    kept = list(tokens)

    def remove(first: int, last: int) -> None:
        start, end = tokens[first].start, tokens[last].end + 1
        letters[start:end] = blank[start:end]
        kept[:] = [t for t in kept if not start <= t.start < end]

    rewritten = False

    def write(place: int, word: str) -> None:
        nonlocal rewritten
        rewritten = True
        token = tokens[place]
        letters[token.start : token.end + 1] = word.ljust(token.end + 1 - token.start)
        words[place] = word.upper()
        kept[:] = [t for t in kept if t.start != token.start]

    words = [t.text.upper() for t in tokens]
    foreign_syntax.note(text, tokens, words, notes, remove, write)
    depth = 0
    for i in range(len(tokens)):
        depth += (words[i] == "(") - (words[i] == ")")
        if words[i] == "RECURSIVE" and words[i + 1 : i + 2] == ["("] and words[i + 3 : i + 4] == ["AT"]:
            _note_limit(text, words, tokens, i + 1, notes, remove)
        elif words[i] == "[" and words[i + 1 : i + 2] == ["SIZE"] and i:
            notes.windows[tokens[i - 1].start] = _window(text, words, tokens, i, remove)
        elif words[i : i + 2] == ["AS", "OF"] and tokens[i + 2 : i + 3] and words[i + 2].isdecimal() and depth == 0:
            notes.as_of = whole_number(words[i + 2])
            named = words[max(0, i - 2) : i] == ["FOR", "SYSTEM_TIME"]
            remove(i - 2 if named else i, i + 2)
        elif words[i] in _WINDOWS and words[i + 1 : i + 2] == ["("] and _is_foreign_window(words, i):
            _unwrap(text, words, tokens, i, notes, remove)
        elif words[i] == "OVERRIDING" and words[0] in ("INSERT", "WITH") and words[i + 2 : i + 3] == ["VALUE"]:
            _note_overriding(text, words, tokens, i, notes, remove)
        elif words[i : i + 2] == ["WATERMARK", "FOR"] and depth == 1 and words[:2] == ["CREATE", "TABLE"]:
            _note_watermark(text, blank, words, tokens, i, notes, remove)
    if words[0] == "CREATE" and words[-4:] == ["EMIT", "ON", "WINDOW", "CLOSE"]:
        notes.emit_at = tokens[-4].start
        remove(len(tokens) - 4, len(tokens) - 1)
    calls = {a for a, b in itertools.pairwise(words) if b == "("}
    notes.emits_rows = notes.emit_at is not None and calls.isdisjoint(_WINDOWS)
    notes.definitions = _only_defines(words)
    return Statement(
        "".join(letters) + (" SELECT 1" if notes.definitions else ""),
        notes,
        words[0],
        " ".join(words[:2]),
        tuple(kept),
        plain=not rewritten and not notes.definitions,
        shown=shown,
    )


def _note_overriding(text: str, words: list[str], tokens: list[Token], at: int, notes: Notes, remove: Remove) -> None:
    """INSERT INTO t [(columns)] OVERRIDING {SYSTEM | USER} VALUE VALUES ..."""
    if words[at + 1] not in ("SYSTEM", "USER") or words.count("OVERRIDING") > 1 or words.count("INSERT") > 1:
        raise Source(text).error_at(tokens[at].start, "E_SYNTAX", "OVERRIDING is not expected here", _OVERRIDING)
    notes.overriding = words[at + 1]
    remove(at, at + 2)


_OVERRIDING = "INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (...): once in a statement"


_WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")


_ARGUMENTS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
"""The names of arguments, in the order in which we take them."""


def _is_foreign_window(words: list[str], at: int) -> bool:
    """Whether the arguments are as Flink and Calcite write them, in TABLE(...) or not: TABLE t, or DATA => TABLE t."""
    return (
        words[at - 2 : at] == ["TABLE", "("] or words[at + 2 : at + 3] == ["TABLE"] or words[at + 3 : at + 4] == ["=>"]
    )


def _unwrap(text: str, words: list[str], tokens: list[Token], at: int, notes: Notes, remove: Remove) -> None:
    """[TABLE(]TUMBLE(TABLE t, DESCRIPTOR(ts), ...)[)] as Flink and Calcite write it is TUMBLE(t, ts, ...); arguments
    may have names, DATA => TABLE t, if they stand in order.
    """
    depth, named, end = 0, 0, len(words)
    for i in range(at + 1, len(words)):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0:
            end = i
            break
        if depth == 1 and words[i + 1 : i + 2] == ["=>"]:
            names = _ARGUMENTS[words[at]]
            if words[i] != (names[named] if named < len(names) else ""):
                hint = f"in this order: {', '.join(names)}"
                what = f"{tokens[i].text} is not expected here"
                raise Source(text).error_at(tokens[i].start, "E_SYNTAX", what, hint)
            named += 1
            remove(i, i + 1)
        elif words[i] == "TABLE" and words[i - 1] in ("(", "=>"):
            notes.described.update(t.start for t in tokens[i + 1 : i + 2])
            remove(i, i)
        elif words[i : i + 2] == ["DESCRIPTOR", "("] and words[i + 3 : i + 4] == [")"]:
            remove(i, i + 1)
            remove(i + 3, i + 3)
        elif words[i] == "PARTITION BY" and words[at] == "SESSION":
            _note_partition(text, words, tokens, i, notes, remove)
    if words[at - 2 : at] == ["TABLE", "("] and words[end + 1 : end + 2] == [")"]:
        remove(at - 2, at - 1)
        remove(end + 1, end + 1)


def _note_partition(text: str, words: list[str], tokens: list[Token], at: int, notes: Notes, remove: Remove) -> None:
    """SESSION(TABLE t PARTITION BY a, b, DESCRIPTOR(ts), ...): the keys belong to the table's name; or (a, b)."""
    end = next((i for i in range(at, len(words)) if words[i : i + 2] == [",", "DESCRIPTOR"]), None)
    names = tokens[at + 1 : end]
    if len(names) > 2 and (names[0].text, names[-1].text) == ("(", ")"):
        names = names[1:-1]
    if end is None or not names or any(t.text != "," for t in names[1::2]) or any(t.text == "," for t in names[::2]):
        hint = "SESSION(TABLE t PARTITION BY a, b, DESCRIPTOR(ts), INTERVAL '5' MINUTES)"
        raise Source(text).error_at(tokens[at].start, "E_SYNTAX", "PARTITION BY names columns, before DESCRIPTOR", hint)
    notes.session_keys[tokens[at - 1].start] = tuple(t.text for t in names[::2])
    remove(at, end - 1)


def _note_limit(text: str, words: list[str], tokens: list[Token], at: int, notes: Notes, remove: Remove) -> None:
    """(ERROR AT RECURSION LIMIT n) or (RETURN AT RECURSION LIMIT n)"""
    form = words[at + 1 : at + 7]
    known = len(form) == 6 and form[0] in ("ERROR", "RETURN") and form[1:4] == ["AT", "RECURSION", "LIMIT"]
    if not known or not form[4].isdecimal() or form[5:] != [")"] or at + 7 >= len(tokens):
        hint = "WITH RECURSIVE (RETURN AT RECURSION LIMIT 10) name AS (...); ERROR instead of RETURN fails there"
        what = "the limit of a recursion is not understood"
        raise Source(text).error_at(tokens[at].start, "E_SYNTAX", what, hint)
    notes.limits[tokens[at + 7].start] = (form[0].lower(), whole_number(form[4]))
    remove(at, at + 6)


def _note_watermark(
    text: str, blank: str, words: list[str], tokens: list[Token], at: int, notes: Notes, remove: Remove
) -> None:
    """WATERMARK FOR column AS expression, up to the comma or bracket behind it"""
    depth, end = 0, at
    while end + 1 < len(words) and not (depth == 0 and words[end + 1] in (",", ")")):
        end += 1
        depth += (words[end] == "(") - (words[end] == ")")
    if words[at + 3 : at + 4] != ["AS"] or end < at + 4 or notes.watermark is not None:
        what = "this watermark is not understood, or is the second of the table"
        hint = "WATERMARK FOR ts AS ts - INTERVAL '5 seconds'"
        raise Source(text).error_at(tokens[at].start, "E_SYNTAX", what, hint)
    start, first, last = tokens[at].start, tokens[at + 4].start, tokens[end].end + 1
    query = f"{blank[:start]}SELECT{blank[start + len('SELECT') : first]}{text[first:last]}"
    notes.watermark = WatermarkNote(tokens[at + 2].text, tokens[at + 2].start, query)
    before = words[at - 1] == ","
    remove(at - before, end + (not before and words[end + 1 : end + 2] == [","]))


def _window(text: str, words: list[str], tokens: list[Token], at: int, remove: Remove) -> TableWindow:
    """[size n time|tuple ... [partition by a, b]]"""
    end = next((j for j in range(at, len(words)) if words[j] == "]"), len(words) - 1)
    inside = words[at + 2 : end]
    unit = inside[1].lower() if len(inside) > 1 else ""
    unit = unit[:-1] if unit.endswith("s") else unit
    partition = tokens[at + 5 : end]
    names = tuple(t.text for t in partition if t.token_type != TokenType.COMMA)
    good = bool(inside) and inside[0].isdecimal() and whole_number(inside[0]) > 0 and words[end] == "]"
    if good and unit in SECONDS and len(inside) == 2:
        remove(at, end)
        return TableWindow(microseconds=whole_number(inside[0]) * SECONDS[unit] * 1_000_000)
    if good and unit == "tuple" and (len(inside) == 2 or (inside[2] == "PARTITION BY" and names)):
        remove(at, end)
        return TableWindow(tuples=whole_number(inside[0]), partition=names)
    what = "this window on a table is not understood"
    hint = "[size 300 time], [size 5 minutes], [size 10 tuple] or [size 1 tuple partition by a, b]"
    raise Source(text).error_at(tokens[at].start, "E_SYNTAX", what, hint)


def _only_defines(words: list[str]) -> bool:
    """Whether a statement is WITH and its queries, and nothing after them."""
    if words[0] != "WITH" or words[-1] != ")":
        return False
    depth, opened = 0, 0
    for i, word in enumerate(words):
        if word == "(" and depth == 0:
            opened = i
        depth += (word == "(") - (word == ")")
    return words[opened - 1] in ("AS", "MATERIALIZED")


def respoken(statement: Statement) -> Statement:
    """What follows the first word of a statement that sqlglot takes for a command, as a single token."""
    text = statement.text
    start = len(text) - len(text.lstrip())
    end = start + len(statement.first)
    blank = text[:start] + " " * (end - start) + text[end:]
    found = next(statements(blank, lambda: statement.dialect), replace(statement, text=blank, tokens=()))
    return replace(found, shown=statement.shown)


def parsed(source: Source) -> exp.Expr:
    """sqlglot's tree of one statement."""
    for token in stray_commas(source.tokens, source.dialect):
        check_start(source)
        raise source.error_at(
            token.start, "E_SYNTAX", "nothing is listed before or after this comma", misspellings.STRAY_COMMA
        )
    for token in empty_lists(source.tokens):
        check_start(source)
        what = "ON" if token.text == "(" else token.text.upper()
        raise source.error_at(token.start, "E_SYNTAX", f"nothing is listed after {what}", "name a column")
    for token in stray_units(source.tokens) if source.dialect == DEFAULT else ():
        hint = f"write interval '1' {token.text}, or AS {token.text} if it is a name"
        raise source.error_at(token.start, "E_SYNTAX", f"{token.text} is not expected here", hint)
    for token, kind in deep_brackets(source.tokens, source.dialect):
        what, hint = f"more than {MOST_NESTED[kind]} {kind} are nested", "compute parts of it in views of their own"
        raise source.error_at(token.start, "E_DEPTH", what, hint)
    for token in stray_words(source.tokens):
        raise source.error_at(token.start, "E_SYNTAX", f"{token.text} is not expected here", "remove it")
    for token in typed_numbers(source.tokens) if source.dialect == DEFAULT else ():
        hint = f"a value of a type is {token.text}::type, or type '{token.text}'"
        raise source.error_at(token.start, "E_SYNTAX", f"{token.text} is not expected here", hint)
    for found in misplaced(source.tokens) if source.dialect == DEFAULT else ():
        check_start(source)
        raise source.error_at(found.token.start, "E_SYNTAX", found.what, found.hint)
    _check_calls(source)
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns about commands, which are refused here
    try:
        text = _without_keywords(source)
        cut = source.tokens if source.is_cut and text is source.text and len(text) > KEPT_LETTERS else None
        node = _tree(text, source.dialect, cut)
    except (ParseError, TokenError) as error:
        raise _syntax_error(error, source) from None
    if isinstance(node, exp.Command):  # sqlglot gives up on the statement as a whole
        word = misspellings.found(source, len(source.text), readable(source.dialect))
        if word is not None:
            raise word.error(source)
    if source.notes.recursive is not None:
        _recursive(node, source)
    return recorded(rephrased(node, text))


def _recursive(node: exp.Expr, source: Source) -> None:
    """CREATE RECURSIVE VIEW v (x) AS query: the view of WITH RECURSIVE v (x) AS (query) SELECT * FROM v."""
    target = node.this if isinstance(node, exp.Create) else None
    if not isinstance(target, exp.Schema) or not isinstance(node.args.get("expression"), exp.Query):
        hint = "CREATE RECURSIVE VIEW v (x) AS SELECT ... UNION SELECT ... FROM v"
        at = source.notes.recursive or 0
        raise source.error_at(at, "E_SYNTAX", "a recursive view lists its columns and has a query", hint)
    name = target.this.this
    alias = exp.TableAlias(this=name.copy(), columns=[c.copy() for c in target.expressions])
    cte = exp.CTE(this=node.args["expression"], alias=alias)
    query = exp.select("*").from_(exp.Table(this=name.copy()))
    query.set("with_", exp.With(expressions=[cte], recursive=True))
    node.set("expression", query)


def _check_calls(source: Source) -> None:
    """Refuse names by which sqlglot calls functions among itself: ts_or_ds_add(1, 2) is nobody's SQL."""
    for token, following in itertools.pairwise(source.tokens):
        is_call = following.token_type == TokenType.L_PAREN and token.token_type == TokenType.VAR
        if is_call and token.text.lower() in PARSERS_OWN:
            raise source.error_at(token.start, "E_UNSUPPORTED", f"there is no function {token.text}")


def readable(dialect: str) -> Callable[[str], bool]:
    """Whether a text is one statement that can be read."""

    def reads(text: str) -> bool:
        try:
            [statement] = statements(text, lambda: dialect)
            tree = _tree_once.__wrapped__(_without_keywords(statement.source()), dialect)
        except (SqlError, ParseError, TokenError, ValueError):
            return False
        return isinstance(tree, _STATEMENT_NODES)

    return reads


_STATEMENT_NODES = (
    *QUERIES, exp.Create, exp.Drop, exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.TruncateTable, exp.Set,
    exp.Describe, exp.Use, exp.Transaction, exp.Commit, exp.Rollback,
)  # fmt: skip
"""What a statement is read as; anything else is an expression, or one that sqlglot does not know."""


def _without_keywords(source: Source) -> str:
    """The text with SESSION(...) and GROUP BY window(...) renamed to non-keywords of the same length."""
    text = source.text
    for before, token, following in zip(source.tokens, source.tokens[1:], source.tokens[2:], strict=False):
        kinds = before.token_type, token.token_type, following.token_type
        if kinds == (TokenType.GROUP_BY, TokenType.WINDOW, TokenType.L_PAREN):
            text = f"{text[: token.start]}{WINDOW}{text[token.end + 1 :]}"
    for token, following in itertools.pairwise(source.tokens):
        if token.token_type == TokenType.SESSION and following.token_type == TokenType.L_PAREN:
            text = f"{text[: token.start]}{SESSION}{text[token.end + 1 :]}"
    return text


def check_kind(source: Source, verb: str) -> None:
    """Raise the error of a CREATE or DROP of something there is not: CREATE VEIW."""
    before = {verb, *keywords.BEFORE_KINDS}
    word = next((t for t in source.tokens if t.text.upper() not in before), None)
    if word is not None and word.text.upper() not in keywords.KINDS:
        known = (*keywords.KINDS, *keywords.BEFORE_KINDS)
        hint = keywords.did_you_mean(word.text, known) or f"{verb} is followed by {', '.join(keywords.KINDS)}"
        raise source.error_at(word.start, "E_SYNTAX", f"there is no {verb} {word.text}", hint)


def check_setting(source: Source) -> None:
    """Raise the error of a SET of something there is not: SET TIEM ZONE."""
    word = source.tokens[1]
    hint = keywords.did_you_mean(word.text, keywords.SETTINGS)
    if hint:
        raise source.error_at(word.start, "E_SYNTAX", f"there is no setting {word.text}", hint)


def check_query(source: Source) -> None:
    """Raise the syntax error of the query in a CREATE ... AS, which sqlglot gives up on as a whole."""
    depth = 0
    for token in source.tokens:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.ALIAS and depth == 0:
            blank = re.sub(r"[^\n]", " ", source.text[: token.end + 1])
            rest = blank + source.text[token.end + 1 :]
            parsed(Source(rest, source.notes, dialect=source.dialect, shown=source.shown))
            return


LONGEST_CUT = 200
"""So many tokens of a statement are left out, one after the other, to find where it can no longer be read."""


def check_rest(source: Source) -> None:
    """Raise the error of a CREATE that sqlglot gives up on, at the first word behind all that can be read."""
    reads, tokens = readable(source.dialect), source.tokens
    for token in reversed(tokens[3:][-LONGEST_CUT:]):
        if reads(source.text[: token.start]):
            raise source.error_at(token.start, "E_SYNTAX", f"{token.text} is not expected here")


def _incomplete(kind: str, before: Sequence[str]) -> str:
    """What is incomplete, in the words of the text: the function whose brackets are open."""
    depth = 0
    for i in range(len(before) - 1, 0, -1):
        depth += (before[i] == ")") - (before[i] == "(")
        if depth < 0:
            name = before[i - 1]
            if name.isidentifier() and name.upper() not in keywords.KEYWORDS:
                return f"{name} lacks an argument"
            return f"a part of {name.upper()} is missing" if name.isidentifier() else "a part is missing"
    known = kind.upper() in keywords.KEYWORDS and kind != "Add"  # which is a plus sign
    return f"a part of {kind.upper()} is missing" if known else "a part is missing"


def check_start(source: Source) -> None:
    """Raise the error of a text whose first word begins no statement."""
    start = source.tokens[0] if source.tokens else None
    if start is not None and start.text.isalpha() and start.text.upper() not in keywords.STARTS:
        hint = keywords.did_you_mean(start.text, keywords.STARTS)
        hint = hint or f"statements begin with {', '.join(keywords.STARTS[:23])}"
        raise source.error_at(start.start, "E_SYNTAX", f"no statement begins with {start.text}", hint)


def _syntax_error(error: ParseError | TokenError, source: Source) -> SqlError:
    check_start(source)
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    line, column = found.get("line") or 1, found.get("col") or 1
    near = found.get("highlight")
    length = len(near) if near else 1
    at = max(1, column - length + 1)
    word = misspellings.found(source, source.offset(line, at), readable(source.dialect))
    if word is not None:
        return word.error(source)
    what = str(found.get("description") or str(error).splitlines()[0]).rstrip(".")
    what = re.sub(r" but got <Token.*", "", what)
    before = [t.text for t in source.tokens if source.line_and_column(t.start) < (line, at)]
    if before and before[-1].upper() in ("GROUP", "ORDER", "PARTITION"):
        said = f"BY is missing after {before[-1].upper()}"
        return source.error_at(source.offset(line, at), "E_SYNTAX", said, f"{before[-1].upper()} BY {near}")
    what = re.sub(
        r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>", lambda m: _incomplete(m[1], before), what
    )
    said = syntax_errors.in_our_words(what, near or "")
    if near and near not in said:
        said += f", near {near!r}"
    return source.error_at(source.offset(line, at), "E_SYNTAX", said)
