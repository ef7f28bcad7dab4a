"""Document: a state that knows what changed in it, so that saving it costs the change and not the state.

A Document is its outermost dict or list, with `save` beside the usual methods; the dicts and lists in it are tracked
(`objects.tracked`). It is saved by the writer of its Session, and both share one expectation: a save is refused with
ConflictError if somebody else has moved the branch. A save that fails loses nothing: what was changed is still to be
saved, and the next save does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.builtin_types import encoded_type
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.document.containers import (
    TrackedDict,
    TrackedList,
    plain_copy,
    tracked_copy,
)
from holdfast.objects.document.document import Change, DocumentEncoder, DocumentEncoding
from holdfast.objects.tree.boundaries import FORMAT_0, Cuts
from holdfast.objects.tree.state import EncodedState
from holdfast.storage.records import ChunkHash
from holdfast.storage.tables import RowChange
from holdfast.store.draft import Draft, check_draft
from holdfast.store.place import UNSET, OnConflict, Ref, Unset

Commit = Callable[[EncodedState, Draft, Ref | Unset | None, Ref | None, OnConflict], Checkpoint]
"""What writes an encoded state: the second half of a save."""


class TrackedDocument:
    """What a Document and an AsyncDocument have in common."""

    __slots__ = ()

    _tree: DocumentEncoder
    _commit: Commit

    if TYPE_CHECKING:
        # It is a dict or a list; which one is known when it runs.
        def __getitem__(self, key: Any) -> Any: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def __delitem__(self, key: Any) -> None: ...
        def __contains__(self, key: Any) -> bool: ...
        def __iter__(self) -> Iterator[Any]: ...
        def __len__(self) -> int: ...
        def __getattr__(self, name: str) -> Any: ...

    def changes(self) -> list[Change]:
        """Return what was written since the last save, or since the document was made: places, not values.

        In the order of the list, a copy of the saved state can be brought up to date with the values that the document
        has at these places. A document that was never saved has changed as a whole: its path is `()`. Values that a
        document does not look into (sets, models) are saved when they differ, and are listed only if written to.
        """
        return self._tree.changes()

    def plain(self) -> Any:
        """Return a copy that is made of plain dicts and lists, all the way down."""
        return plain_copy(self)  # type: ignore[arg-type]

    def _encoded(self, *, check: bool) -> DocumentEncoding:
        encoding = self._tree.encode()
        if check:
            self._tree.check(encoding)
        return encoding

    def _write(
        self,
        encoding: DocumentEncoding,
        draft: Draft,
        expect: Ref | Unset | None,
        parent: Ref | None,
        on_conflict: OnConflict,
    ) -> Checkpoint:
        try:
            checkpoint = self._commit(encoding.state, draft, expect, parent, on_conflict)
        except ConflictError as conflict:
            if conflict.code is ErrorCode.CHUNKS_GONE:
                # The store was replaced: nothing of what was saved before can be counted on.
                self._tree.doubt()
            raise
        self._tree.confirm(encoding)
        return checkpoint


class Document(TrackedDocument):
    """A tracked dict or list; made by `session.document()`."""

    __slots__ = ()

    def save(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        message: str = "",
        *,
        tags: Iterable[str] = (),
        step: int | None = None,
        status: str = "running",
        trigger: str = "manual",
        metadata: Mapping[str, Any] | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
        key: str | None = None,
        expect: Ref | Unset | None = UNSET,
        parent: Ref | None = None,
        on_conflict: OnConflict = "raise",
        rows: Iterable[RowChange] = (),
        check: bool = False,
    ) -> Checkpoint:
        """Save the document as a new checkpoint, durably before returning. It costs what was changed.

        The arguments are those of `Session.save`. With `check`, all of it is encoded as well, and compared: that finds
        what was changed by something that knows the document only as a dict or list, such as heapq.

        Raises:
            InvalidInputError: The document or an argument cannot be kept; the message has the path.
            ConflictError: The branch moved since this document was made or saved. Its changes are kept: save again
                with `on_conflict="fork"`, or make a new document and change that.
            BackendError: The store could not write; saving again is safe.
            StateError: `check` found a change that the document did not notice (`document-drift`). The next save
                writes all of it as it is now.
        """
        draft = check_draft(
            message,
            tags=tags,
            step=step,
            status=status,
            trigger=trigger,
            metadata=metadata,
            tokens=tokens,
            cost_usd=cost_usd,
            duration_ms=duration_ms,
            key=key,
            rows=rows,
        )
        try:
            return self._write(self._encoded(check=check), draft, expect, parent, on_conflict)
        except ConflictError as conflict:
            if conflict.code is not ErrorCode.CHUNKS_GONE:
                raise
        # What was saved before was removed from the store; the whole document is sent now.
        return self._write(self._encoded(check=False), draft, expect, parent, on_conflict)


class _DictDocument(Document, TrackedDict):
    __slots__ = ("_commit", "_tree")


class _ListDocument(Document, TrackedList):
    __slots__ = ("_commit", "_tree")


DocumentKinds = Mapping[type, Any]
"""The class of a document by the type of its state."""
DOCUMENTS: Final[DocumentKinds] = {dict: _DictDocument, list: _ListDocument}


def make_document(
    value: Any,
    kinds: DocumentKinds,
    types: TypeRegistry,
    stored: ChunkHash | None,
    commit: Commit,
    *,
    cuts: Cuts | None = None,
) -> Any:
    """Make a document of a copy of `value`, which is the state stored under that root, or new.

    Raises:
        InvalidInputError: It is neither a dict nor a list, or contains itself.
    """
    cls = kinds.get(encoded_type(value))
    if cls is None:
        raise InvalidInputError(
            f"the state is a {type(value).__qualname__}: a document is a dict or a list",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="load() and save() it, or keep it in a dict under a key",
        )
    document = tracked_copy(value, cls=cls)
    # Here and not in an __init__: these are dicts and lists, which may be initialised again at any time.
    document._tree = DocumentEncoder(document, types, stored, cuts=cuts or FORMAT_0)  # noqa: SLF001
    document._commit = commit  # noqa: SLF001
    return document
