"""Row policies: which rows of a table or view a role may see, change and insert.

    CREATE POLICY name ON t [AS PERMISSIVE | RESTRICTIVE] [FOR ALL | SELECT | INSERT | UPDATE | DELETE]
        [TO role, ...] [USING (condition)] [WITH CHECK (condition)]
    ALTER POLICY name ON t ...,  DROP POLICY [IF EXISTS] name ON t
    ALTER TABLE | VIEW t ENABLE | DISABLE | FORCE | NO FORCE ROW LEVEL SECURITY

A condition may read `current_setting('tenant')`, an attribute of the current user, and `current_user`. Permissive
policies are combined by OR, restrictive ones by AND; if row security is enabled and no policy admits a row, it does not
exist. Owners, superusers and roles with BYPASSRLS see all rows.

Names in a condition are looked up in `public`, whatever search path the reader has: else a tenant could put a table of
its own before one that the condition reads (`path_of_policies`).

A table is replaced by `(SELECT * FROM t WHERE condition)` where its name is bound (`visible`): in every statement, and
below all its expressions, so that no error can reveal hidden rows. The condition itself is bound with its author's
rights: the tables that it reads need not be granted to its readers, but its author must see all of them, when it is
written and whenever it is used (`Access.is_founded`).

Rights are those of now, also to what was there before: AS OF, a table has the rows of that time, and the tables that
its policies read have those of today. Whoever has lost a membership has lost the past with it.

In a one-off query `current_setting` is a constant. In one maintained for several tenants it is a parameter of one
dataflow (`everview.sql.rights.shared_queries`).

Views can have policies, too. A view reads with the rights of its creator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.errors import EverviewError, PlanError, did_you_mean
from everview.expr.nodes import ColumnRef
from everview.language.relation import relation_of
from everview.plan import joins
from everview.plan import nodes as plan
from everview.session.clock.follower import RESERVED_PREFIX
from everview.session.rights.access import NO_RIGHTS, Access, forbidden
from everview.session.rights.principal import Anybody, Author, Principal, acting, as_text
from everview.session.rights.roles import PUBLIC, Policy
from everview.session.sql_settings import CURRENT, SqlSettings, settings_of_call
from everview.sql.ddl import schemas
from everview.sql.rights import roles
from everview.sql.select.scopes import Field, Relation
from everview.sql.text import consumed_parts, statement_reader
from everview.sql.text.error_positions import Source, SqlError
from everview.sql.text.token_reader import Words

if TYPE_CHECKING:
    from everview.sql.select.compiler import Compiler
    from everview.sql.statements import Statements

COMMANDS = ("ALL", "SELECT", "INSERT", "UPDATE", "DELETE")

UNKNOWN = "(unknown)"
"""What a policy reads that calls a function whose body cannot be bound: nobody's table."""


# statements


def create(sql: Statements, statement: statement_reader.Statement) -> None:
    """CREATE POLICY"""
    words = Words(statement)
    words.need("CREATE", "POLICY")
    at = words.at
    name = words.name("a policy").lower()
    table = _table(sql, words)
    rights = sql.core.access.rights.get(("relation", table), NO_RIGHTS)
    if any(p.name == name for p in rights.policies):
        words.at = at
        raise words.error(f"policy {name} on {table} already exists", "ALTER POLICY changes it", "E_NAME")
    restrictive = False
    if words.next_is("AS"):
        restrictive = words.choose("PERMISSIVE", "RESTRICTIVE") == "RESTRICTIVE"
    command = words.choose(*COMMANDS) if words.next_is("FOR") else "ALL"
    policy = _clauses(sql, words, table, Policy(name, command, restrictive=restrictive))
    if not sql.dry:
        sql.core.access.set_rights("relation", table, replace(rights, policies=(*rights.policies, policy)))


def alter(sql: Statements, statement: statement_reader.Statement) -> None:
    """ALTER POLICY name ON t RENAME TO other | [TO ...] [USING ...] [WITH CHECK ...]"""
    words = Words(statement)
    words.need("ALTER", "POLICY")
    name = words.name("a policy").lower()
    table = _table(sql, words)
    rights = sql.core.access.rights.get(("relation", table), NO_RIGHTS)
    old = _policy(words, rights.policies, name, table)
    if words.next_is("RENAME", "TO"):
        new = replace(old, name=words.name("a policy").lower())
        words.end()
    else:
        new = _clauses(sql, words, table, old)
    policies = tuple(new if p is old else p for p in rights.policies)
    if not sql.dry:
        sql.core.access.set_rights("relation", table, replace(rights, policies=policies))


