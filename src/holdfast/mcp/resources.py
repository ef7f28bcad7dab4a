"""Resources and prompts: what can be read without a tool, and texts that begin a piece of work.

Every path of the REST twins is also a URI: `/v1/sessions/a/tree` is `holdfast://sessions/a/tree`. Clients find fixed
URIs only, so a few are listed; the tool `show` reads any.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, Resource, TextContent

from holdfast.errors import ErrorCode, NotFoundError
from holdfast.operations import Operation, load_operations

SCHEME = "holdfast"

RESOURCES = [
    Resource(
        uri="holdfast://sessions",
        name="sessions",
        description="The sessions of the store",
        mime_type="application/json",
    ),
    Resource(
        uri="holdfast://stats",
        name="stats",
        description="How much is in the store",
        mime_type="application/json",
    ),
    Resource(
        uri="holdfast://live", name="live", description="Agents that are awake", mime_type="application/json"
    ),
    Resource(
        uri="holdfast://sessions/default/brief",
        name="brief",
        description="The thread of the debugging session, for after a compaction",
        mime_type="application/json",
    ),
    Resource(
        uri="holdfast://sessions/default/checkpoints",
        name="checkpoints",
        description="The newest checkpoints of the session `default`",
        mime_type="application/json",
    ),
]

_PATHS = [
    (re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(each.path))), each)
    for each in load_operations().values()
    if each.path is not None
]


def meant(uri: str) -> tuple[Operation, dict[str, Any]]:
    """The operation that a URI means, with its parameters, all of them texts.

    Raises:
        NotFoundError: It is no URI of ours.
    """
    try:
        parts = urlsplit(uri)
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        parts, query = urlsplit(""), {}
    # netloc and not hostname: that one is in small letters.
    path = f"/v1/{parts.netloc}{parts.path}".rstrip("/")
    for pattern, operation in _PATHS if parts.scheme == SCHEME else []:
        if found := pattern.fullmatch(path):
            return operation, {**query, **{name: unquote(each) for name, each in found.groupdict().items()}}
    raise NotFoundError(
        f"there is no resource {uri!r:.200}",
        code=ErrorCode.ITEM_MISSING,
        hint="holdfast://sessions names the sessions; holdfast://sessions/ID/checkpoints what one has",
    )


_SESSION = PromptArgument(name="session", description="The session; default unless given", required=False)

PROMPTS = {
    "resume_after_compaction": Prompt(
        name="resume_after_compaction",
        description="Pick the thread of a debugging session up again",
        arguments=[_SESSION],
    ),
    "start_investigation": Prompt(
        name="start_investigation",
        description="Begin to look for a bug with a notebook that survives compaction",
        arguments=[PromptArgument(name="problem", description="What is wrong", required=True), _SESSION],
    ),
}

_TEXTS = {
    "resume_after_compaction": """Your context was compacted. Call brief with session {session} first. It has the goal,
what was tried and refuted, what is believed and why, what is open and what is next. Do not try again what it says was
refuted. Then say in one sentence where you are, and go on with what is next. Write each finding down with note.""",
    "start_investigation": """The problem: {problem}

Keep a notebook in session {session} while you look for its cause: what you forget is still there.
1. note the goal (kind goal), then what might be the cause (kind hypothesis), most likely first.
2. Look for what speaks against the likeliest one, and note it (kind evidence, about the hypothesis).
3. Note what you would have to know (kind gap), and each thing learned (kind lesson).
4. If the state of an agent went wrong, search its history: bisect for the first bad checkpoint, blame for who set a
value, diff for what changed.
Call brief when you lose the thread.""",
}


def prompt(name: str, given: dict[str, str]) -> GetPromptResult | None:
    """A prompt with its arguments; None where there is none of that name, or an argument is missing."""
    listed = PROMPTS.get(name)
    if listed is None or any(each.required and each.name not in given for each in listed.arguments or ()):
        return None
    text = _TEXTS[name].format_map({"session": "default", **given})
    message = PromptMessage(role="user", content=TextContent(type="text", text=text))
    return GetPromptResult(description=listed.description, messages=[message])
