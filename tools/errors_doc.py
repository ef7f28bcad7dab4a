"""Write docs/reference/errors.md from the error classes and their codes.

Classes, exit codes and what each class is for come from `holdfast.errors`; the meaning of each code is here, because a
word in an enum has no room for it. A code without a meaning, or a meaning without a code, stops the program.

    python tools/errors_doc.py            write the page
    python tools/errors_doc.py --check    end with 1 when the page is not what would be written
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast import errors
from holdfast.cli.errors import SHELL_HINTS
from holdfast.errors import ErrorCode, HoldfastError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "errors.md"

# Each code under the class that carries it, in the order of `ErrorCode`.
MEANINGS: dict[type[HoldfastError], dict[str, str]] = {
    errors.NotFoundError: {
        "store-missing": "There is no store at that place, and the call may not make one.",
        "session-missing": "The store has no session of that id.",
        "branch-missing": "The session has no branch of that name.",
        "checkpoint-missing": "No checkpoint answers to that ref.",
        "ref-ambiguous": "More than one checkpoint id begins with those digits.",
        "path-missing": "The state has nothing at that path.",
        "no-common-ancestor": "What is to be merged and the branch have no checkpoint in common.",
        "history-too-short": "The ref goes back further than the history does.",
        "before-history": "The time lies before the first checkpoint.",
        "database-missing": "The PostgreSQL server has no database of that name; holdfast makes none.",
        "nothing-to-undo": "No operation of the session can be undone; saves are not operations.",
        "nothing-to-redo": "Nothing was undone, or something else was done since.",
        "undo-gone": "gc, forget or retention removed for good what an undo or redo would bring back.",
        "source-missing": "There is no file of that name to import from.",
        "source-empty": "What is to be imported has no thread.",
        "never-holds": "bisect looked for where something holds, and it does not hold at the newest checkpoint.",
        "execution-missing": "The session has no execution of a plan, or none of that id.",
        "approval-missing": "Nobody asked for an approval of that step, or its parameters have changed since.",
        "item-missing": "The notebook has no hypothesis, belief, gap or other item of that id.",
        "operation-missing": "A server has no operation of that name.",
        "agent-missing": "No live agent has the session; one has to be awake to save itself.",
    },
    errors.ConflictError: {
        "branch-moved": "Another writer moved the branch after it was read.",
        "branch-exists": "The session already has a branch of that name.",
        "session-exists": "The session that was to be made already has checkpoints.",
        "key-taken": "The key already names a checkpoint with another state.",
        "session-changed": "The session changed while the operation was being prepared.",
        "chunks-gone": "The store no longer has the state that a save builds on: it was replaced by another copy.",
        "patch-failed": "A JSON patch does not fit the state that it was applied to.",
        "undo-blocked": "A branch or a checkpoint is no longer as the operation left it; the hint says what to do.",
        "history-differs": "The target of a copy or an import has a session of that id with another history.",
        "collection-running": "Another process removes chunks already; a collection nobody asked for does not begin.",
        "lease-held": "Somebody else holds the lease; the message names the process and the machine.",
        "lease-lost": "The writer does not hold its lease any more: it ran out, was taken, or was given up.",
        "row-conflict": "A row of an extension table is there already, is missing, or is not as the change expects.",
        "merge-conflict": "Both sides of a merge changed the same. The command lists where; in Python the report does.",
        "plan-changed": "The plan is not the one that the unfinished execution began with; the message has the steps.",
        "step-differs": "A step of that name was begun with other arguments.",
        "step-running": "A step of that name is running in this process already.",
        "approval-expired": "The time in which the request for approval could be answered is over.",
    },
    errors.IntegrityError: {
        "chunk-damaged": "The bytes under a hash are not the bytes that were hashed.",
        "chunk-missing": "A state refers to a chunk that the store does not have.",
        "row-damaged": "A row does not match its checksum, or contradicts another one.",
        "store-damaged": "The file is damaged below the rows: a page, the header, the schema.",
        "nothing-intact": "No checkpoint at or before the one that was asked for can be read.",
        "archive-damaged": "An archive does not fit its own hashes: it was changed or cut short since it was written.",
    },
    errors.InvalidInputError: {
        "bad-argument": "An argument has a value that the call cannot use.",
        "bad-name": "The name of a session, branch, tag, agent, project or key is empty, too long or malformed.",
        "bad-path": "The text is not a path into a state.",
        "bad-ref": "The text is not a ref.",
        "bad-time": "The text is not a time: neither ISO 8601 nor one of the forms people use.",
        "bad-url": "The text names no store that holdfast can open.",
        "bad-metadata": "The metadata is not a JSON object.",
        "value-unsupported": "The state holds a value that cannot be kept; the message has its path.",
        "value-cycle": "The state contains itself; the message has the path.",
        "value-too-deep": "The state is nested too deeply.",
        "value-too-large": "One value of the state is too large to be kept.",
        "type-not-registered": "The state holds an object of a class that is not registered.",
        "type-name-taken": "Two classes are registered under one name.",
        "session-mismatch": "The session exists with another agent or project.",
        "path-exists": "The file or folder to be written is already there.",
        "not-a-store": "The file is something else than a holdfast store.",
        "protected": "The checkpoint is pinned, or branches part there; or the branch is in use, the last, or alone.",
        "empty-policy": "A Keep without a rule and without a cap: it does not say what to keep.",
        "needs-confirmation": "The command needs a yes, and nobody gave it.",
        "bad-config": "A settings file has an unknown key, a value of the wrong type, or is not TOML.",
        "source-unknown": "What is to be imported is no database that one of LangGraph's savers wrote.",
        "archive-malformed": "A file is no archive of checkpoints; the message says where and why.",
        "archive-too-large": "An archive has more bytes, values, levels or text than the limits of the import allow.",
        "predicate-failed": "The function of a `when(...)` or of bisect raised an exception, which is the cause.",
        "bad-expression": "The text is no expression over a state, or takes too many steps; the message says where.",
        "bad-pattern": "The text is no regular expression, or takes more than a second on one text.",
        "bad-plan": "A plan cannot be run as it is; the message has the step, and the line of a file.",
        "step-missing": "The plan has no step of that id.",
        "sql-refused": "The SQL is no SELECT over the published views.",
    },
    errors.UnsupportedError: {
        "format-too-new": "A newer holdfast wrote the store, in a format that this one cannot read.",
        "format-too-old": "An older holdfast made the store, before the first release: make a new one.",
        "sqlite-too-old": "The SQLite library has a known fault, or lacks what the store needs.",
        "network-filesystem": "The store would lie on a network file system, where its locks do not hold.",
        "server-too-old": "The PostgreSQL server is older than the oldest version that has what the store needs.",
        "transaction-pooler": "A pooler gives each transaction another session; the store needs one that stays.",
        "not-supported": "This backend or version cannot do what was asked.",
        "table-mismatch": "An extension table of this store has other types or keys than the program declares.",
        "workspace-unusable": "git cannot be run, or refuses to look at the repository of a working folder.",
    },
    errors.BackendError: {
        "store-locked": "Another process holds the store, longer than the time-out.",
        "sql-stopped": "A question in SQL took longer than it may.",
        "disk-full": "There is no room left for the write.",
        "io-failed": "The operating system reported an error while reading or writing.",
        "permission-denied": "The operating system or the server does not allow reading or writing the store.",
        "server-gone": "The server cannot be reached, or the connection broke; a write may have taken effect.",
        "login-refused": "The server does not let this user in: password, role, pg_hba.conf or TLS.",
        "too-many-connections": "The server has no connection left, longer than the time-out.",
        "still-running": "The operation takes longer than the server waits; job.get says how it stands.",
    },
    errors.StateError: {
        "store-closed": "The store has been closed.",
        "type-mismatch": "The stored value cannot become the type that was asked for.",
        "upgrade-failed": "The upgrade function of a registered type failed.",
        "decode-failed": "The decode function of a registered type failed.",
        "document-drift": "A document was changed by something that knows it only as a dict or list.",
        "resume-unfinished": "A recorder was asked to save while a resume was under way, or after one was broken off.",
        "sources-failed": "None of the sources of a recorder could be captured; nothing was saved.",
        "hook-failed": "A function of the application's own failed, without whose answer it is not known how to go on.",
        "not-awake": "A heartbeat was asked for something that it can do only while it lives, and it lives once.",
        "outcome-unknown": "A step that may happen at most once was cut off: a person has to say what became of it.",
        "restore-unfinished": "A restore of code was interrupted; it has to be finished or undone first.",
        "replay-failed": "A command of a recovery point ended with an error; the steps after it were not done.",
    },
}

_HEAD = """\
# Errors

