"""Which words and lines of a text changed, and how a path is written: surfaces do not reach into `objects`."""

from __future__ import annotations

from holdfast.objects.diffing.change import path_text
from holdfast.objects.diffing.words import Lines, Mark, line_marks, word_marks
from holdfast.objects.spelling import quoted

__all__ = ["Lines", "Mark", "line_marks", "path_text", "quoted", "word_marks"]
