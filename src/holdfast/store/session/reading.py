"""Looking at a session: states, records, and the way from one to the other."""

from __future__ import annotations

from itertools import islice
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from holdfast.errors import ErrorCode, IntegrityError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import is_range, resolve_range
from holdfast.history.walk import ancestors
from holdfast.objects.registry import TypeRegistry, can_register
from holdfast.objects.state import read_state
from holdfast.storage.ports import Reader
from holdfast.storage.records import Query
from holdfast.store.draft import check_text
from holdfast.store.intent import UNSET, Unset
from holdfast.store.place import session_of
from holdfast.store.session.identity import Ref, SessionIdentity, check_limit

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.history.lineage import Tree
    from holdfast.store.document import Document
    from holdfast.store.looking import Around
    from holdfast.store.recovering import Recovered


class SessionReading(SessionIdentity):
    """What can be asked of a session."""

    def load(
        self,
        ref: Ref = "@",
        *,
        path: str | None = None,
        as_: type[Any] | None = None,
        default: Any = UNSET,
        recover: bool = False,
    ) -> Any:
        """Return the state of a checkpoint, verified; the newest of the branch if no ref is given.

        Args:
            ref: Which checkpoint.
            path: A part of the state, read without the rest: `messages[-20:]`, `beliefs.b7.confidence`.
            as_: A type to build: a registered one, or a dataclass, attrs class or pydantic model from plain data.
            default: What to return where `ref` names nothing; without it that is a NotFoundError.
            recover: Where it is damaged, return the state of the newest checkpoint before it that is whole, with a
                RecoveryWarning that says so. `recover()` does the same and tells more.

        Raises:
            NotFoundError: `ref` names nothing, or the state has nothing at `path`, and there is no default.
            IntegrityError: The stored bytes are damaged. They are never returned.
            StateError: The state does not fit `as_`, or a registered type that has changed.
        """
        began = perf_counter_ns()
        types = _knowing(self._writer.parts.types, as_)
        try:
            value = self._load(ref, path, types)
        except NotFoundError as missing:
            if isinstance(default, Unset) or missing.code is ErrorCode.REF_AMBIGUOUS:
                raise
            if ref == "@" and missing.code is not ErrorCode.PATH_MISSING:
                self._writer.expected = None
            return default
        except IntegrityError:
            if not recover:
                raise
            from holdfast.store.recovering import load_intact

            value = load_intact(self._writer, ref, path, types)
        if as_ is not None:
            from holdfast.objects.build import build

            value = build(value, as_, types)
        self._writer.parts.metrics.loaded(perf_counter_ns() - began)
        return value

    def recover(self, ref: Ref = "@") -> Recovered:
        """Return the newest state that is whole, at or before `ref`, and what had to be passed over for it.

        The next save goes on from the head of the branch, damaged or not: history stays as it was.

        Raises:
            NotFoundError: `ref` names nothing.
            IntegrityError: Nothing at or before `ref` can be read (`nothing-intact`).
        """
        from holdfast.store.recovering import recover

        began = perf_counter_ns()
        recovered = recover(self._writer, ref)
        self._writer.parts.metrics.loaded(perf_counter_ns() - began)
        return recovered

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

        document: Document = self._writer.document(ref, default, DOCUMENTS)
        return document

    def checkpoint(self, ref: Ref = "@") -> Checkpoint:
        """Return the record of a checkpoint, without its state."""
        with self._reader() as reader:
            row = self._writer.find(reader, ref)
            self._writer.notice(reader, row)
            return Checkpoint(row, session_of(reader, row))

    def log(self, ref: Ref = "@", *, limit: int | None = None) -> list[Checkpoint]:
        """Return a checkpoint and its ancestors, newest first; an empty list for a session without any.

        A range such as `main..risky-idea` gives the ancestors of the second that are not ancestors of the first.
        """
        check_limit(limit)
        with self._reader() as reader:
            if isinstance(ref, str) and is_range(ref):
                return self._between(reader, ref, limit)
            session = reader.session(self.id)
            if ref == "@" and (session is None or not reader.branches(self.id)):
                return []
            row = self._writer.find(reader, ref)
            owner = session or session_of(reader, row)
            return [Checkpoint(each, owner) for each in ancestors(reader, row, limit=limit)]

    def keyed(
        self, start: str = "", stop: str | None = None, *, reverse: bool = False, limit: int | None = None
    ) -> list[Checkpoint]:
        """Return checkpoints of the session by their keys, in the order of these, whatever branch they are on.

        Keys are compared byte by byte in UTF-8. Those that begin with `run-7/` are `keyed("run-7/", "run-70")`: `0` is
        the character after `/`.

        Args:
            start: A key that is this, or comes after it.
            stop: A key that comes before this; without it, to the last.
            reverse: From the last key to the first.
            limit: At most so many.
        """
        query = Query(
            session=self.id,
            key_from=check_text(start, "start"),
            key_below=None if stop is None else check_text(stop, "stop"),
            by_key=True,
            oldest_first=not reverse,
            limit=check_limit(limit),
        )
        with self._reader() as reader:
            rows = reader.checkpoints(query)
            owner = session_of(reader, rows[0]) if rows else None
        return [Checkpoint(row, owner) for row in rows] if owner is not None else []

    def tree(self, *, limit: int | None = None) -> Tree:
        """Return the lineage of the session as data, newest first: lines that part, merges, heads, what was removed."""
        # Imported by those who look at lineage: a save needs none of it.
        from holdfast.history.lineage import tree_of

        check_limit(limit)
        with self._reader() as reader:
            return tree_of(reader, self.id, self.branch, limit=limit)

    def at(self, when: datetime | str, *, tag: str | None = None, all_branches: bool = False) -> Checkpoint:
        """Return the last checkpoint at or before a moment, in the history of the branch in use.

        Args:
            when: A datetime, or text: `2 hours ago`, `yesterday 17:00`, `2026-11-15 14:30`; local time where it names
                no zone.
            tag: Only checkpoints with this label count.
            all_branches: Every checkpoint of the session counts.

        Raises:
            NotFoundError: The first one is younger (`before-history`; the message has the range), or there is none.
            InvalidInputError: The text is not a time (`bad-time`).
        """
        return self.around(when, tag=tag, all_branches=all_branches).before

    def around(self, when: datetime | str, *, tag: str | None = None, all_branches: bool = False) -> Around:
        """Return the checkpoints on both sides of a moment, and by how much the one before missed it; see `at`."""
        from holdfast.store.looking import look_around

        return look_around(self._writer.place, when, tag=tag, all_branches=all_branches)

    def exists(self, ref: Ref) -> bool:
        """Say whether `ref` names a checkpoint of this session."""
        with self._reader() as reader:
            try:
                self._writer.find(reader, ref)
            except NotFoundError as error:
                if error.code is ErrorCode.REF_AMBIGUOUS:
                    raise
                return False
            return True

    def _load(self, ref: Ref, path: str | None, types: TypeRegistry) -> Any:
        # Before the view is opened: what that still sees and is forgotten meanwhile does not stay at hand.
        kept = self._writer.parts.at_hand.begin()
        with self._writer.reader_for(ref, kept.root_of(self.id)) as reader:
            row = self._writer.find(reader, ref)
            self._writer.notice(reader, row)
            kept.note_root(self.id, row.root)
            if path is not None:
                from holdfast.objects.selection import select_part

                return select_part(row.root, path, kept.through(reader.chunks), types)
            found = read_state(row.root, kept.through(reader.chunks, row.size_bytes))
        # The view has ended: it takes a while to build a large state, and nothing more is asked of the store for it.
        return found.decode(types)

    def _between(self, reader: Reader, text: str, limit: int | None) -> list[Checkpoint]:
        found = resolve_range(reader, self.id, self.branch, text, now=self._writer.parts.clock())
        return [Checkpoint(row, session_of(reader, row)) for row in islice(found, limit)]


def _knowing(types: TypeRegistry, as_: Any) -> TypeRegistry:
    """A class to load as is known for that load, registered or not."""
    return types.child([as_]) if isinstance(as_, type) and can_register(as_) else types
