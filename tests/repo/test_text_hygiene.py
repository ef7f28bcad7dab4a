"""No file says where or how it was made: no paths of one machine, no package mirrors, no words about its making.

The words are kept in ROT13, so that this file does not contain them itself.
"""

from __future__ import annotations

import codecs
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_HIDDEN = [
    r"(?<![\j.])/(jbex|ebbg)/",
    r"/bcg/(jurryf|clcv)",
    r"uggcf?://\F+/fvzcyr\o",
    r"negvsnpgbel|wsebt|qricv",
    r"funerq/(QRFVTA|ERDHVERZRAGF|erfrnepu)",
    r"(?v)pb-nhguberq-ol",
    r"(?v)(nv|yyz|znpuvar)[- ](trarengrq|jevggra)",
    r"(?v)(trarengrq|jevggra) (ol|jvgu) (na? )?(nv|yyz|pynhqr|pungtcg|pbcvybg|pbqrk)\o",
    r"(?v)nf na? (nv|ynathntr zbqry)",
]
UNWANTED = [re.compile(codecs.decode(each, "rot13")) for each in _HIDDEN]


def tracked() -> list[Path]:
    """The files of the repository; without git (a source archive) everything that is not a cache."""
    if shutil.which("git") and (ROOT / ".git").exists():
        # Tests run with another HOME, and a checkout that belongs to somebody else would be refused.
        command = [
            "git",
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        paths = [ROOT / name for name in listed.split("\0") if name]
    else:
        caches = re.compile(r"(^|/)(\.git|\.venv|\.hypothesis|__pycache__|\.\w+_cache)/")
        paths = [path for path in ROOT.rglob("*") if not caches.search(str(path.relative_to(ROOT)))]
    return [path for path in paths if path.is_file()]


def unwanted(text: str) -> list[str]:
    return [found[0] for pattern in UNWANTED if (found := pattern.search(text))]


def test_no_file_says_where_or_how_it_was_made():
    found = {
        str(path.relative_to(ROOT)): words
        for path in tracked()
        if (words := unwanted(path.read_text(encoding="utf-8", errors="replace")))
    }

    assert found == {}


def test_the_files_are_found():
    assert {ROOT / "README.md", Path(__file__)} <= set(tracked())


@pytest.mark.parametrize(
    "text",
    [
        "pq /jbex/znva",
        "uggcf://zveebe.rknzcyr/clcv/fvzcyr",
        "Pb-Nhguberq-Ol: fbzrobql",
        "guvf svyr vf NV-trarengrq",
        "jevggra ol na NV",
    ],
)
def test_unwanted_words_are_noticed(text):
    assert unwanted(codecs.decode(text, "rot13"))


def test_ordinary_words_are_fine():
    assert (
        unwanted(
            "an agent's work; holdfast works with Claude Code; src/holdfast/store/; written by tools/x.py"
        )
        == []
    )
