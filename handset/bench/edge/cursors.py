"""Whether a cursor adds up: the edge holds the handset to its own identity."""

from __future__ import annotations

from handset.core.messages import ItemCursor

from .outboxes import Refusal


def contradiction(cursor: ItemCursor) -> Refusal | None:
    """``received = handed + dropped + queued``, and nothing was played that was not handed."""
    counts = (cursor.received, cursor.handed, cursor.dropped, cursor.queued, cursor.played)
    if min(counts) < 0 or cursor.rate < 1:
        return Refusal("malformed", f"item {cursor.item_id}: a count below 0 in {counts}")
    if cursor.received != cursor.handed + cursor.dropped + cursor.queued:
        return Refusal(
            "inconsistent",
            f"item {cursor.item_id}: received {cursor.received} is not handed {cursor.handed} "
            f"+ dropped {cursor.dropped} + queued {cursor.queued}",
        )
    if cursor.played > cursor.handed or cursor.audio_end_ms != cursor.played * 1000 // cursor.rate:
        return Refusal(
            "inconsistent",
            f"item {cursor.item_id}: played {cursor.played} of handed {cursor.handed}, "
            f"{cursor.audio_end_ms} ms",
        )
    return None
