"""The id of a checkpoint: a hash over its parents, its root and everything its writer said.

    id = H("checkpoint" | parents | root | H(rest))

The rest is what is known before the transaction: so the id is known before the write, a lost reply is settled by
reading the id back, and history cannot be changed without changing ids. What the store adds (seq, position, its clock)
and what people may change later (tags, pins, messages) stays outside.
"""

from __future__ import annotations

import ormsgpack

from holdfast.objects.hashing import digest
from holdfast.storage.records import CheckpointId, CheckpointRow

_PREFIX = b"holdfast checkpoint\x00"


def checkpoint_id(row: CheckpointRow) -> CheckpointId:
    """The id that belongs to the writer's part of `row`, whatever its `id` field says."""
    rest = ormsgpack.packb(
        [
            row.session,
            row.branch,
            row.created_at,
            row.trigger,
            row.status,
            row.step,
            row.message,
            row.metadata,
            row.tokens,
            row.cost_usd,
            row.duration_ms,
            row.app_version,
            row.nonce,
        ]
    )
    # The count of parents keeps (parents, root) readable in one way only.
    parents = len(row.parents).to_bytes(4, "big") + b"".join(row.parents)
    return CheckpointId(digest(_PREFIX + parents + row.root + digest(rest)))
