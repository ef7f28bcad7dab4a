"""Tagged JSON, the notation for what JSON lacks, for those above: surfaces do not reach into `objects`."""

from __future__ import annotations

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
    "integer_text",
    "json_form",
    "member_order",
    "plain_text",
    "tagged_json",
    "type_name",
    "zone_name",
]
