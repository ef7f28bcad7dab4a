"""Texts of several lines, merged line by line.

Lines that neither side touched keep the changes apart. Between two of them at most one side may have changed something,
or both the same; otherwise the whole text is a conflict, because a person has to read what is around it.
"""

from __future__ import annotations

from holdfast.objects.diffing.aligning import align


def merge_lines(base: str, ours: str, theirs: str) -> str | None:
    """The text with the changes of both sides; None where they are in each other's way."""
    old, left, right = (text.split("\n") for text in (base, ours, theirs))
    in_left, in_right = dict(align(old, left)), dict(align(old, right))
    stable = [at for at in range(len(old)) if at in in_left and at in in_right]
    merged: list[str] = []
    at = left_at = right_at = 0
    ends = [(each, in_left[each], in_right[each]) for each in stable]
    for stop, left_stop, right_stop in [*ends, (len(old), len(left), len(right))]:
        before, mine, other = old[at:stop], left[left_at:left_stop], right[right_at:right_stop]
        if other in (before, mine):
            merged += mine
        elif mine == before:
            merged += other
        else:
            return None
        merged += old[stop : stop + 1]
        at, left_at, right_at = stop + 1, left_stop + 1, right_stop + 1
    return "\n".join(merged)
