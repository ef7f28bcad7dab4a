"""Commands in hints and in talk, made so that they can be pasted.

Whoever typed `--store X` gets `holdfast undo --store X` to type next, not `holdfast undo`, which would be about another
store. It is done here for every hint and every line of talk, whoever wrote it: the words `holdfast VERB` are found in
the text, and the options that were typed are put behind the verb, those that it takes. What came from a variable or a
settings file is still there when the command is pasted, and is left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from holdfast.cli._terminal import escape_controls

_STORE = ("store",)
_SESSION = ("store", "session")
_BRANCH = ("store", "session", "branch")

TAKES: dict[str, tuple[str, ...]] = {
    "demo": (),
    "completion": (),
    "copy": (),
    "init": _STORE,
    "gc": _STORE,
    "verify": _STORE,
    "repair": _STORE,
    "backup": _STORE,
    "config": _STORE,
    "migrate": _STORE,
    "import-langgraph": _STORE,
    "list": _SESSION,
    "tree": _SESSION,
    "timeline": _SESSION,
    "watch": _SESSION,
    "heartbeat": _SESSION,
    "stats": _SESSION,
    "undo": _SESSION,
    "redo": _SESSION,
    "branch": _SESSION,
    "switch": _SESSION,
    "prune": _SESSION,
    "clear": _SESSION,
    "forget": _SESSION,
    "import": _SESSION,
    "create": _BRANCH,
    "show": _BRANCH,
    "diff": _BRANCH,
    "bisect": _BRANCH,
    "blame": _BRANCH,
    "history": _BRANCH,
    "grep": _BRANCH,
    "at": _BRANCH,
    "restore": _BRANCH,
    "fork": _BRANCH,
    "merge": _BRANCH,
    "tag": _BRANCH,
    "pin": _BRANCH,
    "annotate": _BRANCH,
    "delete": _BRANCH,
    "export": _BRANCH,
}
"""Which of the options that say where each command is given along: those without which it would be about another place.
`verify` and its like are for the whole store, and lists show every branch."""

_COMMAND = re.compile(rf"\bholdfast ({'|'.join(TAKES)})(?![\w-])(?P<rest>(?: +--?[a-z][\w-]*)*)")


_SECRET = re.compile(r"(?<=:)(?!//)[^/]+(?=@)|(?<=[?&]password=)[^&]+")
"""The password in the URL of a database: what is shown ends up in logs, and who typed it knows it."""


def pasteable(text: str, typed: Mapping[str, str]) -> str:
    """`text` with the store, session and branch that were typed, by the names of their options, in each command."""
    return _COMMAND.sub(lambda found: _with_options(found, typed), text) if typed else text


def _with_options(found: re.Match[str], typed: Mapping[str, str]) -> str:
    verb, rest = found[1], found["rest"]
    words = [f"holdfast {verb}"]
    for option in TAKES[verb]:
        # Help is the same everywhere, sessions are listed whichever is in use, and what is said already stays.
        needless = {"--help", f"--{option}"} | ({"--sessions"} if option == "session" else set())
        if option in typed and not needless & set(rest.split()):
            words.append(f"--{option} {shlex.quote(escape_controls(_SECRET.sub('***', typed[option])))}")
    return " ".join(words) + rest
