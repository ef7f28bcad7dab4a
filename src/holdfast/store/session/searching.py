"""Finding a step in the history of a session: where it went wrong, who set a value, which states have a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from holdfast.history.checkpoint import Checkpoint
from holdfast.store.session.identity import Ref, SessionIdentity, check_limit

# Each is imported by the methods that need it: a process that only saves is started faster.
if TYPE_CHECKING:
    from holdfast.store.searching.findings import Findings
    from holdfast.store.searching.reports import BisectReport, Blame, GrepMatch, PathChange


class SessionSearching(SessionIdentity):
    """What can be looked for in the history of the branch in use, as `log` shows it."""

    def bisect(
        self,
        predicate: Callable[[Any], Any] | str,
        *,
        good: Ref | None = None,
        bad: Ref | None = None,
        path: str | None = None,
        check: Literal["ends", "sample", "all"] = "ends",
        progress: Callable[[Checkpoint, bool | None, int], None] | None = None,
    ) -> BisectReport:
        """Return the first checkpoint where something holds, loading few states: 12 at most for 1,000 checkpoints.

        It has to be monotonic for that: once it holds, it holds for good. What the report says of `found` and `before`
        was tested; `check` says how much of the rest is. States with the same root are loaded once.

        Args:
            predicate: A function that takes a state and says whether it holds; it may return `holdfast.Skip`. Or an
                expression over the state, which runs no code: `messages[-1].role == "tool" and score < 0.5`. What an
                expression asks for and a state does not have is unknown there: neither it nor its contrary holds.
            good: A checkpoint where it does not hold yet; the first of the history unless given.
            bad: A later one where it holds; the head unless given.
            path: Load this part of each state only, and judge that. A state without it is one where it does not hold.
            check: "ends": the oldest and the newest are tested, the rest is assumed. "sample": up to 16 more states.
                "all": every state, and the answer is exact whether it is monotonic or not.
            progress: Called after each test with the checkpoint, whether it holds (None: skipped) and how many states
                lie between the two nearest answers.

        Raises:
            NotFoundError: It does not hold at the newest checkpoint (`never-holds`), or a ref names nothing.
            InvalidInputError: The predicate raised (`predicate-failed`, with the checkpoint and the cause), the
                expression is none (`bad-expression`), or it holds at `good` already.
            IntegrityError: No state could be read. Single ones are skipped, with a note.
        """
        from holdfast.store.searching.bisecting import bisect

        return bisect(
            self._writer.place,
            self._writer.parts.types,
            predicate,
            good=good,
            bad=bad,
            path=path,
            check=check,
            progress=progress,
        )

    def blame(self, path: str, ref: Ref = "@", *, exact: bool = False) -> Blame:
        """Return who set what is at a path: the checkpoint, what it set, and what was there before.

        Where the value came in by a merge, it is the checkpoint that set it on the merged line, and `merges` names the
        merge. The checkpoint did change it, and the value is the same at each state that was looked at since. Those are
        few: 1, 2, 4, 8 ... steps back, and then halves; a value that went away and came back between two of them is
        passed over. The report says whether that is possible (`certain`). With `exact` it is not.

        Args:
            path: Which part: `beliefs.b7.confidence`, `messages[-1].role`.
            ref: From which checkpoint on to look back.
            exact: Look into every state until the change, each root once.

        Raises:
            NotFoundError: No state that was looked at has anything there (`path-missing`), or `ref` names nothing.
            InvalidInputError: The path is none (`bad-path`).
            IntegrityError: No state could be read. Single ones are passed over, with a note in the report.
        """
        from holdfast.store.searching.changes import blame

        return blame(self._writer.place, self._writer.parts.types, path, ref, exact=exact)

    def history_of(
        self,
        path: str,
        ref: Ref = "@",
        *,
        oldest_first: bool = False,
        exact: bool = True,
        limit: int | None = None,
    ) -> Findings[PathChange]:
        """Return each change of what is at a path, newest first, as they are found.

        Values are compared as they are stored, and only those that changed are built. Every state with a root of its
        own is looked into for that part, and no change is missed. Without `exact`, changes are looked for by leaps as
        `blame` does: fewer looks where a value seldom changes, and one that came back in between may be missed.

        Args:
            path: Which part: `score`, `beliefs.b7.confidence`.
            ref: From which checkpoint on to look back; or a range, `#10..#90`.
            oldest_first: From the beginning on.
            exact: Look into every state.
            limit: At most so many changes.

        Raises:
            NotFoundError: No state has anything there (`path-missing`, when the history was gone through), or `ref`
                names nothing.
            InvalidInputError: The path is none (`bad-path`).
            IntegrityError: No state could be read. Single ones are passed over, with a warning and in `notes` of what
                is returned.
        """
        from holdfast.store.searching.changes import history_of

        check_limit(limit)
        place, types = self._writer.place, self._writer.parts.types
        return history_of(place, types, path, ref, oldest_first=oldest_first, exact=exact, limit=limit)

    def grep(
        self,
        pattern: str,
        ref: Ref = "@",
        *,
        path: str | None = None,
        regex: bool = False,
        ignore_case: bool = False,
        new: bool = False,
        limit: int | None = None,
    ) -> Findings[GrepMatch]:
        """Return the texts that match in the states of a history, newest checkpoint first, as they are found.

        A text counts once in each state that has it, with its first match; keys and bytes do not count. A chunk that
        many states share is searched once.

        Args:
            pattern: The words to look for, as they are.
            ref: From which checkpoint on to look back; or a range, `#10..#90`; `@~1..@` is the newest state alone.
            path: Only in this part of each state; `.notes` says so if no state has anything there.
            regex: The pattern is a regular expression; needs `holdfast[query]`. One that takes more than a second on
                a text is refused then.
            ignore_case: Capital and small letters are the same.
            new: Only where a match came in: the state before does not have the text, wherever in it; or it has the text
                as it was before an edit, with fewer of these matches.
            limit: At most so many matches.

        Raises:
            InvalidInputError: The pattern is none, or takes too long (`bad-pattern`).
            NotFoundError: `ref` names nothing.
            IntegrityError: No state could be read. Single ones are passed over, with a warning and in `notes` of what
                is returned.
            UnsupportedError: A regular expression, and the library for it is not installed.
        """
        from holdfast.store.searching.grepping import grep
        from holdfast.store.searching.patterns import Pattern

        check_limit(limit)
        wanted = Pattern(pattern, regex=regex, ignore_case=ignore_case)
        return grep(self._writer.place, wanted, ref, path=path, new=new, limit=limit)
