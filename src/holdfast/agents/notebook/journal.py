"""Notes and commands: what was said and what was run, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Final

from holdfast.agents.notebook.part import Item, Part, plain
from holdfast.workspace.commands import CommandRecord, run_command

__all__ = ["NOTE_KINDS", "CommandHistory", "Notes"]

NOTE_KINDS: Final = ("note", "goal", "next", "lesson")


class Notes(Part):
    """Notes: observations, the goal, what to do next, lessons."""

    keys: ClassVar[tuple[str, ...]] = ("notes",)
    noun = "note"

    def add(self, text: str, *, kind: str = "note") -> str:
        """Write a note and return its id.

        Args:
            text: What to keep.
            kind: note; goal: what was asked for; next: what to do next; lesson: what an experiment taught.
        """
        item: Item = {
            "text": self._text(text, "note"),
            "kind": self._choice(kind, NOTE_KINDS, "kind"),
            "done": False,
            "created_at": self.clock(),
        }
        name = self._new_id("notes", "n")
        self._data["notes"][name] = {"id": name, **item}
        self._fire("note.added", self.get(name))
        return name

    def get(self, note: str) -> Item:
        """Return a note as a plain dict."""
        item: Item = plain(self._get("notes", note))
        return item

    def all(self, *, kind: str | None = None) -> list[Item]:
        """Return the notes, oldest first; of one kind if it is given."""
        return [plain(each) for each in self._data["notes"].values() if kind in (None, each["kind"])]

    def done(self, note: str) -> Item:
        """Say that what a note asks for is done: it leaves the brief."""
        self._get("notes", note)["done"] = True
        self._fire("note.changed", self.get(note))
        return self.get(note)


class CommandHistory(Part):
    """Commands that were run, with what came of them."""

    keys: ClassVar[tuple[str, ...]] = ("command_history",)
    noun = "command"

    def record(self, command: CommandRecord, *, replay: bool = False) -> str:
        """Keep a command that was run, and return its id.

        Args:
            command: What `run_command` gave.
            replay: Run it again when a recovery point is carried out.
        """
        name = self._new_id("command_history", "c")
        self._data["command_history"][name] = {"id": name, **command.to_dict(), "replay": replay}
        self._fire("command.recorded", self.get(name))
        return name

    def run(
        self, command: str | list[str], *, cwd: str | Path | None = None, replay: bool = False, **options: Any
    ) -> Item:
        """Run a command, keep it and return its record; see `run_command` for the options."""
        return self.get(self.record(run_command(command, cwd=cwd, **options), replay=replay))

    def get(self, command: str) -> Item:
        """Return a command as a plain dict."""
        item: Item = plain(self._get("command_history", command))
        return item

    def all(self) -> list[Item]:
        """Return the commands, oldest first."""
        return [plain(each) for each in self._data["command_history"].values()]
