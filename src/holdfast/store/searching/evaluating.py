"""Evaluating an expression that was checked: one method for each kind of node, and nothing else that it could reach.

Values are plain data, as a state is without any class. What a state does not have, or what cannot be compared, is
unknown: neither true nor false. Unknown travels up through every part that needs it, as `MissingError`. `and` and `or`
do without it where another part decides; `not` of it is unknown. Only at the top, in the `if` of a list, and for each
item of `any` and `all` does unknown become "does not hold".
"""

from __future__ import annotations

import ast
import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from holdfast.objects.codec.opaque import Opaque
from holdfast.store.searching.functions import (
    FUNCTIONS,
    ROWS,
    MissingError,
    compared,
    items_of,
    kind_of,
    number,
    reckoned,
    why_not,
)
from holdfast.store.searching.weighing import Budget

_T = TypeVar("_T")

_MOST_NOTES: Final = 5
_NAMED: Final = {"true": True, "false": False, "null": None}

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
        self._noted: set[int] = set()
        self.budget = Budget()
        self.notes: list[str] = []

    def note(self, missing: MissingError) -> None:
        """Remember what was missing: once for each part of the expression, and a few of them say it all."""
        if id(missing.node) not in self._noted and len(self.notes) < _MOST_NOTES:
            self._noted.add(id(missing.node))
            self.notes.append(missing.shown())

    def value(self, node: ast.expr) -> Any:
        """What a part of the expression comes to.

        Raises:
            MissingError: It is unknown: the state has not what it needs.
            StepsError: It takes too long.
        """
        self.budget.spend(1)
        try:
            return _plain(_EVALUATE[type(node)](self, node))
        except MissingError as missing:
            missing.node = missing.node or node
            raise
        except _DIFFERENT as error:
            raise MissingError(why_not(error), node) from error

    def holds(self, node: ast.expr) -> bool:
        """Whether a part holds; one that is unknown does not."""
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
            if isinstance(holder, ROWS):
                return self._some(holder, slice(*bounds))
        else:
            key = self.value(node.slice)
            if isinstance(holder, Mapping):
                self.budget.look_up(key, holder)
                # Asked first: a defaultdict would make what it does not have.
                if key in holder:
                    return holder[key]
                raise MissingError("there is no {}", node)
            if isinstance(holder, ROWS):
                self.budget.spend(len(holder) // 64 if isinstance(holder, deque) else 0)
                try:
                    return holder[key]
                except (LookupError, TypeError):
                    raise MissingError("there is no {}", node) from None
        raise MissingError(f"{kind_of(holder)} has no parts", node.value)

    def both(self, node: ast.BoolOp) -> Any:
        """`and` and `or`: false decides the one, true the other, and what is unknown leaves it to the rest.

        As in Python, the answer is the value that decided, or the last one: `(score or 0) > 0.5` means what it says.
        """
        decides = isinstance(node.op, ast.Or)
        unknown: MissingError | None = None
        value: Any = None
        for each in node.values:
            try:
                value = self.value(each)
                if bool(value) is decides:
                    return value
            except MissingError as missing:
                self.note(missing)
                unknown = unknown or missing
        if unknown is not None:
            raise unknown
        return value

    def unary(self, node: ast.UnaryOp) -> Any:
        """`not`, and signs."""
        if isinstance(node.op, ast.Not):
            return not self.value(node.operand)
        return _SIGNS[type(node.op)](number(self.value(node.operand)))

    def choice(self, node: ast.IfExp) -> Any:
        """`a if b else c`."""
        return self.value(node.body if self.value(node.test) else node.orelse)

    def compare(self, node: ast.Compare) -> bool:
        """One comparison, or a chain of them, which means the same as its links joined by `and`."""
        unknown: MissingError | None = None
        left = self._known(node.left)
        for sign, each in zip(node.ops, node.comparators, strict=True):
            right = self._known(each)
            try:
                if not self._link(sign, left, right):
                    return False
            except MissingError as missing:
                missing.node = missing.node or node
                self.note(missing)
                unknown = unknown or missing
            left = right
        if unknown is not None:
            raise unknown
        return True

    def reckon(self, node: ast.BinOp) -> Any:
        """`a + b`, and the other signs."""
        return reckoned(self.budget, node.op, self.value(node.left), self.value(node.right))

    def call(self, node: ast.Call) -> Any:
        """One of `FUNCTIONS`."""
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in ("any", "all") and isinstance(node.args[0], _WRITTEN):
            return self._each_holds(node.args[0], any if name == "any" else all)
        function, _, _ = FUNCTIONS[name]
        return function(self.budget, *(self.value(each) for each in node.args))

    def found(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        """`[m for m in messages if m.role == "tool"]`."""
        return self._gone_through(node, list)

    def members(self, node: ast.Set) -> set[Any]:
        """`{"user", "tool"}`."""
        values = [self.value(each) for each in node.elts]
        for each in values:
            # Each is compared with those of the same hash, and nobody knows how many these are.
            self.budget.spend(len(values) * self.budget.weigh(each))
        return set(values)

    def _some(self, holder: Any, part: slice) -> Any:
        self.budget.spend(len(range(*part.indices(len(holder)))))
        if isinstance(holder, deque):
            self.budget.spend(len(holder))
            return list(holder)[part]
        return holder[part]

    def _known(self, node: ast.expr) -> Any:
        """A value, or why it is unknown."""
        try:
            return self.value(node)
        except MissingError as missing:
            return missing

    def _link(self, sign: ast.cmpop, left: Any, right: Any) -> bool:
        for each in (left, right):
            if isinstance(each, MissingError):
                raise each
        try:
            return compared(self.budget, sign, left, right)
        except _DIFFERENT as error:
            raise MissingError(why_not(error)) from error

    def _each_holds(self, node: ast.expr, joined: Callable[[Iterator[bool]], bool]) -> bool:
        """`any` and `all` of items that are written here: each is asked by itself, and what is unknown is not true."""
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self._gone_through(node, lambda found: joined(map(bool, found)), unknown=(False,))
        assert isinstance(node, ast.List | ast.Tuple | ast.Set)
        return joined(self.holds(each) for each in node.elts)

    def _gone_through(
        self,
        node: ast.ListComp | ast.GeneratorExp,
        taken: Callable[[Iterator[Any]], _T],
        *,
        unknown: tuple[Any, ...] = (),
    ) -> _T:
        outside = dict(self._items)
        try:
            items = items_of(self.value(node.generators[0].iter))
            return taken(self._each(items, node.generators, node.elt, unknown))
        finally:
            self._items = outside

    def _each(
        self, items: Any, loops: list[ast.comprehension], wanted: ast.expr, unknown: tuple[Any, ...]
    ) -> Iterator[Any]:
        loop, *inner = loops
        assert isinstance(loop.target, ast.Name)
        for item in items:
            self._items[loop.target.id] = _plain(item)
            self.budget.spend(1)
            if not all(self.holds(test) for test in loop.ifs):
                continue
            try:
                if not inner:
                    yield self.value(wanted)
                    continue
                below = items_of(self.value(inner[0].iter))
            except MissingError as missing:
                # An item that has not what the others have is left out, unless who goes through wants to know.
                self.note(missing)
                yield from () if inner else unknown
                continue
            yield from self._each(below, inner, wanted, unknown)


_WRITTEN: Final = (ast.ListComp, ast.GeneratorExp, ast.List, ast.Tuple, ast.Set)


def _bounds(part: ast.Slice) -> tuple[ast.expr | None, ast.expr | None, ast.expr | None]:
    return part.lower, part.upper, part.step


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
    ast.Set: Evaluation.members,
}
