"""An expression over a state, such as `messages[-1].role == "tool" and score < 0.5`, that can do nothing but look.

It is written as in Python and read by Python's own parser; what is more than looking, comparing and counting is refused
before anything is evaluated (docs/adr/0012-expressions.md). It sees stored data only: no method, no class of the
application, no attribute that is not a key or a field. Its length, its depth, its numbers and its steps are bounded.

A key that a state does not have is no error: what needs it is unknown, which is neither true nor false, and a note says
so. An expression that comes to unknown does not hold.
"""

from __future__ import annotations

import ast
import decimal
import warnings
from typing import Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.record import Record
from holdfast.store.searching.evaluating import Evaluation
from holdfast.store.searching.functions import FUNCTIONS, MissingError
from holdfast.store.searching.weighing import StepsError

_LONGEST: Final = 2_000
_DEEPEST: Final = 40

_ALLOWED: Final = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Attribute, ast.Subscript, ast.Slice),
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.IfExp),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.List, ast.Tuple, ast.Set, ast.Call, ast.ListComp, ast.GeneratorExp, ast.comprehension),
)

_HABITS: Final = (("&&", "and"), ("||", "or"), ("!", "not"), ("===", "=="), ("~=", "in"))
"""What people write who think in another language."""


_DECIMALS: Final = decimal.Context(prec=28)
"""How Decimals are reckoned with, whatever the application has set for itself: a million digits, say."""


class Answer(Record):
    """Whether an expression holds for a state, and what was missing in it."""

    holds: bool
    notes: tuple[str, ...]


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
            InvalidInputError: It takes more steps than any expression needs (`bad-expression`).
        """
        evaluation = Evaluation(state)
        try:
            with decimal.localcontext(_DECIMALS):
                found = bool(evaluation.value(self._tree.body))
        except MissingError as missing:
            evaluation.note(missing)
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
            evaluation.note(MissingError("it is too deep for what is left of the stack"))
            found = False
        return Answer(found, tuple(evaluation.notes))


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
        # A NUL, or signs in signs without end.
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
        why = _objection(node)
        if why:
            raise _bad(text, why, at)
        left += [(child, depth + 1, at) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.BinOp):
            left[-2] = (node.op, depth + 1, _sign(text, node.left))


def _character(text: str, node: ast.expr) -> int | None:
    """Where a part begins, counted in characters: Python counts bytes."""
    return _column(text, node.col_offset) if node.lineno == 1 else None


def _sign(text: str, before: ast.expr) -> int | None:
    """Where the sign is that comes after a part."""
    if before.end_lineno != 1 or before.end_col_offset is None:
        return None
    at = _column(text, before.end_col_offset)
    return at + len(text[at:]) - len(text[at:].lstrip(" )"))


def _column(text: str, offset: int) -> int:
    start = len(text) - len(text.lstrip())
    line = text[start:].encode("utf-8", "replace")
    return start + len(line[:offset].decode("utf-8", "replace"))


def _objection(node: ast.AST) -> str:
    why = ""
    if isinstance(node, ast.Call):
        named = node.func.id if isinstance(node.func, ast.Name) else None
        if named not in FUNCTIONS:
            what = f"there is no function {named!r}" if named else "only functions can be called, no methods"
            why = f"{what}: there are {', '.join(FUNCTIONS)}"
        elif node.keywords:
            why = "functions take no keywords"
        else:
            why = _wrong_count(named, len(node.args))
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | float | bool | None):
            why = f"a {type(node.value).__name__} cannot be written in it"
    elif isinstance(node, ast.comprehension):
        if node.is_async or not isinstance(node.target, ast.Name):
            why = "each item needs one name: for m in messages"
    elif not isinstance(node, _ALLOWED):
        why = f"{_WORDS.get(type(node).__name__, type(node).__name__)} cannot be used in it"
    return why


def _wrong_count(named: str, count: int) -> str:
    _, fewest, most = FUNCTIONS[named]
    if fewest <= count <= most:
        return ""
    takes = "at least 1" if most > 2 else f"{fewest} or {most}" if fewest < most else str(fewest)
    return f"{named} takes {takes} value{'s' if most > 1 else ''}, not {count}"


_WORDS: Final = {
    "Pow": "**",
    "LShift": "<<",
    "RShift": ">>",
    "BitAnd": "&",
    "BitOr": "|",
    "BitXor": "^",
    "Invert": "~",
    "MatMult": "@",
    "Lambda": "lambda",
    "JoinedStr": "an f-string",
    "NamedExpr": ":=",
    "Starred": "*",
    "Dict": "a dict",
    "DictComp": "a dict",
    "SetComp": "a set of found items",
    "Await": "await",
    "Yield": "yield",
}


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
