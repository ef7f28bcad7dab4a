"""Working folders for tests: git repositories, and what is in a folder byte for byte."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    command = [
        "git",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "commit.gpgsign=false",
        *words,
    ]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def repository(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    if files:
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "first")
    return folder


def contents(folder: Path) -> dict[str, tuple[str, int, bytes]]:
    """Everything but git's and holdfast's own, by path: kind, permissions, bytes."""
    found = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in (".git", ".holdfast")]
        for name in [*names, *(each for each in folders if Path(base, each).is_symlink())]:
            path = Path(base, name)
            if name == ".git":
                continue
            about = path.lstat()
            if stat.S_ISLNK(about.st_mode):
                found[str(path.relative_to(folder))] = ("link", 0, os.fsencode(path.readlink()))
            else:
                found[str(path.relative_to(folder))] = ("file", about.st_mode & 0o777, path.read_bytes())
    return found


def git_state(folder: Path) -> tuple[bytes, str, str]:
    """What a restore must not touch: the index, HEAD and all refs, the stash."""
    index = (folder / ".git" / "index").read_bytes()
    return (
        index,
        (folder / ".git" / "HEAD").read_text(),
        git(folder, "for-each-ref") + git(folder, "stash", "list"),
    )
