"""The settings of a YAML file, read as if somebody hostile had written it.

PyYAML only cuts the text into events; no object is built from them but texts, numbers, true and false. What YAML can do
beyond a tree of settings is refused: anchors and aliases (a kilobyte that becomes a gigabyte), tags, a key twice, a
second document, deep nesting. Each refusal names the line.

Two forms are understood, and may be mixed: the one of the TOML files (`checkpoint: {max_count: 10}`), and the one that
agents write, `agent: {checkpoints: {maxCheckpointsPerSession: 10}}`. Names may be in camelCase or in snake_case.
Keys of an application beside these are its own, unless they are a slip away from one of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ErrorCode, InvalidInputError, UnsupportedError
from holdfast.record import Record
from holdfast.settings.entries import Entry
from holdfast.settings.keys import GROUPS, SETTINGS
from holdfast.settings.near import close_names

if TYPE_CHECKING:
    import yaml

MAX_YAML_BYTES: Final = 64 << 10
"""PyYAML reads about 100 KB in a second; all settings there are take three."""

MAX_DEPTH: Final = 8
"""Settings lie three deep."""

# As the source of the word "checkpoints" spells them; the rest of the names is the same.
_SPELLED: Final = {
    "auto": "auto_checkpoint",
    "max_count": "max_checkpoints_per_session",
    "compress": "compress_state",
}
_AGENT_GROUPS: Final = {"checkpoint": "agent.checkpoints", "heartbeat": "agent.heartbeat"}

# YAML has more ways to write numbers (0o17, 1_000, 1:30, .inf); none of them is what anybody means by a setting.
_WHOLE: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,11})")
_DECIMAL: Final = re.compile(r"[-+]?[0-9]{1,12}\.[0-9]{0,12}")
_CONTROL: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Node(Record):
    """A value of the file and its line: a text, number, flag or null, a list of nodes, or a dict of them."""

    value: Any
    line: int


def yaml_entries(text: str, shown: str) -> Iterator[Entry]:
    """What stands in a YAML file; `shown` is its path for people.

    Raises:
        InvalidInputError: It is not YAML, or more than a tree of settings (`bad-config`).
        UnsupportedError: PyYAML is not installed.
    """
    root = _Document(text, shown).read()
    if root.value is None:  # nothing but comments
        return
    if not isinstance(root.value, dict):
        raise _refused(shown, root.line, "is not made of keys and values", "write settings as  session: mine")
    seen: dict[str, tuple[str, int]] = {}
    for place, node in _leaves(root, (), shown):
        name = ".".join(place)
        key = _spellings().get(name)
        if key is None and _is_another_s(place):
            continue
        if key in seen:
            first, line = seen[key]
            raise _refused(
                shown,
                node.line,
                f"sets {name}, and line {line} sets {first}, which is the same",
                "take one of them out",
            )
        if key is not None:
            seen[key] = name, node.line
        yield Entry(place, key, _plain(node), lambda line=node.line: line, _spellings())  # type: ignore[misc]


@cache
def _spellings() -> dict[str, str]:
    """Every way to write the name of a setting, and its key."""
    found = {}
    for key in SETTINGS:
        group, _, field = key.rpartition(".")
        names = [key]
        if group in _AGENT_GROUPS:
            names += [f"{_AGENT_GROUPS[group]}.{each}" for each in (field, _SPELLED.get(field, field))]
        for name in names:
            found[name] = found[_camel(name)] = key
    return found


@cache
def _levels() -> tuple[frozenset[str], frozenset[str]]:
    """The names of ours at the top of a file, and those below `agent`."""
    names = [name.split(".") for name in _spellings()]
    return frozenset(parts[0] for parts in names), frozenset(
        parts[1] for parts in names if parts[0] == "agent"
    )


def _is_another_s(place: tuple[str, ...]) -> bool:
    top, below_agent = _levels()
    if place[0] == "agent" and len(place) > 1:
        return place[1] not in below_agent and not close_names(place[1], below_agent)
    return place[0] not in top and not close_names(place[0], top)


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def _leaves(node: Node, place: tuple[str, ...], shown: str) -> Iterator[tuple[tuple[str, ...], Node]]:
    for name, child in node.value.items():
        here = (*place, name)
        dotted = ".".join(here)
        is_group = dotted in ("agent", *GROUPS, *_AGENT_GROUPS.values())
        if isinstance(child.value, dict) and (child.value or is_group):
            yield from _leaves(child, here, shown)
        elif not is_group:
            yield here, child
        elif child.value is not None:  # a group of which nothing but comments is left
            raise _refused(
                shown,
                child.line,
                f"gives {dotted} a value, and it is a group of settings",
                f"write the settings of {dotted} below it, each on a line of its own",
            )


def _plain(node: Node) -> Any:
    if isinstance(node.value, list):
        return [_plain(each) for each in node.value]
    if isinstance(node.value, dict):
        return {name: _plain(each) for name, each in node.value.items()}
    return node.value


class _Document:
    """The one document of a text."""

    def __init__(self, text: str, shown: str) -> None:
        self._shown = shown
        self._yaml = _library(shown)
        # PyYAML finds these too, and does not say on which line.
        if found := _CONTROL.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise _refused(shown, line, f"has the control character {found[0]!r}", "take it out")
        # Not the one in C: it reads ahead, and what is refused after a few bytes would be read whole.
        self._loader = self._yaml.SafeLoader(text)

    def read(self) -> Node:
        """All of it."""
        try:
            return self._only_document()
        except InvalidInputError:  # a ValueError, too
            raise
        except self._yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = 1 if mark is None else mark.line + 1
            why = " ".join(str(error.problem or error.context or "it cannot be read").split())
            raise self._refused(
                line, f"is not YAML: {why:.200}", "mend the line; a text with : or # in it needs quotes"
            ) from error
        except (self._yaml.YAMLError, ValueError, OverflowError) as error:
            # PyYAML takes the number of an escape or of a version as it is: "\\U00110000" is no character.
            line = self._loader.line + 1
            raise self._refused(line, f"is not YAML: {error!s:.200}", "mend the line") from error
        finally:
            self._loader.dispose()

    def _only_document(self) -> Node:
        self._loader.get_event()  # the stream
        if self._loader.check_event(self._yaml.StreamEndEvent):
            return Node(None, 1)
        self._loader.get_event()  # the document
        root = self._node(0)
        self._loader.get_event()
        if not self._loader.check_event(self._yaml.StreamEndEvent):
            line = self._loader.peek_event().start_mark.line + 1
            raise self._refused(line, "begins a second document", "leave one in the file")
        return root

    def _node(self, depth: int) -> Node:
        event = self._loader.get_event()
        line = event.start_mark.line + 1
        self._check(event, depth, line)
        if isinstance(event, self._yaml.ScalarEvent):
            return Node(self._scalar(event, line), line)
        if isinstance(event, self._yaml.SequenceStartEvent):
            items = []
            while not self._loader.check_event(self._yaml.SequenceEndEvent):
                items.append(self._node(depth + 1))
            self._loader.get_event()
            return Node(items, line)
        fields: dict[str, Node] = {}
        while not self._loader.check_event(self._yaml.MappingEndEvent):
            key = self._key(depth)
            if key.value in fields:
                first = fields[key.value].line
                raise self._refused(
                    key.line, f"has the key {key.value!r:.60} of line {first} again", "take one of them out"
                )
            # The line of the key: a value may begin further down.
            fields[key.value] = self._node(depth + 1)._replace(line=key.line)
        self._loader.get_event()
        return Node(fields, line)

    def _key(self, depth: int) -> Node:
        event = self._loader.get_event()
        line = event.start_mark.line + 1
        self._check(event, depth, line)
        if not isinstance(event, self._yaml.ScalarEvent):
            raise self._refused(line, "has a key that is no text", "write the name of a setting")
        return Node(self._text(event, line), line)

    def _check(self, event: Any, depth: int, line: int) -> None:
        if depth > MAX_DEPTH:
            raise self._refused(line, f"is nested deeper than {MAX_DEPTH}", "settings lie three deep")
        if isinstance(event, self._yaml.AliasEvent) or event.anchor is not None:
            raise self._refused(
                line, "has an anchor or an alias (& or *)", "write the value itself, or quote it"
            )
        if event.tag is not None:
            raise self._refused(line, "has a tag (!)", "write the value without it, or quote it")

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Any:
        text = self._text(event, line)
        tag = self._loader.resolve(self._yaml.ScalarNode, text, event.implicit).rpartition(":")[2]
        if tag == "null":
            return None
        if tag == "bool":
            return self._loader.bool_values[text.lower()]
        if tag == "int" and _WHOLE.fullmatch(text):
            return int(text)
        if tag == "float" and _DECIMAL.fullmatch(text):
            return float(text)
        return text

    def _text(self, event: yaml.ScalarEvent, line: int) -> str:
        # Between quotes, an escape can put one there that the text of the file does not have.
        if found := _CONTROL.search(event.value):
            raise self._refused(line, f"has the control character {found[0]!r}", "take it out")
        return event.value

    def _refused(self, line: int, why: str, hint: str) -> InvalidInputError:
        return _refused(self._shown, line, why, hint)


def _library(shown: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != "yaml":
            raise
        raise UnsupportedError(
            f"{shown} is YAML, and PyYAML, which reads it, is not installed",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[yaml]', or write the settings into a file that ends in .toml",
            path=shown,
        ) from error
    return yaml


def _refused(shown: str, line: int, why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(
        f"{shown} line {line} {why}", code=ErrorCode.BAD_CONFIG, hint=hint, path=shown, line=line
    )
