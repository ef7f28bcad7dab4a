"""What README.md and docs/ show works.

The blocks of a page run in order, in one new folder. ```python blocks share one namespace. In ```console blocks every
line that begins with `$ ` is a command: it runs in a shell, with this installation's `holdfast` first, and has to end
with 0, or with the number of a comment behind it (`$ holdfast show nope  # exit 4`). A `holdfast` that needs nothing of
a shell runs in a fork of a process that has it loaded: to start Python is most of what a command costs.

Output is not compared: a terminal gets tables and a pipe gets tab-separated values, and ids and times differ each time.
The tests of the command line do that. A python block proves its claims with `assert`.

A block right below `<!-- not run: reason -->` does not run; the summary of the test run lists it with its reason. On a
page that says `<!-- HOLDFAST_STORE is a PostgreSQL database -->`, it is a new one on a real server.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]

_BLOCK = re.compile(
    r"^(?:[ ]*<!-- not run: (?P<reason>[^\n]+?) -->\n+)?"
    r"(?P<indent>[ ]*)```(?P<language>python|console)\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
ON_A_SERVER = "<!-- HOLDFAST_STORE is a PostgreSQL database -->"
_EXIT = re.compile(r"# exit (\d+)\s*$")
_QUOTED = re.compile(r"'[^']*'")
_FOR_A_SHELL = re.compile(r"^(?!holdfast )|[|&;<>()$`\\*?{}!\[\]]|(?<!\S)~")
"""What only a shell understands, outside of quotes; or another program."""
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)[^)]*\)")


@dataclass(frozen=True)
class Block:
    language: str
    line: int
    source: str
    reason: str | None


def blocks(text: str) -> list[Block]:
    return [
        Block(
            language=match["language"],
            line=text.count("\n", 0, match.start("body")) + 1,
            source=textwrap.dedent(match["body"]),
            reason=match["reason"],
        )
        for match in _BLOCK.finditer(text)
    ]


def program(text: str) -> str:
    """A Python program that does what the page shows, each line where the page has it, for readable tracebacks."""
    lines = [""] * (text.count("\n") + 2)
    lines[0] = "from run_command import run_command as _run_command"
    for block in blocks(text):
        if block.reason is None:
            for number, line in enumerate(block.source.splitlines(), start=block.line - 1):
                if block.language == "python":
                    lines[number] = line
                elif line.startswith("$ "):
                    lines[number] = f"_run_command({line.removeprefix('$ ')!r})"
    return "\n".join(lines)


RUN_COMMAND = f"""
import atexit, json, os, re, shlex, subprocess, sys
from pathlib import Path

commander = None

def run_command(command):
    announced = re.search({_EXIT.pattern!r}, command)
    expected = int(announced[1]) if announced else 0
    plain = re.sub({_QUOTED.pattern!r}, "", command)
    ended = in_a_shell(command) if re.search({_FOR_A_SHELL.pattern!r}, plain) else in_a_fork(command)
    assert ended == expected, f"{{command}} ended with {{ended}}, not {{expected}}"

def in_a_shell(command):
    return subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL).returncode

def in_a_fork(command):
    global commander
    if commander is None:
        # Not a fork of this process, which may have stores open: theirs is not the state that a command begins with.
        answers, said = os.pipe()
        program = [sys.executable, str(Path(__file__).with_name("commander.py")), str(said)]
        started = subprocess.Popen(program, stdin=subprocess.PIPE, text=True, pass_fds=[said])
        os.close(said)
        commander = started.stdin, os.fdopen(answers)
        # It ends when nobody can order anything any more.
        atexit.register(lambda: (commander[0].close(), commander[1].close(), started.wait()))
    orders, answers = commander
    print(json.dumps([shlex.split(command, comments=True), os.getcwd(), dict(os.environ)]), file=orders, flush=True)
    return int(answers.readline())
"""

COMMANDER = """
import json, os, sys, traceback
import holdfast.backends.sqlite, holdfast.cli, holdfast.store

orders = os.fdopen(os.dup(0))
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
answers = int(sys.argv[1])
os.set_inheritable(answers, False)
for order in orders:
    words, folder, variables = json.loads(order)
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(variables)
            sys.argv = words
            # It ends this process itself.
            holdfast.cli.main()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(99)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(answers, f"{status}\\n".encode())
"""


def run(text: str, name: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    scripts, here = folder / "scripts", folder / "here"
    scripts.mkdir()
    here.mkdir()
    (scripts / "run_command.py").write_text(RUN_COMMAND, encoding="utf-8")
    (scripts / "commander.py").write_text(COMMANDER, encoding="utf-8")
    script = scripts / Path(name).name
    script.write_text(program(text), encoding="utf-8")
    environment = {
        **os.environ,
        **variables,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    return subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=here,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))], ids=named
)
def test_what_a_page_shows_works(page, tmp_path, request):
    text = page.read_text(encoding="utf-8")
    variables = {"HOLDFAST_STORE": request.getfixturevalue("postgres_url")} if ON_A_SERVER in text else {}
    done = run(text, page.name, tmp_path, **variables)

    assert done.returncode == 0, f"{named(page)}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (f"{named(page)}:{block.line}", block.reason)
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.reason
    ],
)
def test_blocks_that_are_not_run_are_listed(where, reason):
    pytest.skip(f"{where} is not run: {reason}")


@pytest.mark.parametrize("page", sorted({*PAGES, *ROOT.glob("*.md")}), ids=named)
def test_links_between_pages_lead_somewhere(page):
    links = _LINK.findall(page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_first_page_shows_python_that_runs():
    shown = blocks(PAGES[0].read_text(encoding="utf-8"))

    assert [block for block in shown if block.language == "python" and block.reason is None]


PAGE = """\
# A page

```python
from pathlib import Path
x = 1
```

1. In a list:

   ```console
   $ test ! -e made-by-python
   $ exit 4  # exit 4
   what it prints
   ```

```python
x += 1
Path("made-by-python").write_text(str(x))
```

```console
$ test "$(cat made-by-python)" = 2
```

<!-- not run: needs a server -->
```python
raise SystemExit("this does not run")
```

```text
nor this
```

```python
import os
os.mkdir("elsewhere")
os.chdir("elsewhere")
os.environ["HOLDFAST_STORE"] = "kept.db"
```

```console
$ holdfast create 'it is "all" $HOME'
$ holdfast show tag:none  # exit 4
$ holdfast list | grep -q 'it is "all" $HOME' && test -e ../elsewhere/kept.db
```
"""


def test_blocks_run_in_order_and_share_a_namespace(tmp_path):
    done = run(PAGE, "page.md", tmp_path)

    assert done.returncode == 0, done.stderr
    assert [(block.line, block.reason) for block in blocks(PAGE) if block.reason] == [(27, "needs a server")]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("x = 1", "x = undefined", 5),
        ("# exit 4", "", 12),
        ("x += 1", "assert x == 3", 17),
        ("= 2", "= 3", 22),
        ("show tag:none", "show @", 43),
        ("create 'it", "create --sesion x 'it", 42),
        ("grep -q 'it", "grep -q 'is it", 44),
    ],
)
def test_a_block_that_fails_is_noticed_with_its_line(tmp_path, old, new, line):
    done = run(PAGE.replace(old, new), "page.md", tmp_path)

    assert done.returncode != 0
    assert f'page.md", line {line}' in done.stderr
