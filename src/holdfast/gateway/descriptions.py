"""What the gateway says about itself: an OpenRPC and an OpenAPI document, both made from the table of operations."""

from __future__ import annotations

from functools import cache
from typing import Any

import holdfast
from holdfast.operations import Operation, load_operations

_ERROR = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "description": "A stable word; docs/reference/errors.md has all"},
        "message": {"type": "string"},
        "hint": {"type": "string"},
        "exit": {"type": "integer"},
        "details": {"type": "object"},
    },
    "required": ["code", "message", "hint", "exit", "details"],
}


@cache
def openrpc() -> dict[str, Any]:
    """All methods of JSON-RPC."""
    return {
        "openrpc": "1.3.2",
        "info": {"title": "holdfast", "version": holdfast.__version__},
        "methods": [_method(each) for each in load_operations().values()],
        "components": {"schemas": {"Error": _ERROR}},
    }


def _method(each: Operation) -> dict[str, Any]:
    schema = each.schema()
    return {
        "name": each.name,
        "summary": each.summary,
        "params": [
            {"name": name, "required": name in schema["required"], "schema": one}
            for name, one in schema["properties"].items()
        ],
        "result": {"name": "result", "schema": each.result_schema()},
        "x-scope": each.scope,
        "x-needs-confirmation": each.destroys,
    }


@cache
def openapi() -> dict[str, Any]:
    """All paths of REST."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "holdfast", "version": holdfast.__version__},
        "security": [{"token": []}],
        "paths": {each.path: {"get": _get(each)} for each in load_operations().values() if each.path},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
    }


def _get(each: Operation) -> dict[str, Any]:
    schema = each.schema()
    failed = {
        "description": "What went wrong",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"error": {"$ref": "#/components/schemas/Error"}},
                    "required": ["error"],
                }
            }
        },
    }
    answered = {
        "description": "The result",
        "content": {"application/json": {"schema": each.result_schema()}},
    }
    return {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [_parameter(each, name, one, schema) for name, one in schema["properties"].items()],
        "responses": {"200": answered, "304": {"description": "The reader has it"}, "default": failed},
    }


def _parameter(each: Operation, name: str, one: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    inside = f"{{{name}}}" in (each.path or "")
    return {
        "name": name,
        "in": "path" if inside else "query",
        "required": inside or name in schema["required"],
        "schema": one,
    }
