"""Anything, in any order, on the real queue: the invariants hold at every step, and at
rest everything is settled."""

from __future__ import annotations

from headset_invariants import check, check_at_rest
from headset_rig import MS, Rig
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tiers import count

from handset.core import events as ev
from handset.core.turn import TurnState

RATES = st.sampled_from([8_000, 16_000, 24_000, 48_000])
DEVICES = st.sampled_from([(48_000, 480), (48_000, 256), (44_100, 441), (16_000, 160)])
SAMPLES = st.sampled_from([1, 480, 1_001, 4_800, 12_000])


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rig = self.new_rig()
        self.responses: list[str] = []
        self.open_items: list[str] = []
        self.not_done: list[str] = []
        self.sessions = 1

    def new_rig(self) -> Rig:
        return Rig(fade_ms=5, seconds=0.6)

    # ---- the edge speaks --------------------------------------------------------------------

    def linked(self) -> bool:
        return bool(self.rig.links)

    @precondition(linked)
    @rule(behind=st.integers(0, 1), speculative=st.booleans())
    def respond(self, behind: int, speculative: bool) -> None:
        name = f"r{len(self.responses)}"
        self.responses.append(name)
        self.not_done.append(name)
        self.rig.response(name, max(self.rig.headset.turn.number - behind, 0), speculative)

    @precondition(lambda self: self.linked() and self.not_done)
    @rule(data=st.data(), rate=RATES, samples=SAMPLES)
    def begin_item(self, data: st.DataObject, rate: int, samples: int) -> None:
        item = f"i{len(self.rig.handles)}"
        self.rig.start_item(item, data.draw(st.sampled_from(self.not_done)), rate)
        self.rig.audio(item, samples, rate // 50)
        self.open_items.append(item)

    @precondition(lambda self: self.linked() and self.open_items)
    @rule(data=st.data(), samples=SAMPLES)
    def go_on(self, data: st.DataObject, samples: int) -> None:
        item = data.draw(st.sampled_from(self.open_items))
        self.rig.audio(item, samples, self.rig.said[item].start.rate // 50)

    def finish_item(self, item: str) -> None:
        self.open_items.remove(item)
        self.rig.end_item(item, self.rig.said[item].samples)

    @precondition(lambda self: self.linked() and self.open_items)
    @rule(data=st.data())
    def end_item(self, data: st.DataObject) -> None:
        self.finish_item(data.draw(st.sampled_from(self.open_items)))

    @precondition(lambda self: self.linked() and self.not_done)
    @rule(data=st.data(), properly=st.booleans())
    def done(self, data: st.DataObject, properly: bool) -> None:
        name = data.draw(st.sampled_from(self.not_done))
        self.not_done.remove(name)
        for item in list(self.open_items):
            if properly and self.rig.said[item].start.response_id == name:
                self.finish_item(item)
        self.rig.done(name)

    @precondition(lambda self: self.linked() and self.responses)
    @rule(data=st.data())
    def clear_remotely(self, data: st.DataObject) -> None:
        self.rig.clear_remotely(data.draw(st.sampled_from(self.responses[-6:])))

    @rule(acks=st.booleans())
    def acknowledge(self, acks: bool) -> None:
        if acks:
            self.rig.edge.acknowledge_all()
        self.rig.edge.acks = acks

    # ---- the person ---------------------------------------------------------------------------

    @rule()
    def press(self) -> None:
        self.rig.press()

    @rule()
    def release(self) -> None:
        self.rig.release()

    @rule()
    def lose_control(self) -> None:
        self.rig.tell(ev.ControlGone("button", self.rig.now, "gone"))

    @rule(ms=st.sampled_from([100, 300]))
    def talk(self, ms: int) -> None:
        self.rig.press()
        self.rig.run(ms)
        self.rig.release()

    # ---- time, device, link --------------------------------------------------------------------

    @rule(blocks=st.sampled_from([1, 1, 2, 3, 10, 40]))
    def blocks(self, blocks: int) -> None:
        for _ in range(blocks):
            self.rig.step()

    @rule()
    def wait(self) -> None:
        self.rig.run(700)

    @precondition(lambda self: self.rig.card is not None)
    @rule(ms=st.sampled_from([1, 7, 60]))
    def hang(self, ms: int) -> None:
        self.rig.card.hang(ms * MS)

    @precondition(lambda self: self.rig.card is not None)
    @rule()
    def unplug(self) -> None:
        self.rig.unplug()

    @precondition(lambda self: self.rig.card is None)
    @rule(device=DEVICES)
    def plug(self, device: tuple[int, int]) -> None:
        rate, self.rig.block_frames = device
        self.rig.plug(rate)

    @precondition(linked)
    @rule()
    def lose_link(self) -> None:
        self.rig.lose_link()

    @precondition(lambda self: not self.linked())
    @rule(forgotten=st.sampled_from([False, False, True]))
    def reconnect(self, forgotten: bool) -> None:
        if forgotten:
            self.sessions += 1
            self.rig.edge.session = f"s{self.sessions}"
            self.rig.said.clear()
            self.responses, self.open_items, self.not_done = self.responses, [], []
        self.rig.connect()
        self.rig.resume()

    # ---- what must hold -------------------------------------------------------------------------

    @invariant()
    def nothing_is_wrong(self) -> None:
        check(self.rig)

    def let_the_floor_go(self) -> None:
        rig = self.rig
        if rig.headset.turn.state is TurnState.LOST:
            rig.press()
        rig.run(300)
        rig.release()
        rig.run(300)

    def teardown(self) -> None:
        """Let it all come to rest."""
        rig = self.rig
        if rig.card is None:
            rig.plug()
        rig.edge.acknowledge_all()
        if not rig.links:
            rig.connect()
            rig.resume()
        rig.serve()
        self.let_the_floor_go()
        for item in list(self.open_items):
            self.finish_item(item)
        for name in self.not_done:
            rig.done(name)
        rig.run(200)
        for response in list(rig.headset.playback.lane.responses.values()):
            if response.speculative:  # of a turn that will never be
                rig.clear_remotely(response.response_id)
        for _ in range(60):
            if rig.headset.playback.idle and not rig.headset.playback.lane.responses:
                break
            rig.run(500)
        assert rig.headset.playback.idle
        assert rig.headset.playback.lane.responses == {}
        rig.run(100)
        check_at_rest(rig)
        rig.tell(ev.Stop("end"))
        rig.run(200)
        assert rig.exited == "end"


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=count(80, 400, 4_000),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
