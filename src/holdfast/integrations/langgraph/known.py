"""The classes of LangChain, LangGraph and pydantic that any graph may have in its state, and their names there.

A name says whose class it is, and not in which module it lies: modules move. Classes that the installed version does
not have are left out, so a list may be longer than what there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from holdfast.integrations.langgraph.kinds import Kept, kept_pattern, kept_secret, kept_slots, kept_subclass
from holdfast.integrations.langgraph.messages import MessageShape
from holdfast.objects.codec.registry import TypeRegistry

_MESSAGES: Final = (
    "BaseMessage",
    "BaseMessageChunk",
    "HumanMessage",
    "HumanMessageChunk",
    "AIMessage",
    "AIMessageChunk",
    "SystemMessage",
    "SystemMessageChunk",
    "ChatMessage",
    "ChatMessageChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "FunctionMessage",
    "FunctionMessageChunk",
    "RemoveMessage",
)

_AGENTS: Final = ("AgentAction", "AgentActionMessageLog", "AgentFinish", "AgentStep")
_OUTPUTS: Final = (
    "Generation",
    "GenerationChunk",
    "ChatGeneration",
    "ChatGenerationChunk",
    "ChatResult",
    "LLMResult",
    "RunInfo",
)
_PROMPTS: Final = ("StringPromptValue", "ChatPromptValue", "ChatPromptValueConcrete", "ImagePromptValue")

_WITH_FIELDS: Final = (
    ("langgraph.types", "Command"),
    ("langgraph.types", "Interrupt"),
    ("langgraph.types", "Overwrite"),
    ("langgraph.types", "PregelTask"),
    ("langgraph.types", "RetryPolicy"),
    ("langgraph.types", "StateSnapshot"),
    ("langgraph.types", "StateUpdate"),
    ("langgraph.types", "TimeoutPolicy"),
    ("langgraph.store.base", "GetOp"),
    ("langgraph.checkpoint.serde.types", "_DeltaSnapshot"),
)

_WITH_SLOTS: Final = (
    ("langgraph.types", "Send"),
    ("langgraph.store.base", "Item"),
    ("langgraph.store.base", "SearchItem"),
)

_SUBCLASSES: Final = (
    ("langchain_core.messages.base", "TextAccessor"),
    ("langchain_core.runnables.utils", "AddableDict"),
)

_MODELS: Final = (
    *(("langchain_core.messages", name) for name in _MESSAGES),
    ("langchain_core.documents", "Document"),
    ("langchain_core.documents.base", "Blob"),
    *(("langchain_core.agents", name) for name in _AGENTS),
    *(("langchain_core.outputs", name) for name in _OUTPUTS),
    *(("langchain_core.prompt_values", name) for name in _PROMPTS),
)

_SECRETS: Final = (("pydantic", "SecretStr"), ("pydantic", "SecretBytes"))


def register_known(types: TypeRegistry) -> None:
    """Register all of them, in a registry that may have some already."""
    for name, cls in _found(_MODELS):
        _add(types, cls, name, shape=MessageShape(cls))
    for name, cls in _found(_WITH_FIELDS):
        _add(types, cls, name)
    for name, cls in _found(_WITH_SLOTS):
        _add_kept(types, cls, name, kept_slots(cls))
    for name, cls in _found(_SUBCLASSES):
        _add_kept(types, cls, name, kept_subclass(cls))
    for name, cls in _found(_SECRETS):
        _add_kept(types, cls, name, kept_secret(cls))
    _add_kept(types, re.Pattern, "re.Pattern", kept_pattern())


def _found(places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, type[Any]]]:
    """The classes that are there, with the names they are stored under."""
    for module, attribute in places:
        try:
            # Names that are written above, and none that come from a store.
            found = getattr(import_module(module), attribute, None)
        except ImportError:
            # langgraph-checkpoint alone is enough to read and copy threads; it comes without langgraph's own types.
            continue
        if isinstance(found, type):
            owner = module.partition(".")[0].removesuffix("_core")
            yield f"{owner}.{attribute.lstrip('_')}", found


def _add_kept(types: TypeRegistry, cls: type, name: str, kept: Kept | None) -> None:
    if kept is not None:
        _add(types, cls, name, encode=kept.encode, decode=kept.decode)


def _add(types: TypeRegistry, cls: type, name: str, **how: Any) -> None:
    # What the program has registered itself stays as it is.
    if types.by_class(cls) is None and types.by_name(name) is None:
        types.register(cls, name=name, **how)
