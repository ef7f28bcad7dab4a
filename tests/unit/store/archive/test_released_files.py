"""Files of every released format are read for good: those in `files` were written once, and stay as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.store.archive.archive_samples import STATE
from tests.values import identical

import holdfast
from holdfast.objects.codec.tagged_json import from_json

FILES = Path(__file__).parent / "files"
ID = "da873b59edd0c3ad597556b42f9d228f75052697d4b57ae339f08be9c7051377"
ROOT = "ae0e8c8ebbdab099c72d13ba84f3edb4e7cab3d65132a0f5315c58a2538b167c"


@pytest.mark.parametrize("name", ["checkpoint-v1.json", "checkpoint-v1.json.gz", "session-v1.jsonl"])
def test_a_file_that_was_written_once_is_read_and_written_as_it_is(name, tmp_path):
    with holdfast.open("memory:") as store:
        store.import_(FILES / name)
        session = store.session("research/42")
        made = session.checkpoint(ID)
        assert made.root == ROOT
        assert identical(session.load(ID), {**STATE, "step": 2})
        assert (made.message, made.key, made.tags, made.metadata["more"]) == ("edited", "k2", ("even",), [1])
        whole = name.startswith("session")
        session.export(ID, tmp_path / name, session=whole)
    written = tmp_path / name
    if name == "checkpoint-v1.json":
        assert '"prev": null' in written.read_text()  # what it followed is not here
    elif whole:
        again, first = (lines(path) for path in (written, FILES / name))
        assert identical(again, first)


def lines(path):
    """Each line as the value that it stands for: a value may be written in more than one way."""
    return [from_json(json.loads(line)) for line in path.read_text().splitlines()]


def test_the_example_of_the_source_document_is_read():
    with holdfast.open("memory:") as store:
        assert store.import_(FILES / "foreign-0.0.1.json").checkpoints == 1
        assert store.session("exec_xyz").load("key:ckpt_abc123")["progress"]["step_number"] == 1
