"""Who decides on conflicts: one side, a function, or either of these by path.

    resolve = None | "ours" | "theirs" | function(conflict) -> value | { pattern: any of these }

A pattern is a path; it stands for what is there and for all that lies in it. `*` is any one step: `beliefs.*`,
`messages[*].content`. The first pattern that fits decides. A function is asked between two readings of the store, never
in the middle of one, and once for each conflict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec import encode_value
from holdfast.objects.diffing.change import PathStep, path_text
from holdfast.objects.diffing.encoded import Encoded
from holdfast.objects.diffing.scanning import ARRAY, head
from holdfast.objects.merging.conflict import ABSENT, MergeConflict
from holdfast.objects.registry import TypeRegistry
from holdfast.record import Record

Ask = Callable[[MergeConflict], Any]
Choice = Literal["ours", "theirs"] | Ask | None
Resolve = Choice | Mapping[str, Choice]

_STEP: Final = re.compile(
    r"""
      (?P<dot>\.)? (?P<name>[^.\[\]{}'"]+)
    | \[ (?P<quote>['"]) (?P<text>.*?) (?P=quote) \]
    | \[ (?P<index>[^\[\]'"]*) \]
    | (?P<other>\{ .*? \}) (?=[.\[{]|$)
    """,
    re.VERBOSE | re.DOTALL,
)
_ANY: Final = "*"
_NO_ITEMS: Final = b"\x90"


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
        self._rules = [(_pattern(pattern), _checked(choice)) for pattern, choice in rules.items()]
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
            self._answers[conflict.key] = None if given is conflict else self._answer(conflict, given)
        return bool(waiting)

    def _choice(self, conflict: MergeConflict) -> Choice:
        names = [_step_name(step) for step in conflict.steps]
        return next((choice for pattern, choice in self._rules if _fits(pattern, names)), None)

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
        data = encode_value(given, self._types)
        if conflict.is_stretch and head(data, 0)[0] != ARRAY:
            raise _bad(
                f"{conflict.path} is a stretch of a list, and was resolved to a {type(given).__name__}",
                "return a list of the items that are to stand there",
            )
        return data


def answered(answer: Answer) -> Encoded | None:
    """The value of an answer."""
    return None if answer.data is None else Encoded(answer.data)


def _checked(choice: Any) -> Choice:
    if choice is None or choice in ("ours", "theirs") or callable(choice):
        checked: Choice = choice
        return checked
    raise _bad(
        f"resolve cannot be {choice!r:.60}", 'use "ours", "theirs", a function, or a dict of these by path'
    )


def _pattern(text: Any) -> list[str]:
    """The steps of a pattern, each as `_step_name` writes it."""
    if type(text) is not str:
        raise _bad(
            f"a path to resolve must be a str, not {type(text).__name__}", 'write it like "messages[*]"'
        )
    names: list[str] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or (match["name"] and bool(match["dot"]) == (position == 0)):
            raise InvalidInputError(
                f"{text!r:.100} is not a path",
                code=ErrorCode.BAD_PATH,
                hint="write it like messages[3], beliefs.b7.confidence, messages[*].content or notes['to do']",
            )
        if match["name"] == _ANY or match["index"] == _ANY:
            names.append(_ANY)
        elif match["quote"] or match["name"]:
            names.append(_step_name(PathStep("key", match["text"] if match["quote"] else match["name"])))
        elif match["index"] is not None:
            names.append(f"[{match['index']}]")
        else:
            names.append(match["other"])
        position = match.end()
    return names


def _step_name(step: PathStep) -> str:
    return path_text([step])


def _fits(pattern: Sequence[str], names: Sequence[str]) -> bool:
    return len(pattern) <= len(names) and all(
        wanted in (_ANY, name) for wanted, name in zip(pattern, names, strict=False)
    )


def _bad(why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.BAD_ARGUMENT, hint=hint, argument="resolve")
