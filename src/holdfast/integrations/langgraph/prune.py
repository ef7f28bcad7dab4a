"""Taking things out of threads for good: by run, and all but the latest.

What goes is worked out from the records of a thread, with the writes that belong to each checkpoint, and then forgotten
in one operation. The bytes are freed by the next gc.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from holdfast import Checkpoint as Saved
from holdfast import NotFoundError, Session, Store
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.checkpoints import run_text
from holdfast.integrations.langgraph.reader import COUNTERS, Group, groups, loaded, needed, one

_PAGE = 500


def forget_thread(store: Store, thread: str) -> None:
    """Remove a thread; one that is not there is removed already."""
    _forget(store, thread, ())


def forget_runs(store: Store, run_ids: Sequence[str]) -> list[str]:
    """Remove the checkpoints of runs, with their writes, from all threads; which threads those are."""
    unwanted: dict[str, dict[str, Saved]] = defaultdict(dict)
    for run_id in dict.fromkeys(map(run_text, run_ids)):
        for saved, key in _of_run(store, run_id):
            group = one(store.session(saved.session), key.owner)
            if group is not None:
                unwanted[saved.session].update((each.id, each) for each in (group.checkpoint, *group.writes))
    for thread, found in unwanted.items():
        _forget(store, thread, list(found.values()))
    return list(unwanted)


def keep_latest(store: Store, thread: str) -> None:
    """Remove all but the latest checkpoint of each namespace, and what is pinned, with their writes.

    What is kept is kept with what it is rebuilt from. Whoever pins a checkpoint, or writes, wants to have it. The
    namespace of one call of a subgraph goes with the checkpoint of the root that the call was made from. Writes without
    a checkpoint stay: it may be on its way.
    """
    session = store.session(thread)
    latest: dict[str, Group] = {}
    pinned: list[Group] = []
    ids: dict[str, Saved] = {}
    for group in groups(session, *keys.THREAD_RANGE, first=_PAGE):
        latest.setdefault(_namespace_part(group), group)
        if group.checkpoint.pinned or any(each.pinned for each in group.writes):
            pinned.append(group)
        ids.update((each.id, each) for each in (group.checkpoint, *group.writes))
    root = latest.get("/")
    for part, group in list(latest.items()):
        if root is not None and _is_past_call(store, session, group, root):
            del latest[part]
    for group in (*latest.values(), *pinned):
        for kept in _kept_with(store, session, group):
            for each in (kept.checkpoint, *kept.writes):
                ids.pop(each.id, None)
    if ids:
        _forget(store, thread, list(ids.values()))


def _kept_with(store: Store, session: Session, group: Group) -> Iterator[Group]:
    """A checkpoint, and the ancestors that its delta channels are rebuilt from."""
    yield group
    channels = list(group.checkpoint.metadata.get(COUNTERS) or ())
    if not channels:
        return
    for _, state, _ in loaded(store, [group]):
        namespace = group.key.namespace if group.key.namespace is not None else state["checkpoint_ns"]
        missing = [channel for channel in channels if channel not in state["channel_values"]]
        yield from needed(store, session, namespace, state["parent"], missing)


def _is_past_call(store: Store, session: Session, group: Group, root: Group) -> bool:
    """Whether it is of a call of a subgraph that an earlier checkpoint of the root made.

    The namespace of a call has the id of its task after a colon. One whose root is not stored is left alone: it may be
    on its way.
    """
    caller = (group.checkpoint.metadata.get("parents") or {}).get("")
    if not isinstance(caller, str) or caller == root.key.checkpoint_id:
        return False
    if ":" not in _namespace_of(store, group):
        return False
    return bool(session.keyed(*keys.checkpoint_range(keys.checkpoint_key("", caller)), limit=1))


def _namespace_of(store: Store, group: Group) -> str:
    """The namespace; of one that the key has only the hash of, as the state says."""
    if group.key.namespace is not None:
        return group.key.namespace
    for _, state, _ in loaded(store, [group._replace(writes=[])]):
        return str(state["checkpoint_ns"])
    # Gone in this moment, so that there is nothing to decide: as one that is no call it is left alone.
    return ""


def _namespace_part(group: Group) -> str:
    return group.key.owner.partition(" ")[0]


def _of_run(store: Store, run_id: str) -> Iterator[tuple[Saved, keys.Key]]:
    before: Saved | None = None
    while True:
        rows = store.find(metadata={"run_id": run_id}, before=before, limit=_PAGE)
        for row in rows:
            key = keys.parse(row.key)
            if key is not None and key.task_id is None:
                yield row, key
        if len(rows) < _PAGE:
            return
        before = rows[-1]


def _forget(store: Store, thread: str, refs: Sequence[Saved]) -> None:
    try:
        store.forget(thread, *refs, clean=False)
    except NotFoundError:
        # Somebody else removed it, or one of these, in the meantime.
        if not refs:
            return
        there = [each for each in refs if store.find(session=thread, key=each.key, limit=1)]
        if there:
            store.forget(thread, *there, clean=False)
