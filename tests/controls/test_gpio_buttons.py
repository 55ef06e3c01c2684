"""Buttons and lamps on pins: the real adapter over chips, wires and hands that are modelled."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from recorder import Recorder
from tiers import count

from handset.controls.gpio import RETRY_NS, GpioButtons
from handset.controls.gpio_chip import LABELS, Backend, Level, Lgpio, NoChip, Pull, find, load_lgpio
from handset.controls.gpio_wiring import Button, GpioSettings
from handset.controls.led import GpioLamp, LampSettings, Led
from handset.core.keys import Gesture, Key, Keys, KeySettings, Made
from handset.core.lamp import Pattern
from handset.errors import DeviceError, UsageError
from handset.fakes.contact import Contact
from handset.fakes.gpio import FakeChip, FakeGpio, FakeLine

MS = 1_000_000
TALK = Button(Key.TALK, 17)


def pi(number: int = 0, **lines: FakeLine) -> FakeGpio:
    wired = {int(name[1:]): line for name, line in lines.items()}
    return FakeGpio({number: FakeChip("pinctrl-rp1", wired)})


def opened(gpio: FakeGpio, *buttons: Button) -> tuple[GpioButtons, Recorder]:
    told = Recorder()
    settings = GpioSettings(buttons or (TALK,))
    made = GpioButtons(told, settings, gpio.backend, lambda: gpio.now_ns)
    made.look()
    return made, told


@pytest.mark.grows
@pytest.mark.parametrize("active", list(Level))
def test_every_contact_arrives_once_in_order_and_makes_the_right_presses(active: Level) -> None:
    """10,000 presses with bounce in the suite, both polarities together."""
    pull = Pull.UP if active is Level.LOW else Pull.DOWN
    gpio = pi(g17=FakeLine(button=active is Level.HIGH))
    buttons, told = opened(gpio, Button(Key.TALK, 17, pull, active))
    contact, now, edges = Contact(seed=3), gpio.now_ns, []
    presses = count(5_000, 50_000, 200_000)
    for _ in range(presses):
        made = contact.edge(True, now) + contact.edge(False, now + 90 * MS)
        edges += made
        now += 200 * MS
        for down, at_ns in made:
            gpio.button(0, 17, down, at_ns)
    raw, last = [], False
    for down, at_ns in edges:
        if down != last:
            raw.append((down, at_ns))
            last = down
    assert [(down, at_ns) for _, _, down, at_ns in told.levels] == raw
    assert buttons.missed == 0
    keys, gestures = Keys(KeySettings()), []
    for _, key, down, at_ns in told.levels:  # a consumer that is very late
        gestures += keys.level("gpio", key, down, at_ns)
    gestures += keys.finish(now)
    kinds = [fact.gesture for fact in gestures if isinstance(fact, Made)]
    assert kinds == [Gesture.TALK, Gesture.LET_GO] * presses
    buttons.close()


def test_the_chip_is_found_by_its_label_on_any_number() -> None:
    for number in (4, 0, 11):
        gpio = pi(number)
        gpio.chips[7] = FakeChip("other")
        buttons, told = opened(gpio)
        assert told.life == [("back", "")]
        assert told.said("chip") == [f"pinctrl-rp1 (gpiochip{number})"]
        buttons.close()


def test_without_the_chip_what_was_looked_for_and_what_there_is_are_said() -> None:
    gpio = FakeGpio({0: FakeChip("ftdi")})
    _, told = opened(gpio)
    ((what, reason),) = told.life
    assert what == "lost"
    assert all(label in reason for label in LABELS) and "gpiochip0 'ftdi'" in reason
    with pytest.raises(NoChip, match="no chip at all"):
        find(LABELS, [])
    with pytest.raises(NoChip, match="more than one"):
        find(["ft*"], [*gpio.listed(), *gpio.listed()])


def test_a_busy_pin_names_its_holder_and_the_others_work() -> None:
    gpio = pi(g17=FakeLine(holder="spi0 CS1"))
    buttons, told = opened(gpio, TALK, Button(Key.CANCEL, 27))
    (problem,) = told.said("problem")
    assert "GPIO 17" in str(problem) and "spi" in str(problem)
    gpio.button(0, 27, True)
    assert told.edges(Key.CANCEL) == [True]
    gpio.chips[0].lines[17].holder = ""  # it is free now
    gpio.button(0, 27, False)
    gpio.now_ns += RETRY_NS
    buttons.look()
    gpio.button(0, 17, True)
    assert told.edges() == [True]
    buttons.close()


@pytest.mark.parametrize(
    ("line", "button", "said"),
    [
        (FakeLine(closed=True), TALK, "reads pressed at start"),
        (FakeLine(short=False), TALK, "stuck, shorted to ground"),
        (FakeLine(resistor=False), TALK, "a button wired to 3.3 V needs active = 'high'"),
        (FakeLine(), Button(Key.TALK, 17, Pull.NONE), "floats"),
    ],
)
def test_wrong_wiring_is_found_and_said(line: FakeLine, button: Button, said: str) -> None:
    buttons, told = opened(pi(g17=line), button)
    (problem,) = told.said("problem")
    assert said in str(problem)
    buttons.close()


def test_a_key_that_is_down_at_start_is_told_as_down_and_is_no_press() -> None:
    gpio = pi(g17=FakeLine(closed=True))
    buttons, told = opened(gpio)
    assert told.life == [("back", "talk")] and told.levels == []
    gpio.button(0, 17, False)
    assert told.edges() == [False]
    buttons.close()


def test_an_edge_that_the_kernel_dropped_is_made_up_for() -> None:
    gpio = pi()
    buttons, told = opened(gpio)
    gpio.button(0, 17, True)
    gpio.swallow = 1
    gpio.button(0, 17, False)
    gpio.now_ns += 300 * MS
    gpio.button(0, 17, True)  # twice down: there was an up
    assert told.edges() == [True, False, True]
    gpio.swallow = 1
    gpio.button(0, 17, False)
    for _ in range(2):
        buttons.look()
    assert told.edges() == [True, False, True, False]
    assert buttons.missed == 2 and told.said("missed_edges") == [1, 2]
    buttons.close()


def test_a_chip_that_vanishes_is_lost_once_and_comes_back_elsewhere() -> None:
    gpio = pi()
    buttons, told = opened(gpio)
    gpio.button(0, 17, True)
    chip = gpio.chips.pop(0)
    for _ in range(3):
        buttons.look()
        gpio.now_ns += RETRY_NS
    assert [what for what, _ in told.life] == ["back", "lost"]
    gpio.chips[4] = FakeChip(chip.label)
    buttons.look()
    assert told.life[-1] == ("back", "")
    gpio.button(4, 17, True)
    assert told.edges() == [True, True]
    buttons.close()


def test_opened_and_closed_fifty_times_nothing_stays_claimed() -> None:
    gpio = pi()
    for _ in range(50):
        buttons, told = opened(gpio)
        assert told.life == [("back", "")]
        buttons.close()
        assert gpio.claimed == []


def test_settings_that_can_t_work_are_refused() -> None:
    with pytest.raises(UsageError, match="active level"):
        Button(Key.TALK, 17, Pull.DOWN, Level.LOW)
    with pytest.raises(UsageError, match="same line"):
        GpioSettings((TALK, Button(Key.CANCEL, 17)))


def lamp(gpio: FakeGpio, *leds: Led) -> tuple[GpioLamp, Callable[[], set[str]], Recorder]:
    told = Recorder()
    settings = LampSettings(leds)
    made = GpioLamp(settings, gpio.backend, told, lambda: gpio.now_ns)
    made.step()

    def lit() -> set[str]:
        lines = gpio.chips[0].lines
        return {d.colour for d in leds if lines[d.line].out is (d.active is Level.HIGH)}

    return made, lit, told


def test_a_lamp_follows_its_pattern_and_is_dark_at_the_end() -> None:
    gpio = pi()
    made, lit, _ = lamp(gpio, Led("red", 5), Led("green", 6, Level.LOW))
    assert lit() == set()
    made.show(Pattern("p", "amber", ((True, 100), (False, 200))))
    seen = []
    for _ in range(6):
        made.step()
        seen.append(lit() == {"red", "green"})
        gpio.now_ns += 100 * MS
    assert seen == [True, False, False, True, False, False]
    made.show(Pattern("q", "red", ((True, 0),)))
    made.step()
    assert lit() == {"red"}
    made.close()
    assert lit() == set() and gpio.claimed == []


def test_a_led_on_a_busy_pin_stays_dark_and_the_others_light() -> None:
    gpio = pi(g5=FakeLine(holder="pps"))
    made, lit, told = lamp(gpio, Led("red", 5), Led("green", 6))
    made.show(Pattern("q", "green", ((True, 0),)))
    made.step()
    assert lit() == {"green"}
    assert "LED red on GPIO 5 stays dark" in str(told.said("problem")[0])
    made.close()


def test_lgpio_is_as_it_is_used_here() -> None:
    try:
        module = load_lgpio()
    except DeviceError as error:
        assert "kelter-handset[gpio]" in str(error)
        pytest.skip(str(error))
    for name, member in inspect.getmembers(Lgpio, inspect.isfunction):
        if name.startswith("_"):
            continue
        given = inspect.signature(getattr(module, name)).parameters
        wanted = [p for p in inspect.signature(member).parameters if p != "self"]
        assert list(given)[: len(wanted)] == wanted, name
    assert isinstance(Backend(module, list, lambda: None), Backend)
