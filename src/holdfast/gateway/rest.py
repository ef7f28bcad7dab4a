"""REST twins: every operation that reads and has a path can be asked for with GET, by a browser or by curl.

The parameters are those of the path and of the query. The answer has an ETag: the root of the state where it is one
state, so that a reader that has it is told so without reading anything; else a digest of what would be sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from holdfast.gateway.rpc import LOG, carry_out
from holdfast.operations import OPERATIONS, Operation, Service, error_record

_STATUSES: tuple[tuple[type[HoldfastError], int], ...] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (InvalidInputError, 400),
    (UnsupportedError, 501),
    (BackendError, 503),
)
_BY_CODE = {
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.STILL_RUNNING: 202,
    ErrorCode.NEEDS_CONFIRMATION: 428,
}


def routes(service: Service, wait: float) -> list[Route]:
    """A route for each operation that has a path."""
    return [
        Route(each.path, _endpoint(service, each, wait), methods=["GET"], name=each.name)
        for each in OPERATIONS.values()
        if each.path is not None
    ]


def _endpoint(service: Service, asked: Operation, wait: float) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        given: dict[str, Any] = {**request.query_params, **request.path_params}
        have = request.headers.get("if-none-match", "")
        try:
            tag = None
            if asked.etag is not None:
                parameters = asked.check(given, loose=True)
                tag = await anyio.to_thread.run_sync(_tag, asked, service, parameters)
                if tag is not None and tag in have:
                    return Response(status_code=304, headers={"ETag": tag})
            result = await carry_out(service, asked.name, given, request.state.caller, wait, loose=True)
        except HoldfastError as error:
            return failure(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours: told as one, without its text
            LOG.exception("%s failed", asked.name)
            return failure(error)
        body = msgspec.json.encode(result)
        tag = tag or _quoted(_digest(body))
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if tag in have:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    return endpoint


def _tag(asked: Operation, service: Service, parameters: dict[str, Any]) -> str | None:
    try:
        return _quoted(asked.etag(service, **parameters)) if asked.etag is not None else None
    except NotFoundError:
        # The operation itself says what is missing.
        return None


def failure(error: BaseException) -> Response:
    """The answer that tells an error: the same record as on every surface."""
    status = 500
    if isinstance(error, HoldfastError):
        by_class = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
        status = _BY_CODE.get(error.code, by_class)
    body = msgspec.json.encode({"error": error_record(error)})
    return Response(body, status, media_type="application/json")


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _quoted(tag: str) -> str:
    return f'"{tag}"'