def drop(sql: Statements, statement: statement_reader.Statement) -> None:
    """DROP POLICY [IF EXISTS] name ON t"""
    words = Words(statement)
    words.need("DROP", "POLICY")
    optional = words.next_is("IF", "EXISTS")
    name = words.name("a policy").lower()
    table = _table(sql, words)
    words.next_is("CASCADE") or words.next_is("RESTRICT")
    words.end()
    rights = sql.core.access.rights.get(("relation", table), NO_RIGHTS)
    if optional and all(p.name != name for p in rights.policies):
        statement.notes.skipped.append(f"{table} has no policy {name}: nothing is dropped")
        return
    gone = _policy(words, rights.policies, name, table)
    if not sql.dry:
        left = tuple(p for p in rights.policies if p is not gone)
        sql.core.access.set_rights("relation", table, replace(rights, policies=left))


def row_security(sql: Statements, statement: statement_reader.Statement) -> None:
    """ALTER TABLE | VIEW t ENABLE | DISABLE | FORCE | NO FORCE ROW LEVEL SECURITY"""
    words = Words(statement)
    words.need("ALTER")
    words.choose("TABLE", "VIEW")
    words.next_is("IF", "EXISTS")
    words.next_is("ONLY")
    _, table = roles.thing(sql, words, "TABLE")
    no = words.next_is("NO")
    what = "NO FORCE" if no and words.next_is("FORCE") else words.choose("ENABLE", "DISABLE", "FORCE")
    words.need("ROW", "LEVEL", "SECURITY")
    words.end()
    access = sql.core.access
    access.may_own("relation", table)
    rights = access.rights.get(("relation", table), NO_RIGHTS)
    if what in ("ENABLE", "DISABLE"):
        rights = replace(rights, row_security=what == "ENABLE")
    else:
        rights = replace(rights, forced=what == "FORCE")
    if not sql.dry:
        access.set_rights("relation", table, rights)


def _table(sql: Statements, words: Words) -> str:
    words.need("ON")
    _, table = roles.thing(sql, words, "TABLE")
    sql.core.access.may_own("relation", table)
    return table


def _policy(words: Words, policies: Iterable[Policy], name: str, table: str) -> Policy:
    for policy in policies:
        if policy.name == name:
            return policy
    words.at = 2
    raise words.error(f"{table} has no policy {name}", did_you_mean(name, [p.name for p in policies]), "E_NAME")


def _clauses(sql: Statements, words: Words, table: str, old: Policy) -> Policy:
    policy = old
    if words.next_is("TO"):
        takers = [roles.role_name(sql, words, public=True)]
        while words.next_is(","):
            takers.append(roles.role_name(sql, words, public=True))
        policy = replace(policy, roles=tuple(takers))
    if words.next_is("USING"):
        if policy.command == "INSERT":
            words.at -= 1
            raise words.error("rows that come are compared by WITH CHECK", "WITH CHECK (...)")
        policy = replace(policy, using=_condition(sql, words, table))
    if words.next_is("WITH", "CHECK"):
        if policy.command in ("SELECT", "DELETE"):
            words.at -= 1
            raise words.error(f"{policy.command} makes no rows to check", "USING (...)")
        policy = replace(policy, check=_condition(sql, words, table))
    words.end()
    if not policy.using and not policy.check:
        raise words.error("a policy has a condition", "USING (tenant = current_setting('tenant'))")
    same = (policy.using, policy.check) == (old.using, old.check)
    return policy if same else _by_author(sql, table, policy)


def _by_author(sql: Statements, table: str, policy: Policy) -> Policy:
    """A policy with what it reads, and who wrote its conditions: somebody who sees all of that."""
    access = sql.core.access
    policy = replace(policy, reads=_reads(sql, table, [policy.using, policy.check]), author=access.author())
    who = access.acting()
    hidden = [] if who is None else [n for n in policy.reads or () if not access.sees_all(n, who)]
    if who is not None and hidden:
        what = f"{who.name} does not see all of {hidden[0]}, and a policy of theirs would tell of it"
        raise forbidden(what, "its owner or a superuser can write such a policy")
    return policy


def read_again(sql: Statements, function: str) -> None:
    """Note anew what those policies read that call a function, which was replaced."""
    access = sql.core.access
    for (kind, name), rights in list(access.rights.items()):
        policies = tuple(_read_again(sql, name, p, f"{function}()") for p in rights.policies)
        if policies != rights.policies:
            access.set_rights(kind, name, replace(rights, policies=policies))


