"""Sources as a recorder has them: in order, captured together, and carried forward where they fail.

All snapshots are taken one right after the other, and become bytes before anybody else gets to run. A source that
cannot be captured, or whose value cannot be encoded, does not stop the save: what was captured of it last goes into the
new checkpoint again. The same holds, for as long as it lasts, for one that could not take its state back, and for one
that is declared but not there: their snapshots, if they have any, would overwrite what is to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.errors import ErrorCode, InvalidInputError, StateError
from holdfast.history.names import check_label
from holdfast.recording.sources import Source, source_of


class Captured(NamedTuple):
    """The state of all sources at one moment."""

    state: dict[str, Any]
    failures: dict[str, str]
    """Sources that could not be captured now, and why."""
    uncaptured: tuple[str, ...]
    """Those, and the ones that are waiting to be restored: what is in the state for them is older."""


class Sources:
    """The connected sources of one recorder.

    Args:
        can_await: Whether `restore` of a source may be a coroutine function.
        stored: Reads what was captured last, by source, each time anew.
    """

    def __init__(self, *, can_await: bool, stored: Callable[[], Mapping[str, Any]]) -> None:
        self._can_await = can_await
        self._stored = stored
        self._sources: dict[str, Source | None] = {}
        self._fields: dict[str, Callable[[], Mapping[str, Any]] | None] = {}
        self._carried: dict[str, Any] = {}
        self._waiting: set[str] = set()
        self._fallback: dict[str, Any] = {}
        """Stored values of sources that could not be captured last time, and that nobody else has."""
        self._looked_up: set[str] = set()

    def connect(self, name: str, source: Any, *, optional: bool) -> None:
        """Add a source behind the others; one that was absent comes back to its place."""
        check_label(name, "source")
        if self._sources.get(name) is not None:
            raise InvalidInputError(
                f"there is a source {name!r} already",
                code=ErrorCode.BAD_NAME,
                hint="give each source a name of its own, or disconnect() the other one first",
                name=name,
            )
        if source is None and not optional:
            raise InvalidInputError(
                f"source {name!r} is None",
                code=ErrorCode.BAD_ARGUMENT,
                hint="connect an object, or say optional=True: then what was stored of it is carried forward",
                name=name,
            )
        self._sources[name] = None if source is None else source_of(source, can_await=self._can_await)
        self._fields[name] = getattr(source, "checkpoint_fields", None)

    def disconnect(self, name: str) -> None:
        """Remove a source. What is carried for it is kept, for when it comes back, and not saved until then."""
        self.check_known(name)
        del self._sources[name]
        self._fields.pop(name, None)
        self._fallback.pop(name, None)

    def check_known(self, name: str) -> None:
        """Refuse a name that no source has."""
        if name not in self._sources:
            raise InvalidInputError(
                f"there is no source {name!r}",
                code=ErrorCode.BAD_NAME,
                hint=f"connected are: {', '.join(self._sources) or 'none'}",
                name=name,
            )

    def release(self, name: str) -> None:
        """Stop carrying what was stored of a source: from here on its own snapshots count."""
        self._carried.pop(name, None)
        self._fallback.pop(name, None)
        self._waiting.discard(name)
        self._looked_up.discard(name)

    @property
    def carried(self) -> Mapping[str, Any]:
        """What is carried forward, by source, without types."""
        return MappingProxyType(self._carried)

    def carry(self, values: Mapping[str, Any], failed: frozenset[str]) -> None:
        """After a resume: carry exactly these. Those that failed have live sources, whose snapshots do not count."""
        self._carried = dict(values)
        self._waiting = set(failed)
        self._fallback.clear()
        self._looked_up = set(self._sources)

    def wait_for(self, name: str) -> None:
        """A source is there, and did not take what is carried for it: its snapshots do not count yet."""
        self._waiting.add(name)

    def items(self) -> Iterator[tuple[str, Source | None]]:
        """All of them, in order."""
        return iter(tuple(self._sources.items()))

    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self._sources)

    def capture(self) -> Captured:
        """Take all snapshots, with nothing in between.

        Raises:
            InvalidInputError: There is no source.
            StateError: All of them failed (`sources-failed`).
        """
        state: dict[str, Any] = {}
        failures: dict[str, str] = {}
        for name, source in self._sources.items():
            if name in self._carried:
                state[name] = self._carried[name]
            elif source is not None:
                try:
                    state[name] = source.snapshot()
                except Exception as error:  # noqa: BLE001 - the application's own code: the save goes on without it
                    failures[name] = f"{type(error).__name__}: {error}"
        return self._whole(state, failures)

    def without(self, captured: Captured, failures: Mapping[str, str]) -> Captured:
        """The same moment, where some of the snapshots turned out to be of no use.

        Raises:
            StateError: No other was captured (`sources-failed`).
        """
        state = {
            name: value
            for name, value in captured.state.items()
            if name not in failures and name not in captured.failures
        }
        return self._whole(state, {**captured.failures, **failures})

    def confirm(self, captured: Captured) -> None:
        """What was captured is bytes now: older values are of no use any more."""
        for name in captured.state:
            if name not in captured.failures:
                self._fallback.pop(name, None)

    def _whole(self, state: dict[str, Any], failures: dict[str, str]) -> Captured:
        self._check(state, failures)
        if len(state) < len(self._sources):
            state = self._completed(state, failures)
        waiting = [name for name in self._sources if name in failures or name in self._waiting]
        return Captured(state, failures, tuple(waiting))

    def described(self) -> dict[str, Any]:
        """What sources with `checkpoint_fields` say of themselves: step, status, cost and metadata."""
        found: dict[str, Any] = {"metadata": {}}
        for fields in self._fields.values():
            if callable(fields):
                said = dict(fields())
                found["metadata"].update(said.pop("metadata", None) or {})
                found.update(said)
        return found

    def view(self) -> Mapping[str, Any]:
        """The state as a mapping that captures only what is looked at."""
        return _View(self._sources, self._carried)

    def _check(self, state: Mapping[str, Any], failures: Mapping[str, str]) -> None:
        if not self._sources:
            raise InvalidInputError(
                "there is nothing to save: no source is connected",
                code=ErrorCode.BAD_ARGUMENT,
                hint='connect one: recorder.connect("agent", agent)',
            )
        if failures and not state:
            said = "; ".join(f"{name}: {why}" for name, why in failures.items())
            raise StateError(
                f"no source could be captured: {said}",
                code=ErrorCode.SOURCES_FAILED,
                hint="nothing was saved; see what their snapshot() raises",
                sources=list(failures),
            )

    def _completed(self, state: dict[str, Any], failures: Mapping[str, str]) -> dict[str, Any]:
        """The same with what was captured of the others last, in the order of the sources."""
        absent = {name for name, source in self._sources.items() if source is None and name not in state}
        unknown = (failures.keys() - self._fallback.keys()) | (absent - self._looked_up)
        if unknown:
            found = self._stored()
            self._looked_up |= absent
            self._fallback.update(
                (name, found[name]) for name in failures if name in found and name in unknown
            )
            self._carried.update((name, found[name]) for name in absent if name in found)
        known = {
            **self._carried,
            **{name: self._fallback[name] for name in failures if name in self._fallback},
        }
        whole = {**known, **state}
        return {name: whole[name] for name in self._sources if name in whole}


class _View(Mapping[str, Any]):
    """What a predicate sees: each source is captured when it is first looked at."""

    __slots__ = ("_carried", "_seen", "_sources")

    def __init__(self, sources: Mapping[str, Source | None], carried: Mapping[str, Any]) -> None:
        self._sources = sources
        self._carried = carried
        self._seen: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._carried:
            return self._carried[name]
        if name not in self._seen:
            source = self._sources[name]
            if source is None:
                raise KeyError(name)
            self._seen[name] = source.snapshot()
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, source in self._sources.items() if source is not None or name in self._carried)

    def __len__(self) -> int:
        return sum(1 for _ in self)
