"""Lines of archives: ids are found without parsing, half lines are known as such, and appending takes nothing away."""

from __future__ import annotations

import io
import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.store.archives.lines import JsonLines, id_in_line, is_whole

ID = "0123456789abcdef" * 4
names = st.sampled_from(["id", "state", "format", 'a"id', "\\", '\\"', "{", "]", "é"]) | st.text(max_size=4)
texts = st.sampled_from([ID, "id", '"id"', f'"id": "{ID}"', "\\", '\\"', "}", "[", ":"]) | st.text(max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def line():
    with holdfast.open("memory:") as store:
        session = store.session('a "b" \\')
        session.save(
            {"id": ID, "text": 'é \\ " } ]', "deep": [[{"id": "x"}]]}, 'say "} \\', metadata={"id": 1}
        )
        session.annotate("@", metadata={"id": ["\\"]})
        made = io.BytesIO()
        session.export("@", made, format="jsonl")
    return made.getvalue()


@given(st.dictionaries(names, values, max_size=6), st.booleans(), st.sampled_from([None, (",", ":")]))
def test_the_id_of_a_line_is_the_one_that_a_parser_finds(data, ascii_only, separators):
    text = json.dumps(data, ensure_ascii=ascii_only, separators=separators).encode()
    found = data.get("id")
    assert id_in_line(text) == (found if found == ID else "")
    assert id_in_line(text + b"\n") == id_in_line(text)


@given(values)
def test_what_is_no_object_has_no_id(data):
    if not isinstance(data, dict):
        assert id_in_line(json.dumps(data).encode()) == ""


@given(st.dictionaries(names, values, max_size=6), st.data())
def test_a_line_is_whole_and_no_part_of_it_is(data, draw):
    text = json.dumps(data, ensure_ascii=False).encode()
    assert is_whole(text)
    assert not is_whole(text[: draw.draw(st.integers(1, len(text) - 1))])


def test_no_part_of_a_line_of_ours_is_whole(line):
    assert is_whole(line)
    assert not [size for size in range(1, len(line) - 1) if is_whole(line[:size])]


@given(
    st.lists(st.text('{}[]":,\\abid 01é', max_size=12), max_size=3),
    st.text('{}[]":,\\abid 01é\x00', max_size=12) | st.integers(0, 400),
)
def test_whatever_stands_in_a_file_is_there_after_a_line_was_added(tmp_path_factory, line, before, tail):
    folder = tmp_path_factory.mktemp("lines")
    path = folder / "x.jsonl"
    end = line[:tail] if isinstance(tail, int) else tail.encode()
    start = b"".join(f"{each}\n".encode() for each in before)
    path.write_bytes(start + end)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        JsonLines(path).add([line.decode()])
    after = path.read_bytes()
    aside = folder / "x.jsonl.cut"
    assert after.startswith(start)
    assert after.endswith(line)
    assert aside.exists() == bool(told)
    if told:
        assert after == start + line
        assert aside.read_bytes() == end + b"\n"
        assert line.startswith(end)
    else:
        assert after == start + end + (b"\n" if end and not end.endswith(b"\n") else b"") + line