def _read_again(sql: Statements, table: str, policy: Policy, function: str) -> Policy:
    if policy.reads is None or function not in policy.reads:
        return policy
    try:
        with acting(None):
            return replace(policy, reads=_reads(sql, table, [policy.using, policy.check]))
    except EverviewError:  # its body does not fit any more: until it does, only superusers can say what it reads
        return replace(policy, reads=(*policy.reads, UNKNOWN))


def _condition(sql: Statements, words: Words, table: str) -> str:
    """A condition in brackets, which must be valid for the table."""
    at = words.at
    text = words.brackets()
    if not text:
        raise words.error("a condition in brackets is missing here", "USING (x = 1)")
    try:
        _bound(sql, table, text)
    except PlanError as error:
        words.at = at
        message = error.message.partition(": ")[2] if isinstance(error, SqlError) else error.message
        raise words.error(f"the condition cannot be used: {message}", error.hint, error.code) from None
    return text


def _bound(sql: Statements, table: str, text: str) -> Compiler:
    """Bind a condition for whoever will read; its compiler knows what its subqueries read, and what it calls.

    An author who may not do everything binds it with their own rights, so that no error or hint names what is hidden.
    """
    source = _source(f"SELECT * FROM {_from(table)} WHERE {text}")
    tree = statement_reader.parsed(source)
    _check_path(sql, tree, source)
    compiler, author = _inner(sql.compiler(source)), sql.core.access.acting()
    compiler.trusted = author is None
    relation = relation_of(sql.session[table])
    own = Relation(relation.node, tuple(Field(c.name) for c in relation.columns))
    compiler.stand_in = tree.args["from_"].this, own
    with acting(Anybody() if author is None else Author(author)), path_of_policies():
        consumed_parts.whole(tree, source, lambda: compiler.derived(tree, {}))
    return compiler


def _reads(sql: Statements, table: str, texts: Iterable[str]) -> tuple[str, ...]:
    """The tables and views that conditions read, and the functions that they call."""
    found: dict[str, None] = {}
    for text in filter(None, texts):
        compiler = _bound(sql, table, text)
        found.update(dict.fromkeys([*compiler.used, *(f"{name}()" for name in compiler.called)]))
    return tuple(name for name in found if not name.startswith(RESERVED_PREFIX))


def _check_path(sql: Statements, tree: exp.Expr, source: Source) -> None:
    """Refuse names that mean something else to their author than to readers."""
    known = [*sql.session.tables, *sql.session.views]
    for table in tree.find_all(exp.Table):
        if table.args.get("db") is None and isinstance(table.this, exp.Identifier):
            mine = schemas.found(sql.core, table.name, known)
            with path_of_policies():
                theirs = schemas.found(sql.core, table.name, known)
            if mine != theirs:
                hint = f"write {mine}: policies do not use the search path"
                raise source.error(table, "E_TABLE", f"{table.name} is not in public", hint)


@contextmanager
def path_of_policies() -> Iterator[None]:
    """Look up names in `public`, not in the schemas that the reader has chosen."""
    given = CURRENT.get() or SqlSettings()
    with settings_of_call(replace(given, search_path=(schemas.PUBLIC,))):
        yield


# binding


def visible(compiler: Compiler, name: str, relation: Relation, command: str = "SELECT") -> Relation:
    """A table or view as seen by the current user: all of it, or the rows that policies admit."""
    if compiler.trusted:
        return relation
    compiler.claims.update(compiler.core.access.rights.get(("relation", name), NO_RIGHTS).bound)
    text = condition(compiler.core.access, name, *dict.fromkeys(["SELECT", command]))
    if text is None:
        return relation
    who = compiler.core.access.acting()
    assert who is not None
    source = _source(f"SELECT * FROM {_from(name)} WHERE {text}")
    tree = statement_reader.parsed(source)
    used = asked(tree, who, shared=compiler.shared)
    compiler.claims.update(used)
    inner = _inner(compiler, source)
    inner.reader = who
    inner.stand_in = tree.args["from_"].this, relation
    with acting(None), path_of_policies():
        found = inner.derived(tree, {})
    compiler.claims.update(inner.claims)
    compiler.clock_read |= inner.clock_read
    node = unwrapped(found.node)
    return replace(found, node=node)


