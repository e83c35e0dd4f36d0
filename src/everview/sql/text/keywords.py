"""The keywords of our SQL, which a misspelt word may have been meant to be.

They are only used for hints. What a text may contain is decided by the parser and by the readers of single statements.
"""

from __future__ import annotations

from everview.errors import closest

STARTS = (
    "SELECT", "WITH", "VALUES", "CREATE", "DROP", "ALTER", "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY",
    "EXPLAIN", "WHY", "DESCRIBE", "SHOW", "SET", "RESET", "SUBSCRIBE", "RUN", "BEGIN", "COMMIT", "ROLLBACK",
    "SAVEPOINT", "RELEASE", "GRANT", "REVOKE", "REASSIGN", "COMMENT", "REFRESH", "ANALYZE", "VACUUM", "CHECKPOINT",
    "FLUSH", "WAIT", "USE", "START", "FROM", "TABLE", "ABORT", "END",
)  # fmt: skip
"""Words that begin a statement."""

KINDS = (
    "TABLE", "VIEW", "FUNCTION", "SOURCE", "SINK", "INDEX", "SEQUENCE", "TYPE", "SCHEMA", "ROLE", "USER", "POLICY",
    "TOKEN", "EXTENSION", "DOMAIN",
)  # fmt: skip
"""What CREATE makes."""

SETTINGS = ("PLAN", "DIALECT", "ASK", "TIME", "TIMEZONE", "SEARCH_PATH", "ROLE", "TRANSACTION")
"""What SET sets."""

BEFORE_KINDS = (
    "OR", "REPLACE", "TEMP", "TEMPORARY", "MATERIALIZED", "RECURSIVE", "UNIQUE", "GLOBAL", "LOCAL", "UNLOGGED",
)  # fmt: skip
"""Words between CREATE and what it makes."""

RESERVED = frozenset({
    "ALL", "ANALYZE", "AND", "ANY", "ARRAY", "AS", "ASC", "ASYMMETRIC", "AUTHORIZATION", "BINARY", "BOTH", "CASE",
    "CAST", "CHECK", "COLLATE", "COLLATION", "COLUMN", "CONCURRENTLY", "CONSTRAINT", "CREATE", "CROSS", "CURRENT_DATE",
    "CURRENT_TIME", "CURRENT_TIMESTAMP", "DEFAULT", "DEFERRABLE", "DESC", "DISTINCT", "DO", "ELSE", "END", "EXCEPT",
    "FALSE", "FETCH", "FOR", "FOREIGN", "FROM", "FULL", "GRANT", "GROUP", "HAVING", "ILIKE", "IN", "INITIALLY", "INNER",
    "INTERSECT", "INTO", "IS", "ISNULL", "JOIN", "LATERAL", "LEADING", "LEFT", "LIKE", "LIMIT", "LOCALTIME",
    "LOCALTIMESTAMP", "NATURAL", "NOT", "NOTNULL", "NULL", "OFFSET", "ON", "ONLY", "OR", "ORDER", "OUTER", "OVERLAPS",
    "PLACING", "PRIMARY", "REFERENCES", "RETURNING", "RIGHT", "SELECT", "SIMILAR", "SOME", "SYMMETRIC", "TABLE",
    "TABLESAMPLE", "THEN", "TO", "TRAILING", "TRUE", "UNION", "UNIQUE", "USING", "VARIADIC", "VERBOSE", "WHEN", "WHERE",
    "WINDOW", "WITH",
})  # fmt: skip
"""Words that name no table unless they are quoted: a clause or an operator begins with them."""

