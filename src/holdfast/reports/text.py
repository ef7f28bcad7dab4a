"""States and changes as text, for surfaces: tagged JSON, paths, and which words of a text changed."""

from __future__ import annotations

from holdfast.objects.codec.paths import quoted
from holdfast.objects.diffing.change import path_text
from holdfast.objects.diffing.words import Lines, Mark, line_marks, word_marks
from holdfast.objects.exact import from_json
from holdfast.objects.tagged import (
    integer_text,
    json_form,
    member_order,
    plain_text,
    tagged_json,
    type_name,
    zone_name,
)

__all__ = [
    "Lines",
    "Mark",
    "from_json",
    "integer_text",
    "json_form",
    "line_marks",
    "member_order",
    "path_text",
    "plain_text",
    "quoted",
    "tagged_json",
    "type_name",
    "word_marks",
    "zone_name",
]
