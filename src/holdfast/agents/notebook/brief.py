"""The brief: the thread of a debugging session in as many tokens as there is room for.

One index line for each thing, with its id, so that the rest can be asked for. The same state and budget give the same
text. Tokens are estimated as one for every three bytes of UTF-8: more than the tokenizers in use need for English,
code and ids, so that the text stays inside the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.agents.notebook.beliefs import HELD, Contradiction
from holdfast.agents.notebook.gaps import CRITICALITIES
from holdfast.agents.notebook.part import Item
from holdfast.agents.notebook.state import DebugState
from holdfast.errors import ErrorCode, InvalidInputError

__all__ = ["estimate_tokens", "write_brief"]

_BYTES_A_TOKEN: Final = 3
_LINE: Final = 200
_SMALLEST: Final = 60
"""Tokens. Less does not hold the line that says where everything is."""


def estimate_tokens(text: str) -> int:
    """Return how many tokens a text takes at most: a third of its bytes."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN)


@dataclass
class _Section:
    title: str
    lines: list[str]
    shown: list[str] = field(default_factory=list)

    def text(self) -> str:
        left = len(self.lines) - len(self.shown)
        return "\n".join([self.title, *self.shown, *([f"- {left} omitted"] if left else [])])


def write_brief(
    state: DebugState,
    *,
    budget: int,
    checkpoint: str,
    contradictions: Iterable[Contradiction] = (),
    flaky: Iterable[str] = (),
    warning: str = "",
) -> str:
    """Return the brief of a state.

    Args:
        state: What is known.
        budget: How many tokens it may take.
        checkpoint: How the checkpoint that has all of it is named.
        contradictions: Of the beliefs.
        flaky: Names of checks that cannot be relied on.
        warning: Something to say first.

    Raises:
        InvalidInputError: The budget is too small for one line.
    """
    if budget < _SMALLEST:
        raise InvalidInputError(
            f"a brief does not fit into {budget} tokens",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"give it {_SMALLEST} or more; 2000 is usual",
            argument="budget",
        )
    head = _cut(
        f"# Debugging session {_cut(state.session_id, 60)} on {_cut(state.current_branch, 40)}, {checkpoint}",
        150,
    )
    sections = [each for each in _sections(state, list(contradictions), set(flaky), warning) if each.lines]
    kept: list[_Section] = []

    def text(of: list[_Section], left_out: int) -> str:
        tail = [f"{left_out} sections omitted"] if left_out else []
        return "\n".join([head, *(each.text() for each in of), *tail]) + "\n"

    # First that there is something of everything, in order of weight; then line by line of each in turn.
    for section in sections:
        if estimate_tokens(text([*kept, section], len(sections) - len(kept) - 1)) <= budget:
            kept.append(section)
    left_out = len(sections) - len(kept)
    if estimate_tokens(text(kept, left_out)) > budget:
        # Names in scripts of three bytes a letter.
        head = f"# {checkpoint}"
    full: set[int] = set()
    while len(full) < len(kept):
        for place, section in enumerate(kept):
            if place in full or len(section.shown) == len(section.lines):
                full.add(place)
                continue
            section.shown.append(section.lines[len(section.shown)])
            if estimate_tokens(text(kept, left_out)) > budget:
                section.shown.pop()
                full.add(place)
    return text(kept, left_out)