KEYWORDS = tuple(
    dict.fromkeys(
        (
            *STARTS, *KINDS, *BEFORE_KINDS,
            "DISTINCT", "ALL", "AS", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "ASC", "DESC", "NULLS", "FIRST",
            "LAST", "LIMIT", "OFFSET", "FETCH", "NEXT", "ROW", "ROWS", "ONLY", "TIES", "UNION", "INTERSECT", "EXCEPT",
            "JOIN", "LEFT", "RIGHT", "FULL", "OUTER", "INNER", "CROSS", "NATURAL", "LATERAL", "ASOF", "SEMI", "ANTI",
            "ON", "USING", "WINDOW", "QUALIFY", "OVER", "PARTITION", "RANGE", "GROUPS", "UNBOUNDED", "PRECEDING",
            "FOLLOWING", "CURRENT", "EXCLUDE", "FILTER", "WITHIN", "GROUPING", "SETS", "ROLLUP", "CUBE", "ORDINALITY",
            "AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "ILIKE", "SIMILAR", "ESCAPE", "BETWEEN",
            "SYMMETRIC", "EXISTS", "ANY", "SOME", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "EXTRACT", "INTERVAL",
            "ARRAY", "COLLATE", "BOTH", "LEADING", "TRAILING", "PLACING", "FOR", "TO", "AT", "ZONE", "OF",
            "INTO", "DEFAULT", "CONFLICT", "DO", "NOTHING", "RETURNING", "MATCHED", "IF", "RESTART", "CONTINUE",
            "IDENTITY", "CASCADE", "RESTRICT", "PRIMARY", "KEY", "FOREIGN", "REFERENCES", "UNIQUE", "CHECK",
            "CONSTRAINT", "GENERATED", "ALWAYS", "STORED", "INCLUDING", "EXCLUDING", "WATERMARK", "LATENESS", "TTL",
            "EMIT", "CLOSE", "SYSTEM_TIME", "TUMBLE", "HOP", "CUMULATE", "SESSION", "COLUMN", "ADD", "RENAME", "ENABLE",
            "DISABLE", "LEVEL", "SECURITY", "OWNER", "ENUM", "INCREMENT", "MINVALUE", "MAXVALUE", "CYCLE", "CACHE",
            "RETURNS", "RETURN", "LANGUAGE", "SQL", "IMMUTABLE", "STABLE", "VOLATILE", "STRICT", "FORMAT", "HEADER",
            "DELIMITER", "QUOTE", "OPTION", "PRIVILEGES", "TABLES", "VIEWS", "SCHEMAS", "COLUMNS", "INDEXES",
            "FUNCTIONS", "TYPES", "WATERMARKS", "LOGIN", "PASSWORD", "PERMISSIVE", "RESTRICTIVE", "PLAN", "UNTIL",
            "CAUGHT", "UP", "WITHOUT", "SNAPSHOT", "TIME", "RECURSION", "ERROR", "DOUBLE", "PRECISION", "VARYING",
            "TIMESTAMP", "DATE", "TRANSACTION", "WORK", "DIALECT", "SEARCH_PATH", "TRIM", "SUBSTRING", "OVERLAY",
            "POSITION", "DESCRIPTOR", "SYSTEM", "ENCODING", "CONCURRENTLY", "DEFAULTS", "CONSTRAINTS", "ADMIN", "OWNED",
        )
    )
)  # fmt: skip
"""Words that a misspelt one may be."""


def near(word: str, among: tuple[str, ...] = KEYWORDS, count: int = 4, alike: float = 0.65) -> list[str]:
    """The keywords that a word may have been meant to be, the nearest first.

    >>> near("FORM"), near("YB"), near("customer_id")
    (['FROM', 'FOR', 'FORMAT', 'OR'], ['BY'], [])
    """
    upper = word.upper()
    if len(word) < 2 or not word.isidentifier():
        return []
    return [k for k in closest(word, among, count + 1, alike) if k != upper][:count]


def did_you_mean(word: str, among: tuple[str, ...] = KEYWORDS) -> str:
    """A hint if the word is nearly a keyword, else nothing.

    >>> did_you_mean("SELCT"), did_you_mean("x")
    ("did you mean 'SELECT'?", '')
    """
    found = [] if word.upper() in among else near(word, among, 1)
    return f"did you mean {found[0]!r}?" if found else ""
