"""Operation: a typed function with a name, a scope, and whether it destroys something.

The parameters come from the signature. Their types are those that msgspec validates, so that a wrong one is refused
with its place before anything happens, and the same types give the JSON schemas of all descriptions.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.errors import ErrorCode, InvalidInputError

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")

_MODULES = ("checkpoints", "lineage", "search", "live", "notebook", "plans", "upkeep")

# The parameters that many operations share. A bound is here where a value without one would cost memory.
Session = Annotated[str, Meta(min_length=1, max_length=200, description="The session")]
Branch = Annotated[str, Meta(max_length=200, description="The branch; the one in use unless given")]
Ref = Annotated[
    str,
    Meta(min_length=1, max_length=300, description="A checkpoint: an id, @, @~3, #42, a branch, tag:NAME"),
]
Path = Annotated[str, Meta(max_length=2000, description="A part of the state: messages[-20:]")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="At most so many")]
Message = Annotated[str, Meta(max_length=10_000, description="A few words for people")]
Text = Annotated[str, Meta(max_length=10_000)]
Time = Annotated[str, Meta(max_length=100, description='A time: 2026-11-15T17:00Z, "2 hours ago"')]
Tags = list[Annotated[str, Meta(max_length=200)]]
Metadata = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked for.

    Attributes:
        name: As a method of JSON-RPC: `checkpoint.list`.
        function: What does it: a `Service`, then the parameters. One that destroys also takes `dry_run`.
        scope: What a caller must be allowed to do.
        destroys: Whether it is carried out only with a confirmation of what it would do, or is a person's to decide.
        path: Where it can be read with GET; None where it cannot.
        idempotent: Whether doing it twice is the same as doing it once.
        etag: What its result is made of, found without making it, so that a reader who has that is sent nothing.
    """

    name: str
    function: Callable[..., Any]
    scope: Scope
    destroys: bool = False
    path: str | None = None
    idempotent: bool = False
    etag: Callable[..., str] | None = None

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (inspect.getdoc(self.function) or "").splitlines()[0]

    @property
    def description(self) -> str:
        """All that its docstring says."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of the parameters and of the result."""
        # The modules of operations know the service only by name: it imports them.
        return typing.get_type_hints(self.function, localns={"Service": Any}, include_extras=True)

    @cached_property
    def parameters(self) -> type[msgspec.Struct]:
        """The parameters, as a struct that checks them."""
        found: list[Any] = []
        for name, parameter in list(inspect.signature(self.function).parameters.items())[1:]:
            if name == "dry_run":
                continue
            hint = self.hints[name]
            empty = parameter.default is inspect.Parameter.empty
            found.append((name, hint) if empty else (name, hint, _default(parameter.default)))
        if self.destroys:
            about = "The token of the plan that a first call without it gave"
            found.append(("confirm", Annotated[str, Meta(max_length=100, description=about)] | None, None))
        return msgspec.defstruct(self.name, found, forbid_unknown_fields=True, kw_only=True)

    def check(self, given: Any, *, loose: bool = False) -> dict[str, Any]:
        """The parameters as the function takes them.

        Args:
            given: An object of JSON; `loose` where all values are texts, as in the query of a URL.
            loose: Turn texts into numbers where numbers are wanted.

        Raises:
            InvalidInputError: One is missing, unknown or wrong (`bad-argument`), with its place.
        """
        try:
            checked = msgspec.convert(given, self.parameters, strict=not loose)
        except (msgspec.ValidationError, RecursionError) as error:
            wanted = ", ".join(self.parameters.__struct_fields__) or "none"
            raise InvalidInputError(
                f"{self.name}: {error}", code=ErrorCode.BAD_ARGUMENT, hint=f"its parameters are: {wanted}"
            ) from error
        return {name: getattr(checked, name) for name in self.parameters.__struct_fields__}

    def result_schema(self) -> dict[str, Any]:
        """The JSON schema of the result: the names that it has at its top."""
        kind = self.hints["return"]
        kind = typing.get_origin(kind) or kind
        names = [each.name.removesuffix("_") for each in fields(kind)] if is_dataclass(kind) else []
        return {"type": "object", "properties": {name: {} for name in names}}

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the parameters."""
        whole = msgspec.json.schema(self.parameters)
        (found,) = whole["$defs"].values()
        properties = {name: _plain_schema(each) for name, each in found["properties"].items()}
        required = found.get("required", [])
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


OPERATIONS: dict[str, Operation] = {}
"""All of them by name, after `load_operations`."""


def operation(
    name: str,
    *,
    scope: Scope = "read",
    destroys: bool = False,
    path: str | None = None,
    idempotent: bool = False,
    etag: Callable[..., str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as an operation; see `Operation` for what the arguments mean."""

    def declared(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATIONS[name] = Operation(name, function, scope, destroys, path, idempotent, etag)
        return function

    return declared


def load_operations() -> dict[str, Operation]:
    """Import the modules that declare operations, and return them all by name."""
    for module in _MODULES:
        __import__(f"holdfast.operations.{module}")
    if next(iter(OPERATIONS)).partition(".")[0] != "checkpoint":
        # Modules import each other; people read the table from top to bottom.
        ordered = sorted(
            OPERATIONS.items(), key=lambda each: _MODULES.index(each[1].function.__module__[20:])
        )
        OPERATIONS.clear()
        OPERATIONS.update(ordered)
    return OPERATIONS


def allows(scope: Scope, wanted: Scope) -> bool:
    """Whether a caller of one scope may do what takes another: each includes those before it."""
    return SCOPES.index(scope) >= SCOPES.index(wanted)


def _plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter; one that may be left out is not said to be null as well."""
    some = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(some) == 1:
        schema = {**{key: each for key, each in schema.items() if key != "anyOf"}, **some[0]}
    return {key: each for key, each in schema.items() if key != "default" or each not in (None, [], {}, "")}


def _default(value: Any) -> Any:
    return msgspec.field(default_factory=type(value)) if isinstance(value, list | dict) else value
