"""Operations on the notebook of a debugging session: what to write down, and the brief that brings it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from holdfast.errors import ConflictError, ErrorCode
from holdfast.operations.operation import Session, Text, operation

if TYPE_CHECKING:
    from holdfast.operations.service import Service

Kind = Literal["note", "goal", "next", "lesson", "hypothesis", "evidence", "belief", "gap"]
_ATTEMPTS = 20
"""How often a note is written again on a newer state: each time it lost, another writer got on."""


@operation("notebook.note", scope="write")
def note(
    service: Service,
    text: Annotated[Text, Meta(min_length=1, description="What to remember, in your own words")],
    kind: Annotated[Kind, Meta(description="evidence needs about")] = "note",
    session: Session | None = None,
    *,
    about: Annotated[str, Meta(max_length=40, description="For evidence: the id of its hypothesis")] = "",
    against: Annotated[bool, Meta(description="The evidence speaks against it")] = False,
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.5,
) -> dict[str, Any]:
    """Write a note, a goal, what is next, a hypothesis, evidence, a belief or an open question into the notebook."""
    from holdfast.agents import Notebook

    for attempt in range(_ATTEMPTS):
        nb = Notebook(service.session(session), on_conflict="raise")
        try:
            made = _write(nb, kind, text, about, confidence, against=against)
            saved = nb.flush(f"{kind}: {text}"[:200])
        except ConflictError as conflict:
            if conflict.code is not ErrorCode.BRANCH_MOVED or attempt == _ATTEMPTS - 1:
                raise
        else:
            last = saved or nb.last
            return {
                "kind": kind,
                "id": made,
                "session": nb.session.id,
                "checkpoint": last.id if last else None,
            }
    raise AssertionError("the loop returns or raises")


def _write(nb: Any, kind: Kind, text: str, about: str, confidence: float, *, against: bool) -> str:
    if kind == "hypothesis":
        made = nb.board.add(text, confidence=confidence)
    elif kind == "evidence":
        made = nb.board.add_evidence(about, text, supports=not against, strength=confidence)
    elif kind == "belief":
        made = nb.beliefs.add(text, confidence=confidence)
    elif kind == "gap":
        made = nb.gaps.add(text)
    else:
        made = nb.notes.add(text, kind=kind)
    return made if isinstance(made, str) else str(made["id"])


@operation("notebook.brief", path="/v1/sessions/{session}/brief")
def brief(
    service: Service,
    session: Session | None = None,
    budget: Annotated[int, Meta(ge=100, le=20_000, description="Tokens")] = 2000,
) -> dict[str, Any]:
    """Give the thread of a debugging session back: what was asked, believed, refuted, is open, and is next."""
    from holdfast.agents import Notebook

    nb = Notebook(service.known(session), writable=False)
    return {"session": nb.session.id, "budget": budget, "text": nb.brief(budget)}
