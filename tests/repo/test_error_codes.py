"""Error codes are append-only, every error says what to do next, and errors travel."""

from __future__ import annotations

import ast
import copy
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from tools.errors_doc import MEANINGS, PAGE, check_meanings, page

import holdfast
from holdfast import errors
from holdfast.errors import ErrorCode, HoldfastError

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("error_codes.txt")
CLASSES = {
    cls.__name__: cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, HoldfastError)
}
LEAVES = [cls for cls in CLASSES.values() if cls is not HoldfastError]

EXIT_CODES = {
    "InvalidInputError": 2,
    "NotFoundError": 4,
    "ConflictError": 5,
    "UnsupportedError": 6,
    "StateError": 7,
    "BackendError": 8,
    "IntegrityError": 9,
}
EXIT_CODES_OF_THEIR_OWN = {
    "store-missing": 10,
    "database-missing": 10,
    "store-locked": 11,
    "never-holds": 1,
    "needs-confirmation": 20,
}


def test_no_code_was_removed_and_every_new_one_is_listed():
    listed = LIST.read_text(encoding="utf-8").split()
    codes = [str(code) for code in ErrorCode]

    assert set(listed) - set(codes) == set(), (
        "programs rely on these codes: they cannot be renamed or removed"
    )
    assert set(codes) - set(listed) == set(), f"append new codes to {LIST.name}"
    assert len(listed) == len(set(listed))


def test_codes_are_spelled_alike():
    assert [code for code in ErrorCode if code.value != code.name.lower().replace("_", "-")] == []


def test_every_error_class_is_exported():
    exported = {*CLASSES, "HoldfastWarning", "ErrorCode"}

    assert exported - set(holdfast.__all__) == set()


def test_the_page_describes_every_code_once_and_is_up_to_date():
    assert check_meanings() == []
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize(("cls", "code"), [(cls, code) for cls, codes in MEANINGS.items() for code in codes])
def test_exit_codes_are_the_documented_ones(cls, code):
    expected = EXIT_CODES_OF_THEIR_OWN.get(code, EXIT_CODES[cls.__name__])

    assert cls("it broke", code=ErrorCode(code), hint="mend it").exit_code == expected


def constructions(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """Each place that makes an error, with the name of its class; `cls(...)` inside a class is that class."""
    found = []
    for owner in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
        inside = owner.name if isinstance(owner, ast.ClassDef) else None
        for node in ast.walk(owner):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).split(".")[-1]
                if inside is None and name in CLASSES:
                    found.append((name, node))
                elif inside in CLASSES and name == "cls":
                    found.append((inside, node))
    return found


def complaints(source: str) -> list[str]:
    """What is wrong with the errors that a module makes. `_rebuild` passes on what an error already has."""
    found = []
    for name, call in constructions(ast.parse(source)):
        keywords = {each.arg: each.value for each in call.keywords}
        hint = keywords.get("hint")
        if hint is None or (isinstance(hint, ast.Constant) and not hint.value):
            found.append(f"line {call.lineno}: {name} without a hint")
        code = ast.unparse(keywords["code"]) if "code" in keywords else ""
        documented = {f"ErrorCode.{ErrorCode(each).name}" for each in MEANINGS.get(CLASSES[name], ())}
        if code.startswith("ErrorCode.") and code not in documented:
            found.append(f"line {call.lineno}: {name} with {code}, which belongs to another class")
    return found


# One test for all files: as a test each, they cost more to list than to read.
def test_every_error_that_is_made_has_a_hint_and_a_code_of_its_class():
    files = sorted(ROOT.glob("src/**/*.py"))

    assert len(files) > 100
    assert {
        str(path.relative_to(ROOT)): found
        for path in files
        if (found := complaints(path.read_text(encoding="utf-8")))
    } == {}


def test_an_error_without_a_hint_or_with_a_foreign_code_is_noticed():
    assert len(complaints("raise errors.StateError('x', code=ErrorCode.STORE_CLOSED)")) == 1
    assert len(complaints("raise StateError('x', code=ErrorCode.STORE_CLOSED, hint='')")) == 1
    assert len(complaints("raise StateError('x', code=ErrorCode.BAD_REF, hint='mend it')")) == 1
    assert (
        len(
            complaints(
                "class StateError:\n    def f(cls):\n        return cls('x', code=ErrorCode.STORE_CLOSED)"
            )
        )
        == 1
    )
    assert complaints("raise ConflictError.key_taken('s', 'k', existing=b'')") == []
    assert complaints("raise StateError('x', code=ErrorCode.STORE_CLOSED, hint='mend it')") == []


def an_error(cls: type[HoldfastError]) -> HoldfastError:
    code = ErrorCode(next(iter(MEANINGS[cls])))
    return cls("it broke", code=code, hint="mend it", session="s", ids=["a", "b"])


def test_an_error_is_one_record_on_every_surface():
    record = an_error(errors.NotFoundError).to_dict()

    assert record == {
        "code": "store-missing",
        "message": "it broke",
        "hint": "mend it",
        "exit": 10,
        "details": {"session": "s", "ids": ["a", "b"]},
    }
    assert json.loads(json.dumps(record)) == record


@pytest.mark.parametrize("cls", LEAVES)
def test_an_error_survives_copying(cls):
    error = an_error(cls)
    twin = copy.copy(error)

    assert type(twin) is cls
    assert twin.to_dict() == error.to_dict()


def test_errors_survive_a_process_pool():
    # Spawned, because a forked child would inherit the objects instead of receiving them.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for cls in LEAVES:
            error = an_error(cls)
            back = pool.submit(copy.copy, error).result()

            assert type(back) is cls
            assert back.to_dict() == error.to_dict()
