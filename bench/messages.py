"""Messages, context entries and records as agents write them: varied JSON, made from a seed.

Everything comes from one `random.Random`, so that a seed always gives the same bytes. Text is drawn from a small
vocabulary with a long tail and mixed with ids, paths, numbers and hashes: it compresses about as real logs of agents
do, and no two messages are equal.
"""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Any

Message = dict[str, Any]

_VOCABULARY = """
the a to of in is and for that it on with as this was by be not from or at are an have which we if has file test error
value function line state returns check call when but list key data after before first read write run code should now
name type path none true false user agent step result message search found there than then other only same because
however instead without about module class method argument default option number string index item object request
response server client timeout retry connection database query table column row schema migration version release
branch commit merge conflict review failing passes fixed broken missing unexpected expected actual output input parser
token encode decode buffer stream socket thread lock queue worker task schedule cache memory disk size limit page
report invoice customer order price total currency margin quarter revenue competitor market survey summary source
evidence hypothesis confirmed rejected unlikely probable measured latency throughput percentile regression baseline
deploy rollback container image registry secret permission denied allowed policy region cluster node replica leader
election snapshot backup restore checkpoint history ancestor descendant tree leaf root hash digest signature key-pair
certificate expired renew rotate audit trace span metric counter gauge histogram alert incident severity owner
escalated draft paragraph citation abstract figure appendix dataset sample variance deviation estimate model training
evaluation prompt completion context window truncated compacted budget remaining exhausted fallback provider endpoint
gateway idempotent duplicate ordering eventual consistency partition recovery journal replay offset consumer producer
topic
"""
_WORDS = _VOCABULARY.split()
_WEIGHTS = list(accumulate(1 / (rank + 3) for rank in range(len(_WORDS))))
_TOOLS = ("read_file", "grep", "run_tests", "http_get", "query_sql", "list_folder", "edit_file", "web_search")
_FOLDERS = (
    "src/api",
    "src/core",
    "src/workers",
    "tests/unit",
    "tests/e2e",
    "docs",
    "infra/terraform",
    "scripts",
)
_SUFFIXES = (".py", ".ts", ".md", ".yaml", ".sql")


def token(rng: Random, digits: int = 12) -> str:
    """Hex digits that never compress."""
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def prose(rng: Random, length: int) -> str:
    """Sentences of about `length` characters."""
    words: list[str] = []
    size = 0
    while size < length:
        word = rng.choices(_WORDS, cum_weights=_WEIGHTS)[0]
        if rng.random() < 0.08:
            word = str(rng.randrange(10_000))
        elif rng.random() < 0.1:
            word += rng.choice((".", ",", ":", "."))
        words.append(word)
        size += len(word) + 1
    return " ".join(words)


def _path(rng: Random) -> str:
    return f"{rng.choice(_FOLDERS)}/{rng.choice(_WORDS)}_{rng.choice(_WORDS)}{rng.choice(_SUFFIXES)}"


def _call(rng: Random) -> dict[str, Any]:
    arguments: dict[str, Any] = {"path": _path(rng)}
    if rng.random() < 0.6:
        arguments["query"] = prose(rng, 30)
    if rng.random() < 0.5:
        arguments |= {"limit": rng.randrange(1, 200), "recursive": rng.random() < 0.5}
    if rng.random() < 0.3:
        arguments["patch"] = [{"line": rng.randrange(900), "text": prose(rng, 50)} for _ in range(2)]
    return {"id": f"call_{token(rng)}", "name": rng.choice(_TOOLS), "arguments": arguments}


def _hit(rng: Random) -> dict[str, Any]:
    return {"path": _path(rng), "line": rng.randrange(1, 2000), "text": prose(rng, rng.randrange(20, 90))}


def _log_line(rng: Random) -> str:
    level = rng.choice(("INFO", "INFO", "DEBUG", "WARNING", "ERROR"))
    return f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02} {level} {prose(rng, 60)}"


def _tool_output(rng: Random, length: int) -> Any:
    """What a tool gave back: hits of a search, lines of a log, rows of a table, or text."""
    kind = rng.randrange(4)
    if kind == 0:
        return {"hits": [_hit(rng) for _ in range(max(1, length // 120))], "truncated": rng.random() < 0.2}
    if kind == 1:
        return "\n".join(_log_line(rng) for _ in range(max(1, length // 75)))
    if kind == 2:
        rows = [
            [rng.randrange(10**6), rng.choice(_WORDS), round(rng.uniform(0, 1000), 2), rng.random() < 0.5]
            for _ in range(max(1, length // 32))
        ]
        return {"columns": ["id", "name", "amount", "paid"], "rows": rows}
    return prose(rng, length)


def message(rng: Random, number: int) -> Message:
    """Message `number` of a conversation: about 1 KB as JSON, mostly tool calls and their results."""
    length = int(rng.triangular(200, 1650, 640))
    made: Message = {
        "id": f"msg_{token(rng)}",
        "created": f"2026-11-15T{number // 3600 % 24:02}:{number // 60 % 60:02}Z",
    }
    if number % 20 == 0:
        return made | {"role": "user", "content": prose(rng, length)}
    if number % 2 == 1:
        calls = [_call(rng) for _ in range(rng.choice((1, 1, 1, 2)))]
        usage = {"input_tokens": rng.randrange(500, 90_000), "output_tokens": rng.randrange(20, 900)}
        return made | {
            "role": "assistant",
            "content": prose(rng, length - 220),
            "tool_calls": calls,
            "usage": usage,
        }
    output = _tool_output(rng, length)
    return made | {
        "role": "tool",
        "tool_call_id": f"call_{token(rng)}",
        "ok": rng.random() < 0.9,
        "content": output,
    }


def context_entry(rng: Random) -> dict[str, Any]:
    """One entry of an agent's context: about 120 bytes as JSON."""
    return {
        "status": rng.choice(("open", "done", "blocked", "unknown")),
        "score": round(rng.random(), 4),
        "note": prose(rng, 55),
        "seen": [rng.randrange(1000), rng.randrange(1000)],
    }


def record(rng: Random, number: int) -> dict[str, Any]:
    """One small record of five fields: about 50 bytes as JSON."""
    return {
        "id": number,
        "n": rng.choice(_WORDS),
        "q": rng.randrange(1000),
        "v": round(rng.random(), 3),
        "ok": number % 3 == 0,
    }


def record_edit(rng: Random) -> tuple[str, Any]:
    """A field of a record and its new value."""
    field = rng.choice(("n", "q", "v", "ok"))
    fresh = record(rng, rng.randrange(1000))
    return field, fresh[field]
