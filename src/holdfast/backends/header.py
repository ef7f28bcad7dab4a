"""The header of a store: which format it has, how its states are cut and hashed, and which store it is.

Every backend keeps the same entries, each with its seal, so that no version of holdfast writes into a store that it
does not understand.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from holdfast.backends.rules import store_damaged
from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError, UnsupportedError
from holdfast.objects.tree.boundaries import FORMAT_0
from holdfast.storage.records import seal

FORMAT: Final = 0
REVISION: Final = 3
"""Of the tables, while the format is not final: raised with each change that an older store does not have."""
HEADER_KEYS: Final = frozenset(
    {"format", "revision", "store", "hash", "cipher", "key", "layout", "created_at"}
)

Entry = tuple[str, str, int]
"""Key, value and seal."""


def sealed(key: str, value: str) -> Entry:
    """An entry with its seal."""
    return key, value, seal(key, value)


def new_header() -> list[Entry]:
    """The header of a store that is being made."""
    # Only the process that makes a store needs it.
    import uuid

    entries = {
        "format": str(FORMAT),
        "revision": str(REVISION),
        "store": str(uuid.uuid4()),
        "hash": "blake3",
        "cipher": "0",
        "key": "0",
        "layout": FORMAT_0.canonical(),
        "created_at": str(time.time_ns() // 1000),
    }
    return [sealed(key, value) for key, value in entries.items()]


def check_header(entries: Iterable[Entry], where: str) -> dict[str, str]:
    """The entries of a header by key, each checked; `where` is the path or address of the store.

    Raises:
        IntegrityError: An entry is damaged, or one is missing.
        UnsupportedError: It names something that this version does not know, or does not know any more.
    """
    header: dict[str, str] = {}
    for key, value, checksum in entries:
        if seal(key, value) != checksum:
            raise IntegrityError.row_damaged(f"header {key!r} of {where}", why="its checksum does not match")
        header[key] = value
    # The first stores had no such entry.
    revision = header.setdefault("revision", "1")
    if not header.keys() >= HEADER_KEYS:
        raise store_damaged(where, "its header is not complete")
    if int(header["format"]) > FORMAT:
        raise too_new(where, header["format"])
    if int(revision) > REVISION:
        raise too_new(where, f"{FORMAT}.{revision}")
    if int(revision) < REVISION:
        raise _too_old(where, int(revision))
    # A layout of other figures would be read all right; but a state saved by this version would have another root.
    if (header["cipher"], header["hash"], header["layout"]) != ("0", "blake3", FORMAT_0.canonical()):
        raise UnsupportedError(
            f"the store {where} is encrypted, hashed or cut in a way that this version does not know",
            code=ErrorCode.FORMAT_TOO_NEW,
            hint="upgrade holdfast",
            path=where,
        )
    return header


def not_a_store(where: str, *, hint: str) -> InvalidInputError:
    """Something else is in this place."""
    return InvalidInputError(
        f"{where} is not a holdfast store", code=ErrorCode.NOT_A_STORE, hint=hint, path=where
    )


def too_new(where: str, version: int | str) -> UnsupportedError:
    """A newer version of holdfast made it."""
    return UnsupportedError(
        f"the store {where} has format {version}; this version of holdfast reads formats up to {FORMAT}.{REVISION}",
        code=ErrorCode.FORMAT_TOO_NEW,
        hint="upgrade holdfast: pip install --upgrade holdfast",
        path=where,
        format=version,
    )


def _too_old(where: str, revision: int) -> UnsupportedError:
    """A version from before the first release made it."""
    return UnsupportedError(
        f"the store {where} has tables of revision {revision}; this version of holdfast needs revision {REVISION}",
        code=ErrorCode.FORMAT_TOO_OLD,
        hint="make a new store elsewhere; export what you need with the version that made this one",
        path=where,
        revision=revision,
    )
