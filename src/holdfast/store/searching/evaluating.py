"""Evaluating an expression that was checked: one method for each kind of node, and nothing else that it could reach.

Values are plain data, as a state is without any class. What is missing, or cannot be compared, ends the part of the
expression that needs it: `and`, `or` and the items of a list take that for "does not hold" and go on.
"""

from __future__ import annotations

import ast
import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from holdfast.objects.opaque import Opaque

_MOST_STEPS: Final = 5_000_000
_MOST_BITS: Final = 4_096
"""Of a whole number that is reckoned with: a product of such numbers takes no time."""
_MOST_NOTES: Final = 5

_ROWS: Final = (list, tuple, deque, str)
_NAMED: Final = {"true": True, "false": False, "null": None}


class MissingError(Exception):
    """The state does not have what the expression asks for, or something of another kind."""

    def __init__(self, why: str, node: ast.expr | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.node = node

    def shown(self) -> str:
        """What is missing, in the words of the expression; made only for what is shown, because it takes a while."""
        part = "" if self.node is None else ast.unparse(self.node)[:80]
        return self.why.format(part) if "{}" in self.why else f"{part}: {self.why}" if part else self.why


class StepsError(Exception):
    """The expression takes too many steps."""


def _number(value: Any) -> Any:
    if isinstance(value, int | float | Decimal) and not (
        isinstance(value, int) and value.bit_length() > _MOST_BITS
    ):
        return value
    raise MissingError(f"cannot reckon with a {type(value).__name__}")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise MissingError(f"there is a {type(value).__name__} where a text is needed")


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "len": len,
    "min": min,
    "max": max,
    "sum": lambda items: sum(map(_number, items)),
    "any": any,
    "all": all,
    "abs": lambda value: abs(_number(value)),
    "round": lambda value: round(_number(value)),
    "lower": lambda value: _text(value).lower(),
    "upper": lambda value: _text(value).upper(),
    "startswith": lambda value, start: _text(value).startswith(_text(start)),
    "endswith": lambda value, end: _text(value).endswith(_text(end)),
}

_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}

_RECKON: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_SIGNS: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}

_DIFFERENT: Final = (TypeError, ValueError, ArithmeticError, LookupError)
"""What Python raises where values do not go together: None < 0.5, 1 / 0, [1][5]."""


