"""Who decides on conflicts: one side, a function, or either of these by path.

    resolve = None | "ours" | "theirs" | function(conflict) -> value | { pattern: any of these }

Of the patterns (`patterns`), the first that fits decides. A function is asked between two readings of the store, never
in the middle of one, and once for each conflict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, Final, Literal

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import path_text
from holdfast.objects.diffing.encoded import Encoded
from holdfast.objects.diffing.scanning import ARRAY, head
from holdfast.objects.merging.conflict import ABSENT, MergeConflict
from holdfast.objects.merging.patterns import Pattern, parse
from holdfast.record import Record

Ask = Callable[[MergeConflict], Any]
Choice = Literal["ours", "theirs"] | Ask | None
Resolve = Choice | Mapping[str, Choice]

_NO_ITEMS: Final = b"\x90"
_ROOT: Final = "state"
"""What a value that cannot be kept is called, in a message about what is in it."""


class Answer(Record):
    """What a conflict was decided to be."""

    how: Literal["ours", "theirs", "value"]
    data: bytes | None
    """The value as it is encoded; None where nothing is to be there."""


class Resolver:
    """The rules of one merge, and the answers to what was asked so far."""

    def __init__(self, resolve: Resolve, types: TypeRegistry) -> None:
        self._types = types
        rules = resolve if isinstance(resolve, Mapping) else {"": resolve}
        self._rules = [(_pattern(text), _checked(choice)) for text, choice in rules.items()]
        self._answers: dict[tuple[Any, ...], Answer | None] = {}
        self.open: list[MergeConflict] = []
        """Conflicts that a function is to be asked about."""

    def begin(self) -> None:
        """A merge is worked out, perhaps once more: what is open is found anew."""
        self.open = []

    def decide(self, conflict: MergeConflict) -> Answer | None:
        """The answer to a conflict; None while there is none."""
        choice = self._choice(conflict)
        if choice is None:
            return None
        if choice == "ours" or choice == "theirs":  # noqa: PLR1714 - the type checker follows this
            return Answer(choice, conflict.encoded(choice))
        if conflict.key not in self._answers:
            self.open.append(conflict)
        return self._answers.get(conflict.key)

    def ask(self) -> bool:
        """Ask about everything that is open; False where there was nothing."""
        waiting, self.open = self.open, []
        for conflict in waiting:
            choice = self._choice(conflict)
            assert callable(choice)
            given = choice(conflict)
            if isawaitable(given):
                if iscoroutine(given):
                    # Closed, so that nobody is warned of a coroutine that was never awaited: the error says it.
                    given.close()
                raise _awaited()
            self._answers[conflict.key] = None if given is conflict else self._answer(conflict, given)
        return bool(waiting)

    def unused(self, conflicts: Iterable[MergeConflict] = ()) -> list[Pattern]:
        """The plain paths that none of these conflicts is at, or in."""
        known = list(conflicts)
        return [pattern for pattern in self.plain() if not any(pattern.fits(each.steps) for each in known)]

    def plain(self) -> list[Pattern]:
        """The paths that name something, of those that were to decide."""
        return [pattern for pattern, _ in self._rules if pattern.is_plain]

    def _choice(self, conflict: MergeConflict) -> Choice:
        return next((choice for pattern, choice in self._rules if pattern.fits(conflict.steps)), None)

    def _answer(self, conflict: MergeConflict, given: Any) -> Answer:
        data = self._encoded(conflict, given)
        sides: tuple[Literal["ours", "theirs"], ...] = ("ours", "theirs")
        how = next((side for side in sides if data == conflict.encoded(side)), None)
        return Answer(how or "value", data)

    def _encoded(self, conflict: MergeConflict, given: Any) -> bytes | None:
        if given is ABSENT:
            if conflict.is_stretch:
                return _NO_ITEMS
            if not conflict.steps or conflict.steps[-1].kind not in ("key", "index"):
                raise _bad(
                    f"{conflict.path or 'the whole state'} cannot be left out", "return a value for it"
                )
            return None
        try:
            data = encode_value(given, self._types)
        except InvalidInputError as error:
            raise _at(conflict, error) from error
        if conflict.is_stretch and head(data, 0)[0] != ARRAY:
            raise _bad(
                f"{conflict.path} is a stretch of a list, and was resolved to a {type(given).__name__}",
                "return a list of the items that are to stand there",
            )
        return data


def answered(answer: Answer) -> Encoded | None:
    """The value of an answer."""
    return None if answer.data is None else Encoded(answer.data)


def only_as_a_whole(pattern: Pattern, conflict: MergeConflict) -> InvalidInputError:
    """A path to decide on is a part of what can only be decided on together."""
    return InvalidInputError(
        f"{pattern.text!r:.100} is a part of the conflict at {conflict.path}, which can only be resolved as a whole",
        code=ErrorCode.BAD_ARGUMENT,
        hint=f"resolve {conflict.path}, or the list that it is in",
        argument="resolve",
        path=pattern.text,
        conflicts=[conflict.path],
    )


def no_such_place(pattern: Pattern, conflicts: Iterable[MergeConflict]) -> InvalidInputError:
    """A path to decide on is nowhere: most likely it is another one, misspelled."""
    from holdfast.settings.near import close_names, did_you_mean

    known = list(conflicts)
    paths = [each.path or "the whole state" for each in known]
    shown = ", ".join(each if len(each) <= 60 else f"{each[:57]}..." for each in paths[:5])
    shown += f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    starts = (path_text(each.steps[:stop]) for each in known for stop in range(1, len(each.steps) + 1))
    meant = did_you_mean(close_names(pattern.text, dict.fromkeys(starts)))
    told = f"the conflict is at {shown}" if len(paths) == 1 else f"the conflicts are at {shown}"
    return InvalidInputError(
        f"there is no conflict at {pattern.text!r:.100} to resolve, and neither side has anything there",
        code=ErrorCode.BAD_ARGUMENT,
        hint=f"{meant} {told}".strip(),
        argument="resolve",
        path=pattern.text,
        conflicts=paths,
    )


def _checked(choice: Any) -> Choice:
    # Of a callable object, the method is what was written with or without `async`.
    if iscoroutinefunction(choice) or iscoroutinefunction(getattr(choice, "__call__", None)):  # noqa: B004
        raise _awaited()
    if choice is None or choice in ("ours", "theirs") or callable(choice):
        checked: Choice = choice
        return checked
    raise _bad(
        f"resolve cannot be {choice!r:.60}", 'use "ours", "theirs", a function, or a dict of these by path'
    )


def _pattern(text: Any) -> Pattern:
    if type(text) is not str:
        raise _bad(
            f"a path to resolve must be a str, not {type(text).__name__}", 'write it like "messages[*]"'
        )
    return parse(text)


def _awaited() -> InvalidInputError:
    return _bad(
        "resolve is a coroutine function, or returns something to await, and this merge is not awaited",
        "use a plain function, or merge with an AsyncSession: await session.merge(...)",
    )


def _at(conflict: MergeConflict, error: InvalidInputError) -> InvalidInputError:
    """The same error, about the place of the conflict."""
    place = conflict.path or _ROOT
    inside = str(error.details.get("path", _ROOT))
    # The value was encoded as if it were a state; in the message, its path stands before a colon or in parentheses.
    message = re.sub(rf"\b{_ROOT}(?=[\[:)])", lambda _: place, str(error))
    told = {"path": place + inside.removeprefix(_ROOT), "argument": "resolve"}
    return InvalidInputError(
        f"{message}, and resolve returned it", code=error.code, hint=error.hint, **error.details | told
    )


def _bad(why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.BAD_ARGUMENT, hint=hint, argument="resolve")
