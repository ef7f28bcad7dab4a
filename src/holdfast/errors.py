"""The errors of holdfast, grouped by what the caller can do about them.

    HoldfastError          code · hint · exit_code · details
    ├── NotFoundError      look elsewhere            also LookupError     exit 4 (10: no store, 1: never holds)
    ├── ConflictError      read again, then retry                         exit 5
    ├── IntegrityError     stop; the stored bytes are damaged             exit 9
    ├── InvalidInputError  fix the call              also ValueError      exit 2 (20: unconfirmed)
    ├── UnsupportedError   upgrade, or use another store                  exit 6
    ├── BackendError       wait or make room; retry if .retryable         exit 8 (11: locked)
    └── StateError         fix the program           also RuntimeError    exit 7
    HoldfastWarning        something works, but less well than asked
    └── RecoveryWarning    a load served an older checkpoint, because the one it was asked for is damaged

The class says what to do, the code says exactly what happened. Codes are stable: a new one may be added, none is
renamed or removed (`tests/repo/test_error_codes.py` holds us to it). Every error has a hint, and renders the same on
every surface through `to_dict`. Messages that more than one module raises are built here, so that every backend and
every surface says the same thing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Self


class ErrorCode(StrEnum):
    """What exactly happened, as a word that programs can rely on."""

    # not found
    STORE_MISSING = "store-missing"
    SESSION_MISSING = "session-missing"
    BRANCH_MISSING = "branch-missing"
    CHECKPOINT_MISSING = "checkpoint-missing"
    REF_AMBIGUOUS = "ref-ambiguous"
    HISTORY_TOO_SHORT = "history-too-short"
    BEFORE_HISTORY = "before-history"
    DATABASE_MISSING = "database-missing"
    PATH_MISSING = "path-missing"
    NO_COMMON_ANCESTOR = "no-common-ancestor"
    NOTHING_TO_UNDO = "nothing-to-undo"
    NOTHING_TO_REDO = "nothing-to-redo"
    UNDO_GONE = "undo-gone"
    SOURCE_MISSING = "source-missing"
    SOURCE_EMPTY = "source-empty"
    NEVER_HOLDS = "never-holds"
    EXECUTION_MISSING = "execution-missing"
    APPROVAL_MISSING = "approval-missing"
    ITEM_MISSING = "item-missing"
    OPERATION_MISSING = "operation-missing"
    AGENT_MISSING = "agent-missing"
    # conflict
    BRANCH_MOVED = "branch-moved"
    BRANCH_EXISTS = "branch-exists"
    SESSION_EXISTS = "session-exists"
    KEY_TAKEN = "key-taken"
    SESSION_CHANGED = "session-changed"
    CHUNKS_GONE = "chunks-gone"
    PATCH_FAILED = "patch-failed"
    UNDO_BLOCKED = "undo-blocked"
    HISTORY_DIFFERS = "history-differs"
    COLLECTION_RUNNING = "collection-running"
    LEASE_HELD = "lease-held"
    LEASE_LOST = "lease-lost"
    MERGE_CONFLICT = "merge-conflict"
    ROW_CONFLICT = "row-conflict"
    PLAN_CHANGED = "plan-changed"
    STEP_DIFFERS = "step-differs"
    STEP_RUNNING = "step-running"
    APPROVAL_EXPIRED = "approval-expired"
    # integrity
    CHUNK_DAMAGED = "chunk-damaged"
    CHUNK_MISSING = "chunk-missing"
    ROW_DAMAGED = "row-damaged"
    STORE_DAMAGED = "store-damaged"
    NOTHING_INTACT = "nothing-intact"
    ARCHIVE_DAMAGED = "archive-damaged"
    # invalid input
    BAD_ARGUMENT = "bad-argument"
    BAD_NAME = "bad-name"
    BAD_REF = "bad-ref"
    BAD_TIME = "bad-time"
    BAD_PATH = "bad-path"
    BAD_URL = "bad-url"
    BAD_METADATA = "bad-metadata"
    VALUE_UNSUPPORTED = "value-unsupported"
    VALUE_CYCLE = "value-cycle"
    VALUE_TOO_DEEP = "value-too-deep"
    VALUE_TOO_LARGE = "value-too-large"
    TYPE_NOT_REGISTERED = "type-not-registered"
    TYPE_NAME_TAKEN = "type-name-taken"
    SESSION_MISMATCH = "session-mismatch"
    PATH_EXISTS = "path-exists"
    NOT_A_STORE = "not-a-store"
    PROTECTED = "protected"
    EMPTY_POLICY = "empty-policy"
    NEEDS_CONFIRMATION = "needs-confirmation"
    BAD_CONFIG = "bad-config"
    SOURCE_UNKNOWN = "source-unknown"
    ARCHIVE_MALFORMED = "archive-malformed"
    ARCHIVE_TOO_LARGE = "archive-too-large"
    PREDICATE_FAILED = "predicate-failed"
    BAD_EXPRESSION = "bad-expression"
    BAD_PATTERN = "bad-pattern"
    BAD_PLAN = "bad-plan"
    STEP_MISSING = "step-missing"
    SQL_REFUSED = "sql-refused"
    # unsupported
    FORMAT_TOO_NEW = "format-too-new"
    FORMAT_TOO_OLD = "format-too-old"
    SQLITE_TOO_OLD = "sqlite-too-old"
    NETWORK_FILESYSTEM = "network-filesystem"
    SERVER_TOO_OLD = "server-too-old"
    TRANSACTION_POOLER = "transaction-pooler"
    NOT_SUPPORTED = "not-supported"
    TABLE_MISMATCH = "table-mismatch"
    WORKSPACE_UNUSABLE = "workspace-unusable"
    # backend
    STORE_LOCKED = "store-locked"
    SQL_STOPPED = "sql-stopped"
    DISK_FULL = "disk-full"
    IO_FAILED = "io-failed"
    PERMISSION_DENIED = "permission-denied"
    SERVER_GONE = "server-gone"
    LOGIN_REFUSED = "login-refused"
    TOO_MANY_CONNECTIONS = "too-many-connections"
    STILL_RUNNING = "still-running"
    # state
    STORE_CLOSED = "store-closed"
    TYPE_MISMATCH = "type-mismatch"
    UPGRADE_FAILED = "upgrade-failed"
    DECODE_FAILED = "decode-failed"
    DOCUMENT_DRIFT = "document-drift"
    SOURCES_FAILED = "sources-failed"
    RESUME_UNFINISHED = "resume-unfinished"
    HOOK_FAILED = "hook-failed"
    NOT_AWAKE = "not-awake"
    OUTCOME_UNKNOWN = "outcome-unknown"
    RESTORE_UNFINISHED = "restore-unfinished"
    REPLAY_FAILED = "replay-failed"


# These have an exit code of their own, because scripts branch on them.
_EXIT_BY_CODE = {
    ErrorCode.STORE_MISSING: 10,
    ErrorCode.DATABASE_MISSING: 10,
    ErrorCode.STORE_LOCKED: 11,
    ErrorCode.NEVER_HOLDS: 1,
    ErrorCode.NEEDS_CONFIRMATION: 20,
}


# These may go away by themselves.
_PASSING = {ErrorCode.STORE_LOCKED, ErrorCode.SERVER_GONE, ErrorCode.TOO_MANY_CONNECTIONS}


def _rebuild(
    cls: type[HoldfastError], message: str, code: ErrorCode, hint: str, details: dict[str, Any]
) -> HoldfastError:
    return cls(message, code=code, hint=hint, **details)


class HoldfastError(Exception):
    """The base of every error that holdfast raises on purpose.

    Attributes:
        code: The exact failure, as a stable word.
        hint: One thing to do next, for a person.
        exit_code: What the command line ends with.
        details: The facts of the message as data: ids, names, paths.
    """

    _exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, code: ErrorCode, hint: str, **details: Any) -> None:
        super().__init__(message)
        self.code = ErrorCode(code)
        self.hint = hint
        self.details = details
        # A traceback shows notes, so that an error nobody caught still says what to do.
        self.add_note(f"hint: {hint}")

    @property
    def exit_code(self) -> int:
        """What the command line ends with for this error."""
        return _EXIT_BY_CODE.get(self.code, self._exit_code)

    def to_dict(self) -> dict[str, Any]:
        """The record that every surface shows: the same fields in JSON, HTTP and MCP."""
        return {
            "code": str(self.code),
            "message": str(self),
            "hint": self.hint,
            "exit": self.exit_code,
            "details": self.details,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process pools; the default reduce would call __init__ without its keywords.
        return _rebuild, (type(self), str(self), self.code, self.hint, self.details)


class NotFoundError(HoldfastError, LookupError):
    """What was asked for is not there."""

    _exit_code = 4


class ConflictError(HoldfastError):
    """Somebody else changed the same thing first; nothing was written."""

    _exit_code = 5

    @classmethod
    def branch_moved(cls, session: str, branch: str, *, expected: bytes | None, actual: bytes | None) -> Self:
        """The head of a branch is not the one the writer built on."""
        return cls(
            f"branch {branch!r} of session {session!r} is at {_short(actual)}, not at {_short(expected)}: "
            "another writer moved it",
            code=ErrorCode.BRANCH_MOVED,
            hint='load() the new head and save again, or save with on_conflict="fork" to keep both',
            session=session,
            branch=branch,
            expected=expected.hex() if expected else None,
            actual=actual.hex() if actual else None,
        )

    @classmethod
    def key_taken(
        cls, session: str, key: str, *, existing: bytes, why: str = "which has another state"
    ) -> Self:
        """A key of this session already names a checkpoint that cannot be the answer."""
        return cls(
            f"key {key!r} of session {session!r} already names checkpoint {_short(existing)}, {why}",
            code=ErrorCode.KEY_TAKEN,
            hint="use a new key: one names one checkpoint, for good",
            session=session,
            key=key,
            existing=existing.hex(),
        )

    @classmethod
    def session_changed(cls, session: str) -> Self:
        """The session got a checkpoint or an operation between reading and writing."""
        return cls(
            f"session {session!r} changed while this operation was being prepared",
            code=ErrorCode.SESSION_CHANGED,
            hint="run the operation again",
            session=session,
        )

    @classmethod
    def chunks_gone(cls, checkpoint: bytes) -> Self:
        """The store no longer has the checkpoint that a writer builds on: it was replaced, or cleaned."""
        return cls(
            f"the store no longer has checkpoint {_short(checkpoint)}, whose state this save builds on",
            code=ErrorCode.CHUNKS_GONE,
            hint="save again: the next save sends the whole state",
            checkpoint=checkpoint.hex(),
        )

    @classmethod
    def row_conflict(cls, table: str, key: tuple[Any, ...], why: str) -> Self:
        """A row of an extension table is not as a change of it needs it to be."""
        shown_key = [each.hex() if isinstance(each, bytes) else each for each in key]
        return cls(
            f"row {', '.join(map(repr, shown_key))} of table {table!r} {why}",
            code=ErrorCode.ROW_CONFLICT,
            hint=f"read the row with store.rows({table}).get(...), then decide again; nothing was written",
            table=table,
            key=shown_key,
        )

    @classmethod
    def collection_running(cls) -> Self:
        """Somebody else is removing chunks; a collection that nobody asked for leaves it to them."""
        return cls(
            "another collection of chunks is under way in this store",
            code=ErrorCode.COLLECTION_RUNNING,
            hint="leave it to that one, or run gc, which takes over",
        )


class IntegrityError(HoldfastError):
    """Stored bytes are damaged. They are never returned as if they were whole."""

    _exit_code = 9

    @classmethod
    def chunk_damaged(cls, expected: bytes, *, why: str) -> Self:
        """The bytes under a hash are not the bytes that were hashed."""
        return cls(
            f"chunk {expected.hex()} is damaged: {why}",
            code=ErrorCode.CHUNK_DAMAGED,
            hint="s.recover() gives the newest state that is whole; store.verify() names all that is damaged",
            chunk=expected.hex(),
        )

    @classmethod
    def chunk_missing(cls, expected: bytes) -> Self:
        """A state refers to a chunk that the store does not have."""
        return cls(
            f"chunk {expected.hex()} is missing from the store",
            code=ErrorCode.CHUNK_MISSING,
            hint="s.recover() gives the newest state that is whole; store.verify() names all that is damaged",
            chunk=expected.hex(),
        )

    @classmethod
    def row_damaged(cls, what: str, *, why: str) -> Self:
        """A row does not match its checksum, or contradicts another row."""
        return cls(
            f"{what} is damaged: {why}",
            code=ErrorCode.ROW_DAMAGED,
            hint="store.verify() names all that is damaged, store.repair() keeps what is whole; or go back to a backup",
            what=what,
        )


class InvalidInputError(HoldfastError, ValueError):
    """The call cannot be carried out as it is written; nothing was written."""

    _exit_code = 2


def bad_argument(message: str, hint: str, **details: Any) -> InvalidInputError:
    """An argument that the call does not take (`bad-argument`), the most frequent refusal of all."""
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint, **details)


class UnsupportedError(HoldfastError):
    """This version, library or place cannot do what was asked."""

    _exit_code = 6


class BackendError(HoldfastError):
    """The place where bytes live failed: a lock, a full disk, a lost server.

    Whether a write that ended in this error took place is unknown until it is read back; saving again is safe.
    """

    _exit_code = 8

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later without anyone changing anything."""
        return self.code in _PASSING


class StateError(HoldfastError, RuntimeError):
    """The program and the stored state do not fit together."""

    _exit_code = 7


class HoldfastWarning(UserWarning):
    """Something works, but less well than asked: weaker durability, a slow path, an old call."""


class RecoveryWarning(HoldfastWarning):
    """A load asked to recover: what was asked for is damaged, and an older checkpoint was served."""


def shown(given: object) -> str:
    """What was passed, for a message that refuses it: a plain value as it is, anything else by its type.

    The inside of a container is never written: a state that was passed by mistake may be as deep as it likes.
    """
    if isinstance(given, str | bytes):
        return repr(given[:100])
    # The decimal digits of a huge int take long, and Python refuses past a limit.
    if given is None or isinstance(given, float) or (isinstance(given, int) and given.bit_length() <= 128):
        return repr(given)
    name = type(given).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _short(head: bytes | None) -> str:
    return head.hex()[:12] if head else "no checkpoint"
