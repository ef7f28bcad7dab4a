"""What a shell offers when somebody presses Tab: branches, tags, sessions and ids, live from the store.

Two rules. It is quick: only the newest checkpoints are looked at, at most 50 answers are given, and a server that does
not answer, or a store that somebody has locked, is waited for as long as a person would. It is silent: where
there is no store, or it is damaged or locked, nothing is offered and nothing is said. Names that a shell would not take
as they are (spaces, quotes, a leading #) are left out rather than quoted wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from holdfast.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from holdfast import Checkpoint, Session, Store
    from holdfast.cli.invocation import Invocation

MOST = 50
"""Answers to one Tab: more cannot be read."""
_LOOKED_AT = 500
"""Checkpoints whose tags, branches and ids are offered: reading them takes less than starting the program."""
_PATIENCE = 1.0
"""Seconds: who pressed Tab sits there and cannot type."""
_ID_DIGITS = 12
"""Enough to be the only one in any store that there will be, and still to be read."""

_SAFE = r"[\w@%+=:,./][\w@%+=:,./~^-]*"

Offer = tuple[str, str | None]
"""What would be typed, and a word about it for shells that show one."""
_Lookup = Callable[["Store", "Invocation", str], Iterable[Offer]]


class RefArgument(click.types.StringParamType):
    """The text of a ref, completed from the store: `@`, branches, `tag:` names, ids."""

    name = "ref"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """See `click.ParamType.shell_complete`."""
        del param
        return _offer(ctx, incomplete, _refs)


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The sessions of the store, newest first."""
    del param
    return _offer(ctx, incomplete, _sessions)


def complete_branch(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The branches of the session."""
    del param
    return _offer(ctx, incomplete, _branches)


def complete_tag(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tags of the newest checkpoints of the session."""
    del param
    return _offer(ctx, incomplete, _tags)


def _offer(ctx: click.Context, incomplete: str, lookup: _Lookup) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from holdfast.cli.invocation import Invocation

    offers: dict[str, str | None] = {}
    # Whatever goes wrong while somebody types, the shell must not be written over with it.
    settings = ctx.ensure_object(Invocation)
    with suppress(Exception), settings.open(timeout=_PATIENCE) as store:
        for text, about in lookup(store, settings, incomplete):
            if text.startswith(incomplete) and re.fullmatch(_SAFE, text):
                offers.setdefault(text, about)
            if len(offers) == MOST:
                break
    return [CompletionItem(text, help=about) for text, about in offers.items()]


def _sessions(store: Store, settings: Invocation, incomplete: str) -> Iterator[Offer]:
    del settings, incomplete
    for info in reversed(store.sessions()):
        yield (
            info.id,
            ("1 save" if info.saves == 1 else f"{info.saves} saves")
            + (f", {_plain(info.agent)}" if info.agent else ""),
        )


def _newest(store: Store, settings: Invocation) -> list[Checkpoint]:
    return store.find(session=settings.session, limit=_LOOKED_AT)


def _branches(store: Store, settings: Invocation, incomplete: str) -> Iterator[Offer]:
    del incomplete
    for branch in settings.session_of(store).branches():
        yield branch.name, "branch"


def _tags(store: Store, settings: Invocation, incomplete: str) -> Iterator[Offer]:
    del incomplete
    for checkpoint in _newest(store, settings):
        for tag in checkpoint.tags:
            yield tag, f"#{checkpoint.seq} {_plain(checkpoint.message)}"


def _refs(store: Store, settings: Invocation, incomplete: str) -> Iterator[Offer]:
    yield "@", "the newest"
    yield from _branches(store, settings, incomplete)
    if "tag:".startswith(incomplete[:4]):
        for tag, about in _tags(store, settings, incomplete):
            yield f"tag:{tag}", about
    yield from _ids(store, settings.session_of(store), settings, incomplete)


def _ids(store: Store, session: Session, settings: Invocation, incomplete: str) -> Iterator[Offer]:
    for checkpoint in _newest(store, settings):
        yield _digits(checkpoint.id, incomplete), f"#{checkpoint.seq} {_plain(checkpoint.message)}"
    if re.fullmatch("[0-9a-f]{4,64}", incomplete):
        # Older ones are found by their digits, however many there are.
        try:
            yield _digits(session.checkpoint(incomplete).id, incomplete), None
        except NotFoundError as error:
            if error.code is ErrorCode.REF_AMBIGUOUS:
                for candidate in error.details["candidates"]:
                    yield _digits(candidate, incomplete), None


def _digits(id_text: str, incomplete: str) -> str:
    return id_text[: max(_ID_DIGITS, len(incomplete))] if len(incomplete) <= _ID_DIGITS else id_text


def _plain(text: Any) -> str:
    from holdfast.cli.terminal import escape_controls, shorten

    return shorten(escape_controls(str(text)), 40)
