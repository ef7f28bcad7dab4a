"""An expression over a state, such as `messages[-1].role == "tool" and score < 0.5`, that can do nothing but look.

It is written as in Python and read by Python's own parser; every node that is not on the list is refused before
anything is evaluated (docs/adr/0012-expressions.md). It sees the state as JSON has it: no method, no class of the
application, no attribute that is not a key or a field; times are texts in ISO 8601. Its length, its depth, its numbers
and its steps are bounded.

A key that a state does not have is no error: what needs it is unknown, neither true nor false, and a note says so.
`and` and `or` do without it where another part decides; an expression that comes to unknown does not hold.
"""

from __future__ import annotations

import ast
import difflib
import operator
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec.opaque import Opaque
from holdfast.record import Record

_LONGEST: Final = 2_000
_DEEPEST: Final = 40
_MOST_STEPS: Final = 2_000_000
"""A step takes about a microsecond."""
_MOST_BITS: Final = 4_096
_MOST_DIGITS: Final = 100
_MOST_NOTES: Final = 5

_ALLOWED: Final = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Attribute, ast.Subscript, ast.Slice),
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.IfExp),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.List, ast.Tuple, ast.Set, ast.Call, ast.ListComp, ast.GeneratorExp, ast.comprehension),
)
_HABITS: Final = (("&&", "and"), ("||", "or"), ("===", "=="), ("~=", "in"), ("!", "not"))
"""What people write who think in another language."""
_NAMED: Final = {"true": True, "false": False, "null": None}
_OPERATORS: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, holder: item in holder,
    ast.NotIn: lambda item, holder: item not in holder,
}
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each for each in (len, min, max, sum, any, all, abs, round)
} | {each.__name__: each for each in (str.lower, str.upper, str.startswith, str.endswith)}
_TAKES: Final = {"min": (1, 99), "max": (1, 99), "round": (1, 2), "startswith": (2, 2), "endswith": (2, 2)}
"""How few and how many values a function takes, where it is not one."""


class Answer(Record):
    """Whether an expression holds for a state, and what was missing in it."""

    holds: bool
    notes: tuple[str, ...]


class UnknownError(Exception):
    """The state does not have what a part of the expression asks for, or something of another kind."""


class StepsError(Exception):
    """The expression takes too many steps."""


class Expression:
    """An expression that was read and found to be harmless."""

    def __init__(self, text: object) -> None:
        if not isinstance(text, str):
            raise _bad(type(text).__name__, "it must be text", None)
        if not text.strip() or len(text) > _LONGEST:
            why = f"it has more than {_LONGEST:,} characters" if text.strip() else "it is empty"
            raise _bad(text, why, None)
        self.text = text
        self._tree = _parsed(text)
        _check(self._tree, text)

    def holds(self, state: object) -> Answer:
        """Whether it holds for a state, which is never changed.

        Raises:
            InvalidInputError: It takes too many steps (`bad-expression`).
        """
        evaluation = Evaluation()
        try:
            evaluation.state = json_of(state)
            found = bool(evaluation.value(self._tree.body))
        except UnknownError as unknown:
            evaluation.note(unknown)
            found = False
        except StepsError as error:
            raise InvalidInputError(
                f"the expression takes too many steps: {self.text!r:.100}",
                code=ErrorCode.BAD_EXPRESSION,
                hint="look at a part of the state with path=, or at fewer items: messages[-100:]",
                expression=self.text,
            ) from error
        except RecursionError:
            # The program that asks is itself nearly as deep as Python can go.
            evaluation.note(UnknownError("it is too deep for what is left of the stack"))
            found = False
        return Answer(found, tuple(evaluation.notes))


