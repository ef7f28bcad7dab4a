"""Approvals: what a person decides about a step, as rows. The first decision wins, and nobody waits meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.agents.executor.state import Waiting
from holdfast.agents.executor.tables import APPROVALS
from holdfast.agents.journal import microseconds, moment
from holdfast.errors import ConflictError, ErrorCode, HoldfastError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from holdfast import Store
    from holdfast.storage.tables import RowChange

DECISIONS: Final = {
    "approve": ("approved", "rejected"),
    "outcome": ("happened", "again", "rejected"),
}
"""What can be decided about each kind of request."""


class Decision(NamedTuple):
    """What was decided about a step."""

    execution: str
    step: str
    kind: str
    decision: str
    by: str | None
    at: datetime
    note: str | None
    edit: Any
    """approved: parameters that the person changed; happened: the output."""
    first: bool
    """Whether this call decided it; otherwise somebody had before."""


class Approvals:
    """The requests of one execution, and what was decided."""

    def __init__(self, store: Store, session: str, execution: str) -> None:
        self._store = store
        self._session = session
        self._execution = execution

    def request(self, step: str, kind: str, input_hash: str, expires: float | None, now: int) -> RowChange:
        """The change that asks a person; asked again with the same parameters it is the same request."""
        return APPROVALS.insert(
            {
                "session": self._session,
                "execution": self._execution,
                "step": step,
                "request": f"{kind}:{input_hash}",
                "kind": kind,
                "asked_at": now,
                "expires_at": None if expires is None else now + int(expires * 1_000_000),
                "decision": None,
                "decided_at": None,
                "decided_by": None,
                "note": None,
                "edit": None,
            }
        )

    def renewed(self, row: Mapping[str, Any], expires: float | None, now: int) -> RowChange:
        """The change that asks once more, after nobody answered in time."""
        key = (row["execution"], row["step"], row["request"])
        until = None if expires is None else now + int(expires * 1_000_000)
        return APPROVALS.update(key, {"asked_at": now, "expires_at": until}, expect={"decision": None})

    def row(self, step: str, kind: str, input_hash: str) -> dict[str, Any] | None:
        """The request for these parameters."""
        return self._store.rows(APPROVALS).get(self._execution, step, f"{kind}:{input_hash}")

    def edit(self, row: Mapping[str, Any]) -> Any:
        """What the person changed, or gave as the output."""
        return None if row["edit"] is None else self._store.unpack(row["edit"])

    def open(self) -> list[Waiting]:
        """The requests that wait for a decision."""
        found = self._store.rows(APPROVALS).find(execution=self._execution, order_by="asked_at")
        return [_waiting(row) for row in found if row["decision"] is None]

    def decide(
        self,
        step: str,
        decision: str,
        *,
        current: Mapping[str, str],
        edit: Any = None,
        by: str | None = None,
        note: str | None = None,
        now: int | None = None,
    ) -> Decision:
        """Decide about the newest request of a step.

        Args:
            step: The step.
            decision: approved, rejected, happened or again.
            current: The input hash that each request of the step would have now: others are void.
            edit: Changed parameters, or the output of what happened.
            by: Who decides.
            note: Why.
            now: For tests.

        Raises:
            NotFoundError: Nobody asked, or the parameters have changed since (`approval-missing`).
            ConflictError: Nobody answered in time (`approval-expired`).
        """
        at = microseconds() if now is None else now
        rows = self._store.rows(APPROVALS).find(execution=self._execution, step=step, order_by="-asked_at")
        valid = [
            row for row in rows if row["request"] in {f"{kind}:{value}" for kind, value in current.items()}
        ]
        if not valid:
            why = "the parameters have changed since it was asked for" if rows else "nobody asked for it"
            raise NotFoundError(
                f"step {step!r} does not wait for a decision: {why}",
                code=ErrorCode.APPROVAL_MISSING,
                hint="run the plan: it asks when the step is due; holdfast plan status shows what waits",
                step=step,
            )
        row = valid[0]
        if decision not in DECISIONS[row["kind"]]:
            raise InvalidInputError(
                f"step {step!r} cannot be {decision}",
                code=ErrorCode.BAD_ARGUMENT,
                hint=f"it can be: {', '.join(DECISIONS[row['kind']])}",
            )
        if row["decision"] is None:
            self._in_time(row, at)
            made = {
                "decision": decision,
                "decided_at": at,
                "decided_by": by,
                "note": note,
                "edit": None if edit is None else self._store.pack(edit),
            }
            key = (self._execution, step, row["request"])
            try:
                self._store.write([APPROVALS.update(key, made, expect={"decision": None})])
                return self._decision(row | made, first=True)
            except HoldfastError as error:
                if error.code != "row-conflict":
                    raise
            # Somebody was faster.
            row = self._store.rows(APPROVALS).get(*key) or row
        return self._decision(row, first=False)

    def _in_time(self, row: Mapping[str, Any], at: int) -> None:
        if row["expires_at"] is not None and row["expires_at"] <= at:
            raise ConflictError(
                f"the request for step {row['step']!r} expired at {moment(row['expires_at']).isoformat()}",
                code=ErrorCode.APPROVAL_EXPIRED,
                hint="run the plan again: it asks once more",
                step=row["step"],
            )

    def _decision(self, row: Mapping[str, Any], *, first: bool) -> Decision:
        return Decision(
            row["execution"],
            row["step"],
            row["kind"],
            row["decision"],
            row["decided_by"],
            moment(row["decided_at"]),
            row["note"],
            self.edit(row),
            first,
        )


def _waiting(row: Mapping[str, Any]) -> Waiting:
    until = row["expires_at"]
    return Waiting(row["step"], row["kind"], None if until is None else moment(until))
