"""JSON-RPC 2.0: a request, or a batch of them, and the answers. docs/reference/rpc.md has the methods.

Errors of holdfast have the code -32000 minus their exit code (-32602 for what is wrong in the call), and the whole
error record in `data`. Requests of a batch are carried out one after the other, in their order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import msgspec

from holdfast.errors import BackendError, ErrorCode, HoldfastError
from holdfast.operations import Caller, Service, error_record

LOG = logging.getLogger("holdfast.gateway")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
MAX_BATCH = 50
_INVALID_INPUT_EXIT = 2


async def carry_out(
    service: Service, name: str, given: Any, caller: Caller, wait: float, *, loose: bool = False
) -> Any:
    """Carry an operation out on a thread, and wait so long for it.

    Raises:
        BackendError: It takes longer (`still-running`), and goes on; its details have the job.
        HoldfastError: Whatever it ended in.
    """
    future: Future[Any] = service.submit(name, given, caller, loose=loose)
    done, _ = await asyncio.wait([asyncio.wrap_future(future)], timeout=wait)
    if done:
        return done.pop().result()
    job = service.keep(name, future)
    raise BackendError(
        f"{name} takes longer than {wait:g} seconds, and goes on",
        code=ErrorCode.STILL_RUNNING,
        hint=f"job.get with the id {job.id} says how it stands",
        job=job.to_dict(),
    )


async def answer(service: Service, body: bytes, caller: Caller, wait: float) -> bytes | None:
    """The answer to the body of a request; None where nothing is to be answered."""
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return _encode(_failed(None, PARSE_ERROR, f"this is no JSON: {error}"))
    if not isinstance(asked, list):
        told = await _one(service, asked, caller, wait)
        return None if told is None else _encode(told)
    if not 0 < len(asked) <= MAX_BATCH:
        why = f"a batch has 1 to {MAX_BATCH} requests, not {len(asked)}"
        return _encode(_failed(None, INVALID_REQUEST, why))
    answers = [told for each in asked if (told := await _one(service, each, caller, wait)) is not None]
    return _encode(answers) if answers else None


async def _one(service: Service, asked: Any, caller: Caller, wait: float) -> dict[str, Any] | None:
    """The answer to one request; None to a notification, whatever becomes of it."""
    if (why := _why_invalid(asked)) is not None:
        return _failed(_id_of(asked), INVALID_REQUEST, why)
    told = await _answer(service, asked, caller, wait)
    return told if "id" in asked else None


async def _answer(service: Service, asked: Mapping[str, Any], caller: Caller, wait: float) -> dict[str, Any]:
    name, params, number = asked["method"], asked.get("params", {}), asked.get("id")
    try:
        if name == "rpc.discover":
            from holdfast.gateway.descriptions import openrpc

            return {"jsonrpc": "2.0", "id": number, "result": openrpc()}
        if isinstance(params, list):
            params = _by_name(service, name, params)
        result = await carry_out(service, name, params, caller, wait)
    except HoldfastError as error:
        told = error_record(error)
        return _failed(number, _code_of(error), told["message"], told)
    except Exception as error:
        LOG.exception("%s failed", name)
        return _failed(number, INTERNAL_ERROR, "this is a bug in holdfast", error_record(error))
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _why_invalid(asked: Any) -> str | None:
    if not isinstance(asked, dict):
        return "a request is an object"
    if asked.get("jsonrpc") != "2.0":
        return 'jsonrpc has to be "2.0"'
    if not isinstance(asked.get("method"), str):
        return "method has to be a text"
    if not isinstance(asked.get("params", {}), dict | list):
        return "params has to be an object or an array"
    if "id" in asked and _id_of(asked) is None and asked["id"] is not None:
        return "id has to be a text or a number"
    return None


def _id_of(asked: Any) -> Any:
    number = asked.get("id") if isinstance(asked, dict) else None
    return number if isinstance(number, str | int | float) and not isinstance(number, bool) else None


def _by_name(service: Service, name: str, params: list[Any]) -> dict[str, Any]:
    fields = service.find(name).parameters.__struct_fields__
    given = dict(zip(fields, params, strict=False))
    # One too many is refused with the names that there are, as an unknown one is.
    return given | {f"#{at}": each for at, each in enumerate(params[len(fields) :], len(fields) + 1)}


def _code_of(error: HoldfastError) -> int:
    if error.code is ErrorCode.OPERATION_MISSING:
        return METHOD_NOT_FOUND
    return INVALID_PARAMS if error.exit_code == _INVALID_INPUT_EXIT else -32000 - error.exit_code


def _failed(number: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": number, "error": error}


def _encode(told: Any) -> bytes:
    return msgspec.json.encode(told)
