"""Run the commands of docs/tour.md and write what they print into it; with --check, say whether it is up to date.

A few of them become docs/tour.svg, the picture in the README.

python tools/tour.py [--check]

The page is its own source. Its prose and the lines that begin with `$ ` are written by hand; what stands below such a
line is what the command printed, on a terminal of 100 columns, in a new folder, at a moment that is always the same
(tour_clock.py). ```python blocks run as well. A command has to end with 0, or with the number of a comment behind it:
`$ holdfast show nope  # exit 4`.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tour.md"
PICTURE = ROOT / "docs" / "tour.svg"
PICTURED = ("holdfast bisect '", "holdfast blame ", "holdfast tree")
"""Beginnings of the commands in the picture; of several, the first one counts."""
CLOCK_PROGRAM = Path(__file__).with_name("tour_clock.py")

BEGIN = 1_772_442_000_000_000  # Monday 2026-03-02, 09:00 UTC
A_COMMAND = 60 * 1_000_000
COLUMNS = 100
SHOWN_AS = "/home/you/tour"
END = b"\0the command has ended\0"

_BLOCK = re.compile(r"^```(?P<language>console|python)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"# exit (\d+)\s*$")


_STYLE = (
    "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#c9d1d9}"
    ".typed{fill:#7ee787;font-weight:bold}</style>"
)


class TourError(Exception):
    """A command did not end as the page says."""


def page(source: str) -> str:
    """The page `source` with what its commands print now."""
    with TemporaryDirectory(prefix="tour-") as folder:
        traveller = _Traveller(Path(folder))
        return _BLOCK.sub(lambda found: traveller.block(found["language"], found["body"]), source)


def picture(made: str) -> str:
    """An SVG of a terminal with some of the page's commands and what they printed."""
    shown: list[str] = []
    for beginning in PICTURED:
        found = re.search(
            rf"^\$ {re.escape(beginning)}.*?(?=^\$ |^```)", made, flags=re.MULTILINE | re.DOTALL
        )
        shown += [*found[0].rstrip().splitlines(), ""] if found else []
    height = 40 + 18 * len(shown)
    lines = (
        f'<text x="20" y="{34 + 18 * number}" class="{"typed" if line.startswith("$ ") else "printed"}">'
        f"{html.escape(line)}</text>"
        for number, line in enumerate(shown)
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" role="img">',
            "<title>holdfast in a terminal: the bad step is found, and drawn</title>",
            _STYLE,
            f'<rect width="900" height="{height}" rx="8" fill="#0d1117"/>',
            *lines,
            "</svg>\n",
        ]
    )


class _Traveller:
    """Somebody with a new folder and a terminal who types what the page shows."""

    def __init__(self, folder: Path) -> None:
        # A shell's idea of the folder may be another one than Python's, where the way there has a link.
        folder = folder.resolve()
        self._here, home, programs = folder / "here", folder / "home", folder / "bin"
        for each in (self._here, home, programs):
            each.mkdir()
        self._clock = folder / "clock"
        self._clock.write_text(str(BEGIN))
        holdfast = programs / "holdfast"
        holdfast.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{CLOCK_PROGRAM}" "{self._clock}" holdfast "$@"\n'
        )
        holdfast.chmod(0o755)
        kept = {
            name: os.environ[name]
            for name in ("LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
            if name in os.environ
        }
        self._environment = {
            **kept,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PYTHONUTF8": "1",
            "TZ": "UTC",
            "TERM": "xterm-256color",
            "NO_COLOR": "1",
            "HOLDFAST_PAGER": "cat",
        }

    def block(self, language: str, body: str) -> str:
        """Run a block; it again, with its output."""
        if language == "python":
            file = self._here.parent / "block.py"
            file.write_text(body, encoding="utf-8")
            self._run([sys.executable, str(CLOCK_PROGRAM), str(self._clock), str(file)], body, expected=0)
            return f"```python\n{body}```"
        commands = [line for line in body.splitlines() if line.startswith("$ ")]
        return "\n".join(["```console", *(self._command(line) for line in commands), "```"])

    def _command(self, line: str) -> str:
        announced = _EXIT.search(line)
        expected = int(announced[1]) if announced else 0
        printed = self._run(["/bin/sh", "-c", line.removeprefix("$ ")], line, expected=expected)
        return "\n".join([line, *(each.rstrip() for each in printed.splitlines())])

    def _run(self, command: list[str], shown: str, *, expected: int) -> str:
        self._clock.write_text(str(int(self._clock.read_text()) + A_COMMAND))
        code, printed = on_a_terminal(command, self._here, self._environment)
        if code != expected:
            raise TourError(f"{PAGE.name}: {shown}\nended with {code}, not {expected}:\n{printed}")
        return printed.replace(str(self._here), SHOWN_AS)


def on_a_terminal(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run `command` with a terminal for what it prints; its exit code, and that."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))

    def until_it_ends() -> int:
        code = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=environment,
            check=False,
        ).returncode
        # The terminal is open here until now: one whose last writer closes it may lose what was not read yet.
        os.write(slave, END)
        return code

    printed = b""
    with ThreadPoolExecutor() as pool:
        code = pool.submit(until_it_ends)
        while not printed.endswith(END):
            printed += os.read(master, 65536)
    os.close(slave)
    os.close(master)
    return code.result(), printed.removesuffix(END).decode().replace("\r\n", "\n")


def main() -> int:
    """Write the page and the picture, or check them."""
    source = PAGE.read_text(encoding="utf-8")
    try:
        made = page(source)
        drawn = picture(made)
    except TourError as error:
        print(error)
        return 1
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
        PICTURE.write_text(drawn, encoding="utf-8")
        return 0
    if source == made and PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == drawn:
        return 0
    print("docs/tour.md or tour.svg is not what its commands print: make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
