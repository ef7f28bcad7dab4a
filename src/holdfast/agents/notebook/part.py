"""Part: what the systems of a notebook have in common.

A part keeps its items by id in a dict of its own, or, once it is connected, in the tracked document of a notebook: the
same code either way, and a checkpoint costs what was changed. Items are plain dicts. None is ever removed: it is
rejected, retracted or abandoned instead, so that its id means one thing for good.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.workspace.commands import clean_text

__all__ = ["Item", "Part", "check_share", "now", "plain"]

Item = dict[str, Any]
Observer = Callable[[str, Item], None]

_MAX_TEXT: Final = 20_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> datetime:
    """The time, to the microsecond, as checkpoints have it."""
    return _EPOCH + timedelta(microseconds=time.time_ns() // 1000)


def plain(value: Any) -> Any:
    """Return a copy made of plain dicts and lists."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def check_share(value: Any, name: str) -> float:
    """Return a number from 0 to 1 as a float.

    Raises:
        InvalidInputError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        shown = value if isinstance(value, int | float) and not math.isnan(value) else type(value).__name__
        raise InvalidInputError(
            f"{name} must be a number from 0 to 1, not {shown}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="0 is certainly not, 1 is certain, 0.5 is undecided",
            argument=name,
        )
    return float(value)


class Part:
    """One system of a notebook; usable alone.

    Args:
        clock: The time that items get; for tests.
    """

    keys: ClassVar[tuple[str, ...]] = ()
    """The names under which its items are kept in a debugging state."""
    noun: ClassVar[str] = "item"

    def __init__(self, *, clock: Callable[[], datetime] | None = None) -> None:
        self.clock = clock or now
        self.mark = ""
        """What the ids of new items end with; an experiment has its own, so that two branches never share an id."""
        self._data: MutableMapping[str, Any] = {key: {} for key in self.keys}
        self._numbers: dict[tuple[str, str], int] = {}
        self._callbacks: dict[str, list[Callable[[Item], Any]]] = {}
        self._observer: Observer | None = None
        self._alone = True

    def attach(self, data: MutableMapping[str, Any], observer: Observer | None = None) -> None:
        """Keep the items in `data` from now on. What is there is taken up; items that this part had alone go along."""
        if self._alone:
            for key in self.keys:
                if not data.get(key):
                    data[key] = self._data[key]
        self._alone = False
        self._data = data
        self._observer = observer
        self._numbers.clear()

    def snapshot(self) -> dict[str, Any]:
        """Return all items as plain data: a list for each name of a debugging state."""
        return {key: [plain(each) for each in self._data[key].values()] for key in self.keys}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take the items of a snapshot in the place of those that are here."""
        for key in self.keys:
            self._data[key] = {self._key_of(each): plain(each) for each in value.get(key, ())}
        self._numbers.clear()

    def is_empty(self) -> bool:
        """Say whether there is no item."""
        return not any(self._data[key] for key in self.keys)

    def on(self, event: str, callback: Callable[[Item], Any]) -> None:
        """Call a function with the item when something happens: `hypothesis.confirmed`, `gap.filled` and so on."""
        self._callbacks.setdefault(event, []).append(callback)

    def _key_of(self, item: Mapping[str, Any]) -> str:
        return str(item["id"])

    def _fire(self, event: str, item: Item) -> None:
        # The notebook first: a callback finds its checkpoint made.
        if self._observer is not None:
            self._observer(event, item)
        for callback in self._callbacks.get(event, ()):
            callback(plain(item))

    def _new_id(self, key: str, prefix: str) -> str:
        known = self._numbers.get((key, self.mark))
        if known is None:
            form = re.compile(rf"{prefix}(\d+){re.escape(self.mark)}")
            known = max(
                (int(found[1]) for each in self._data[key] if (found := form.fullmatch(each))), default=0
            )
        self._numbers[key, self.mark] = known + 1
        return f"{prefix}{known + 1}{self.mark}"

    def _get(self, key: str, item: str) -> Any:
        found = self._data[key].get(str(item))
        if found is None:
            known = list(self._data[key])
            raise NotFoundError(
                f"there is no {self.noun} {item!r}",
                code=ErrorCode.ITEM_MISSING,
                hint=f"there are: {', '.join(known[-8:])}"
                if known
                else f"there is no {self.noun} yet: add one",
                id=str(item),
            )
        return found

    def _text(self, text: str, what: str) -> str:
        if not str(text).strip():
            raise InvalidInputError(
                f"{what} is empty", code=ErrorCode.BAD_ARGUMENT, hint=f"say what the {what} is", argument=what
            )
        if len(str(text)) > _MAX_TEXT:
            raise InvalidInputError(
                f"{what} has {len(text)} characters, more than {_MAX_TEXT}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="keep the long text in a file, and say here what it shows",
                argument=what,
            )
        return clean_text(str(text).strip())

    @staticmethod
    def _choice(value: str, choices: Iterable[str], what: str) -> str:
        if value not in choices:
            raise InvalidInputError(
                f"{what} cannot be {value!r}",
                code=ErrorCode.BAD_ARGUMENT,
                hint=f"use one of: {', '.join(choices)}",
                argument=what,
            )
        return value
