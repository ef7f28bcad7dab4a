"""The page of an archive: whole in one file, safe with hostile text, and drawn by a real browser in light and dark."""

from __future__ import annotations

import re
import struct
import subprocess
import zlib
from html.parser import HTMLParser
from typing import Any

import pytest

import holdfast
from holdfast.store.archive import page as pages

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
    assert text.count("<li id=") == 6
    assert "head of main" in text
    assert "messages[3]" in text
    assert "0.63" in text
    assert "the first state of its line" in text
    assert "cut after 100,000 bytes" in text
    assert len(text) < 2_000_000


def test_nothing_in_it_is_a_script_or_comes_from_elsewhere(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|img|iframe|link|object|form|svg|b|i)\b", text)
    # In tags; as text such words may well stand there.
    tags = re.findall(r"<[a-z][^>]*>", text)
    assert not [each for each in tags if re.search(r"\b(src|action|style|on\w+)\s*=", each)]
    # Links lead to places of the page, and these are there.
    links = [each for each in tags if "href" in each]
    assert len(links) >= 6
    for each in links:
        [place] = re.findall(r'^<a href="#(c[0-9]+)">$', each)
        assert f"<li id={place} " in text
    assert text.count("<style>") == 1
    assert text.count("</pre>") == text.count("<pre ")
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
    assert page.read_text().count("<li id=") == 1


class Outline(HTMLParser):
    """The headings of a page, and whether each tag is closed where it has to be."""

    def __init__(self):
        super().__init__()
        self.headings: list[str] = []
        self.landmarks: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append(tag)
        if tag in ("header", "nav", "main", "footer"):
            self.landmarks.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_it_is_well_formed_with_landmarks_and_headings_in_order(page):
    outline = Outline()
    outline.feed(page.read_text())
    assert (outline.wrong, outline.open) == ([], [])
    assert outline.landmarks == ["header", "nav", "main", "footer"]
    assert outline.headings[:2] == ["h1", "h2"]
    assert outline.headings.count("h1") == 1
    assert set(outline.headings[2:]) <= {"h2", "h3"}
    # What scrolls can be reached with the keyboard; the rest is links and folds, which can anyway.
    assert page.read_text().count("<pre tabindex=0") == 6


def test_of_a_long_text_the_part_that_differs_is_shown(tmp_path):
    text = "the same words again and again, " * 100
    longer = "some more of it. " * 3000
    with holdfast.open("memory:") as store:
        session = store.session("s")
        session.save({"a": f"{text}old end{text}", "b": longer + longer, "c": "one"})
        session.save({"a": f"{text}new end{text}", "b": f"{longer}<i>here</i>{longer}", "c": "two"})
        session.export("@", tmp_path / "p.html")
    shown = (tmp_path / "p.html").read_text()
    changes = shown[shown.index("<ul class=ch>") : shown.index("<h3>State")]
    assert re.search(r"<del>… .*again, <mark>old</mark> end", changes)
    assert re.search(r"<ins>… .*again, <mark>new</mark> end", changes)
    assert "&lt;i&gt;here&lt;/i&gt;" in changes
    # Nothing of one is in the other.
    assert '<del>"one"</del><ins>"two"</ins>' in changes
    assert len(changes) < 3000


def test_the_size_of_a_page_has_a_limit_however_much_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_STATES", 120_000)
    monkeypatch.setattr(pages, "_CHANGES", 40_000)
    monkeypatch.setattr(pages, "MOST", 40)
    with holdfast.open("memory:") as store:
        session = store.session("s")
        for step in range(45):
            # Each of these characters becomes four or five.
            state = {f"k{each}": f"{step}" + "<&" * 200 for each in range(150)}
            session.save(state, "<" * 60_000, tags=["&" * 200], metadata={"m": "<" * 50_000})
        report = session.export(path=tmp_path / "p.html", session=True)
    text = (tmp_path / "p.html").read_text()
    assert text.count("<li id=") == report.checkpoints == 40
    assert "5 older ones are left out" in text
    # Beside both: message, tags and metadata are cut as well, and the rest is the frame.
    assert (
        160_000
        < len(text.encode())
        < 160_000 + 40 * (4 * (300 + 2000 + 400) + 6000) + len(pages._file("page.css"))
    )


def test_nothing_sticks_out_on_a_narrow_screen(page, require, tmp_path):
    require("chromium")
    deep: Any = "bottom"
    for _ in range(200):
        deep = {"in": deep}
    with holdfast.open("memory:") as store:
        session = store.session("n" * 120, agent="a" * 80)
        session.save(
            {"deep": deep, "k" * 300: "v" * 900}, "M" * 300, tags=["t" * 100], metadata={"m" * 90: "x" * 90}
        )
        session.fork("@", "b" * 100).save({"k" * 300: "w" * 900, "x": ["y " * 500]})
        session.export(path=tmp_path / "wide.html", session=True)
    script = (
        "<style>ol > li { content-visibility: visible !important }</style><script>document.title = "
        "[...document.querySelectorAll('html, body, ol > li, dl, .ch, .msg, header')]"
        ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.tagName + e.className).join() || 'all fit in'"
        "</script>"
    )
    text = (tmp_path / "wide.html").read_text().replace("Content-Security-Policy", "x-none")
    (tmp_path / "wide.html").write_text(text.replace("<details>", "<details open>") + script)
    for width in (390, 1280):
        dom = browse(tmp_path / "wide.html", "--dump-dom", f"--window-size={width},900")
        assert "<title>all fit in</title>" in dom
