"""Write src/holdfast/aio.pyi from the classes that the async twins wrap; with --check, say whether it is up to date.

python tools/async_stub.py [--check]
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

from holdfast.aio import NOT_AWAITED, STREAMS
from holdfast.store.document import Document
from holdfast.store.lease import HeldLease
from holdfast.store.rows import Rows
from holdfast.store.session import Session
from holdfast.store.store import Store

PACKAGE = Path(__file__).parent.parent / "src" / "holdfast"
STUB = PACKAGE / "aio.pyi"
CLASSES: tuple[type, ...] = (Rows, HeldLease, Document, Session, Store)
HEAD = """# Written by tools/async_stub.py: the twins get these methods when they are imported.
# ruff: noqa: A002, ASYNC109
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final, Generic, Literal, Self, TypeAlias, TypeVar

from holdfast.store.document import TrackedDocument
from holdfast.store.open import open_store
{imports}
from holdfast.objects.merge.conflict import MergeConflict
from holdfast.store.store import Store
from holdfast.store.session import Session

_T = TypeVar("_T")

STREAMS: Final[frozenset[str]]
NOT_AWAITED: Final[frozenset[str]]

async def in_thread(operation: Callable[[], _T]) -> _T: ...

AsyncChoice: TypeAlias = Literal["ours", "theirs"] | Callable[[MergeConflict], Any] | None

class Stream(AsyncIterator[_T], Generic[_T]):
    @property
    def notes(self) -> tuple[str, ...]: ...
    async def __anext__(self) -> _T: ...
    async def aclose(self) -> None: ...

class Opening(Awaitable[_T], Generic[_T]):
    def __await__(self) -> Generator[Any, Any, _T]: ...
    async def __aenter__(self) -> _T: ...
    async def __aexit__(self, *error: object) -> None: ...
"""
EXTRA = {
    "Session": """
    def __init__(self, session: Session) -> None: ...
    @property
    def _session(self) -> Session: ...
    async def _written(self, write: Callable[[], _T]) -> _T: ...
""",
    "Store": """
    def __init__(
        self,
        backend: Backend,
        *,
        types: Iterable[type] = ...,
        app_version: str | None = ...,
        clock: Callable[[], int] = ...,
    ) -> None: ...
    @property
    def _store(self) -> Store: ...
    @classmethod
    def _around(cls, inner: Store) -> Self: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...
""",
    "HeldLease": """
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...
""",
}


def stub() -> str:
    """The whole stub, formatted."""
    bodies, modules = [], []
    for cls in CLASSES:
        name, base = cls.__name__, "(TrackedDocument)" if cls is Document else ""
        bodies.append(f"\nclass Async{name}{base}:{EXTRA.get(name, '')}")
        # Where a class has bases, the last one's methods come first, and are overridden below.
        for part in cls.__mro__[-2::-1] if cls is not Document else [cls]:
            module = ast.parse(Path(inspect.getfile(part)).read_text("utf-8"))
            modules.append(module)
            (node,) = [
                each for each in module.body if isinstance(each, ast.ClassDef) and each.name == part.__name__
            ]
            bodies += [
                _method(name, each)
                for each in node.body
                if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
            ]
    text = "\n".join(bodies) + "\n\n" + _aopen()
    imports = sorted({line for module in modules for line in _imports(module, text)})
    return _formatted(HEAD.format(imports="\n".join(imports)) + text)


def _imports(module: ast.Module, used: str) -> list[str]:
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                wanted = alias.asname or alias.name
                if re.search(rf"\b{wanted}\b", used) and (node.module or "").split(".")[0] not in (
                    "collections",
                    "typing",
                ):
                    found.append(f"from {node.module} import {alias.name}")
    return found


def _method(owner: str, node: ast.FunctionDef) -> str:
    """One method as the twin has it."""
    marks = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
    arguments, returns = ast.unparse(node.args), ast.unparse(node.returns) if node.returns else "None"
    arguments = _as_twin(re.sub(r"=(?!=)\s*[^,()]*(\([^()]*\))?", "=...", arguments.replace(" = ", "=")))
    returns = _as_twin(returns)
    if "property" in marks:
        return f"    @property\n    def {node.name}(self) -> {returns}: ..."
    if node.name in STREAMS:
        item = re.search(r"\[(.*)\]$", returns)
        return f"    def {node.name}({arguments}) -> Stream[{item[1] if item else 'Any'}]: ..."
    if node.name == "lease" and owner == "Store":
        return f"    def {node.name}({arguments}) -> Opening[{returns}]: ..."
    if node.name == "save":
        return f"    def {node.name}({arguments}) -> Coroutine[Any, Any, {returns}]: ..."
    static = "    @staticmethod\n" if "staticmethod" in marks else ""
    if node.name == "merge":
        arguments = arguments.replace("resolve: Resolve", "resolve: AsyncChoice | Mapping[str, AsyncChoice]")
    plain = node.name in NOT_AWAITED or owner == "Document"
    return f"{static}    {'' if plain else 'async '}def {node.name}({arguments}) -> {returns}: ..."


def _as_twin(text: str) -> str:
    text = re.sub(r"(?<!\w)(Document|HeldLease|Session|Rows|Store)\b", r"Async\1", text)
    return text.replace("str | Path | AsyncStore", "str | Path | Store | AsyncStore")


def _aopen() -> str:
    module = ast.parse((PACKAGE / "store/open.py").read_text("utf-8"))
    node = next(
        each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == "open_store"
    )
    return f"def aopen({ast.unparse(node.args)}) -> Opening[AsyncStore]: ..."


def _formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(STUB), "-"]
    sorting = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--fix",
        "-q",
        "--select",
        "I,F401",
        "--stdin-filename",
        str(STUB),
        "-",
    ]
    for each in (sorting, command):
        text = subprocess.run(each, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> int:
    """Write the stub, or check it."""
    made = stub()
    if "--check" not in sys.argv:
        STUB.write_text(made, encoding="utf-8")
        return 0
    if STUB.exists() and STUB.read_text(encoding="utf-8") == made:
        return 0
    print("src/holdfast/aio.pyi is not up to date: make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
