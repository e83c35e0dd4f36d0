"""What every error code means, and what to do about it: the source of docs/errors.md.

A message says what is wrong in its own case; this says it in general. A test compares the codes here with those in the
sources, so neither can fall behind the other.
"""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """What a code stands for."""

    cause: str
    remedy: str


_TEXT = """
# Values, rows and columns
E_ABSENT | A row to be deleted, or asked about, does not exist. | Delete rows exactly as they were inserted, or by key.
E_APPEND | A row of a closed window would be deleted or changed, and EMIT ON WINDOW CLOSE has told the window. | Correct it by a new row, or drop the view first.
E_CHECK | A row breaks a CHECK of its table, or is not what a generated column says. | Correct the row; the message names the constraint.
E_CODE | A code stands for no known value: the dictionary lacks it. | Load the dictionary that belongs to the data, or encode the values again.
E_CONFLICT | Two dictionaries disagree about the id of a value, or two changes about a row. | Encode from the values instead of the ids; give one change for each key.
E_CONSTANT | A constant of a plan has a type that cannot be saved. | Use a value of a column's type.
E_CONSTRAINT | A constraint of a table would not hold. | Correct the rows that the message shows.
E_FOREIGN_KEY | A row refers to one of another table that is not there. | Insert that one first, or delete the row that refers to it.
E_GENERATED | A value was given for a column that is always computed. | Leave the column out, or give DEFAULT.
E_KEY | A key already exists, is given twice, or does not match the table's key. | Use `upsert` to replace rows, or correct the key.
E_NEGATIVE | A collection has rows with a negative count. | Read `counts()`, or apply `threshold()` or `distinct()`.
E_NO_KEY | The call works by key, and the table has none. | Declare the table with `key=`, or delete whole rows.
E_NULL | NULL was given where it is not allowed. | Declare the column nullable, or give a value.
E_OVERFLOW | A number does not fit: a sum beyond 64 bits, or a row more than 2**62 times. | Cast to float before summing; use `distinct()` before a join.
E_RANGE | A value is outside what its type or an argument can hold. | Give a value within the range that the message names.
E_ROWS | A view holds rows that could not be computed, such as a division by zero. | Correct or delete their inputs, or guard the expression with `when`; `errors()` lists them.
E_SCHEMA | Columns and types are missing, or cannot be inferred from the data. | Give `schema={"column": type}`.
E_TYPE | A value, expression or argument has the wrong type. | Cast it, or give what the message asks for.
E_UNIQUE | Values that are declared UNIQUE would be there twice. | Change one of them, or say ON CONFLICT.
E_WIDTH | A row or tuple has too many or too few values. | Give one value for each column.

# Queries in any language
E_AGGREGATE | An aggregate is used where it cannot be, or in a way that it does not support. | Follow the hint; often a subquery or a second column is needed.
E_AMBIGUOUS | A name could be one of several columns. | Name the collection it comes from, or rename one before the join.
E_ARITY | A function or relation was given the wrong number of arguments. | Give as many as the message says.
E_BOOL | An expression was used as a Python truth value: `and`, `or`, `not`, `if`. | Write `&`, `|`, `~`, `.isin()`, `.between()`.
E_COLUMN | There is no such column. | Check the name; the hint suggests the nearest.
E_DEPTH | Loops, or something else, are nested too deeply. | Flatten some of them.
E_DROPPED | The collection reads a table that was dropped. | Build it again from tables that exist.
E_DUPLICATE | Two things have the same name. | Rename one.
E_EMPTY | The result would have no columns, or a list is empty. | Keep at least one; `lit(1)` will do.
E_FUNCTION | A function is unknown, cannot be used this way, or cannot be stored. | Check its name; open files and create locks inside the function.
E_IN_USE | Something is still read by views, or changed by an open transaction. | Drop the readers first (`cascade=True`), or end the transaction.
E_JOIN | A join has no condition, or one that makes no sense. | Give the columns to join on, or `how="cross"`.
E_LEAK | The variable of a loop is read outside the loop's body. | Use what `iterate()` or `fixpoint()` returns.
E_LITERAL | A constant is needed, or a constant cannot be read. | Write a plain value there.
E_LOOP | A loop is declared incompletely, or with options that exclude each other. | Follow the hint.
E_LOOP_LIMIT | A loop did not converge within its limit of rounds. | Bound what grows in it, or raise `max_rounds`.
E_LOOP_TYPE | A loop's body returns other columns than its variable has. | End the body with a `select` of those columns, in this order.
E_MODE | There is no such mode. | Use one that the hint lists.
E_NAME | A name is taken, missing or not valid. | Choose another, or create it first.
E_NOT_A_TABLE | A query was changed as if it were a table. | Change its tables instead.
E_NOT_COMPUTED | A query was read as if it were a view. | Create a view first: `db.view(name, query)`.
E_OPTION | An option is unknown, has a wrong value, or makes no sense with another. | Use what the hint lists.
E_ORDER | An order is missing, or cannot be used there. | Name the columns to order by.
E_PATTERN | A regular expression, a format or a graph pattern cannot be read. | Correct it where the message points.
E_PLAN | There is no such join plan. | Use one that the hint lists.
E_SESSION | Collections of different sessions are combined. | Copy the rows from one session to the other.
E_UDF | Your Python function raised an exception; the step was undone. | Correct the function, or its input row.
E_UNIT | There is no such unit of time. | Use one that the hint suggests.
E_WINDOW | A window function or window is not allowed there, or is unknown. | Use it in SELECT, QUALIFY or ORDER BY; declare it with WINDOW.

# SQL and the shell
E_COMMAND | The shell has no such command, or it needs a terminal. | Type `help` for a list.
E_DIALECT | There is no such dialect. | Use one that the hint suggests.
E_FORBIDDEN | This needs a right that whoever asks does not have; or there is nothing of that name that they may use. | Have its owner GRANT it; files are for the program, unless the session was opened with `files=True`.
E_ROLE | There is no role of that name, or roles would be members of each other. | Make it with CREATE ROLE.
E_GROUP | A column is neither grouped by nor aggregated. | Add it to GROUP BY, or aggregate it.
E_PARAMETER | A parameter is missing, unknown or given where none is taken. | Name parameters as `$x` and use `db.prepare`.
E_RECURSION | A recursion has no beginning, or a function calls itself. | Add a part that does not recurse; use WITH RECURSIVE.
E_STAR | `*` is not allowed there. | Name the columns.
E_SYNTAX | The text cannot be read. | Correct it at the caret.
E_TABLE | There is no such table, or it is a view and cannot be changed. | Check the name; change the tables that the view is made of.
E_UNSUPPORTED | The statement is understood, but not supported. | The hint names another way, if there is one.

# Datalog
E_ATTRIBUTE | There is no such attribute. | Declare it with `db.attribute`.
E_COMPONENT | A component is unknown, or contains itself. | Check its name.
E_FACT | Something given to `transact` is not a fact. | Use one of the forms in the hint.
E_INTEREST | Nobody is interested in the relation, so it is not installed. | Call `interest()` first.
E_RELATION | There is no such relation. | Check the name; the hint suggests the nearest.
E_SIZE | An aggregate over too many alternatives. | Give the inner part a relation of its own.
E_STRATIFY | A relation depends on its own absence, choice or aggregate. | Break the cycle: negate or aggregate a relation that does not read this one.
E_UNSAFE | A variable gets no value from a positive literal. | Add a relation that binds it.
E_VARIABLE | A variable begins with a lower-case letter. | Begin variables with a capital letter.

# Graphs
E_RPQ | A path expression cannot be read. | Correct it at the caret: labels with `/ * + ? ^ !`, `|` and parentheses.

# Time, history and explanations
E_BOUNDS | A probability is only known to lie between two bounds, and was used as a number. | Take `.lower` or `.upper`, or give `probability` more `nodes`.
E_CLOCK | The clock was moved backwards. | It only moves forward.
E_COMPACTED | That time is too far in the past to be read. | Keep more history: `connect(history=...)` or `db.view(..., history=...)`.
E_DURATION | A duration cannot be read. | Write "5s", "200ms", "2m", "1h", or give a timedelta.
E_FUTURE | That time has not come yet. | Read at `db.time` or before.
E_MONOTONE | A view may have more rows where tables have fewer, so its rows have no such probability, and no provenance can be kept. | Ask about a view below the aggregate or negation, or use `trust` and `what_if`.
E_PROVENANCE | An unknown kind of provenance, or a view without provenance. | Make the view with `provenance="lazy"` or `"bdd"`.
E_PRESENT | `why_not` was called for a row that exists. | Call `why(row)`.
E_TRANSACTION | The call cannot be part of a transaction, or there is none to end. | End the transaction first, or begin one.
E_SERIALIZE | Another transaction has committed in between, and this one cannot be after it. | Run the transaction again.
E_WHAT_IF | A call inside `what_if`, or around it, cannot be undone. | Do it before or after.
E_WHY_DEPTH | An explanation would be too deep. | Make a part of the query a view.

# Sessions, memory and processes
E_AUTH | The server's token is missing or wrong. | Give the token that `everview serve` shows.
E_BUDGET | The memory that a graph's questions may take is spent, and nothing can be dropped; or expressions of provenance have too many nodes together. Answers that are there go on. | Ask less, drop a view, or give it a larger budget; keep `provenance="lazy"`.
E_QUOTA | A role has used up what it was given: connections, subscriptions, views, rows, time or statements a second. | Wait, ask for less, or have its quota raised.
E_BUSY | Too many calls are waiting for the server. | Try again later.
E_CANCELLED | The call was asked to stop, by another thread or process. | Call it again if it is still wanted.
E_CLOSED | The session, table or view is closed or dropped. | Open or create it again; nothing acknowledged is lost.
E_FORBIDDEN_HOST | A request uses a host name or comes from a web page that the server does not know. | Start it with `--name` or `--origin`.
E_INTERNAL | An invariant is broken: a bug in Everview. | Please report it, with the traceback.
E_KERNELS | Compiled kernels are missing, damaged, or cannot be compiled or loaded. | Install `everview[compile]`, or reinstall; `everview doctor` shows more.
E_MEMORY | There is not enough memory; nothing was changed. | Use smaller transactions or narrower joins, or give the process more.
E_MESSAGE | A message between client and server cannot be read. | Use a client as new as the server; see docs/server.md.
E_NOT_FOUND | The URL names a table or view that does not exist. | Check the name; the hint suggests the nearest.
E_PORT | The server cannot listen on the port. | Choose another, or stop the program that uses it.
E_REENTRANT | A function that a step calls tried to change the session. | Change tables in a subscriber instead.
E_TIMEOUT | The call exceeded its time limit and was undone. | Raise the limit, or do less at a time.
E_TARGET | `connect` cannot open what it was given. | Give nothing, a directory, or a SparkSession.
E_SERVER | The server cannot be reached, or closed the connection. | Check address and port, and whether `everview serve` runs there.
E_THREADS | The value is not a number of threads. | Give `threads=1`, `2` or more.
E_TOO_LONG | A request to a server is too long. | Send less at a time.

# Directories and stores
E_DAMAGED | A file of the directory is missing or not as it was written. Nothing is deleted. | Restore the directory from a copy; `everview repair` shows what can be recovered.
E_DISK | A file cannot be read or written: permissions, or no space. | Check the path and free space, and try again.
E_FENCED | Another process has taken the directory over. | Close this session and open the directory again.
E_LOCKED | The directory is open for writing elsewhere. | Close it there, or open it with `read_only=True`.
E_READ_ONLY | The session only reads the directory, or the transaction is READ ONLY. | Change it in the session that writes.
E_SHARDS | The store cannot have that number of shards. | A sharded store has at least one; an embedded one has none.
E_STALE | A reader fell too far behind. | Open the directory again.
E_STATE | There is no such state directory. | Check the path; `--create` makes a new one.
E_STUCK | The process crashed each time it replayed the last record of the log. | Remove the cause and use `everview repair`; `--set-aside` opens it without the record.
E_TORN | A file is truncated. | Restore it from a copy; nothing was changed.
E_TRUST | The directory's views use Python functions that this program did not supply. | Supply them with `functions=[...]`, or `trust=True` if you trust its author.
E_VERSION | The directory was written by another version of Everview. | Open it once to write, or with that version.

# Sources, sinks and pipelines
E_ANSWER | Your source, sink or feed returned something it must not. | Return what the message names.
E_CHANGES | A change feed does not say what happened to a row, or says it in an unknown way. | Name the column with `change_column=`.
E_CHECKPOINT | A stream's checkpoint does not belong to this source. | Follow the hint: use another checkpoint, or the source it belongs to.
E_FILE | A file cannot be read or created. | Check the path.
E_FORMAT | A file or text is not in the format that was named. | Name the right format, or correct the file.
E_NOT_EMPTY | A folder that should be empty has files. | Give another one.
E_NO_FILE | There is no such file. | Check the path.
E_NO_SOURCE | There is nothing to run: the session has no source. | Add one with `db.source`.
E_PIPELINE | The file is not a pipeline, or cannot be run as one. | Give a .sql, .toml or .py file, and correct what the message names.
E_RECORD | A record of a feed cannot be used. | Correct it, or set such records aside with `bad="quarantine"`.
E_SINK | A sink did not accept changes, or cannot be used this way. | Remove the cause and run again; the changes are sent again.
E_SOURCE | A source lacks something, or does not remember who said what. | Follow the hint.
E_SOURCE_CHANGED | A file or iterable has changed since it was read. | Write new records to new files; use `tail=True` for files that grow.

# Spark
E_JAVA | No Java that is new enough for Spark was found. | `pip install 'everview[spark]'`, or set JAVA_HOME.
E_JOB | Spark gave up a step's job; nothing of the step was committed. | The session continues; Spark's log says more.
E_PEER | A message between driver and workers is missing, too large or not from the other side. | Take smaller steps; see Spark's log.
E_REPLICA | A worker built other operators than the driver: a bug in Everview. | Please report it.
E_SPARK | Spark is missing, did not start, has stopped, or is needed. | `everview doctor` checks Java and Spark; embedded sessions need neither.
E_STREAM | A Spark stream failed or did not start. | Remove the cause and run again: it resumes after the last complete step.
E_TASK | A task failed in an unexpected way: a bug in Everview. | Please report it; nothing of the step was committed.
"""


def _sections() -> dict[str, dict[str, Meaning]]:
    sections: dict[str, dict[str, Meaning]] = {}
    for line in _TEXT.strip().splitlines():
        if line.startswith("# "):
            current = sections.setdefault(line.removeprefix("# "), {})
        elif line:
            code, cause, remedy = line.split(" | ")
            current[code] = Meaning(cause, remedy)
    return sections


SECTIONS = _sections()
"""Codes by what they are about, and their meanings."""

CODES = {code: meaning for section in SECTIONS.values() for code, meaning in section.items()}
"""What each code means.

>>> CODES["E_LOCKED"].remedy
'Close it there, or open it with `read_only=True`.'
"""
