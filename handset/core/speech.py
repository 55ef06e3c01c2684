"""Is somebody speaking? From single voiced frames to a suspicion, a proof and an end.

Rules:

1. A detector in front says of every frame whether it is voiced, and how loud it is. A voiced
   frame counts only when the last ``smooth`` frames are together ``above_floor_db`` louder
   than the quiet of the last ``floor_frames``: compressors and crowds are voiced, too.
2. **Suspected**: ``suspect.k`` of the last ``suspect.n`` frames count. Playback pauses.
3. **Confirmed**: ``confirm.k`` of the last ``confirm.n`` count. Playback is cleared. So much
   voice a cough does not have, and neither has "mm-hm"; a single short word has not either:
   time alone does not tell "stop" from "yeah". The button is there for that.
4. **Dismissed**: ``dismiss`` frames in a row do not count, or ``doubt`` frames have passed
   without a proof. Playback resumes; the next suspicion needs frames of its own.
5. **Ended**: for ``end`` frames nobody has spoken. A single voiced frame is no speech:
   ``keep`` says how many of how many are.
6. The onset is the first counted frame of the run, less ``margin``. The run goes back over
   pauses shorter than ``dismiss``, and over a suspicion that was dismissed less than
   ``rejoin`` ago: its words were words after all. It goes no further back than ``reach``
   before the suspicion.
7. What was not captured is neither speech nor silence: a gap in the frames moves positions
   on and changes nothing else.

Who wins. A frame gives one fact at most; a proof wins over a dismissal.

Every suspicion ends in exactly one ``Confirmed`` or ``Dismissed``, every ``Confirmed`` in
one ``Ended``; positions never go back. An end is a guess about a person: whether it may
commit a turn is not decided here.

Units: capture samples at 48 kHz. The table is the machine.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

CAPTURE_RATE = 48_000
FLOOR_KNOWN = 50
"""Frames before there is a floor: the first second of listening, in which nothing counts."""
DIGITAL_SILENCE_DB = -99.0
"""Softer is no room: zeros of a mute, or of a noise suppressor. The floor ignores it."""


class SpeechState(StrEnum):
    IDLE = "idle"
    SUSPECTED = "suspected"
    SPEAKING = "speaking"


class SpeechInput(StrEnum):
    VOICE = "voice"
    PROOF = "proof"
    QUIET = "quiet"
    DOUBT = "doubt"
    SILENCE = "silence"
    STOP = "stop"


# (state, input) -> (next state, action). What is not here changes nothing.
TABLE: dict[tuple[SpeechState, SpeechInput], tuple[SpeechState, str]] = {
    (SpeechState.IDLE, SpeechInput.VOICE): (SpeechState.SUSPECTED, "suspect"),
    (SpeechState.SUSPECTED, SpeechInput.PROOF): (SpeechState.SPEAKING, "confirm"),
    (SpeechState.SUSPECTED, SpeechInput.QUIET): (SpeechState.IDLE, "dismiss"),
    (SpeechState.SUSPECTED, SpeechInput.DOUBT): (SpeechState.IDLE, "dismiss"),
    (SpeechState.SUSPECTED, SpeechInput.STOP): (SpeechState.IDLE, "dismiss"),
    (SpeechState.SPEAKING, SpeechInput.SILENCE): (SpeechState.IDLE, "end"),
    (SpeechState.SPEAKING, SpeechInput.STOP): (SpeechState.IDLE, "end"),
}


@dataclass(frozen=True, slots=True)
class Window:
    """At least ``k`` of the last ``n`` frames."""

    k: int
    n: int


@dataclass(frozen=True, slots=True)
class SpeechSettings:
    """Counts are frames, of ``frame`` samples each. The numbers were chosen by ``handset
    bench voice`` on one half of its seeds. Raises ValueError for what can't work."""

    frame: int = 960
    """20 ms."""
    suspect: Window = Window(5, 6)
    confirm: Window = Window(25, 60)
    """500 ms of voice within 1.2 s: in noise not every frame of a word is found."""
    dismiss: int = 12
    """240 ms without voice; the closed lips of a word are shorter."""
    doubt: int = 70
    keep: Window = Window(2, 3)
    end: int = 50
    """1 s. People who correct themselves pause for longer: see the bench's table."""
    margin: int = 14_400
    """300 ms: soft beginnings of words, which no detector flags."""
    reach: int = 144_000
    """3 s. With 1.5 s, 6 of 235 sentences lost up to 320 ms beside noise as loud as they were:
    their first words had been suspected and dismissed."""
    rejoin: int = 36_000
    above_floor_db: float = 7.0
    """0: any level counts."""
    floor_frames: int = 300
    """6 s: longer than people talk without a breath, and how long a machine that starts is
    taken for a voice."""
    smooth: int = 5
    """100 ms: a stroke of a compressor and what follows it, less than a syllable's gap."""

    @property
    def history(self) -> int:
        """Samples of the past that a proof may ask for: whoever begins a turn with them has to
        have kept as many."""
        return self.reach + (self.doubt + 1) * self.frame

    def __post_init__(self) -> None:
        for name in ("suspect", "confirm", "keep"):
            window: Window = getattr(self, name)
            if not 1 <= window.k <= window.n:
                raise ValueError(f"{name} is {window}; k must be from 1 to n")
        if self.confirm.k <= self.suspect.k:
            raise ValueError(
                f"confirm.k is {self.confirm.k}; it must be above suspect.k, {self.suspect.k}"
            )
        least = self.suspect.n * self.frame + self.margin
        if self.reach < least:
            raise ValueError(f"reach is {self.reach}; suspect.n and margin need {least}")
        if self.doubt < self.confirm.n:
            raise ValueError(f"doubt is {self.doubt}; confirm.n needs {self.confirm.n}")
        for name in ("frame", "dismiss", "doubt", "end", "floor_frames", "smooth"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.margin < 0:
            raise ValueError(f"margin is {self.margin}; it can't be negative")


@dataclass(frozen=True, slots=True)
class Suspected:
    at_sample: int
    onset_sample: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    at_sample: int
    onset_sample: int


@dataclass(frozen=True, slots=True)
class Dismissed:
    at_sample: int
    onset_sample: int


@dataclass(frozen=True, slots=True)
class Ended:
    """``last_voiced_sample``: end, exclusive, of the last frame with speech."""

    at_sample: int
    last_voiced_sample: int


SpeechFact = Suspected | Confirmed | Dismissed | Ended


class SpeechDetector:
    """``frame(position, voiced, level_db)`` for each frame, in order -> facts."""

    def __init__(self, settings: SpeechSettings | None = None) -> None:
        self.settings = settings if settings is not None else SpeechSettings()
        self.state = SpeechState.IDLE
        self._end = 0
        longest = max(self.settings.confirm.n, self.settings.suspect.n)
        self._run: deque[int | None] = deque(maxlen=longest)
        """Where each of the newest frames begins, None for one that does not count."""
        self._kept: deque[bool] = deque(maxlen=self.settings.keep.n)
        self._powers: deque[float] = deque(maxlen=self.settings.smooth)
        self._levels: deque[float] = deque()
        """Smoothed levels, dB: the newest, and the same in order of loudness."""
        self._sorted: list[float] = []
        self._frames = 0
        self._first = 0
        """Start of the first counted frame of the run."""
        self._unvoiced = 0
        """Frames in a row that do not count."""
        self._onset = 0
        self._doubted = 0
        self._silent = 0
        self._last_voiced = 0
        self._dismissed: Dismissed | None = None

    @property
    def position(self) -> int:
        """Decided up to here."""
        return self._end

    @property
    def floor_db(self) -> float | None:
        """The quiet: the softest tenth of the last ``floor_frames``. None while there is none:
        all was digital silence."""
        return self._sorted[len(self._sorted) // 10] if self._sorted else None

    def frame(self, position: int, voiced: bool, level_db: float = 0.0) -> list[SpeechFact]:
        """One frame that begins at ``position``. Raises ValueError for one from the past;
        nothing has changed then."""
        if position < self._end:
            raise ValueError(f"frame at {position}, but {self._end} is decided already")
        settings = self.settings
        self._end = position + settings.frame
        counts = self._loud(level_db) and voiced
        self._count(position, counts)
        return self._run_table(self._found(counts), self._end)

    def stop(self) -> list[SpeechFact]:
        """Nobody listens any more: muted, or a button has the floor. Ends what is open."""
        facts = self._run_table(SpeechInput.STOP, self._end)
        self._forget()
        return facts

    # ---- inside --------------------------------------------------------------------------

    def _loud(self, level_db: float) -> bool:
        """Whether the newest frames stand out; the floor learns from them."""
        if self.settings.above_floor_db <= 0:
            return True
        self._powers.append(10 ** (level_db / 10))
        level = 10 * math.log10(sum(self._powers) / len(self._powers))
        floor = self.floor_db
        self._frames += 1
        if level > DIGITAL_SILENCE_DB:
            self._levels.append(level)
            insort(self._sorted, level)
            if len(self._levels) > self.settings.floor_frames:
                del self._sorted[bisect_left(self._sorted, self._levels.popleft())]
        if self._frames <= FLOOR_KNOWN:
            return False
        return floor is None or level >= floor + self.settings.above_floor_db

    def _count(self, position: int, voiced: bool) -> None:
        if voiced:
            if self._counted(self._run.maxlen) == 0:
                self._first = position
            self._unvoiced = 0
        else:
            self._unvoiced += 1
            if self.state is SpeechState.IDLE and self._unvoiced >= self.settings.dismiss:
                self._run.clear()
        self._run.append(position if voiced else None)
        self._kept.append(voiced)
        self._doubted += 1
        if voiced and sum(self._kept) >= self.settings.keep.k:
            self._silent, self._last_voiced = 0, self._end
        else:
            self._silent += 1

    def _found(self, counts: bool) -> SpeechInput | None:
        """Only a frame that counts can fill a window."""
        settings = self.settings
        match self.state:
            case SpeechState.IDLE:
                return SpeechInput.VOICE if counts and self._holds(settings.suspect) else None
            case SpeechState.SUSPECTED:
                if counts and self._holds(settings.confirm):
                    return SpeechInput.PROOF
                if self._unvoiced >= settings.dismiss:
                    return SpeechInput.QUIET
                return SpeechInput.DOUBT if self._doubted >= settings.doubt else None
            case SpeechState.SPEAKING:
                return SpeechInput.SILENCE if self._silent >= settings.end else None

    def _holds(self, window: Window) -> bool:
        return self._counted(window.n) >= window.k

    def _counted(self, n: int | None) -> int:
        return sum(each is not None for each in self._newest(n))

    def _newest(self, n: int | None) -> list[int | None]:
        return list(self._run)[-(n or 1) :]

    def _suspicion(self, at: int) -> int:
        """The onset: not before ``reach``, unless frames of the window itself are older."""
        window = self._newest(self.settings.suspect.n)
        settings = self.settings
        needed = min(each for each in window if each is not None) - settings.margin
        onset = self._first - settings.margin
        before = self._dismissed
        if before is not None and at - before.at_sample < settings.rejoin:
            onset = min(onset, before.onset_sample)
        return max(onset, min(needed, at - settings.reach), 0)

    def _run_table(self, what: SpeechInput | None, at: int) -> list[SpeechFact]:
        row = TABLE.get((self.state, what)) if what is not None else None
        if row is None:
            return []
        self.state, action = row
        match action:
            case "suspect":
                self._onset = self._suspicion(at)
                self._doubted = 0
                return [Suspected(at, self._onset)]
            case "confirm":
                self._silent, self._last_voiced = 0, at
                return [Confirmed(at, self._onset)]
            case "dismiss":
                self._forget()
                self._dismissed = Dismissed(at, self._onset)
                return [self._dismissed]
            case _:
                self._forget()
                self._dismissed = None
                return [Ended(at, self._last_voiced)]

    def _forget(self) -> None:
        self._run.clear()
        self._kept.clear()
        self._unvoiced = 0
