"""Hints in the words of the command line.

The library says what to do next in Python, because most who read it write Python. Here the same advice is given as
something to type: `s.operations()` becomes `holdfast undo --list`.
"""

from __future__ import annotations

import re

_WORDS = (
    (r"store\.verify\(\) \((holdfast verify)\)", r"\1"),
    (r"store\.repair\(\) sets", "holdfast repair sets"),
    (r"s\.\w+\([^()]*\) \((holdfast [^()]*)\)", r"\1"),
    (r"saves are not undone: s\.restore\('@-'\)", "saves are not undone: holdfast restore @-"),
    (r"s\.delete\('@'\)", "holdfast delete @"),
    (r"s\.operations\(\)", "holdfast undo --list"),
    (r"s\.branches\(\)", "holdfast branch"),
    (r"s\.restore\(('[^']*')\) and s\.fork\(('[^']*')\) go", r"holdfast restore \1 and holdfast fork \2 go"),
    (r"s\.delete_branch\('([^']*)', force=True\)", r"holdfast branch --delete \1 --force"),
    (
        r"open\(damaged=True\): store\.verify\(\) says what is lost, store\.repair\(\) keeps the rest",
        "holdfast verify says what is lost, holdfast repair keeps the rest",
    ),
    (r"s\.switch\(name, remember=True\) sets it", "holdfast switch NAME goes to another"),
    (r"s\.switch\(\) to another one first", "or holdfast switch to another one first"),
    (r"s\.clear\(\) removes its checkpoints too", "holdfast clear removes its checkpoints too"),
    (
        r"s\.rename_branch\(('[^']*'), ('[^']*')\) gives",
        r"holdfast branch --rename \1 \2 gives",
    ),
    (r"s\.fork\(('[^']*')\) begins", r"holdfast fork \1 begins"),
    (r"s\.tag\(('[^']*'), \.\.\.\) helps", r"holdfast tag \1 NAME helps"),
    (r"pass force=True \(--force\) to write over it", "--force writes over it"),
    (
        r"leave session= out, which is for files of other programs; store\.copy_session\(\) gives .*",
        "leave --session out, which is for files of other programs",
    ),
    (
        r"import it into another store; store\.copy_session\(\) and store\.forget\(\) give .*",
        "import it into another store (--store)",
    ),
    (r"with force=True \((--whole --force)\)", r"with \1"),
    (
        r"load the part above it to see what there is",
        "holdfast show REF --path with the part above it shows what there is",
    ),
    (r"pass force=True to delete it all the same", "--force deletes it all the same"),
    (r"pass force=True to (\w+) it all the same", r"--force: \1 it all the same"),
    (r"use store\.session\('([^']*)'\)", r"--session \1"),
    (r"(its branches are: .*)$", r"\1; holdfast switch NAME goes to one"),
    (r"exact=True looks into every state", "--exact looks into every state"),
    (r"check='all' tests every", "--check all tests every"),
    (r"let it return holdfast\.Skip for", "let the command end with 125 for"),
    (r"or a regular expression with regex=True", "or a regular expression with --regex"),
    (r"look at a part of the state with path=", "look at a part of the state with --path"),
    (r"save\(\) makes the first one", "holdfast create MESSAGE saves the first one"),
    (r"save\(\) starts it again", "holdfast create MESSAGE starts it again"),
    (r"s\.undo\(\) brings them back", "holdfast undo brings them back"),
    (
        r"pass message= or metadata=, or use tag\(\) for labels",
        "give --message or --metadata; tag sets labels",
    ),
)


def in_shell_words(hint: str) -> str:
    """`hint` with what is written in Python put as a command."""
    for pattern, words in _WORDS:
        hint = re.sub(pattern, words, hint)
    return hint
