"""Checksums that show a damaged row.

A chunk is named by a cryptographic hash of its bytes, so damage in it cannot hide. Rows that the store itself fills in
(heads, sequence numbers, tags) have no such name: they carry a 64-bit checksum over every column instead. It is made
against failing disks and memory, not against an attacker who can write the file.
"""

from __future__ import annotations

from typing import Any

import ormsgpack
import xxhash


def seal(*fields: Any) -> int:
    """The checksum of a row: a signed 64-bit number over the encoded fields, order and types included."""
    unsigned = xxhash.xxh3_64_intdigest(ormsgpack.packb(list(fields), option=ormsgpack.OPT_NON_STR_KEYS))
    # Both SQLite and PostgreSQL have signed 64-bit integers.
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
