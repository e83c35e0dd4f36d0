"""SQL, transactions and Datalog.

POST /v1/sql            {"sql": "SELECT ..."}                       one text, of one or more statements
POST /v1/transaction    {"statements": ["INSERT ...", "UPDATE ..."]}   all of them at one time, or none
POST /v1/datalog        {"program": "path(X, Y) :- edge(X, Y). ..."}
POST /v1/cancel         {"id": "..."}   what another request asks that has this x-query-id
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from everview.errors import InputError
from everview.server.asking import Answer, ask, only_reads
from everview.server.http.answers import Door, body_object, query_key, rows_answer, shown, text_in, wants_arrow
from everview.sql.answers.result import Result

if TYPE_CHECKING:
    from everview.session.session import Session


async def sql(door: Door, request: Request) -> Response:
    """Run a text of SQL."""
    if request.headers.get("content-type", "").startswith("text/"):
        text = (await request.body()).decode("utf-8", "replace")
    else:
        text = text_in(await body_object(request), "sql")
    return await _answered(door, request, lambda db: ask(db, text), looks=only_reads(text))


async def transaction(door: Door, request: Request) -> Response:
    """Run several texts at one time; the answer is the last one's."""
    texts = (await body_object(request)).get("statements")
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise InputError("E_MESSAGE", "'statements' is not a list of texts", "see /openapi.json")

    def work(db: Session) -> Answer:
        with db.transaction():
            answers = [ask(db, text) for text in texts]
        return Answer(db.time, answers[-1].result, answers[-1].relation, answers[-1].text, answers[-1].affected)

    return await _answered(door, request, work)


async def datalog(door: Door, request: Request) -> Response:
    """Install the rules of a program."""
    text = text_in(await body_object(request), "program")

    def work(db: Session) -> dict[str, Any]:
        return {"time": db.time, "views": list(db.datalog(text))}

    return shown(await door.run(request, work))


async def cancel(door: Door, request: Request) -> Response:
    """Have another request stop."""
    return shown({"cancelled": door.engine.cancel(query_key(text_in(await body_object(request), "id")))})


async def _answered(door: Door, request: Request, work: Any, *, looks: bool = False) -> Response:
    arrow = wants_arrow(request)

    def read(db: Session) -> tuple[Answer, Any]:
        answer = work(db)
        return answer, _rows(answer.result, arrow)

    answer, rows = await door.run(request, read, looks=looks)
    affected = {} if answer.affected is None else {"affected": answer.affected}
    if answer.result is None:
        said = {"relation": answer.relation} if answer.relation else {"text": answer.text} if answer.text else {}
        return shown({"time": answer.time, **said, **affected})
    return rows_answer(request, answer.time, answer.result.columns, answer.result.types, rows, **affected)


def _rows(result: Result | None, arrow: bool) -> Any:
    """The rows, decoded where they were read: not on the loop, which has others to serve."""
    if result is None:
        return None
    return result.to_arrow() if arrow else result.rows()
