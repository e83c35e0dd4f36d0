"""What the HTTP port understands, as an OpenAPI document."""

from __future__ import annotations

from typing import Any

from everview import __version__

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
ERROR = {"$ref": "#/components/schemas/Error"}
ROWS = {"$ref": "#/components/schemas/Rows"}
DONE = {"$ref": "#/components/schemas/Done"}
RELATION = {"$ref": "#/components/schemas/Relation"}
NAME = {"name": "name", "in": "path", "required": True, "schema": TEXT, "description": "a table or view"}
ZIP = "application/zip"
ARROW = "application/vnd.apache.arrow.stream"


def document() -> Schema:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Everview",
            "version": __version__,
            "description": "Views that stay up to date. 64-bit integers and decimals are strings in JSON.",
        },
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": _schemas()},
    }


def _paths() -> Schema:
    as_of = _query("as_of", WHOLE, "an earlier time")
    granularity = _query("granularity", {"type": "number"}, "seconds between two events, at least")
    return {
        "/v1/sql": {"post": _asked("Run SQL", {"sql": TEXT}, ROWS, arrow=True)},
        "/v1/transaction": {
            "post": _asked("Run statements at one time", {"statements": {"type": "array", "items": TEXT}}, ROWS)
        },
        "/v1/datalog": {"post": _asked("Install rules", {"program": TEXT}, DONE)},
        "/v1/cancel": {"post": _asked("Stop the request with this x-query-id", {"id": TEXT}, DONE)},
        "/v1/events": {
            "post": {
                "summary": "Follow a query, as server-sent events",
                "parameters": [granularity],
                "requestBody": {"content": {"text/plain": {"schema": TEXT}, **_object({"query": TEXT})}},
                "responses": _responses({"text/event-stream": {"schema": TEXT}}),
            }
        },
        "/v1/relations": {"get": _read("Tables and views", [], {"type": "array", "items": RELATION})},
        "/v1/relations/{name}": {"get": _read("What one is", [NAME], RELATION)},
        "/v1/relations/{name}/rows": {"get": _read("Contents", [NAME, as_of], ROWS, arrow=True)},
        "/v1/relations/{name}/changes": {
            "get": _read("Changes", [NAME, _query("since", WHOLE, "after this time")], DONE)
        },
        "/v1/relations/{name}/events": {
            "get": {
                "summary": "Follow it, as server-sent events",
                "parameters": [NAME, granularity],
                "responses": _responses({"text/event-stream": {"schema": TEXT}}),
            }
        },
        "/v1/tables/{name}/rows": {
            "post": {
                "summary": "Push rows",
                "parameters": [
                    NAME,
                    _query("op", {"enum": ["insert", "delete", "upsert"]}, "what to do with them"),
                    {"name": "Idempotency-Key", "in": "header", "schema": TEXT, "description": "done once under a key"},
                ],
                "requestBody": {
                    "content": {kind: {"schema": TEXT} for kind in ("application/x-ndjson", "text/csv", ARROW)}
                },
                "responses": _responses({"application/json": {"schema": DONE}}),
            }
        },
        "/v1/ws": {
            "get": {"summary": "Follow views and queries over WebSocket", "responses": {"101": {"description": ""}}}
        },
        "/healthz": {"get": _read("Whether the process lives", [], DONE)},
        "/readyz": {"get": _read("Whether it takes work", [], DONE)},
        "/grafana.json": {"get": _read("A dashboard of the figures, for Grafana", [], DONE)},
        "/v1/support": {"get": {"summary": "A support bundle, without data", "responses": _responses({ZIP: {}})}},
        "/metrics": {"get": _read("Figures, as OpenMetrics", [], TEXT)},
    }


def _query(name: str, schema: Schema, text: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _asked(summary: str, body: Schema, answer: Schema, *, arrow: bool = False) -> Schema:
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": _object(body)},
        "responses": _responses(_content(answer, arrow)),
    }


def _object(body: Schema) -> Schema:
    return {"application/json": {"schema": {"type": "object", "properties": body, "required": list(body)}}}


def _read(summary: str, parameters: list[Any], answer: Schema, *, arrow: bool = False) -> Schema:
    return {"summary": summary, "parameters": parameters, "responses": _responses(_content(answer, arrow))}


def _content(answer: Schema, arrow: bool) -> Schema:
    found: Schema = {"application/json": {"schema": answer}}
    return found | ({ARROW: {}} if arrow else {})


def _responses(content: Schema) -> Schema:
    wrong = {"description": "it was not done", "content": {"application/json": {"schema": ERROR}}}
    return {"200": {"description": "it was done", "content": content}, "default": wrong}


def _schemas() -> Schema:
    column = {"type": "object", "properties": {"name": TEXT, "type": TEXT, "nullable": {"type": "boolean"}}}
    columns = {"type": "array", "items": column}
    error = {"code": TEXT, "message": TEXT, "hint": TEXT, "line": WHOLE, "column": WHOLE}
    return {
        "Error": {"type": "object", "properties": {"error": {"type": "object", "properties": error}}},
        "Rows": {
            "type": "object",
            "properties": {"time": WHOLE, "columns": columns, "rows": {"type": "array", "items": {"type": "array"}}},
        },
        "Done": {"type": "object", "properties": {"time": WHOLE}},
        "Relation": {
            "type": "object",
            "properties": {
                "name": TEXT, "kind": {"enum": ["table", "view"]}, "columns": columns,
                "key": {"type": "array", "items": TEXT},
            },
        },
    }  # fmt: skip
