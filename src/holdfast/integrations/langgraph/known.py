"""The classes of LangChain, LangGraph and pydantic that any graph may have in its state, and their names there.

A name says whose class it is, and not in which module it lies: modules move. Classes that the installed version does
not have are left out, so a list may be longer than what there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from holdfast.integrations.langgraph.kinds import Kept, kept_pattern, kept_secret, kept_slots, kept_subclass
from holdfast.integrations.langgraph.messages import MessageShape
from holdfast.objects.codec.registry import TypeRegistry

_MODELS: Final = {
    "langchain_core.messages": (
        "BaseMessage BaseMessageChunk HumanMessage HumanMessageChunk AIMessage AIMessageChunk SystemMessage "
        "SystemMessageChunk ChatMessage ChatMessageChunk ToolMessage ToolMessageChunk FunctionMessage "
        "FunctionMessageChunk RemoveMessage"
    ),
    "langchain_core.documents": "Document",
    "langchain_core.documents.base": "Blob",
    "langchain_core.agents": "AgentAction AgentActionMessageLog AgentFinish AgentStep",
    "langchain_core.outputs": (
        "Generation GenerationChunk ChatGeneration ChatGenerationChunk ChatResult LLMResult RunInfo"
    ),
    "langchain_core.prompt_values": (
        "StringPromptValue ChatPromptValue ChatPromptValueConcrete ImagePromptValue"
    ),
}
_WITH_FIELDS: Final = {
    "langgraph.types": (
        "Command Interrupt Overwrite PregelTask RetryPolicy StateSnapshot StateUpdate TimeoutPolicy"
    ),
    "langgraph.store.base": "GetOp",
    "langgraph.checkpoint.serde.types": "_DeltaSnapshot",
}
_KEPT: Final[tuple[tuple[Callable[[type[Any]], Kept | None], Mapping[str, str]], ...]] = (
    (kept_slots, {"langgraph.types": "Send", "langgraph.store.base": "Item SearchItem"}),
    (
        kept_subclass,
        {"langchain_core.messages.base": "TextAccessor", "langchain_core.runnables.utils": "AddableDict"},
    ),
    (kept_secret, {"pydantic": "SecretStr SecretBytes"}),
)


def register_known(types: TypeRegistry) -> None:
    """Register all of them, in a registry that may have some already."""
    for name, cls in _found(_MODELS):
        _add(types, cls, name, shape=MessageShape(cls))
    for name, cls in _found(_WITH_FIELDS):
        _add(types, cls, name)
    for kind, places in _KEPT:
        for name, cls in _found(places):
            _add_kept(types, cls, name, kind(cls))
    _add_kept(types, re.Pattern, "re.Pattern", kept_pattern())


def _found(places: Mapping[str, str]) -> Iterator[tuple[str, type[Any]]]:
    """The classes that are there, with the names they are stored under."""
    for module, names in places.items():
        try:
            # Names that are written above, and none that come from a store.
            there = import_module(module)
        except ImportError:
            # langgraph-checkpoint alone is enough to read and copy threads; it comes without langgraph's own types.
            continue
        owner = module.partition(".")[0].removesuffix("_core")
        for name in names.split():
            found = getattr(there, name, None)
            if isinstance(found, type):
                yield f"{owner}.{name.lstrip('_')}", found


def _add_kept(types: TypeRegistry, cls: type, name: str, kept: Kept | None) -> None:
    if kept is not None:
        _add(types, cls, name, encode=kept.encode, decode=kept.decode)


def _add(types: TypeRegistry, cls: type, name: str, **how: Any) -> None:
    # What the program has registered itself stays as it is.
    if types.by_class(cls) is None and types.by_name(name) is None:
        types.register(cls, name=name, **how)
