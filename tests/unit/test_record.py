"""Record: a named tuple as `typing.NamedTuple` makes one, without the cost of its annotations."""

from __future__ import annotations

import copy
from typing import NamedTuple, get_type_hints

import pytest

from holdfast.record import Record


class Written(Record):
    """What it says."""

    name: str
    size: int = 3

    @property
    def twice(self) -> int:
        """A property."""
        return self.size * 2

    @classmethod
    def empty(cls) -> Written:
        """A way to make one."""
        return cls("")

    def __str__(self) -> str:
        return f"<{self.name}>"


class Known(NamedTuple):
    name: str
    size: int = 3


def test_a_record_does_what_a_named_tuple_does():
    made, same = Written("a"), Known("a")
    assert tuple(made) == tuple(same) == ("a", 3)
    assert made._fields == same._fields
    assert repr(made) == repr(same).replace("Known", "Written")
    assert made._replace(size=4) == ("a", 4)
    assert hash(made) == hash(same)
    assert Written._field_defaults == {"size": 3}
    assert copy.deepcopy(made) == made


def test_a_record_has_what_its_body_has():
    assert (Written.__doc__, Written.__name__, Written.__module__) == ("What it says.", "Written", __name__)
    assert get_type_hints(Written) == {"name": str, "size": int}
    assert (Written("a", 5).twice, Written.empty(), str(Written("x"))) == (10, ("", 3), "<x>")


def test_a_default_before_a_field_without_one_is_refused():
    text = "class Wrong(Record):\n    early: int = 1\n    later: int\n"
    with pytest.raises(TypeError, match="Wrong: a field without a default comes after one that has one"):
        exec(text, {"Record": Record, "__name__": __name__})


@pytest.mark.parametrize("arguments", [(), ("a", 1, 2)])
def test_too_few_and_too_many_are_refused(arguments):
    with pytest.raises(TypeError):
        Written(*arguments)
