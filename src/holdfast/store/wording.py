"""Which words and lines of a text changed, how a path is written, what is said of a range: for the surfaces.

They do not reach into `objects` and `history` themselves.
"""

from __future__ import annotations

from holdfast.history.refs import nothing_in
from holdfast.objects.diffing.change import path_text
from holdfast.objects.diffing.words import Lines, Mark, line_marks, word_marks
from holdfast.objects.spelling import quoted

__all__ = ["Lines", "Mark", "line_marks", "nothing_in", "path_text", "quoted", "word_marks"]
