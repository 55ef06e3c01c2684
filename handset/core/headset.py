"""The machine that wires them: turn, playback, outbox and session.

``handle(event, now) -> effects``. ``now`` is CLOCK_MONOTONIC in ns; it decides time-outs
and stamps events, and never a position.

Order of things on a press: the clear of playout first (nothing is in its way), then the
turn. On a commit: what the clear found goes out before the commit, or the commit says
that the cursor is pending.

A session that ends, a link that dies and a service that stops never commit a turn that
the person had not released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from handset.core import events as ev
from handset.core import lighting
from handset.core import messages as msg
from handset.core import turn as tn
from handset.core.alerts import Alerts
from handset.core.events import Effect, Event, Observe, Send
from handset.core.floor import Floor
from handset.core.lamp import PATTERNS, LampFacts, choose
from handset.core.notices import Notice
from handset.core.outbox import Outbox
from handset.core.packets import CaptureData
from handset.core.person import Person, PersonSettings
from handset.core.playback import Playback
from handset.core.receipts import Context
from handset.core.session import Session, SessionSettings
from handset.core.volume import STEPS

MILLISECOND = 1_000_000
COPIES_NS = (0, 20 * MILLISECOND, 60 * MILLISECOND)
"""When a cursor goes out again on ``tick``, until it is acknowledged."""
HELD_MESSAGES = 1024
"""Audio messages kept while what a crash left behind is not acknowledged."""
PROGRESS_NS = 200 * MILLISECOND
STOP_PATIENCE_NS = 3_000 * MILLISECOND
"""How long a stopping service waits for the edge to acknowledge."""


@dataclass(frozen=True, slots=True)
class Identity:
    handset_id: str
    label: str
    software: str
    boot_id: str
    capabilities: tuple[str, ...] = ("playout.cursor", "turn.manual", "audio.opus")


class Headset:
    def __init__(
        self,
        identity: Identity,
        outbox: Outbox,
        turn: tn.Turn,
        session: SessionSettings,
        jitter: Callable[[], float],
        first_clear: int = 0,
        person: PersonSettings | None = None,
        parked: Iterable[msg.Durable] = (),
        volume_step: int = STEPS,
    ) -> None:
        """``parked``: events of an earlier run that were made before it had a session."""
        self.identity = identity
        self.outbox = outbox
        self.turn = turn
        self.session = Session(session, jitter)
        self.playback = Playback(self._context, self._keep, first_clear)
        settings = person or PersonSettings()
        self.floor = Floor(turn, self.playback, self._context, self._keep, settings.floor)
        self.alerts = Alerts(self.playback, self._context, self._keep)
        self.person = Person(
            settings,
            turn,
            self.floor,
            self.alerts,
            outbox.outbox_id,
            self._keep_wearer,
            volume_step,
        )
        self.counters: Counter[str] = Counter()
        self.route = ""
        self.output_rate = 0
        self.room_ms = 0
        self.queued_ms = 0
        self._parked: list[msg.Durable] = list(parked)
        self._kept_turns: set[int] = set()
        """Turns that were committed without a connection."""
        self._kept_typed: dict[str, int] = {}
        """Of those, the typed ones, by the end of the id of the event that carries them."""
        self._barrier: set[str] = set()
        self._copies: list[tuple[int, str]] = []
        self._next_progress_ns = 0
        self._next_ping_ns = 0
        self._pings = 0
        self._stopping: tuple[str, int] | None = None
        self._exited = False
        self._held_audio: list[ev.EdgeAudio] = []
        self._log_used = False
        self._lit: LampFacts | None = None

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects = self._handle(event, now)
        # Until it is known whether the turn is committed: it decides what is stale.
        effects += self.playback.pump(self.floor.taken)
        effects += self.person.after(now, self.playback.ready)
        effects += self._tell_observed(effects, now)
        effects += self._light()
        if any(isinstance(effect, ev.Log) for effect in effects):
            self._log_used = True
        return effects

    def _handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case ev.CaptureReached(position):
                before = self.turn.state
                self.person.position, self.person.no_microphone = position, False
                effects = self.floor.facts(self.turn.captured(position, now), now)
                return effects + self.person.told_turn(before, now)
            case ev.PlayoutSeen():
                return [*self.playback.seen(event, now), *self.floor.release_commit(now)]
            case ev.AudioQueued():
                return self.playback.queued(event, now)
            case ev.ItemQueued():
                return self.playback.item_queued(event)
            case ev.AudioFenced():
                self.playback.audio_fenced(event)
                return []
            case ev.DeviceReady(timing, route, first_frame):
                self.route, self.output_rate = route, timing.rate
                mute = [ev.MuteMicrophone(True)] if self.person.deaf else []
                return [
                    *mute,
                    *self.playback.device_ready(timing, route, first_frame),
                    Observe("device.ready", now, {"route": route, "rate": timing.rate}),
                ]
            case ev.DeviceLost(frames, reason):
                facts: dict[str, object] = {"frames": frames, "reason": reason}
                self.person.no_microphone = True
                return [
                    Observe("device.lost", now, facts),
                    *self.playback.device_lost(frames, reason, now),
                ]
            case ev.LinkOpened(epoch):
                return self._greet(epoch, now)
            case ev.LinkClosed():
                return self._link_closed(event, now)
            case ev.EdgeSaid():
                return self._edge_said(event, now)
            case ev.EdgeAudio():
                return self._edge_audio(event, now)
            case ev.EdgeNonsense():
                return self._nonsense(event, now)
            case ev.MicMapped():
                return self._mic_mapped(event)
            case ev.Tick():
                return self._tick(now)
            case ev.Stop(cause):
                return self._stop(cause, now)
            case _:
                return self.person.handle(event, now)

    # ---- durable events -------------------------------------------------------------------

    def _context(self) -> Context:
        return Context(self.session.session, self.session.origin_epoch, self.identity.boot_id)

    def _keep(self, events: Iterable[msg.Durable]) -> list[Effect]:
        made = list(events)
        effects: list[Effect] = []
        parked = tuple(event for event in made if not event.session)
        if parked:
            self._parked += parked
            effects.append(ev.Park(parked))
        kept = self.outbox.add(event for event in made if event.session)
        if not kept:
            return effects
        effects += [ev.Keep(kept)]
        if self.session.open:
            effects += [Send(event) for event in kept]
            now = kept[0].at.mono_ns
            for event in kept:
                if isinstance(event, msg.PlayoutCleared | msg.Truncate):
                    self._copies += [(now + after, event.event_id) for after in COPIES_NS]
        return effects

    def _unpark(self) -> list[Effect]:
        """There is a session: what was made before it is of this one."""
        session = self.session.session
        parked, self._parked = self._parked, []
        if not parked:
            return []
        named = [
            replace(event, session=session, event_id=f"{session}{event.event_id}")
            for event in parked
        ]
        return [*self._keep(named), ev.Log({"k": "unparked"})]

    def _keep_wearer(self, by: str, now: int) -> list[Effect]:
        wearer = self.person.wearer
        what = "told" if by == "disclosure" else "agreed"
        context = self._context()
        event = msg.WearerConsent(
            **context.envelope(f"wearer/{wearer.name}/{what}", now, "session"),
            wearer=wearer.name,
            capture=wearer.consented or not wearer.required,
            recording=False,
            disclosed=wearer.disclosed,
            disclosure=wearer.disclosure,
            by=by,  # type: ignore[arg-type]
        )
        facts: dict[str, object] = {"wearer": wearer.name, "by": by}
        return [*self._keep([event]), Observe("wearer.consent", now, facts)]

    def _tell_observed(self, effects: list[Effect], now: int) -> list[Effect]:
        """What has become of a turn, told to the person."""
        told: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Observe):
                continue
            facts = effect.facts
            match effect.kind:
                case "turn.committed":
                    self.person.committed()
                    if not self.session.open:
                        turn = int(str(facts["turn"]))
                        self._kept_turns.add(turn)
                        if facts["source"] == "typed":
                            self._kept_typed[f"/turn/{turn}/commit"] = turn
                        told += self.person.telling.ask(Notice.KEPT, now)
                case "turn.abandoned":
                    told += self.person.abandoned(str(facts["reason"]), now)
                case "turn.long":
                    told += self.person.long_turn(bool(facts["latched"]), now)
        return told

    def _light(self) -> list[Effect]:
        stopping = self._stopping is not None
        facts = lighting.facts(self.person, self.playback, self.session.state, stopping)
        if facts == self._lit:
            return []
        self._lit = facts
        return [ev.ShowLamp(PATTERNS[choose(facts)])]

    def _received(self, turn: int, now: int) -> list[Effect]:
        """The edge has all of a turn; the person is told when it had been kept."""
        if turn not in self._kept_turns:
            return []
        self._kept_turns.discard(turn)
        return self.person.telling.ask(Notice.RECEIVED, now)

    def _settled(self, outbox_id: str, seq: int, ids: list[str], now: int) -> list[Effect]:
        self._barrier.difference_update(ids)
        effects: list[Effect] = [ev.Settle(outbox_id, seq, tuple(ids))]
        for end in list(self._kept_typed):
            if any(event_id.endswith(end) for event_id in ids):
                effects += self._received(self._kept_typed.pop(end), now)
        if not self._barrier and self._held_audio:
            held, self._held_audio = self._held_audio, []
            for audio in held:
                effects += self._edge_audio(audio, now)
        return effects

    # ---- the link -----------------------------------------------------------------------------

    def _greet(self, epoch: int, now: int) -> list[Effect]:
        if not self.session.opened(epoch, now):
            return [ev.CloseLink(epoch, "not the current connection")]
        resume = None
        if self.session.session and self.session.token:
            wanted = [msg.ResumeItem(h.item_id, h.next_packet) for h in self.playback.lane.wanted()]
            resume = msg.Resume(self.session.session, self.session.token, wanted)
        hello = msg.Hello(
            handset_id=self.identity.handset_id,
            label=self.identity.label,
            software=self.identity.software,
            protocol=msg.Versions(msg.PROTOCOL_MIN, msg.PROTOCOL_MAX),
            boot_id=self.identity.boot_id,
            epoch=epoch,
            outbox_id=self.outbox.outbox_id,
            unacknowledged=len(self.outbox),
            capabilities=list(self.identity.capabilities),
            output_route=self.route,
            output_rate=self.output_rate,
            resume=resume,
        )
        return [Send(hello)]

    def _welcome(self, epoch: int, welcome: msg.Welcome, now: int) -> list[Effect]:
        if welcome.turn_detection == "server":
            why = "the edge wants to detect turns itself; this handset is the one that does"
            closed = ev.LinkClosed(epoch, why, permanent=True)
            return [
                Send(msg.Fault(code="turn_detection", message=why)),
                Observe("session.refused", now, {"code": "turn_detection", "reason": why}),
                ev.CloseLink(epoch, why),
                *self._link_closed(closed, now),
            ]
        before = self.session.session
        if not self.session.welcome(epoch, welcome.session, welcome.resume_token, now):
            return []
        self.playback.lane.new_epoch()
        self.playback.linked(now)
        effects: list[Effect] = []
        if before and before != welcome.session:
            effects += self._session_over(before, now)
        pending = self.outbox.pending()
        self._barrier = {event.event_id for event in pending}
        effects += [Send(event) for event in pending]
        effects += self._unpark()
        if before != welcome.session:
            effects += self.person.new_session(welcome, now)
        facts: dict[str, object] = {"session": welcome.session, "epoch": epoch}
        return [
            *effects,
            ev.Log({"k": "session", "session": welcome.session}),
            Observe("session.open", now, facts),
        ]

    def _session_over(self, session: str, now: int) -> list[Effect]:
        effects = self.playback.end_session(session, now)
        return effects + self.alerts.session_over(now)

    def _link_closed(self, event: ev.LinkClosed, now: int) -> list[Effect]:
        if not self.session.lost(event.epoch, now, event.permanent):
            return []
        self.playback.unlinked()
        self._held_audio.clear()
        self._copies.clear()
        facts: dict[str, object] = {"epoch": event.epoch, "reason": event.reason}
        return [Observe("link.lost", now, facts)]

    def _mic_mapped(self, event: ev.MicMapped) -> list[Effect]:
        if event.epoch != self.session.epoch:
            return []
        return [
            Send(
                msg.CaptureMap(
                    epoch=event.epoch,
                    ssrc=event.ssrc,
                    rtp_ts=event.rtp_ts,
                    capture_sample=event.capture_sample,
                    lookahead=event.lookahead,
                )
            )
        ]

    # ---- what the edge says -------------------------------------------------------------------

    def _nonsense(self, event: ev.EdgeNonsense, now: int) -> list[Effect]:
        self.counters[event.kind] += 1
        if not self.session.heard(event.epoch, now) or event.kind != "malformed":
            return []
        return [Send(msg.Fault(code="malformed", message=event.what[:200]))]

    def _edge_audio(self, event: ev.EdgeAudio, now: int) -> list[Effect]:
        if not self.session.heard(event.epoch, now):
            self.counters["other_epoch"] += 1
            return []
        if isinstance(event.packet, CaptureData):
            self.counters["unexpected"] += 1
            return []
        if self._stopping:
            self.counters["while_stopping"] += 1
            return []
        if self._barrier:
            # What a crash left behind is acknowledged before new audio counts.
            if len(self._held_audio) < HELD_MESSAGES:
                self._held_audio.append(event)
            else:  # asked for again: it leaves a hole in its item
                self.counters["held_overflow"] += 1
            return []
        return self.playback.arrive(event.packet, now)

    def _edge_said(self, event: ev.EdgeSaid, now: int) -> list[Effect]:
        if not self.session.heard(event.epoch, now):
            self.counters["other_epoch"] += 1
            return []
        match event.message:
            case msg.Welcome():
                return self._welcome(event.epoch, event.message, now)
            case msg.Refused(code=code, reason=reason):
                facts: dict[str, object] = {"code": code, "reason": reason}
                forgotten = code == "forgotten"
                if forgotten:  # the next greeting asks for a new session
                    self.session.token = ""
                closed = ev.LinkClosed(event.epoch, reason, permanent=not forgotten)
                return [
                    Observe("session.refused", now, facts),
                    ev.CloseLink(event.epoch, f"refused: {reason}"),
                    *self._link_closed(closed, now),
                ]
            case msg.GoAway(time_left_ms=left):
                return [Observe("session.go_away", now, {"time_left_ms": left})]
            case msg.Ended(reason=reason):
                # What is said from here on is of the next session.
                over, self.session.session, self.session.token = self.session.session, "", ""
                return [
                    *(self._session_over(over, now) if over else []),
                    Observe("session.ended", now, {"reason": reason}),
                ]
            case msg.Policy(require_manual=manual, scope=scope):
                self.person.policy(manual, next_turn=scope == "next_turn")
                return [Observe("policy", now, {"require_manual": manual, "scope": scope})]
            case msg.Alert():
                return self.alerts.said(event.message, now)
            case msg.AlertWithdraw(alert_id=alert_id):
                return self.alerts.withdraw(alert_id, now)
            case msg.ResponseCreated(response_id=name, turn=turn, speculative=speculative):
                early = self.playback.lane.created(name, turn, speculative)
                effects: list[Effect] = [
                    Observe("response.created", now, {"response": name, "turn": turn})
                ]
                for packet in early:
                    effects += self.playback.arrive(packet, now)
                return effects
            case msg.ResponseDone(response_id=name):
                self.playback.lane.done(name, now)
                return []
            case msg.OutputClear(response_id=name):
                return self.playback.clear_response(name, msg.Cause("remote", now), now)
            case msg.EventAck(outbox_id=outbox_id, seq=seq, applied=applied):
                ids = self.outbox.acknowledge(outbox_id, seq, applied)
                return self._settled(outbox_id, seq, ids, now) if ids else []
            case msg.EventRejected():
                return self._rejected(event.message, now)
            case msg.CaptureMissing(turn=turn, ranges=ranges):
                return [ev.ResendTurnAudio(turn, tuple(ranges))]
            case msg.CaptureReceived(turn=turn, samples=samples):
                facts = {"turn": turn, "samples": samples}
                return [
                    ev.ForgetTurnAudio(turn),
                    Observe("capture.received", now, facts),
                    *self._received(turn, now),
                ]
            case msg.ClockPong():
                return []
            case msg.Fault(code=code, message=text):
                self.counters["edge_error"] += 1
                return [Observe("edge.error", now, {"code": code, "message": text})]

    def _rejected(self, message: msg.EventRejected, now: int) -> list[Effect]:
        event = self.outbox.reject(message.event_id)
        if event is None:
            return []
        facts: dict[str, object] = {"event": message.event_id, "code": message.code}
        effects = [
            *self._settled(event.outbox_id, 0, [event.event_id], now),
            Observe("event.rejected", now, facts),
        ]
        limit = message.limit_ms
        first = isinstance(event, msg.Truncate) and event.supersedes is None
        if isinstance(event, msg.Truncate) and first and limit is not None:
            again = replace(
                event,
                event_id=f"{event.event_id}/again",
                audio_end_ms=min(event.audio_end_ms, limit),
                supersedes=event.event_id,
            )
            effects += self._keep([again])
        return effects

    # ---- time -----------------------------------------------------------------------------------

    def _tick(self, now: int) -> list[Effect]:
        effects = self.person.tick(now)
        effects += self.playback.tick(now)
        if reason := self.session.dead(now):
            epoch = self.session.epoch
            effects.append(ev.CloseLink(epoch, reason))
            effects += self._link_closed(ev.LinkClosed(epoch, reason), now)
        if not self._stopping and self.session.due(now):
            effects.append(ev.OpenLink(self.session.epoch))
        if self.session.open:
            effects += self._beat(now)
        at_rest = self.playback.idle and not self.floor.undecided and not self._parked
        if self._log_used and at_rest:
            self._log_used = False
            effects.append(ev.ResetLog())
        return effects + self._try_exit(now)

    def _beat(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        due = [name for at, name in self._copies if at <= now]
        self._copies = [(at, name) for at, name in self._copies if at > now]
        by_name = {event.event_id: event for event in self.outbox.pending()} if due else {}
        effects += [Send(by_name[name], tick=True) for name in due if name in by_name]
        if now >= self._next_ping_ns:
            self._next_ping_ns = now + self.session.settings.ping_ns
            self._pings += 1
            effects.append(Send(msg.ClockPing(id=self._pings, sent_ns=now), tick=True))
        if now >= self._next_progress_ns:
            self._next_progress_ns = now + PROGRESS_NS
            item_id, handed = self.playback.progress()
            progress = msg.PlayoutProgress(
                item_id=item_id, handed=handed, queued_ms=self.queued_ms, room_ms=self.room_ms
            )
            effects.append(Send(progress, tick=True))
        return effects

    # ---- the end ---

    def _stop(self, cause: str, now: int) -> list[Effect]:
        if self._stopping:
            return []
        effects = self.person.stop(now)
        effects += self.playback.clear(msg.Cause("shutdown", now))
        self._stopping = (cause, now)
        return [*effects, Observe("stopping", now, {"cause": cause})]

    def _try_exit(self, now: int) -> list[Effect]:
        """Cursors first, then the goodbye, then out: acknowledged, or kept."""
        if self._stopping is None or self._exited:
            return []
        cause, since = self._stopping
        waited = now - since >= STOP_PATIENCE_NS
        if not waited and (not self.playback.idle or self.floor.commit_waits):
            return []
        goodbye = f"shutdown/{self.outbox.outbox_id}"
        effects: list[Effect] = []
        if self.session.session:
            context = self._context()
            effects += self._keep(
                [msg.Shutdown(**context.envelope(goodbye, now, "session"), cause=cause)]
            )
        if waited or not self.session.open or not len(self.outbox):
            self._exited = True
            effects += [ev.CloseLink(self.session.epoch, cause), ev.Exit(cause)]
            self.session.end(now)
        return effects
