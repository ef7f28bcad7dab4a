"""Values in a word or two, for a line that says what became of them."""

from __future__ import annotations

from typing import Any, Final

from holdfast.objects.diffing.change import Excerpt

SHORT: Final = 18
"""Characters up to which a text is told as it is."""


def in_words(value: Any) -> str | None:
    """A short value as text; None where it is none."""
    if isinstance(value, Excerpt):
        return None
    if isinstance(value, str):
        plain = len(value) <= SHORT and value.isprintable() and value.strip() == value
        return (value or '""') if plain else None
    if value is None or isinstance(value, bool):
        return str(value)
    return numbers(value, value)[0] if is_number(value) else None


def is_number(value: Any) -> bool:
    """Whether it is a number that can be told: an int has to fit in a few digits."""
    return type(value) in (int, float) and (type(value) is float or value.bit_length() < 64)


def numbers(old: float, new: float) -> tuple[str, str]:
    """Both as short as they still differ."""
    before, after = _number(old), _number(new)
    if before != after or (type(old) is type(new) and old == new):
        return before, after
    return repr(old), repr(new)


def _number(value: float) -> str:
    if type(value) is int:
        return f"{value:,}"
    text = f"{value:.4g}"
    # 1.0 is not 1; "inf", "nan" and "1e+05" need no more to be told from it.
    return text if not text.lstrip("-").isdigit() else f"{text}.0"


def kind_of(value: Any) -> str:
    """What kind of value it is, with its article."""
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