<!-- Written by tools/errors_doc.py. Change that file, then run `make docs`. -->

Every error that holdfast raises on purpose is a `HoldfastError`. The class says what to do about it, `code` says
exactly what happened, `hint` names one thing to do next, `details` has the facts as data. The command line ends with
the exit code, and `to_dict()` is the same record in JSON. Codes are stable: one may be added, none is renamed or
removed.

| exit | when |
|---|---|
| 0 | It worked |
"""

# What the command line ends with beside the errors of the table.
_OTHER_EXITS = {
    20: "The command needs a confirmation, and nobody is there to give it",
    70: "A bug in holdfast: anything that is not a `HoldfastError`",
    130: "Interrupted",
}


def check_meanings() -> list[str]:
    """The codes that lack a meaning, have two, or do not exist."""
    described = [code for codes in MEANINGS.values() for code in codes]
    twice = {code for code in described if described.count(code) > 1}
    return sorted(twice | (set(described) ^ {str(code) for code in ErrorCode}))


def exit_codes() -> dict[int, str]:
    """What each exit code stands for."""
    exits = dict(_OTHER_EXITS)
    for cls, codes in MEANINGS.items():
        for code, meaning in codes.items():
            error = cls("", code=ErrorCode(code), hint="")
            plain = error.exit_code == cls._exit_code
            exits[error.exit_code] = f"`{cls.__name__}`" if plain else f"`{code}`: {meaning.rstrip('.')}"
    return dict(sorted(exits.items()))


def page() -> str:
    """The whole page."""
    parts = [_HEAD, *(f"| {number} | {when} |\n" for number, when in exit_codes().items())]
    for cls, codes in MEANINGS.items():
        also = [base.__name__ for base in cls.__bases__ if base is not HoldfastError]
        parts.append(f"\n## {cls.__name__}\n\n{_prose(cls)}")
        parts.append(f"\nAlso a `{also[0]}`.\n" if also else "")
        parts.append("\n| code | exit | meaning | in a shell |\n|---|---|---|---|\n")
        for code, meaning in codes.items():
            number = cls("", code=ErrorCode(code), hint="").exit_code
            shell = SHELL_HINTS.get(ErrorCode(code), "").replace("{hint}; ", "")
            parts.append(f"| `{code}` | {number} | {meaning} | {shell} |\n")
    parts.append(f"\n## HoldfastWarning\n\n{_prose(errors.HoldfastWarning)}")
    return "".join(parts)


def _prose(cls: type) -> str:
    lines = (cls.__doc__ or "").strip().splitlines()
    return "\n".join(line.strip() for line in lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is up to date."""
    if wrong := check_meanings():
        print(f"tools/errors_doc.py has to describe each code once: {', '.join(wrong)}")
        return 1
    if arguments == ["--check"]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != page():
            print(f"docs/reference/{PAGE.name} is not up to date: run `make docs`")
            return 1
        print(f"docs/reference/{PAGE.name} is up to date.")
        return 0
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
