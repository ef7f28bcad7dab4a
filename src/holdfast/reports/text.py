"""States and changes as text, for surfaces: tagged JSON, paths, and which words of a text changed."""

from __future__ import annotations

from holdfast.objects.codec.errors import MalformedError
from holdfast.objects.codec.state_path import path_text, quoted
from holdfast.objects.codec.tagged_json import (
    from_json,
    integer_text,
    json_form,
    member_order,
    plain_text,
    tagged_json,
    type_name,
    zone_name,
)
from holdfast.objects.diff.json_patch import apply_patch, check_patch, replace_part
from holdfast.objects.diff.words import Lines, Mark, line_marks, word_marks

__all__ = [
    "Lines",
    "MalformedError",
    "Mark",
    "apply_patch",
    "check_patch",
    "from_json",
    "integer_text",
    "json_form",
    "line_marks",
    "member_order",
    "path_text",
    "plain_text",
    "quoted",
    "replace_part",
    "tagged_json",
    "type_name",
    "word_marks",
    "zone_name",
]
