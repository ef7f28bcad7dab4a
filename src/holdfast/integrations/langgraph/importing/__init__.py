"""Threads of LangGraph's own savers, taken over into a store.

    from holdfast.integrations.langgraph.importing import import_langgraph

    with holdfast.open("agents.db") as store:
        report = import_langgraph("checkpoints.sqlite", store)

The source is only read. Nothing that its bytes name is imported or called: classes come back through the store's
registry, and those that it does not know are kept as data until they are allowed.
"""

from holdfast.errors import ErrorCode, UnsupportedError
from holdfast.integrations.langgraph.importing.report import ImportReport, ThreadImport

try:
    from holdfast.integrations.langgraph.importing.running import chosen_threads, import_langgraph
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise UnsupportedError(
        f"reading what LangGraph's savers wrote needs LangGraph: {missing}",
        code=ErrorCode.NOT_SUPPORTED,
        hint="pip install 'holdfast[langgraph]'",
    ) from missing

__all__ = ["ImportReport", "ThreadImport", "chosen_threads", "import_langgraph"]
