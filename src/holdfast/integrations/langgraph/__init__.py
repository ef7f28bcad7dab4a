"""LangGraph on holdfast: a checkpointer that keeps every thread as a session.

    from holdfast.integrations.langgraph import HoldfastSaver

    with HoldfastSaver("agents.db") as saver:
        graph = builder.compile(checkpointer=saver)

LangGraph itself is imported when HoldfastSaver is asked for, so that what only looks at names or keys needs no
framework.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.integrations.langgraph.saver import HoldfastSaver

__all__ = ["HoldfastSaver"]


def __getattr__(name: str) -> Any:
    if name != "HoldfastSaver":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import langgraph.checkpoint.base  # noqa: F401 - only to say which package is missing
    except ModuleNotFoundError as missing:
        from holdfast.errors import ErrorCode, UnsupportedError

        raise UnsupportedError(
            f"HoldfastSaver needs LangGraph: {missing}",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[langgraph]'",
        ) from missing
    from holdfast.integrations.langgraph.saver import HoldfastSaver

    # Found once, found for good: the next access does not come here.
    globals()[name] = HoldfastSaver
    return HoldfastSaver
