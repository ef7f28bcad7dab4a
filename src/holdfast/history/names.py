"""What sessions, branches, tags, keys and leases may be called.

A session id or a key comes from the caller's own world (a thread id, a run id), so nearly every text will do. A branch
or a tag is typed by people inside refs, so the characters of the ref grammar (`~ @ # : ..` and spaces) stay out of
branch names, and `~` and `,` out of tags. Control characters are refused everywhere: a name ends up on terminals and in
logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.errors import ErrorCode, InvalidInputError

MAX_NAME = 256
"""Long enough for a URL as a session id, short enough for an index."""

MAX_KEY = 1024
"""Bytes of UTF-8. Programs make keys of several ids; a server's index takes twice this."""

_BRANCH = r"\w[\w./+-]*"
_LEASE_PREFIX = r"[a-z][a-z0-9-]{0,31}"


def check_session(name: str) -> str:
    """Return `name` if it can be a session id."""
    return _checked(name, "session id")


def check_key(name: str) -> str:
    """Return `name` if it can be the key of a checkpoint."""
    if type(name) is str and len(name.encode("utf-8", "replace")) > MAX_KEY:
        raise _bad(f"{name[:60]!r}... cannot be a key: it is too long", f"use at most {MAX_KEY} bytes", name)
    return _checked(name, "key", longest=MAX_KEY)


def check_lease(name: str) -> str:
    """Return `name` if it can be a lease: what it is for, a colon, and a session id, as in `heartbeat:research-42`."""
    prefix, colon, session = name.partition(":") if type(name) is str else ("", "", "")
    if not colon or not re.fullmatch(_LEASE_PREFIX, prefix):
        shown = repr(name[:60]) if type(name) is str else f"a {type(name).__name__}"
        hint = "begin with a word in small letters, then a colon and the session id: heartbeat:research-42"
        raise _bad(f"{shown} cannot be the name of a lease", hint)
    _checked(session, "session id")
    return name


def check_label(name: str | None, what: str) -> str | None:
    """Return `name` if it can be an agent, a project or an application version; None is none."""
    return None if name is None else _checked(name, what)


def check_branch(name: str) -> str:
    """Return `name` if it can be a branch."""
    _checked(name, "branch name")
    if not re.fullmatch(_BRANCH, name) or ".." in name or name.endswith(("/", ".")):
        hint = "use letters, digits and . / + - _ ; begin with a letter or digit, no '..', no '/' or '.' at the end"
        raise _bad(f"{name!r} cannot be a branch name", hint, name)
    return name


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags sorted, each once, if all of them can be tags."""
    given: object = tags
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInputError(
            f"tags must be a list of texts, not {given!r:.60}",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"pass tags={[given] if isinstance(given, str) else ['one', 'another']}",
        )
    tags = list(tags)
    for tag in tags:
        _checked(tag, "tag")
        if "~" in tag or "," in tag:
            hint = "leave '~' and ',' out: they separate tags and refs on the command line"
            raise _bad(f"{tag!r} cannot be a tag", hint, tag)
    return tuple(sorted(set(tags)))


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _checked(name: str, what: str, *, longest: int = MAX_NAME) -> str:
    if type(name) is not str:
        hint = f"pass the {what} as a str"
        raise _bad(f"{_article(what)} {what} must be a text, not {type(name).__name__}", hint)
    if not name or len(name) > longest or name != name.strip() or not name.isprintable():
        hint = f"use 1 to {longest} printable characters, no space at either end"
        raise _bad(f"{name[:60]!r} cannot be {_article(what)} {what}", hint, name)
    return name


def _bad(message: str, hint: str, name: str | None = None) -> InvalidInputError:
    shown = {} if name is None else {"name": name[:MAX_NAME].encode("utf-8", "replace").decode()}
    return InvalidInputError(message, code=ErrorCode.BAD_NAME, hint=hint, **shown)
