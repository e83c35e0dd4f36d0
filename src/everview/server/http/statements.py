"""SQL, transactions and Datalog over HTTP.

POST /v1/sql            {"sql": "SELECT ..."}                       one text, of one or more statements
POST /v1/transaction    {"statements": ["INSERT ...", "UPDATE ..."]}   all of them at one time, or none
POST /v1/datalog        {"program": "path(X, Y) :- edge(X, Y). ..."}
POST /v1/cancel         {"id": "..."}   what another request asks that has this x-query-id
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from everview.errors import InputError
from everview.server.http.answers import Door, body_object, query_key, rows_answer, shown, text_in, wants_arrow
from everview.server.http.arrow_pieces import can_be_cut, pieces
from everview.server.sql_calls import Answer, ask, in_all, only_reads
from everview.sql.answers.result import Result
from everview.wire.envelopes import ARROW

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
    """Run several texts at one time; the rows are the last one's, `affected` counts those of all."""
    texts = (await body_object(request)).get("statements")
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise InputError("E_MESSAGE", "'statements' is not a list of texts", "see /openapi.json")

    def work(db: Session) -> Answer:
        with db.transaction():
            answers = [ask(db, text) for text in texts]
        return replace(answers[-1], time=db.time, affected=in_all([a.affected for a in answers]))

    return await _answered(door, request, work)


async def datalog(door: Door, request: Request) -> Response:
    """Install the rules of a program."""
    text = text_in(await body_object(request), "program")

    def work(db: Session) -> dict[str, Any]:
        return {"time": db.time, "views": list(db.datalog(text))}

    return shown(await door.run(request, work))


async def cancel(door: Door, request: Request) -> Response:
    """Cancel another request."""
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
    if isinstance(rows, Result):
        headers = {"x-everview-time": str(answer.time)}
        return StreamingResponse(pieces(rows), headers=headers, media_type=ARROW)
    return rows_answer(request, answer.time, answer.result.columns, answer.result.types, rows, **affected)


def _rows(result: Result | None, arrow: bool) -> Any:
    """The rows, decoded where they were read: not on the loop, which serves others. A result that is sent in
    pieces is decoded piece by piece.
    """
    if result is None or (arrow and can_be_cut(result.types, len(result))):
        return result
    return result.to_arrow() if arrow else result.rows()
