"""A run with a real tool loop that stops for a person, and goes on in another store.

    python approval_agent.py scan FOLDER        # looks through a folder, then asks before it deletes anything
    python approval_agent.py approve FILE       # goes on from the exported checkpoint, in a store of its own
    python approval_agent.py refuse FILE

The first part ends as paused, and leaves a JSON file in `checkpoints/` that can be committed to git. Whoever pulls it
decides, and the run goes on there with every thought and tool call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from holdfast.agents import Run, tool


@tool
def list_files(folder: str) -> list[str]:
    """The files of a folder."""
    return sorted(str(path) for path in Path(folder).iterdir() if path.is_file())


@tool
def measure(path: str) -> int:
    """The size of a file."""
    return Path(path).stat().st_size


@tool
def delete(path: str) -> str:
    """Delete a file."""
    Path(path).unlink()
    return "gone"


TOOLS: dict[str, Callable[..., Any]] = {"list_files": list_files, "measure": measure, "delete": delete}


def next_action(variables: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """What to do next: here a model would decide."""
    if "files" not in variables:
        return "list_files", {"folder": variables["folder"]}
    unmeasured = [path for path in variables["files"] if path not in variables["sizes"]]
    if unmeasured:
        return "measure", {"path": unmeasured[0]}
    empty = [
        path for path, size in variables["sizes"].items() if size == 0 and path not in variables["deleted"]
    ]
    return ("delete", {"path": empty[0]}) if empty else None


def work(run: Run) -> None:
    """Call tools until nothing is left to do, or a person has to agree."""
    variables = run.context.variables
    while (action := next_action(variables)) is not None:
        name, args = action
        if name == "delete" and not variables.get("approved"):
            run.think(f"{args['path']} is empty: may I delete it?", type="action", confidence=0.9)
            run.pause(f"approve: delete {args['path']}")
            return
        result = TOOLS[name](**args)
        if name == "list_files":
            variables["files"] = result
        elif name == "measure":
            variables["sizes"][args["path"]] = result
        else:
            variables["deleted"].append(args["path"])
    run.think(f"done: {len(variables['deleted'])} deleted", type="observation")


def main(command: str, target: str) -> None:
    """Scan a folder, or go on from a file."""
    with holdfast.open() as store:
        if command == "scan":
            with Run(store.session("cleaner"), task="remove empty files", sql=True, export_dir=True) as run:
                run.context.variables.update(folder=target, sizes={}, deleted=[])
                work(run)
        else:
            with Run(store.session("cleaner"), resume_from=Path(target), sql=True, export_dir=True) as run:
                run.context.variables["approved"] = command == "approve"
                if command == "approve":
                    work(run)
                else:
                    run.think("a person said no", type="observation")
        print(
            f"{run.status}: {run.progress.total_tool_calls} tool calls, {run.progress.total_thoughts} thoughts"
        )
        if run.note and run.status == "paused":
            print(run.note)
        print(Path("checkpoints", f"{run.export()['id']}.json"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