def narrowed(relation: Relation, shown: frozenset[str]) -> Relation:
    """A relation with some of its columns: the others do not exist for the current user."""
    hidden = relation.hidden
    kept = [i for i, f in enumerate(relation.fields) if i < hidden or f.name in shown]
    return replace(relation, node=joins.take(relation.node, kept), fields=tuple(relation.fields[i] for i in kept))


def condition(access: Access, name: str, *commands: str, check: bool = False) -> str | None:
    """The condition that the current user's rows of a table must satisfy, in SQL; None if every row does."""
    found = []
    for command in commands:
        policies = access.policies(name, command)
        if policies is None:
            return None
        if not all(map(access.is_founded, policies)):
            hint = "its owner can DROP POLICY, or grant the author what it reads"
            raise forbidden(f"a policy of {name} reads what its author does not see", hint)
        texts = [(p, (p.check or p.using) if check else p.using) for p in policies]
        some = " OR ".join(f"({t})" for p, t in texts if t and not p.restrictive) or "FALSE"
        every = [f"({t})" for p, t in texts if t and p.restrictive]
        found.append(" AND ".join([f"({some})", *every]))
    return " AND ".join(found)


def asked(tree: exp.Expr, who: Principal, shared: bool = False) -> dict[str, Any]:
    """Substitute a principal's attributes into a condition, as constants or (`shared`) as parameters; return which."""
    used: dict[str, Any] = {}
    who = who.unobserved() if shared else who  # values of parameters do not matter to the plan
    for node in list(tree.find_all(exp.Anonymous, exp.CurrentUser, exp.SessionUser)):
        if isinstance(node, exp.Anonymous):
            if str(node.this).lower() != "current_setting":
                continue
            name, value = setting_of(node, who)
        else:
            name, value = "current_user", who.name
        used[name] = value
        if shared and value is not None:
            made: exp.Expr = exp.Parameter(this=exp.Var(this=name))
        else:
            made = constant(value)
        made.meta.update(node.meta)
        node.replace(consumed_parts.recorded(made))
    return used


def setting_of(node: exp.Anonymous, who: Principal) -> tuple[str, Any]:
    """The attribute that `current_setting('name' [, may_lack])` reads; an error if the principal has none."""
    given = node.expressions
    if not given or not isinstance(given[0], exp.Literal) or not given[0].is_string or len(given) > 2:
        raise PlanError(
            "E_CONSTANT", "current_setting takes the name of a setting in quotes", "current_setting('tenant')"
        )
    name = given[0].name.lower()
    value = who.setting(name)
    optional = len(given) == 2 and isinstance(given[1], exp.Boolean) and bool(given[1].this)
    if value is None and not optional:
        raise forbidden(
            f"{who.name} has no attribute {name}", f"ALTER ROLE ... SET {name} = '...', or a claim of its token"
        )
    return name, value


def constant(value: Any) -> exp.Expr:
    """An attribute as a constant: text, as PostgreSQL's settings are."""
    if value is None:
        return exp.Cast(this=exp.Null(), to=exp.DataType.build("text"))
    return exp.Literal.string(as_text(value))


def _inner(compiler: Compiler, source: Source | None = None) -> Compiler:
    """A compiler for a policy's condition: it sees everything, and records what it reads."""
    inner = type(compiler)(compiler.session, source or compiler.source, compiler.standing)
    inner.trusted = True
    inner.parameters, inner.used, inner.called = compiler.parameters, compiler.used, compiler.called
    inner.decided_by = compiler.decided_by
    inner.files, inner.by_text = compiler.files, compiler.by_text
    return inner


def _source(text: str) -> Source:
    return Source(text)


def _from(name: str) -> str:
    schema, _, last = name.rpartition(".")
    full = f"{quoted(schema)}.{quoted(last)}" if schema else f"public.{quoted(last)}"
    return f"{full} AS {quoted(last)}"


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever it is.

    >>> quoted("a b")
    '"a b"'
    """
    return '"' + name.replace('"', '""') + '"'


def unwrapped(node: plan.Node) -> plan.Node:
    """Without an identity projection, so that the table's indexes are found."""
    if not isinstance(node, plan.Project) or len(node.exprs) != len(node.child.types):
        return node
    same = all(isinstance(e, ColumnRef) and e.index == i for i, e in enumerate(node.exprs))
    return node.child if same else node


__all__ = ["COMMANDS", "PUBLIC", "alter", "asked", "condition", "create", "drop", "narrowed", "row_security", "visible"]
