"""Push buttons on GPIO lines: every edge as the kernel saw it, bounces included.

Rules:

1. The callback does one thing, ``Controls.level``. Nothing is debounced here, in lgpio or in
   the kernel: the first edge acts at once, and the core debounces by the edges' own times.
2. A look a few times a second reads every line. It finds a chip that is gone (``lost``, and
   tried again until it is ``back``) and a level that no edge had told.
3. Of two edges, one goes up and one goes down. Two alike say that one between them was lost:
   it is told, at the second one's time, and counted as ``missed``. A level that two looks
   find without an edge between them is told at the time of the first.
4. A line that somebody else has is a problem, not an end: the others work. It is tried again
   while no key is down, so that a key that is held is never taken for one that was down at
   the start.
5. At every start a line's answer to both pulls is judged (:mod:`handset.controls.gpio_wiring`);
   what is wrong is said as ``problem``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from handset.controls.gpio_chip import Backend, Chip, ChipGone, Pull
from handset.controls.gpio_wiring import Button, GpioSettings, answer, judge
from handset.errors import DeviceError
from handset.ports import Controls

LOOK_S = 0.25
"""Between looks. lgpio writes to standard error without end from when a chip is gone until it
is closed, so this is not longer."""
RETRY_NS = 2_000_000_000
"""Between two attempts to open a chip, or to claim a line that somebody had."""


@dataclass(slots=True, eq=False)
class _Line:
    """The level was read between ``before_ns`` and ``after_ns``. ``odd``: count of edges and
    time of the first look that found another level."""

    button: Button
    high: bool
    before_ns: int
    after_ns: int
    edges: int = 0
    odd: tuple[int, int] | None = None


class GpioButtons:
    """``with GpioButtons(...)``: looks from a thread of its own. Or call :meth:`look`.

    ``missed`` counts edges that were lost before they came here, ``problems`` what is wrong
    now, by line.
    """

    def __init__(
        self,
        controls: Controls,
        settings: GpioSettings,
        backend: Backend,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.missed = 0
        self.problems: dict[int, str] = {}
        self._controls = controls
        self._settings = settings
        self._backend = backend
        self._clock = clock
        self._chip: Chip | None = None
        self._lines: dict[int, _Line] = {}
        self._early: list[tuple[int, bool, int]] | None = None
        self._lock = threading.Lock()
        self._try_ns = 0
        self._lost: str | None = None
        """Why the control is not there, when that was told."""
        self._told_missed = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> GpioButtons:
        self._thread = threading.Thread(target=self._run, name=self._settings.name, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def there(self) -> bool:
        """At least one button can be pressed."""
        return bool(self._lines)

    def look(self) -> None:
        """Opens what is not open, and checks what is. Blocks for some tens of ms at a start."""
        now_ns = self._clock()
        try:
            if self._chip is not None:
                self._check(now_ns)
            if now_ns >= self._try_ns and len(self._lines) < len(self._settings.buttons):
                self._open()
        except DeviceError as error:
            self._lose(now_ns, str(error))
        if self.missed != self._told_missed:
            self._told_missed = self.missed
            self._controls.fact(self._settings.name, "missed_edges", self.missed)

    def close(self) -> None:
        """Frees the lines and tells nothing: it was not the control that went away."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._release()

    # ---- opening ------------------------------------------------------------------------------

    def _open(self) -> None:
        """Claims the lines that are not ours yet."""
        self._try_ns = self._clock() + RETRY_NS
        if any(line.button.is_down(line.high) for line in self._lines.values()):
            return
        if self._chip is None:
            self._chip = Chip.open(self._backend, self._settings.chip)
            info = self._chip.info
            self._controls.fact(
                self._settings.name, "chip", f"{info.label} (gpiochip{info.number})"
            )
        pulls = self._try_pulls(self._chip)
        if pulls:
            self._begin(self._chip, pulls)
        elif not self._lines:  # the chip stays open: to close one holds Python up for 100 ms
            self._tell_lost(f"no button can be used. {' '.join(self.problems.values())}")

    def _try_pulls(self, chip: Chip) -> dict[Button, Pull]:
        """Which lines can be had, and the pull for each."""
        free = []
        for button in self._settings.buttons:
            if button.line in self._lines:
                continue
            try:
                chip.claim_input(button.line, Pull.UP)
                free.append(button)
            except ChipGone:
                raise
            except DeviceError as error:
                self._problem(button, f"{button} can't be used: {error}")
        if not free:
            return {}
        self._backend.settle()
        with_up = self._levels(chip, free)
        for button in free:
            chip.claim_input(button.line, Pull.DOWN)
        self._backend.settle()
        with_down = self._levels(chip, free)
        pulls = {}
        for button in free:
            found = answer(with_up[button], with_down[button])
            verdict = judge(button, found)
            pulls[button] = verdict.pull
            self._problem(button, verdict.problem)
            chip.claim_input(button.line, verdict.pull)
        self._backend.settle()  # the last change of pull must be no edge
        return pulls

    @staticmethod
    def _levels(chip: Chip, buttons: Iterable[Button]) -> dict[Button, bool]:
        return {button: chip.read(button.line) for button in buttons}

    def _begin(self, chip: Chip, pulls: dict[Button, Pull]) -> None:
        """From here on edges are told. Those that come before the levels are known wait."""
        with self._lock:
            self._early = []
        for button, pull in pulls.items():
            chip.watch(button.line, pull, self._edge_of(chip, button.line))
        before_ns = self._clock()
        levels = self._levels(chip, pulls)
        after_ns = self._clock()
        with self._lock:
            for button, high in levels.items():
                self._lines[button.line] = _Line(button, high, before_ns, after_ns)
            down = frozenset(b.key for b, high in levels.items() if b.is_down(high))
            self._controls.back(self._settings.name, before_ns, down)
            self._lost = None
            waited, self._early = self._early, None
            for line, high, at_ns in waited:
                self._take(self._lines[line], high, at_ns)

    # ---- edges --------------------------------------------------------------------------------

    def _edge_of(self, chip: Chip, line: int) -> Callable[[bool, int], None]:
        def edge(high: bool, at_ns: int) -> None:
            with self._lock:
                if chip is not self._chip:
                    return  # the last words of a chip that was given up
                if line in self._lines:
                    self._take(self._lines[line], high, at_ns)
                elif self._early is not None:
                    self._early.append((line, high, at_ns))

        return edge

    def _take(self, line: _Line, high: bool, at_ns: int) -> None:
        if at_ns < line.before_ns:
            return  # from before the level was read
        if high is line.high:
            if at_ns <= line.after_ns:
                return  # the reading has seen it
            self.missed += 1
            self._tell(line, not high, at_ns)
        self._tell(line, high, at_ns)

    def _tell(self, line: _Line, high: bool, at_ns: int) -> None:
        line.high = high
        line.edges += 1
        button = line.button
        self._controls.level(self._settings.name, button.key, button.is_down(high), at_ns)

    # ---- looking ------------------------------------------------------------------------------

    def _check(self, now_ns: int) -> None:
        chip = self._chip
        assert chip is not None
        if chip.failed is not None:
            raise chip.failed
        for line in self._lines.values():
            high = chip.read(line.button.line)
            with self._lock:
                if high is line.high:
                    line.odd = None
                elif line.odd is None or line.odd[0] != line.edges:
                    line.odd = line.edges, now_ns
                else:
                    self.missed += 1
                    line.before_ns = line.after_ns = now_ns
                    self._tell(line, high, line.odd[1])
                    line.odd = None

    def _lose(self, now_ns: int, reason: str) -> None:
        self._release()
        self._try_ns = now_ns + RETRY_NS
        self._tell_lost(reason)

    def _tell_lost(self, reason: str) -> None:
        """Once; another reason for the same loss is a problem more."""
        if self._lost is None:
            self._controls.lost(self._settings.name, self._clock(), reason)
        elif self._lost != reason:
            self._controls.fact(self._settings.name, "problem", reason)
        self._lost = reason

    def _release(self) -> None:
        with self._lock:
            chip, self._chip = self._chip, None
            self._lines.clear()
            self._early = None
        if chip is not None:
            chip.close()

    def _problem(self, button: Button, problem: str | None) -> None:
        """Tells a problem once, and once when it is over."""
        if self.problems.get(button.line) == problem:
            return
        if problem is None:
            del self.problems[button.line]
            self._controls.fact(self._settings.name, "well", f"{button} works")
            return
        self.problems[button.line] = problem
        self._controls.fact(self._settings.name, "problem", problem)

    def _run(self) -> None:
        self.look()
        while not self._ended.wait(LOOK_S):
            self.look()
