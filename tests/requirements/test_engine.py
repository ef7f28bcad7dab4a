"""What the source documents ask of storage: full states at any time, without the room of full copies."""

from __future__ import annotations

import json
import random

import pytest
import zstandard

import holdfast

STEPS = 200
WORDS = ["cache", "lock", "timeout", "socket", "retry", "index", "null", "race", "offset", "parser", "thread"]


def sentence(source, words=12):
    return " ".join(source.choices(WORDS, k=words)) + f" {source.randrange(10**9)}"


def debugging_state(source):
    """About 1 MB: hypotheses with their evidence, beliefs that depend on each other, commands and files."""
    return {
        "hypotheses": [
            {
                "id": f"h{n}",
                "text": sentence(source),
                "confidence": round(source.random(), 3),
                "evidence": [
                    {"id": source.randbytes(4).hex(), "what": sentence(source, 20)} for _ in range(8)
                ],
            }
            for n in range(250)
        ],
        "beliefs": {f"b{n}": {"text": sentence(source), "on": [f"b{n // 2}"]} for n in range(1_500)},
        "commands": [
            {"line": sentence(source, 5), "exit": 0, "output": sentence(source, 60)} for _ in range(300)
        ],
        "files": {f"src/{n}.py": sentence(source, 400) for n in range(100)},
        "notes": "",
    }


def step(state, source):
    """What a step of debugging changes: one command more, one hypothesis, two beliefs, a note."""
    state["commands"].append({"line": sentence(source, 5), "exit": 1, "output": sentence(source, 60)})
    hypothesis = source.choice(state["hypotheses"])
    hypothesis["confidence"] = round(source.random(), 3)
    hypothesis["evidence"].append({"id": source.randbytes(4).hex(), "what": sentence(source, 20)})
    for _ in range(2):
        state["beliefs"][f"b{source.randrange(1_500)}"]["text"] = sentence(source)
    state["notes"] += sentence(source) + "\n"


@pytest.mark.requirement("T9")
@pytest.mark.parametrize("tracked", [False, True], ids=["plain", "document"])
def test_a_store_takes_less_than_half_of_full_copies(tmp_path, tracked):
    source = random.Random(9)
    first = debugging_state(source)
    compress = zstandard.ZstdCompressor(level=3).compress
    copies = compressed = 0
    kept = {}
    with holdfast.open(tmp_path / "store", durability="process") as store:
        session = store.session("debugging")
        state = session.document(default=first) if tracked else first
        for number in range(STEPS):
            step(state, source)
            saved = state.save() if tracked else session.save(state)
            text = json.dumps(state).encode()
            copies += len(text)
            compressed += len(compress(text))
            if number in (0, STEPS // 2, STEPS - 1):
                kept[saved.id] = text
        # Not by leaving anything out: what was saved is there.
        for name, text in kept.items():
            assert json.dumps(session.load(name)).encode() == text
    assert copies > STEPS * 900_000
    files = sum(file.stat().st_size for file in (tmp_path / "store").rglob("*") if file.is_file())
    said = f"{files / copies:.2%} of full copies as JSON, {files / compressed:.2%} of compressed ones"
    assert files < copies / 2, said
    # Each copy compressed by itself takes less already; a store has to beat that too.
    assert files < compressed / 2, said
    print(said)
