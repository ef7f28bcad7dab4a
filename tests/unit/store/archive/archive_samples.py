"""A session with all that a row can have, and a way to change files of it."""

from __future__ import annotations

import datetime as dt
import json
from collections import deque
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast import Session, Store
from holdfast.history.checkpoint import checkpoint_id
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.state import encode_state
from holdfast.storage.records import ChunkHash
from holdfast.store.archive.envelope import ArchiveLimits, read_checkpoint, seal_of
from holdfast.store.archive.source import parse

STATE: dict[Any, Any] = {
    "zebra": 1,
    "apple": [1, 1.0, True, None, "tëxt"],
    "tuple": (1, (2,)),
    "$type": "not ours",
    "set": {3, 1, 2},
    "money": Decimal("1.50"),
    "when": dt.datetime(2026, 2, 28, 14, 32, 45, 7, tzinfo=dt.timezone(dt.timedelta(hours=1), "CET")),
    "bytes": b"\x00\xff",
    "queue": deque([1, 2], maxlen=4),
    "half": "a\ud83d",
    "nan": float("nan"),
    "big": 2**80,
    7: "a number as a key",
}


def filled(store: Store) -> Session:
    """Five checkpoints on main and two on another branch, with everything that a row may have."""
    session = store.session("research/42", agent="scout", project="acme")
    for step in range(5):
        session.save(
            {**STATE, "step": step},
            f"step {step}",
            tags=["even"] * (step % 2 == 0),
            step=step,
            metadata={"model": "m1", "$type": "x", "n": 2**60},
            tokens=10 * step,
            cost_usd=0.25,
            duration_ms=1.5,
            key=f"k{step}",
        )
    session.pin("#2")
    session.annotate("#3", message="edited", metadata={"more": [1]})
    idea = session.fork("#3", "idea")
    idea.save({"idea": True}, status="paused", trigger="auto:thought")
    return session


def ids(store: Store, session: str = "research/42") -> list[tuple[str, str]]:
    return sorted((each.id, each.root) for each in store.find(session=session))


def described(store: Store, session: str = "research/42") -> list[dict[str, Any]]:
    """All that has to come out of an archive as it was put in."""
    own = ("seq", "position", "stored_at", "stored_bytes")
    found = store.find(session=session)
    return [
        {key: value for key, value in each.to_dict().items() if key not in own}
        for each in sorted(found, key=lambda each: each.id)
    ]


def forged(path: Path, target: Path, **changes: Any) -> Path:
    """The same checkpoint with other fields, and hashes that fit them: what somebody who knows the format can make."""
    target.write_text(json.dumps(sealed(json.loads(path.read_bytes()) | changes)))
    return target


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """What a file says of a checkpoint, with the hashes that fit it."""
    read = read_checkpoint(parse(json.dumps(data).encode(), ArchiveLimits(), "f"), "f")
    data = data | {"root": encode_state(read.state, TypeRegistry()).root.hex()}
    row = read.row._replace(root=ChunkHash(bytes.fromhex(data["root"])))
    data["id"] = checkpoint_id(row).hex()
    return data | {"seal": seal_of({key: each for key, each in data.items() if key not in ("state", "seal")})}