def _sections(
    state: DebugState, contradictions: list[Contradiction], flaky: set[str], warning: str
) -> list[_Section]:
    newest = {
        name: list(reversed(getattr(state, name)))
        for name in ("hypotheses", "beliefs", "notes", "gaps", "branches")
    }
    evidence = {each["id"]: each for each in state.evidence}
    notes = [each for each in newest["notes"] if not each["done"]]
    latest = {each["name"]: each for each in state.verification_results}
    waiting = sorted(
        (each for each in newest["gaps"] if each["status"] == "open"),
        key=lambda each: CRITICALITIES.index(each["criticality"]),
    )
    blocking = [each for each in waiting if each["criticality"] in ("critical", "high") or each["blocks"]]
    failing = [each for each in reversed(latest.values()) if not each["passed"]]
    statuses = ("confirmed", "rejected", "testing", "open")
    judged = {name: [each for each in newest["hypotheses"] if each["status"] == name] for name in statuses}
    held = [each for each in newest["beliefs"] if each["status"] == "held" and each["confidence"] >= HELD]
    held.sort(key=lambda each: -each["confidence"])
    tried = [each for each in newest["branches"] if each["status"] == "abandoned"]
    going = [each for each in newest["branches"] if each["status"] == "active"]
    return [
        _Section("## Warning", [_cut(f"- {warning}")] if warning else []),
        _Section("## Asked", _lines(each["text"] for each in notes if each["kind"] == "goal")),
        _Section(
            "## Blockers",
            [
                *_lines(f"contradiction {' '.join(_chain(each))}" for each in contradictions),
                *_lines(
                    f"{each['id']} {each['criticality']}: {each['question']}{_blocks(each)}"
                    for each in blocking
                ),
                *_lines(
                    f"{each['id']} fails{_flaky(each, flaky)}: {each['name']}: {_last(each['output'])}"
                    for each in failing
                ),
            ],
        ),
        _Section(
            "## Next", _lines(f"{each['id']} {each['text']}" for each in notes if each["kind"] == "next")
        ),
        _Section(
            "## Believed, and why",
            [
                *_lines(
                    f"{each['id']} confirmed: {each['statement']}{_why(each, evidence)}"
                    for each in judged["confirmed"]
                ),
                *_lines(
                    f"{each['id']} {each['confidence']:.2f}: {each['statement']}{_because(each)}"
                    for each in held
                ),
            ],
        ),
        _Section(
            "## Tried and refuted",
            [
                *_lines(
                    f"{each['id']} rejected: {each['statement']}{_why(each, evidence)}"
                    for each in judged["rejected"]
                ),
                *_lines(f"{each['id']} abandoned {each['name']}: {each['lesson']}" for each in tried),
            ],
        ),
        _Section(
            "## Open",
            [
                *_lines(
                    f"{each['id']} {each['status']} {each['confidence']:.2f}: {each['statement']}"
                    for each in (*judged["testing"], *judged["open"])
                ),
                *_lines(
                    f"{each['id']} {each['criticality']}: {each['question']}"
                    for each in waiting
                    if each not in blocking
                ),
                *_lines(
                    f"{each['id']} experiment {each['name']} on {each['branch']}: {each['purpose']}"
                    for each in going
                ),
            ],
        ),
        _Section("## Code", _code(state)),
        _Section(
            "## Notes",
            _lines(f"{each['id']} {each['text']}" for each in notes if each["kind"] in ("note", "lesson")),
        ),
        _Section(
            "## Last commands",
            _lines(
                f"{each['id']} exit {each['exit_code']}: {each['command']}"
                for each in reversed(state.command_history)
            ),
        ),
    ]


def _lines(texts: Iterable[str]) -> list[str]:
    return [_cut(f"- {each}") for each in texts]


def _cut(text: str, limit: int = _LINE) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _chain(found: Contradiction) -> list[str]:
    words = [found.path[0][0]]
    for one, kind, other in found.path:
        words += [kind, other] if words[-1] == one else [f"<-{kind}", one]
    return words


def _blocks(gap: Item) -> str:
    return f" (blocks {', '.join(gap['blocks'])})" if gap["blocks"] else ""


def _flaky(result: Item, flaky: set[str]) -> str:
    return " (flaky)" if result["name"] in flaky else ""


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"


def _why(hypothesis: Item, evidence: dict[str, Item]) -> str:
    names = hypothesis["evidence_for" if hypothesis["status"] == "confirmed" else "evidence_against"]
    known = [evidence[name] for name in names if name in evidence]
    if known:
        best = max(known, key=lambda each: each["strength"])
        return f" ({best['id']}: {best['content']})"
    return f" ({hypothesis['reason']})" if hypothesis["reason"] else ""


def _because(belief: Item) -> str:
    said = belief["reason"] or belief["source"]
    return f" ({said})" if said else ""


def _code(state: DebugState) -> list[str]:
    place: Any = state.workspace
    if place is None:
        return []
    lines = []
    for name, each in sorted(place["repositories"].items()):
        what = f", {each['under_way']} under way" if each["under_way"] else ""
        lines.append(
            f"- {name or place['root']}: {each['branch'] or 'detached'} at {(each['commit'] or 'no commit')[:12]}{what}"
        )
    changed = state.code_changes["patches"] if state.code_changes else {}
    if not place["repositories"]:
        lines.append(f"- {place['root']}, without git: {len(changed)} files captured")
        return lines
    lines += _lines(f"{each['change']} {path}" for path, each in sorted(changed.items()))
    return lines