def json_of(value: Any) -> Any:
    """A value as JSON has it: numbers, texts, lists and dicts; everything else as a number or a text."""
    if isinstance(value, Opaque):
        return json_of(value.data)
    if isinstance(value, Mapping):
        return {
            each if type(each) is str else str(json_of(each)): json_of(item) for each, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [json_of(item) for item in value]
    return value if value is None or type(value) in (bool, float, str) else _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.decode("latin-1")
    if isinstance(value, date | time):
        return value.isoformat()
    try:
        if type(value) is int:
            return value if value.bit_length() <= _MOST_BITS else float(value)
        return float(value) if isinstance(value, Decimal | Fraction) else str(value)
    except (ValueError, ArithmeticError):
        # No number that could be compared, or one too large to be.
        return float("nan")


class Evaluation:
    """One expression and one state."""

    def __init__(self) -> None:
        self.state: Any = None
        self._items: dict[str, Any] = {}
        self._steps = 0
        self.notes: list[str] = []

    def note(self, unknown: UnknownError) -> None:
        """Remember what was missing; a few notes say it all."""
        if str(unknown) not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(str(unknown))

    def value(self, node: Any) -> Any:
        """What a part of the expression comes to.

        Raises:
            UnknownError: It is unknown: the state does not have what it needs.
            StepsError: It takes too long.
        """
        self._spend(1)
        try:
            # The parser was checked: there is a method for every kind of node.
            return getattr(self, f"_{type(node).__name__.lower()}")(node)
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise UnknownError(f"{ast.unparse(node)[:80]}: {error}") from error

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise StepsError

    def _weigh(self, value: Any) -> Any:
        """Count what going through a value costs, before it is done: Python does it in one call that cannot stop."""
        left = [value]
        while left:
            each = left.pop()
            self._spend(1 + len(each) // 64 if isinstance(each, str) else 1)
            if isinstance(each, list | dict):
                self._spend(len(each))
                left += each if isinstance(each, list) else each.values()
        return value

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        keys = self.state if isinstance(self.state, dict) else {}
        for known in (self._items, keys, {"state": self.state}, _NAMED):
            if node.id in known:
                return known[node.id]
        raise self._missing(node, node.id, keys)

    def _attribute(self, node: ast.Attribute) -> Any:
        holder = self.value(node.value)
        keys = holder if isinstance(holder, dict) else {}
        if node.attr in keys:
            return keys[node.attr]
        raise self._missing(node, node.attr, keys)

    def _subscript(self, node: ast.Subscript) -> Any:
        holder = self.value(node.value)
        if isinstance(node.slice, ast.Slice) and isinstance(holder, list | str):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            wanted = slice(*(None if part is None else self.value(part) for part in parts))
            self._spend(len(holder) // 8)
            return holder[wanted]
        if not isinstance(holder, list | str | dict) or isinstance(node.slice, ast.Slice):
            raise TypeError(f"{_kind(holder)} has no such parts")
        key = self.value(node.slice)
        try:
            return holder[key]
        except LookupError:
            raise self._missing(node, key, holder) from None

    def _boolop(self, node: ast.BoolOp) -> Any:
        """As in Python, the value that decided, or the last one; what is unknown leaves it to the rest."""
        decides = isinstance(node.op, ast.Or)
        unknown: UnknownError | None = None
        value: Any = None
        for each in node.values:
            try:
                value = self.value(each)
                if bool(value) is decides:
                    return value
            except UnknownError as error:
                self.note(error)
                unknown = error
        if unknown is not None:
            raise unknown
        return value

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return not value
        return -_number(value) if isinstance(node.op, ast.USub) else _number(value)

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _compare(self, node: ast.Compare) -> bool:
        """One comparison, or a chain of them, which is its links joined by `and`."""
        sides, unknown = [node.left, *node.comparators], None
        values = [self._or_unknown(each) for each in sides]
        for sign, left, right in zip(node.ops, values, values[1:], strict=False):
            try:
                if not self._link(sign, left, right):
                    return False
            except (UnknownError, TypeError) as error:
                unknown = (
                    error
                    if isinstance(error, UnknownError)
                    else UnknownError(f"{ast.unparse(node)[:80]}: {error}")
                )
                self.note(unknown)
        if unknown is not None:
            raise unknown
        return True

    def _or_unknown(self, node: ast.expr) -> Any:
        try:
            return self.value(node)
        except UnknownError as unknown:
            return unknown

    def _link(self, sign: ast.cmpop, left: Any, right: Any) -> bool:
        for each in (left, right):
            if isinstance(each, UnknownError):
                raise each
        if isinstance(sign, ast.In | ast.NotIn):
            _has_items(right)
            if isinstance(right, str):
                # Short texts are searched letter by letter from each place.
                self._spend(1 + len(right) * min(len(left) if isinstance(left, str) else 1, 100) // 1_024)
            elif isinstance(right, list):
                weight = self._steps
                self._weigh(left)
                self._spend((self._steps - weight) * len(right))
                self._weigh(right)
        elif isinstance(left, list | dict) and isinstance(right, list | dict):
            if not isinstance(sign, ast.Eq | ast.NotEq):
                raise TypeError("only numbers and texts have an order")
            self._weigh(left)
        return bool(_OPERATORS[type(sign)](left, right))

    def _binop(self, node: ast.BinOp) -> Any:
        # Numbers and nothing else: a text times a million is no number.
        return _OPERATORS[type(node.op)](_number(self.value(node.left)), _number(self.value(node.right)))

    def _call(self, node: ast.Call) -> Any:
        assert isinstance(node.func, ast.Name)
        name, first = node.func.id, node.args[0]
        if name in ("any", "all"):
            # Each item is asked by itself, and what is unknown is not true.
            joined = any if name == "any" else all
            if isinstance(first, ast.ListComp | ast.GeneratorExp):
                return joined(map(bool, self._found(first, unknown=(False,))))
            if isinstance(first, ast.List | ast.Tuple | ast.Set):
                return joined(self._holds(each) for each in first.elts)
        values = [self.value(each) for each in node.args]
        items = values
        if name in ("len", "sum", "any", "all") or (name in ("min", "max") and len(values) == 1):
            items = _has_items(values[0])
        self._spend(len(items) + sum(len(each) // 16 for each in values if isinstance(each, str)))
        if name in ("abs", "round", "sum"):
            items = [_number(each) for each in items]
        elif name in ("min", "max") and any(isinstance(each, list | dict) for each in items):
            raise TypeError("only numbers and texts have an order")
        if name == "round" and not all(
            isinstance(each, int) and abs(each) <= _MOST_DIGITS for each in items[1:]
        ):
            raise ValueError("cannot round to so many digits")
        return _FUNCTIONS[name](*values)

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        return list(self._found(node))

    _generatorexp = _listcomp

    def _list(self, node: ast.List | ast.Tuple | ast.Set) -> list[Any]:
        return [self.value(each) for each in node.elts]

    _tuple = _set = _list

    def _holds(self, node: ast.expr) -> bool:
        try:
            return bool(self.value(node))
        except UnknownError as unknown:
            self.note(unknown)
            return False

    def _found(self, node: ast.ListComp | ast.GeneratorExp, unknown: tuple[Any, ...] = ()) -> Iterator[Any]:
        """What the loops come to; an item that is unknown is left out, or is `unknown`."""
        outside = self._items
        items = _has_items(self.value(node.generators[0].iter))
        try:
            yield from self._each(items, node.generators, node.elt, unknown)
        finally:
            self._items = outside

    def _each(
        self, items: Any, loops: list[ast.comprehension], wanted: ast.expr, unknown: tuple[Any, ...]
    ) -> Iterator[Any]:
        loop, *inner = loops
        assert isinstance(loop.target, ast.Name)
        outside = self._items
        for item in items:
            self._spend(1)
            self._items = {**outside, loop.target.id: item}
            if not all(self._holds(test) for test in loop.ifs):
                continue
            try:
                if not inner:
                    yield self.value(wanted)
                    continue
                below = _has_items(self.value(inner[0].iter))
            except UnknownError as error:
                self.note(error)
                yield from () if inner else unknown
                continue
            yield from self._each(below, inner, wanted, unknown)

    def _missing(self, node: ast.expr, name: Any, holder: Any) -> UnknownError:
        near = (
            difflib.get_close_matches(name, list(holder)[:200], n=1)
            if isinstance(name, str) and isinstance(holder, dict)
            else []
        )
        return UnknownError(
            f"there is no {ast.unparse(node)[:80]}{f'; did you mean {near[0]!r}?' if near else ''}"
        )


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "null" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _number(value: Any) -> Any:
    if isinstance(value, int | float) and (isinstance(value, float) or value.bit_length() <= _MOST_BITS):
        return value
    raise TypeError(f"cannot reckon with {_kind(value)}{' so large' if isinstance(value, int) else ''}")


def _has_items(value: Any) -> Any:
    if isinstance(value, list | dict | str):
        return value
    raise TypeError(f"{_kind(value)} has no items")


def _parsed(text: str) -> ast.Expression:
    try:
        with warnings.catch_warnings():
            # A \\ before a letter that needs none is not worth a word here.
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        if not error.offset:
            # Python has no place for what is not there.
            raise _bad(text, "it ends too early", len(text.rstrip())) from error
        skipped = len(text) - len(text.lstrip())
        raise _bad(text, error.msg, skipped + error.offset - 1 if error.lineno == 1 else None) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise _bad(text, "Python cannot read it", None) from error


def _check(tree: ast.Expression, text: str) -> None:
    """Refuse what an expression may not have. Not recursive: it may be as deep as its length allows."""
    left: list[tuple[ast.AST, int, int | None]] = [(tree, 0, None)]
    while left:
        node, depth, at = left.pop()
        # A sign has no place of its own: that of what it stands in is near enough.
        at = _character(text, node) if isinstance(node, ast.expr) else at
        if depth > _DEEPEST:
            raise _bad(text, f"it is nested more than {_DEEPEST} levels deep", at)
        if why := _objection(node):
            raise _bad(text, why, at)
        left += [(child, depth + 1, at) for child in ast.iter_child_nodes(node)]


def _character(text: str, node: ast.expr) -> int | None:
    """Where a part begins, in characters: Python counts bytes."""
    start = len(text) - len(text.lstrip())
    line = text[start:].encode("utf-8", "replace")
    return start + len(line[: node.col_offset].decode("utf-8", "replace")) if node.lineno == 1 else None


def _objection(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        named = node.func.id if isinstance(node.func, ast.Name) else None
        if named is None or named not in _FUNCTIONS:
            what = f"there is no function {named!r}" if named else "only functions can be called, no methods"
            return f"{what}: there are {', '.join(_FUNCTIONS)}"
        fewest, most = _TAKES.get(named, (1, 1))
        if node.keywords or not fewest <= len(node.args) <= most:
            takes = str(fewest) if fewest == most else f"{fewest} to {most}"
            return f"{named} takes {takes} value{'s' if most > 1 else ''} and no keywords"
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | float | bool | None):
            return f"a {type(node.value).__name__} cannot be written in it"
    elif isinstance(node, ast.comprehension):
        if node.is_async or not isinstance(node.target, ast.Name):
            return "each item needs one name: for m in messages"
    elif not isinstance(node, _ALLOWED):
        return f"{type(node).__name__} cannot be used in it"
    return ""


def _bad(text: str, why: str, at: int | None) -> InvalidInputError:
    where = "" if at is None else f", at character {at + 1}"
    meant = next((f"write {word} instead of {sign}" for sign, word in _HABITS if sign in text), "")
    if "!=" in text and meant.endswith("of !"):
        meant = ""
    return InvalidInputError(
        f"{text!r:.100} is not an expression: {why}{where}",
        code=ErrorCode.BAD_EXPRESSION,
        hint=meant or 'write it like messages[-1].role == "tool" and score < 0.5',
        expression=text,
        position=at,
    )
