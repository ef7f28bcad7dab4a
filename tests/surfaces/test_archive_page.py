"""The page of an archive: whole in one file, safe with hostile text, and drawn by a real browser in light and dark."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from typing import Any

import pytest

import holdfast

HOSTILE = (
    "</pre></details><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<style>*{display:none}</style><!-- & &lt; \"quoted\" 'single' \x1b[2J \u202edesrever \ud800 ]]>"
)
NAME = "research <b>42</b>"


@pytest.fixture
def page(tmp_path):
    with holdfast.open("memory:") as store:
        session = store.session(NAME, agent="scout & co")
        state: dict[str, Any] = {"messages": [], "score": 0.41, HOSTILE: HOSTILE, "large": "x" * 300_000}
        for step in range(4):
            state = {
                **state,
                "messages": [*state["messages"], {"id": step, "text": f"turn {step}"}],
                "step": step,
            }
            session.save(state, HOSTILE.replace("\ud800", "") if step == 2 else "", tags=["<i>tag</i>"])
        session.fork("#2", "idea").save({**state, "score": 0.63, "messages": []})
        session.export(path=tmp_path / "page.html", session=True)
    return tmp_path / "page.html"


def browse(page, *options):
    """What a browser says about a page, with nothing of its own and nothing from the network."""
    program = [
        *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--disable-dev-shm-usage", f"--user-data-dir={page.parent / 'profile'}", "--window-size=900,700"),
        *options,
        page.as_uri(),
    ]
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=120).stdout


def corner(picture):
    """The colour of the first pixel of a PNG: whatever the filter of the first line is, it stands there as it is."""
    data, at, packed = picture.read_bytes(), 8, b""
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    return tuple(zlib.decompressobj().decompress(packed, 4)[1:4])


def test_it_holds_the_timeline_the_states_and_what_changed(page):
    text = page.read_text()
    assert text.count("<li ") == 6
    assert "head of main" in text
    assert "messages[3]" in text
    assert "0.63" in text
    assert "the first state of its line" in text
    assert "cut after 100,000 characters" in text
    assert len(text) < 2_000_000


def test_nothing_in_it_is_a_script_or_comes_from_elsewhere(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|img|iframe|link|object|form|a|svg|b|i)\b", text)
    # In tags; as text such words may well stand there.
    tags = re.findall(r"<[a-z][^>]*>", text)
    assert not [each for each in tags if re.search(r"\b(src|href|action|style|on\w+)\s*=", each)]
    assert text.count("<style>") == 1
    assert text.count("</pre>") == text.count("<pre>")
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_browser_shows_it_and_hostile_text_stays_text(page, require):
    require("chromium")
    dom = browse(page, "--dump-dom")
    assert "<title>research &lt;b&gt;42&lt;/b&gt;" in dom
    assert "<script" not in dom
    assert "<img" not in dom
    assert dom.count("<details>") == 6
    assert "turn 3" in dom


def test_light_and_dark_are_for_the_reader_to_say(page, require, tmp_path):
    require("chromium")
    seen = {}
    for name, setting in (("dark", 0), ("light", 1)):
        picture = tmp_path / f"{name}.png"
        browse(page, f"--blink-settings=preferredColorScheme={setting}", f"--screenshot={picture}")
        seen[name] = corner(picture)
    assert seen == {"dark": (0x11, 0x13, 0x16), "light": (0xFF, 0xFF, 0xFF)}


def test_a_page_is_no_archive_and_is_not_written_over(page):
    with holdfast.open("memory:") as store, pytest.raises(holdfast.InvalidInputError):
        store.import_(page)
    with holdfast.open("memory:") as store:
        store.session("s").save({"a": 1})
        with pytest.raises(holdfast.InvalidInputError):
            store.session("s").export("@", page)
        store.session("s").export("@", page, force=True)
    assert page.read_text().count("<li ") == 1


def test_a_state_that_cannot_be_compared_does_not_end_the_page(tmp_path):
    with holdfast.open("memory:") as store:
        session = store.session("s")
        session.save({"a": 1})
        session.save({"a": 2})
        session.delete("#1", force=True)
        store.gc(keep_days=0)
        session.export(path=tmp_path / "p.html", session=True)
    assert "#2" in (tmp_path / "p.html").read_text()
