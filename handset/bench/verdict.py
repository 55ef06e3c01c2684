"""What the bench found: one row per item, and every identity checked.

The truth about what sounded is the card's own tape. Each reply is decoded again, apart from
the headset, and looked for on the tape sample by sample: all that was handed must be there,
the fade at its known gains, and silence after it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from handset.audio.playout import Frames, fade_gain
from handset.bench import speech
from handset.bench.stage import Stage
from handset.core.item import Item
from handset.core.messages import Estimate, ItemCursor
from handset.edge.opus import ItemDecoder
from handset.fakes.virtual_card import Direction, EventKind

LOUD = 64
"""Of 32,768: more than the noise of an encoder at rest."""


@dataclass(slots=True)
class ItemResult:
    """Positions in samples of the item. ``tape``: frames of the item that are on the card's
    tape, at the card's rate; None where there is no tape."""

    item_id: str
    clip: str
    rate: int
    length: int
    generated: int
    sent: int
    received: int
    handed: int
    dropped: int
    queued: int
    lost_max: int
    played: int
    exact: bool
    state: str
    audio_end_ms: int
    at_press: Estimate | None
    words_played: str
    words_total: int
    handed_frames: int
    tape: int | None = None
    text: str = ""


@dataclass(slots=True)
class Verdict:
    items: list[ItemResult] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    checks: list[tuple[str, bool]] = field(default_factory=list)
    xruns: int = 0
    """How often the simulated card ran dry, because this machine was too slow: silence on
    the tape that no queue knows of."""

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(ok for _, ok in self.checks)

    def check(self, what: str, ok: bool) -> None:
        self.checks.append((what, bool(ok)))

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "xruns": self.xruns,
            "items": [asdict(item) for item in self.items],
            "history": self.history,
            "turns": self.turns,
            "checks": [{"check": what, "ok": ok} for what, ok in self.checks],
        }


def _frames(clip: speech.Clip, device_rate: int) -> Frames:
    decoder = ItemDecoder(clip.rate, clip.pre_skip, device_rate)
    return np.concatenate((decoder.packets(list(clip.packets)), decoder.end(clip.samples)))


def expected_on_tape(frames: Frames, handed: int, faded: int, fade: int) -> Frames:
    """The item's frames as they must sound: the last ``faded`` of ``handed`` at the gains
    of a fade over ``fade`` frames."""
    sound = frames[:handed].astype(np.int64)
    gains = np.array([fade_gain(i, fade) for i in range(faded)], np.int64)
    if faded:
        sound[handed - faded :] = (sound[handed - faded :] * 32768 * gains) >> 30
    return sound.astype(np.int16)


def find_on_tape(
    tape: Frames, sound: Frames, silence: int = 0, longest_gap: int = 0
) -> tuple[int, int] | None:
    """``[first, end)`` of ``sound`` on the tape, None when it is nowhere whole. ``silence``:
    frames of it that the queue ran dry for in between; there must be exactly so many.
    ``longest_gap``: when the card itself ran dry, silence of up to so many frames may be
    anywhere in it, and ``silence`` says nothing."""
    sure = np.flatnonzero(np.abs(sound) > (LOUD if is_loud(sound) else 0))
    if len(sure) == 0:  # digital silence, or nothing: anywhere
        return (0, len(sound)) if len(sound) <= np.count_nonzero(tape == 0) else None
    probe = int(sure[0])
    opening = sound[probe : probe + 64]
    for at in np.flatnonzero(tape == sound[probe]):
        if not _equal(tape, int(at), opening):
            continue
        # The quiet before the first loud frame may have silence inside as well.
        for earlier in range(longest_gap or silence, -1, -1):
            first = int(at) - probe - earlier
            if first < 0 or not _equal(tape, first, sound[:64]):
                continue
            end = _follow(tape, sound, first, silence, longest_gap)
            if end is not None:
                return first, end
    return None


def is_loud(sound: Frames) -> bool:
    """Whether its place on a tape is its own. The first frames of an item that was cut at
    once may be all but silent, and are found among other silence too."""
    return bool(np.any(np.abs(sound) > LOUD))


def _follow(tape: Frames, sound: Frames, first: int, silence: int, longest_gap: int) -> int | None:
    """Where the sound that begins at ``first`` ends, with the silence somewhere inside."""
    done, at, left = 0, first, silence
    while done < len(sound):
        n = min(len(sound) - done, len(tape) - at)
        wrong = np.flatnonzero(tape[at : at + n] != sound[done : done + n])
        if len(wrong) == 0:
            whole = n == len(sound) - done and (left == 0 or longest_gap > 0)
            return at + n if whole else None
        done, at = done + int(wrong[0]), at + int(wrong[0])
        ahead = sound[done : done + 64]
        most = longest_gap or left
        gap = next((z for z in range(1, most + 1) if _equal(tape, at + z, ahead)), None)
        if gap is None or tape[at : at + gap].any():
            return None
        at, left = at + gap, left - gap
    return at if left == 0 or longest_gap > 0 else None


