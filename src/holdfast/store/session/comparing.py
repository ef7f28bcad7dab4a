"""Comparing checkpoints of a session with each other, and with those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.store.session.identity import Ref, SessionIdentity

# Each is imported by the methods that need it: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.objects.diffing.diff import Diff


class SessionComparing(SessionIdentity):
    """What changed between checkpoints."""

    def diff(self, a: Ref = "@~1", b: Ref = "@", *, path: str | None = None, whole: bool = False) -> Diff:
        """Return what differs between two states, reading only that: by default what the newest checkpoint changed.

        Equal means of the same type and value: 1, 1.0 and True differ, and so does a dict whose keys stand in another
        order. An item of a list that is a dict or an object with an `id` is the same item wherever it stands.

        Args:
            a: The checkpoint before; a ref, or a Checkpoint of any session of the store.
            b: The one after, likewise.
            path: Only this part of both: `messages`, `beliefs.b7`. What only one of them has was added or removed.
            whole: Read texts and bytes of more than 16 KB whole where they differ, instead of the parts that do. Then
                no change has an `Excerpt`, and `json_patch` reads nothing more.

        Raises:
            NotFoundError: A ref names nothing, or neither state has anything at `path`.
            IntegrityError: What had to be read is damaged.
        """
        from holdfast.store.diffs import diff_refs

        return diff_refs(self._writer.place, self._writer.parts.types, a, b, path=path, whole=whole)

    def label(self, ref: Ref = "@") -> str:
        """Return what to call a checkpoint: its message, or else what it changed: `+2 messages, score 0.41 to 0.63`."""
        from holdfast.store.diffs import label_of

        return label_of(self._writer.place, self._writer.parts.types, ref)
