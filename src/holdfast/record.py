"""`Record`: a named tuple whose class costs less to make.

`typing.NamedTuple` compiles every annotation when a class is made. Nobody asks these classes for their types while
the program runs, and a command that lists ten checkpoints makes thirty of them before it does anything: that was
a twentieth of its time. So the classes are made by `collections.namedtuple`, and only type checkers see
`typing.NamedTuple`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

__all__ = ["Record"]

if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:
    _NOT_COPIED = {"__annotations__", "__classcell__", "__module__", "__qualname__"}

    class _MakesNamedTuples(type):
        """What runs at `class X(Record)`; the class that comes out is a plain named tuple."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = list(body.get("__annotations__", ()))
            optional = [field for field in fields if field in body]
            # Defaults go to the last fields, whichever they were written for.
            if optional != fields[len(fields) - len(optional) :]:
                raise TypeError(f"{name}: a field without a default comes after one that has one")
            made = namedtuple(  # noqa: PYI024 - see above
                name,
                fields,
                defaults=[body.pop(field) for field in optional],
                module=body["__module__"],
            )
            made.__qualname__ = body["__qualname__"]
            made.__annotations__ = body.get("__annotations__", {})
            for key, value in body.items():
                if key not in _NOT_COPIED:
                    setattr(made, key, value)
            return made

    class Record(metaclass=_MakesNamedTuples):
        """The base to write: `class X(Record)`, then fields with their types, defaults last."""