def _equal(tape: Frames, at: int, sound: Frames) -> bool:
    return np.array_equal(tape[at : at + len(sound)], sound)


def judge(stage: Stage, tape: Frames | None) -> Verdict:
    """Everything is over: what the headset said, what the edge holds, what sounded."""
    verdict = Verdict()
    session = stage.session
    verdict.history = list(session.get("history", []))
    verdict.turns = list(session.get("turns", []))
    verdict.xruns = _xruns(stage)
    ledger = stage.app.headset.playback.ledger
    finals = [record for record in stage.records if record.kind == "item.final"]
    edge_items = {item["item_id"]: item for item in session.get("items", [])}
    for record in finals:
        cursor = record.facts["cursor"]
        assert isinstance(cursor, ItemCursor) and ledger is not None
        item = ledger.closed[cursor.item_id]
        result = _item(cursor, item, edge_items.get(cursor.item_id, {}), verdict.history)
        verdict.items.append(result)
        _check_item(verdict, stage, result, item, edge_items.get(cursor.item_id, {}), tape)
    announced = [r.facts["item"] for r in stage.records if r.kind == "item.announced"]
    named = [result.item_id for result in verdict.items]
    verdict.check(
        "every item has exactly one final receipt", sorted(map(str, announced)) == sorted(named)
    )
    _check_turns(verdict, stage)
    verdict.check("every durable event was acknowledged", len(stage.app.headset.outbox) == 0)
    return verdict


def _xruns(stage: Stage) -> int:
    if stage.card is None:
        return 0
    return len(stage.card.events(EventKind.XRUN, direction=Direction.PLAYBACK))


def _item(
    cursor: ItemCursor, item: Item, edge: dict[str, Any], history: list[dict[str, Any]]
) -> ItemResult:
    clip = speech.load(edge["clip"]) if edge else None
    entry = next((e for e in history if e.get("item_id") == cursor.item_id), None)
    return ItemResult(
        item_id=cursor.item_id,
        clip=edge.get("clip", ""),
        rate=cursor.rate,
        length=clip.samples if clip else 0,
        generated=edge.get("generated", 0),
        sent=edge.get("sent", 0),
        received=cursor.received,
        handed=cursor.handed,
        dropped=cursor.dropped,
        queued=cursor.queued,
        lost_max=cursor.lost_max,
        played=cursor.played,
        exact=cursor.exact,
        state=cursor.state,
        audio_end_ms=cursor.audio_end_ms,
        at_press=cursor.at_request,
        words_played=entry["text"] if entry else "",
        words_total=len(clip.words) if clip else 0,
        handed_frames=item.handed,
        text=clip.text if clip else "",
    )


def _check_item(
    verdict: Verdict,
    stage: Stage,
    result: ItemResult,
    item: Item,
    edge: dict[str, Any],
    tape: Frames | None,
) -> None:
    name = result.clip or result.item_id
    verdict.check(
        f"{name}: received = handed + dropped + queued",
        result.received == result.handed + result.dropped + result.queued and result.queued == 0,
    )
    verdict.check(f"{name}: the edge holds the cursor", edge.get("played") == result.played)
    verdict.check(
        f"{name}: generated >= sent >= received >= played",
        result.generated >= result.sent >= result.received >= result.played,
    )
    if not result.clip:
        return
    clip = speech.load(result.clip)
    heard = [word.word for word in clip.words if word.end <= result.played]
    verdict.check(
        f"{name}: history holds the words that ended by the cursor, and no other",
        result.words_played == " ".join(heard),
    )
    if tape is None:
        return
    frames = _frames(clip, item.device_rate)
    fade = round(stage.app.settings.card.fade_ms * item.device_rate / 1000)
    sound = expected_on_tape(frames, item.handed, item.faded, fade)
    gap = item.device_rate if verdict.xruns else 0
    place = find_on_tape(tape, sound, item.synthesized, gap)
    result.tape = None if place is None else len(sound)
    verdict.check(f"{name}: on the tape to the sample", place is not None)
    if place is not None and result.state == "cleared" and is_loud(sound):
        after = tape[place[1] : place[1] + item.device_rate // 2]
        verdict.check(f"{name}: nothing of it after the cut", not after.any())


def _check_turns(verdict: Verdict, stage: Stage) -> None:
    for turn in verdict.turns:
        verdict.check(f"turn {turn['turn']}: arrived whole, by sample count", turn["complete"])
    if stage.card is None:
        return
    starts = stage.card.events(EventKind.START, direction=Direction.CAPTURE)
    for spoken in stage.spoken:
        found = [turn for turn in verdict.turns if turn["turn"] == spoken.turn]
        verdict.check(f"turn {spoken.turn}: committed", bool(found and found[0]["capture"]))
        if not found or not found[0]["capture"]:
            continue
        rate = stage.card.rate
        first = (spoken.first - starts[0].frame) * 48_000 // rate
        last = first + spoken.frames * 48_000 // rate
        start, end = found[0]["capture"]
        verdict.check(
            f"turn {spoken.turn}: holds all of what was said, the part before the press too",
            start <= first and last <= end,
        )
