"""Who decides on conflicts: one side, a function, or either of these by path.

    resolve = None | "ours" | "theirs" | function(conflict) -> value | { pattern: any of these }

Of the patterns, the first that fits decides. A pattern is a path: it stands for what is there and for all that lies in
it. In it `*` is any one step, and a range is each item and each stretch in it. Positions count from the beginning: from
the end, each side has its own. A function is asked between two readings of the store, never
in the middle of one, and once for each conflict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, Final, Literal

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import PathStep, Step, parse_path, path_text, position_of
from holdfast.objects.diff.encoded_value import ARRAY, LIST, Encoded, open_value
from holdfast.objects.diff.location import locate
from holdfast.objects.merge.conflict import ABSENT, MergeConflict
from holdfast.record import Record

Ask = Callable[[MergeConflict], Any]
Choice = Literal["ours", "theirs"] | Ask | None
Resolve = Choice | Mapping[str, Choice]

_NO_TYPES: Final = TypeRegistry()
_NO_ITEMS: Final = b"\x90"
_ANY: Final = slice(None)
_ROOT: Final = "state"
"""What a value that cannot be kept is called, in a message about what is in it."""


class Answer(Record):
    """What a conflict was decided to be."""

    how: Literal["ours", "theirs", "value"]
    data: bytes | None
    """The value as it is encoded; None where nothing is to be there."""


class Pattern(Record):
    """A path to decide on."""

    text: str
    steps: list[Step]

    @property
    def is_plain(self) -> bool:
        """Whether it names something: neither the whole state, nor whatever fits."""
        return bool(self.steps) and _ANY not in self.steps

    def fits(self, steps: Sequence[PathStep]) -> bool:
        """Whether something is there, or lies in it."""
        return len(self.steps) <= len(steps) and all(map(_fits, self.steps, steps))

    def is_part_of(self, steps: Sequence[PathStep]) -> bool:
        """Whether it names some of a stretch that is there, or something in it, and not all of the stretch."""
        number = len(steps) - 1
        if number < 0 or not isinstance(steps[-1].key, str) or len(self.steps) <= number or self.fits(steps):
            return False
        there, named = _range_of(steps[-1]), _named_range(self.steps[number])
        if there is None or named is None or not all(map(_fits, self.steps[:number], steps[:-1])):
            return False
        return max(there[0], named[0]) < min(there[1], named[1])

    def is_in(self, states: Iterable[Encoded]) -> bool:
        """Whether one of these states has something there."""
        return any(_is_in(state, self.steps) for state in states)


def _fits(wanted: Step, step: PathStep) -> bool:
    there, named = _range_of(step), _named_range(wanted)
    if wanted == _ANY:
        return True
    if isinstance(step.key, str) and step.kind == "index" and not isinstance(wanted, slice):
        return False
    if there is not None:
        # A stretch with nothing in it stands before the item of its number, and belongs to who has that item.
        return (
            named is not None
            and (named[0] <= there[0] and there[1] <= named[1])
            and (there[0] < named[1] or there == named)
        )
    if isinstance(wanted, PathStep):
        return encode_value(wanted.key, _NO_TYPES) == encode_value(step.key, _NO_TYPES)
    return type(wanted) is type(step.key) and wanted == step.key


def _is_in(value: Encoded, steps: Sequence[Step]) -> bool:
    """Whether something is there; the way goes to every item that a range names."""
    at = next((at for at, step in enumerate(steps) if isinstance(step, slice)), len(steps))
    found = locate(value, steps[:at], _no_chunks).value
    if at == len(steps) or not isinstance(found, Encoded):
        return found is not None
    opened, asked = open_value(found), _named_range(steps[at])
    if opened is None or opened.shape != LIST or asked is None:
        return False
    end = len(opened.values)
    if asked[0] == end and asked[1] in (end, float("inf")) and at == len(steps) - 1:
        # The place behind the last item, where something would stand.
        return True
    within = range(asked[0], int(min(asked[1], end)))
    return any(_is_in(opened.values[each], steps[at + 1 :]) for each in within)


def _range_of(step: PathStep) -> tuple[int, float] | None:
    """Where in a list a step leads: to one item, or to a stretch."""
    if step.kind != "index":
        return None
    if isinstance(step.key, int):
        return step.key, step.key + 1
    start, _, stop = step.key.partition(":")
    return int(start), int(stop)


def _named_range(wanted: Step) -> tuple[int, float] | None:
    """Which places of a list were asked for, if it is about a list."""
    if isinstance(wanted, slice):
        return wanted.start or 0, float("inf") if wanted.stop is None else wanted.stop
    at = position_of(wanted)
    return None if at is None else (at, at + 1)


def _no_chunks(names: Iterable[Any]) -> dict[Any, bytes]:
    raise AssertionError(f"the states are whole: {list(names)}")


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
        if conflict.is_stretch and Encoded(data).head()[0] != ARRAY:
            raise _bad(
                f"{conflict.path} is a stretch of a list, and was resolved to a {type(given).__name__}",
                "return a list of the items that are to stand there",
            )
        return data


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
    steps = parse_path(text, wildcard=True)
    if any(_counts_from_end(step) for step in steps):
        raise InvalidInputError(
            f"{text!r:.100} counts from the end of a list, which is not the same place on both sides",
            code=ErrorCode.BAD_PATH,
            hint="name the place as the conflict does, counted from the beginning, or any item with [*]",
        )
    return Pattern(text, steps)


def _counts_from_end(step: Step) -> bool:
    numbers = (step.start, step.stop) if isinstance(step, slice) else (step,)
    return any(isinstance(each, int) and each < 0 for each in numbers)


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
