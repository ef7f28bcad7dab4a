"""Session: one line of work of one agent, seen by one writer.

A Session remembers the head it has seen. Loading or looking at the tip, and saving, set that expectation; the next
save is refused with ConflictError if the branch has moved since, so that no update is lost by accident. A Session that
has read nothing appends to the head there is. One Session is one writer: give each thread its own (`store.session()`
makes a new one each time, and costs nothing until it is used).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConflictError, ErrorCode, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.names import check_branch, check_label, check_session, check_tags
from holdfast.history.refs import find_head, resolve
from holdfast.history.walk import ancestors
from holdfast.objects.registry import TypeRegistry, can_register
from holdfast.objects.state import EncodedState, decode_state, encode_state
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Claim
from holdfast.store import changing
from holdfast.store.composition import Composition
from holdfast.store.draft import Draft, check_draft
from holdfast.store.saving import UNSET, Expectation, Intent, OnConflict, Unset, save_encoded

if TYPE_CHECKING:
    from holdfast.objects.memo import StateMemo
    from holdfast.store.document import Document, DocumentKinds

Ref = str | Checkpoint

_WHOLE_ID = re.compile("[0-9a-fA-F]{64}")


class Session:
    """One line of work; made by `store.session(...)`."""

    def __init__(
        self, parts: Composition, session: str, *, agent: str | None, project: str | None, branch: str
    ) -> None:
        self._parts = parts
        self._claim = Claim(
            session=check_session(session),
            agent=check_label(agent, "agent"),
            project=check_label(project, "project"),
        )
        self._branch = check_branch(branch)
        self._expected: Expectation = UNSET
        self._memo: StateMemo | None = None

    @property
    def id(self) -> str:
        """The id of the session."""
        return self._claim.session

    @property
    def agent(self) -> str | None:
        """The agent it was opened for."""
        return self._claim.agent

    @property
    def project(self) -> str | None:
        """The project it was opened for."""
        return self._claim.project

    @property
    def branch(self) -> str:
        """The branch in use."""
        return self._branch

    def save(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        state: Any,
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
    ) -> Checkpoint:
        """Save a state as a new checkpoint on the branch in use, durably before returning.

        Args:
            state: Any value that can be kept; usually a dict.
            message: What happened, for people.
            tags: Labels; `tag:x` as a ref is the newest checkpoint that has it.
            step: The agent's own step number.
            status: running, paused, completed, failed or interrupted.
            trigger: Why it is saved: manual, auto:<event>, scheduled, error, restore, fork or merge.
            metadata: A dict of plain JSON, to find checkpoints by.
            tokens: Tokens used so far.
            cost_usd: Cost so far.
            duration_ms: Time taken so far.
            key: The caller's own id, unique in the session: saving the same state under it again returns the
                checkpoint that is there.
            expect: Save only if this is still the head (None: only if there is no checkpoint yet).
            parent: Make a child of this checkpoint, on a new branch if it is not the head.
            on_conflict: "fork" saves onto a new branch where "raise" raises ConflictError. The Session goes on there.

        Raises:
            InvalidInputError: The state or an argument cannot be kept; the message has the path. Nothing is written.
            ConflictError: The branch moved since this Session saw it, or the key names another state.
            BackendError: The store could not write; saving again is safe.
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
        )
        return self._save(self._encode(state), draft, expect, parent, on_conflict)

    def load(
        self, ref: Ref = "@", *, path: str | None = None, as_: type[Any] | None = None, default: Any = UNSET
    ) -> Any:
        """Return the state of a checkpoint, verified; the newest of the branch if no ref is given.

        Args:
            ref: Which checkpoint.
            path: A part of the state, read without the rest: `messages[-20:]`, `beliefs.b7.confidence`.
            as_: A type to build: a registered one, or a dataclass, attrs class or pydantic model from plain data.
            default: What to return where `ref` names nothing; without it that is a NotFoundError.

        Raises:
            NotFoundError: `ref` names nothing, or the state has nothing at `path`, and there is no default.
            IntegrityError: The stored bytes are damaged. They are never returned.
            StateError: The state does not fit `as_`, or a registered type that has changed.
        """
        types = _knowing(self._parts.types, as_)
        with self._parts.backend.reader() as reader:
            try:
                row = resolve(reader, self.id, self._branch, ref)
                self._notice(reader, row)
                value = _state(row, path, reader, types)
            except NotFoundError as missing:
                if isinstance(default, Unset) or missing.code is ErrorCode.REF_AMBIGUOUS:
                    raise
                if ref == "@" and missing.code is not ErrorCode.PATH_MISSING:
                    self._expected = None
                return default
        if as_ is None:
            return value
        from holdfast.objects.build import build

        return build(value, as_, types)

    def document(self, ref: Ref = "@", *, default: Any = UNSET) -> Document:
        """Return a state as a Document: a dict or list that knows what changed in it, and saves only that.

        The Document is a writer of its own. It expects the checkpoint that it was made from to be the head when it is
        saved, and goes on from what it saved; what this Session loads or saves meanwhile does not matter to it.

        Args:
            ref: Which checkpoint.
            default: What to begin with where `ref` names nothing. Without it that is a NotFoundError, but in a session
                without any checkpoint the document begins as an empty dict.

        Raises:
            NotFoundError: `ref` names nothing, and there is no default.
            InvalidInputError: The state is neither a dict nor a list.
            IntegrityError: The stored bytes are damaged. They are never returned.
        """
        from holdfast.store.document import DOCUMENTS

        document: Document = self._document(ref, default, DOCUMENTS)
        return document

    def checkpoint(self, ref: Ref = "@") -> Checkpoint:
        """Return the record of a checkpoint, without its state."""
        with self._parts.backend.reader() as reader:
            row = resolve(reader, self.id, self._branch, ref)
            self._notice(reader, row)
            return Checkpoint(row, changing.session_of(reader, row))

    def log(self, ref: Ref = "@", *, limit: int | None = None) -> list[Checkpoint]:
        """Return a checkpoint and its ancestors, newest first; an empty list for a session without any."""
        check_limit(limit)
        with self._parts.backend.reader() as reader:
            session = reader.session(self.id)
            if ref == "@" and (session is None or not reader.branches(self.id)):
                return []
            row = resolve(reader, self.id, self._branch, ref)
            owner = session or changing.session_of(reader, row)
            return [Checkpoint(each, owner) for each in ancestors(reader, row, limit=limit)]

    def exists(self, ref: Ref) -> bool:
        """Say whether `ref` names a checkpoint of this session."""
        with self._parts.backend.reader() as reader:
            try:
                resolve(reader, self.id, self._branch, ref)
            except NotFoundError as error:
                if error.code is ErrorCode.REF_AMBIGUOUS:
                    raise
                return False
            return True

    def delete(self, ref: Ref, *, force: bool = False) -> Checkpoint:
        """Remove a checkpoint from history and return its record; deleting the tip moves the branch back.

        The row is hidden, and goes for good only with gc. A pinned checkpoint, or one where branches part, needs
        `force`.
        """
        row, owner = changing.delete(self._change(), ref, force=force)
        if not isinstance(self._expected, Unset) and self._expected == row.id:
            self._expected = row.prev
        return Checkpoint(row, owner)

    def annotate(
        self, ref: Ref, *, message: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """Edit the message of a checkpoint, or lay metadata over what it has; the id stays the same."""
        return Checkpoint(*changing.annotate(self._change(), ref, message=message, metadata=metadata))

    def tag(self, ref: Ref, *tags: str) -> Checkpoint:
        """Put labels on a checkpoint."""
        return Checkpoint(*changing.retag(self._change(), ref, add=check_tags(tags)))

    def untag(self, ref: Ref, *tags: str) -> Checkpoint:
        """Take labels off a checkpoint."""
        return Checkpoint(*changing.retag(self._change(), ref, remove=check_tags(tags)))

    def _document(self, ref: Ref, default: Any, kinds: DocumentKinds) -> Any:
        # Imported by those who use documents: a quarter of all there is to import.
        from holdfast.store.document import make_document

        writer = Session(self._parts, self.id, agent=self.agent, project=self.project, branch=self._branch)
        with self._parts.backend.reader() as reader:
            try:
                row = resolve(reader, self.id, self._branch, ref)
            except NotFoundError as missing:
                if isinstance(default, Unset) and (ref != "@" or reader.branches(self.id)):
                    raise
                if missing.code is ErrorCode.REF_AMBIGUOUS:
                    raise
                head = find_head(reader, self.id, self._branch)
                value, root = {} if isinstance(default, Unset) else default, None
                writer._expected = head.id if head else None
            else:
                self._notice(reader, row)
                value, root = decode_state(row.root, reader.chunks, self._parts.types), row.root
                writer._expected = row.id
        return make_document(value, kinds, self._parts.types, root, writer._save)

    def _encode(self, state: Any) -> EncodedState:
        return encode_state(state, self._parts.types, self._memo)

    def _save(
        self,
        encoded: EncodedState,
        draft: Draft,
        expect: Ref | Unset | None,
        parent: Ref | None,
        on_conflict: OnConflict,
    ) -> Checkpoint:
        """Write what `save` has checked and encoded. AsyncSession calls it in a worker thread."""
        if on_conflict not in ("raise", "fork"):
            raise InvalidInputError(
                f"on_conflict cannot be {on_conflict!r}",
                code=ErrorCode.BAD_ARGUMENT,
                hint='use "raise" or "fork"',
            )
        parts = self._parts
        intent = Intent(
            claim=self._claim,
            branch=self._branch,
            expected=self._expectation(expect, parent),
            parent=parent,
            on_conflict=on_conflict,
        )
        try:
            saved = save_encoded(
                parts.backend, intent, encoded, draft, now=parts.clock(), app_version=parts.app_version
            )
        except ConflictError:
            # Whatever happened to the branch or the store, the next save sends the whole state.
            self._memo = None
            raise
        # Only now are the chunks in the store; before, a save that failed would have counted as kept.
        self._memo = encoded.memo
        if saved.wrote:
            self._branch, self._expected = saved.row.branch, saved.row.id
        return Checkpoint(saved.row, saved.owner)

    def _expectation(self, expect: Ref | Unset | None, parent: Ref | None) -> Expectation:
        if isinstance(expect, Unset):
            # Naming the parent says what the writer builds on, so what it saw before does not matter.
            return self._expected if parent is None else UNSET
        if expect is None:
            return None
        if isinstance(expect, Checkpoint):
            expect = expect.id
        if _WHOLE_ID.fullmatch(expect):
            # Known without reading, and still an answer when the checkpoint has been deleted: it is not the head.
            return CheckpointId(bytes.fromhex(expect))
        with self._parts.backend.reader() as reader:
            return resolve(reader, self.id, self._branch, expect).id

    def _notice(self, reader: Reader, row: CheckpointRow) -> None:
        """Seeing the tip sets what the next save expects; seeing an older checkpoint does not."""
        branch = reader.branch(self.id, self._branch)
        if branch is not None and branch.head == row.id:
            self._expected = row.id

    def _change(self) -> changing.Place:
        parts = self._parts
        return changing.Place(parts.backend, self._claim, self._branch, parts.clock)

    def __repr__(self) -> str:
        return f"<Session {self.id!r} on {self._branch!r} of {self._parts.backend.url}>"


def _state(row: CheckpointRow, path: str | None, reader: Reader, types: TypeRegistry) -> Any:
    if path is None:
        return decode_state(row.root, reader.chunks, types)
    from holdfast.objects.selection import select_part

    return select_part(row.root, path, reader.chunks, types)


def _knowing(types: TypeRegistry, as_: Any) -> TypeRegistry:
    """A class to load as is known for that load, registered or not."""
    return types.child([as_]) if isinstance(as_, type) and can_register(as_) else types


def check_limit(limit: int | None) -> int | None:
    """Return `limit` if it can bound a listing."""
    if limit is None or (type(limit) is int and limit > 0):
        return limit
    raise InvalidInputError(
        f"limit must be a whole number above 0, not {limit!r}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="leave it out for everything",
    )
