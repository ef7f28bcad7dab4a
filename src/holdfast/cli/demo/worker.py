"""The process that the demo kills: the agent, telling its parent after each save what it saved.

One JSON line a step, written only when `save` has returned. That line is the acknowledgement that the demo holds
holdfast to: whatever was announced must be there afterwards, and equal.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from typing import Any

import holdfast
from holdfast.cli._tagged import tagged_json
from holdfast.cli.demo.agent import survey


def fingerprint(state: Any) -> str:
    """A hash of a state that owes nothing to how holdfast encodes it."""
    return sha256("".join(tagged_json(state)).encode("utf-8")).hexdigest()


def _announce(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    # An acknowledgement in a buffer would die with the process.
    sys.stdout.flush()


def main(target: str, session_id: str, think: str) -> None:
    """Run the agent to its end, or until somebody kills it."""
    with holdfast.open(target) as store:
        session = store.session(session_id, agent="surveyor", project="holdfast-demo")
        newest = session.log(limit=1)
        _announce(start=True, resumes=newest[0].seq if newest else None, step=newest[0].step if newest else 0)
        for checkpoint, state in survey(session, think=float(think)):
            _announce(
                step=checkpoint.step,
                id=checkpoint.id,
                seq=checkpoint.seq,
                message=checkpoint.message,
                state=fingerprint(state),
            )


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except holdfast.HoldfastError as failure:
        # A full disk deserves a sentence, not a traceback; the parent adds that the agent is gone.
        sys.exit(f"agent: {failure}")
