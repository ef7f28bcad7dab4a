"""Where things of a thread are: LangGraph's ids as keys of checkpoints, and namespaces as names of branches.

    /<namespace> <checkpoint id>                          a checkpoint of LangGraph
    /<namespace> <checkpoint id> <task id> <number>       what a task wrote on it, call by call

A blank only ever separates parts, and it sorts below everything that a part can hold. So one range of keys, read from
its end, gives the checkpoints of a namespace newest first, each of them after its writes; and the range of one
checkpoint holds that and its writes. A namespace that is too long for a key is there by its hash; the state says what
it is.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from urllib.parse import unquote_to_bytes

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.record import Record

MAIN = "main"
WRITES = "writes"
"""The branch of a session that has all pending writes, in the order of their arrival."""

_LONGEST_NAMESPACE = 600
"""Bytes of a namespace in a key. It leaves room for three ids in the 1,024 that a key may have."""

_LONGEST_ID = 180
_LONGEST_BRANCH = 200


class Key(Record):
    """A key, read: what it belongs to."""

    namespace: str | None
    """None where the key has only its hash."""
    checkpoint_id: str
    task_id: str | None
    """Of writes; None for the checkpoint itself."""
    owner: str
    """The key of the checkpoint, which is this key itself, or that of the checkpoint that the writes are on."""


def checkpoint_key(namespace: str, checkpoint_id: str) -> str:
    """The key of a checkpoint of LangGraph."""
    return f"{_prefix(namespace)}{_id(checkpoint_id, 'checkpoint_id')}"


def writes_prefix(namespace: str, checkpoint_id: str, task_id: str) -> str:
    """What the keys of the writes of one task on a checkpoint begin with; `writes_key` adds the number."""
    return f"{checkpoint_key(namespace, checkpoint_id)} {_id(task_id, 'task_id', least=0)} "


def writes_key(prefix: str, number: int) -> str:
    """The key of the call of this number, from 0 on."""
    return f"{prefix}{number:06}"


def is_hashed(namespace: str) -> bool:
    """Whether the namespace is too long for a key, so that the state has to say what it is."""
    return len(escaped(namespace).encode()) > _LONGEST_NAMESPACE


def namespace_range(namespace: str, *, before: str | None = None) -> tuple[str, str]:
    """The keys of a namespace: from, and below; with `before`, of checkpoints whose id is smaller than that."""
    start = _prefix(namespace)
    # The character after a blank: nothing of another namespace lies between.
    return start, f"{start[:-1]}!" if before is None else f"{start}{_id(before, 'checkpoint_id')}"


def checkpoint_range(key: str) -> tuple[str, str]:
    """The keys of a checkpoint and its writes: from, and below."""
    return key, f"{key}!"


def task_range(prefix: str) -> tuple[str, str]:
    """The keys of the writes of one task: from, and below."""
    return prefix, f"{prefix[:-1]}!"


THREAD_RANGE = ("/", "0")
"""All keys of this kind in a session: from, and below. `0` is the character after `/`."""


def parse(key: str | None) -> Key | None:
    """What a key belongs to, or None if it is none of these."""
    parts = (key or "").split(" ")
    if not parts[0].startswith("/") or len(parts) not in (2, 4):
        return None
    try:
        namespace = None if parts[0].startswith("/#") else unescaped(parts[0][1:])
        task = unescaped(parts[2]) if len(parts) == 4 else None
        return Key(namespace, unescaped(parts[1]), task, f"{parts[0]} {parts[1]}")
    except UnicodeDecodeError:
        # Somebody's own key, which only looks like one of these.
        return None


def is_checkpoint(key: str) -> bool:
    """Whether this is the key of a checkpoint, and not of writes."""
    parsed = parse(key)
    return parsed is not None and parsed.task_id is None


def branch_name(namespace: str) -> str:
    """The branch that a namespace begins on."""
    if not namespace:
        return MAIN
    name = re.sub(r"[^\w+-]", "-", namespace)
    if name in (MAIN, WRITES) or not re.match(r"\w", name):
        name = f"ns-{name}"
    if len(name) > _LONGEST_BRANCH:
        name = f"{name[:_LONGEST_BRANCH]}-{_digest(namespace)[:8]}"
    return name


def escaped(text: str) -> str:
    """A part of a key: no blank, nothing that cannot be printed, and nothing that looks like a hash."""
    if text.isprintable() and not any(character in text for character in " %#"):
        return text
    return "".join(c if c.isprintable() and c not in " %#" else _percent(c) for c in text)


def unescaped(part: str) -> str:
    """What `escaped` made a part of."""
    return unquote_to_bytes(part).decode("utf-8", "surrogatepass") if "%" in part else part


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _prefix(namespace: str) -> str:
    part = escaped(namespace)
    if len(part) * 4 > _LONGEST_NAMESPACE and len(part.encode()) > _LONGEST_NAMESPACE:
        part = f"#{_digest(namespace)}"
    return f"/{part} "


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _id(text: str, name: str, *, least: int = 1) -> str:
    part = escaped(text)
    if not least <= len(part.encode()) <= _LONGEST_ID:
        raise InvalidInputError(
            f"{name} cannot be {text[:60]!r}",
            code=ErrorCode.BAD_NAME,
            hint=f"use {least} to {_LONGEST_ID} bytes of UTF-8; blanks and control characters count three each",
            argument=name,
        )
    return part