class Evaluation:
    """One expression and one state."""

    def __init__(self, state: Any) -> None:
        self._state = _plain(state)
        self._items: dict[str, Any] = {}
        self._steps = 0
        self._noted: set[int] = set()
        self.notes: list[str] = []

    def note(self, missing: MissingError) -> None:
        """Remember what was missing: once for each part of the expression, and a few of them say it all."""
        if id(missing.node) not in self._noted and len(self.notes) < _MOST_NOTES:
            self._noted.add(id(missing.node))
            self.notes.append(missing.shown())

    def value(self, node: ast.expr) -> Any:
        """What a part of the expression comes to.

        Raises:
            MissingError: The state has not what it needs.
            StepsError: It takes too long.
        """
        self._count(1)
        try:
            return _plain(_EVALUATE[type(node)](self, node))
        except MissingError as missing:
            missing.node = missing.node or node
            raise
        except _DIFFERENT as error:
            raise MissingError(str(error), node) from error

    def holds(self, node: ast.expr) -> bool:
        """Whether a part holds; one that asks for what is missing does not."""
        try:
            return bool(self.value(node))
        except MissingError as missing:
            self.note(missing)
            return False

    def name(self, node: ast.Name) -> Any:
        """A key of the state, the name of an item, or `state` itself."""
        for known in (self._items, self._state if isinstance(self._state, Mapping) else {}):
            if node.id in known:
                return known[node.id]
        if node.id == "state":
            return self._state
        if node.id in _NAMED:
            return _NAMED[node.id]
        raise MissingError("there is no {}", node)

    def attribute(self, node: ast.Attribute) -> Any:
        """What a dict or a record has under a name; never a method or a property."""
        holder = self.value(node.value)
        if isinstance(holder, Mapping) and node.attr in holder:
            return holder[node.attr]
        raise MissingError("there is no {}", node)

    def subscript(self, node: ast.Subscript) -> Any:
        """An item, the value of a key, or some items."""
        holder = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            bounds = [None if part is None else self.value(part) for part in _bounds(node.slice)]
            if isinstance(holder, _ROWS):
                self._count(len(holder))
                return (list(holder) if isinstance(holder, deque) else holder)[slice(*bounds)]
        else:
            key = self.value(node.slice)
            if isinstance(holder, Mapping | list | tuple | deque | str):
                try:
                    return holder[key]
                except (LookupError, TypeError):
                    raise MissingError("there is no {}", node) from None
        raise MissingError(f"a {type(holder).__name__} has no parts", node.value)

    def both(self, node: ast.BoolOp) -> bool:
        """`and` and `or`."""
        check = all if isinstance(node.op, ast.And) else any
        return check(self.holds(each) for each in node.values)

    def unary(self, node: ast.UnaryOp) -> Any:
        """`not`, and signs."""
        if isinstance(node.op, ast.Not):
            return not self.value(node.operand)
        return _SIGNS[type(node.op)](_number(self.value(node.operand)))

    def choice(self, node: ast.IfExp) -> Any:
        """`a if b else c`."""
        return self.value(node.body if self.holds(node.test) else node.orelse)

    def compare(self, node: ast.Compare) -> bool:
        """One comparison, or a chain of them."""
        left = self.value(node.left)
        for sign, each in zip(node.ops, node.comparators, strict=True):
            right = self.value(each)
            # Looking through a list or a text takes as long as it is.
            self._count(_length(left) + _length(right))
            if not _COMPARE[type(sign)](left, right):
                return False
            left = right
        return True

    def reckon(self, node: ast.BinOp) -> Any:
        """Numbers, and nothing else: a text times a million is no number."""
        left, right = _number(self.value(node.left)), _number(self.value(node.right))
        return _RECKON[type(node.op)](left, right)

    def call(self, node: ast.Call) -> Any:
        """One of `FUNCTIONS`."""
        assert isinstance(node.func, ast.Name)
        values = [self.value(each) for each in node.args]
        self._count(sum(map(_length, values)))
        return FUNCTIONS[node.func.id](*values)

    def found(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        """`[m for m in messages if m.role == "tool"]`."""
        outside = dict(self._items)
        try:
            return list(self._each(node.elt, node.generators))
        finally:
            self._items = outside

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise StepsError

    def _each(self, wanted: ast.expr, loops: list[ast.comprehension]) -> Iterator[Any]:
        if not loops:
            try:
                yield self.value(wanted)
            except MissingError as missing:
                # An item that has not what the others have is left out.
                self.note(missing)
            return
        loop, *inner = loops
        assert isinstance(loop.target, ast.Name)
        for item in self.value(loop.iter):
            self._items[loop.target.id] = _plain(item)
            self._count(1)
            if all(self.holds(test) for test in loop.ifs):
                yield from self._each(wanted, inner)


def _bounds(part: ast.Slice) -> tuple[ast.expr | None, ast.expr | None, ast.expr | None]:
    return part.lower, part.upper, part.step


def _length(value: Any) -> int:
    # Letters are compared many at a time.
    return len(value) // 64 if isinstance(value, str) else len(value) if hasattr(value, "__len__") else 0


def _plain(value: Any) -> Any:
    while isinstance(value, Opaque):
        value = value.data
    return value


def _row(kind: Callable[[Any], Any]) -> Callable[[Evaluation, Any], Any]:
    return lambda evaluation, node: kind([evaluation.value(each) for each in node.elts])


_EVALUATE: Final[dict[type[ast.expr], Callable[[Evaluation, Any], Any]]] = {
    ast.Constant: lambda _, node: node.value,
    ast.Name: Evaluation.name,
    ast.Attribute: Evaluation.attribute,
    ast.Subscript: Evaluation.subscript,
    ast.BoolOp: Evaluation.both,
    ast.UnaryOp: Evaluation.unary,
    ast.IfExp: Evaluation.choice,
    ast.Compare: Evaluation.compare,
    ast.BinOp: Evaluation.reckon,
    ast.Call: Evaluation.call,
    ast.ListComp: Evaluation.found,
    ast.GeneratorExp: Evaluation.found,
    ast.List: _row(list),
    ast.Tuple: _row(tuple),
    ast.Set: _row(set),
}
