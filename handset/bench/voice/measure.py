"""What a detector makes of scenes, against what is true in them; and the choice of settings.

Settings are tried on the frames of the front, which do not depend on them: a scene is heard
once, and judged as often as one likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from handset.bench.voice.bed import Heard
from handset.bench.voice.scenes import Kind, Stretch
from handset.bench.voice.voices import RATE
from handset.core.messages import Estimate
from handset.core.speech import (
    Confirmed,
    Dismissed,
    Ended,
    SpeechDetector,
    SpeechFact,
    SpeechSettings,
    Suspected,
    Window,
)
from handset.core.turn import Committed, Turn, TurnInput, TurnSettings

LATE = RATE * 4 // 10
"""A suspicion or a proof counts for a stretch until 400 ms after its end."""
OWN = (Kind.SPEECH, Kind.SHORT)
"""What should take the floor."""


@dataclass(slots=True)
class Result:
    """Of one condition, over all its scenes. Times are samples at 48 kHz.

    ``confirmed``, ``suspected``, ``missed``: of ``events`` stretches. ``already``: those that
    began while the detector was on. ``false_*``: outside of any stretch."""

    name: str
    canceller: str = ""
    outside: int = 0
    on_outside: int = 0
    """Samples outside in which it was speaking, beyond the silence that it waits for."""
    false_suspected: int = 0
    false_confirmed: int = 0
    events: int = 0
    suspected: int = 0
    confirmed: int = 0
    already: int = 0
    latency: list[int] = field(default_factory=list)
    to_confirm: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    @property
    def minutes(self) -> float:
        return self.outside / RATE / 60

    @property
    def missed(self) -> int:
        return self.events - self.confirmed - self.already

    def add(self, other: Result) -> None:
        for name in ("outside", "on_outside", "false_suspected", "false_confirmed", "events",
                     "suspected", "confirmed", "already"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("latency", "to_confirm", "lost"):
            getattr(self, name).extend(getattr(other, name))


def detect(heard: Heard, settings: SpeechSettings) -> Iterator[SpeechFact]:
    detector = SpeechDetector(settings)
    for frame in heard.frames:
        yield from detector.frame(*frame)
    yield from detector.stop()


def judge(heard: Heard, settings: SpeechSettings) -> Result:
    result = Result(heard.scene.condition.name, heard.canceller)
    stretches = heard.scene.stretches
    inside = sum(each.end + LATE - each.start for each in stretches)
    result.outside = len(heard.scene.mic) - inside
    result.events = len(stretches)
    on: list[tuple[int, int]] = []
    facts = list(detect(heard, settings))
    for fact in facts:
        match fact:
            case Suspected():
                result.false_suspected += _at(stretches, fact.at_sample) is None
            case Confirmed(at_sample=at):
                result.false_confirmed += _at(stretches, at) is None
                on.append((at, at))
            case Ended(at_sample=at):
                on[-1] = (on[-1][0], at)
    for stretch in stretches:
        _found(result, stretch, facts, on)
    hang = settings.end * settings.frame
    for begin, end in on:
        spent = max(end - hang - begin, 0)
        covered = sum(
            max(min(end - hang, each.end + LATE) - max(begin, each.start), 0) for each in stretches
        )
        result.on_outside += max(spent - covered, 0)
    return result


def _at(stretches: Iterable[Stretch], at: int) -> Stretch | None:
    return next((each for each in stretches if each.start <= at <= each.end + LATE), None)


def _found(
    result: Result, stretch: Stretch, facts: Sequence[SpeechFact], on: list[tuple[int, int]]
) -> None:
    """The first proof of a suspicion that was open within the stretch."""
    tried: list[Suspected] = []
    for fact in facts:
        match fact:
            case Suspected(at_sample=at) if at <= stretch.end + LATE:
                tried.append(fact)
            case Dismissed(at_sample=at) if at < stretch.start:
                tried.clear()
            case Confirmed(at_sample=at) if at < stretch.start:
                tried.clear()
            case Confirmed(at_sample=at, onset_sample=onset) if (
                tried and tried[-1].onset_sample == onset
            ):
                result.suspected += 1
                result.confirmed += 1
                result.latency.append(max(tried[0].at_sample - stretch.start, 0))
                result.to_confirm.append(at - stretch.start)
                result.lost.append(max(onset - stretch.start, 0))
                return
    if any(begin < stretch.start < end for begin, end in on):
        result.already += 1
    elif tried:
        result.suspected += 1


# ---- the choice -----------------------------------------------------------------------------

SUSPECT = (Window(5, 6), Window(6, 8), Window(8, 10))
CONFIRM = (Window(22, 45), Window(22, 60), Window(25, 35), Window(25, 50), Window(25, 60))
DISMISS = (8, 10, 12)
ABOVE_DB = (0.0, 5.0, 6.0, 7.0)


def candidates() -> list[SpeechSettings]:
    base = SpeechSettings()
    return [
        replace(
            base,
            suspect=suspect,
            confirm=confirm,
            dismiss=dismiss,
            doubt=confirm.n + 10,
            above_floor_db=above,
        )
        for suspect, confirm, dismiss, above in product(SUSPECT, CONFIRM, DISMISS, ABOVE_DB)
    ]


def by_condition(heard: Iterable[Heard], settings: SpeechSettings) -> list[Result]:
    found: dict[tuple[str, str], Result] = {}
    for each in heard:
        key = (each.scene.condition.name, each.canceller)
        found.setdefault(key, Result(*key)).add(judge(each, settings))
    return list(found.values())


def cost(results: Iterable[Result]) -> float:
    """In false barge-ins: a missed interruption, one whose beginning is lost and a cough that
    clears a reply are as bad as 5, a backchannel that does as 2, a false pause as a fifth, a
    second of taking noise for speech as 1, a second of latency as 1 until the pause and 0.5
    until the proof."""
    total = 0.0
    for each in results:
        total += each.false_confirmed + 0.2 * each.false_suspected + each.on_outside / RATE
        if each.name == "coughs":
            total += 5 * each.confirmed
        elif each.name == "backchannels":
            total += 2 * each.confirmed
        elif each.name != "short words":
            total += 5 * each.missed + sum(each.latency) / RATE + 0.5 * sum(each.to_confirm) / RATE
            total += 5 * sum(lost > 0 for lost in each.lost)
    return total


def choose(heard: Sequence[Heard]) -> SpeechSettings:
    """The cheapest candidate."""
    return min(candidates(), key=lambda each: cost(by_condition(heard, each)))


# ---- ends --------------------------------------------------------------------------------------

END_S = (0.4, 0.7, 1.0, 1.5, 2.2, 3.0)


@dataclass(slots=True)
class EndResult:
    """``false``: turns that were ended in the pause of a correction, of ``turns``."""

    end_s: float
    pause_s: float
    turns: int = 0
    false: int = 0
    unfound: int = 0
    """Turns in which no speech was found at all."""
    delay: list[int] = field(default_factory=list)
    """From the last word to the end, where there was no false end."""


def false_ends(heard: Iterable[Heard], settings: SpeechSettings) -> list[EndResult]:
    found: dict[tuple[float, float], EndResult] = {}
    scenes = list(heard)
    for end_s in END_S:
        tried = replace(settings, end=round(end_s * RATE / settings.frame))
        for each in scenes:
            pause_s = each.scene.condition.pause_s
            result = found.setdefault((end_s, pause_s), EndResult(end_s, pause_s))
            facts = list(detect(each, tried))
            for first, second in zip(
                each.scene.stretches[::2], each.scene.stretches[1::2], strict=True
            ):
                _turn(result, facts, first, second)
    return list(found.values())


def _turn(result: EndResult, facts: Sequence[SpeechFact], first: Stretch, second: Stretch) -> None:
    result.turns += 1
    ends = [f.at_sample for f in facts if isinstance(f, Ended)]
    starts = [f.at_sample for f in facts if isinstance(f, Confirmed)]
    if any(first.start < at <= second.end for at in ends):
        result.false += 1
        return
    if not any(first.start <= at <= second.end + LATE for at in starts):
        result.unfound += 1
        return
    after = [at for at in ends if at > second.end]
    if after:
        result.delay.append(after[0] - second.end)


def manual_ends(heard: Iterable[Heard], settings: SpeechSettings) -> EndResult:
    """The same turns, held by a key, through the turn machine: it is given every end that the
    strictest detector finds, and all the time that passes. A commit before the key comes up is
    a false end."""
    result = EndResult(0, 0)
    tried = replace(settings, end=round(END_S[0] * RATE / settings.frame))
    for each in heard:
        ends = {f.at_sample: f for f in detect(each, tried) if isinstance(f, Ended)}
        pairs = zip(each.scene.stretches[::2], each.scene.stretches[1::2], strict=True)
        for number, (first, second) in enumerate(pairs):
            turn = Turn(TurnSettings(), number)
            facts = turn.gesture(TurnInput.TALK, _ns(first.start), _exactly(first.start))
            for frame in each.frames:
                at = frame.position + settings.frame
                if first.start < at <= second.end:
                    turn.heard(_ns(at), frame.voiced)
                    facts += turn.captured(at, _ns(at))
                    if at in ends:
                        facts += turn.silence(_ns(at), _exactly(ends[at].last_voiced_sample), False)
            result.turns += 1
            result.false += any(isinstance(fact, Committed) for fact in facts)
            facts = turn.gesture(TurnInput.LET_GO, _ns(second.end), _exactly(second.end))
            last = second.end + turn.settings.post_roll
            facts += turn.captured(last, _ns(last))
            result.unfound += not any(isinstance(fact, Committed) for fact in facts)
    return result


def _ns(sample: int) -> int:
    return sample * 1_000_000_000 // RATE


def _exactly(sample: int) -> Estimate:
    return Estimate(sample, sample, sample)
