"""Where the handset's own tones and prompts lie in the capture.

What is played to the ear may be heard by the microphone. The newest marks are kept, for the
commits whose range they touch.
"""

from __future__ import annotations

from collections import deque

from handset.core.messages import NoticeMark, Span

KEEP = 64


class Marks:
    def __init__(self) -> None:
        self._marks: deque[NoticeMark] = deque(maxlen=KEEP)

    def add(self, name: str, span: Span) -> None:
        self._marks.append(NoticeMark(name, span))

    def within(self, span: Span) -> list[NoticeMark]:
        """Marks that touch the span, oldest first."""
        return [
            mark
            for mark in self._marks
            if mark.span.start < span.end and mark.span.end > span.start
        ]
