#include "deck.h"

#include "clock.h"

#include <errno.h>
#include <string.h>

static void append_event(struct deck *deck, struct kelter_event event)
{
    struct kelter_card *card = deck->card;
    uint64_t count = atomic_load_explicit(&card->event_count, memory_order_relaxed);
    if (count == KELTER_EVENTS) {
        atomic_fetch_add_explicit(&card->event_lost, 1, memory_order_relaxed);
        return;
    }
    card->events[count] = event;
    atomic_store_explicit(&card->event_count, count + 1, memory_order_release);
}

static struct kelter_event event_of(const struct deck *deck, enum kelter_event_kind kind,
                                    enum kelter_direction direction, int64_t now)
{
    struct kelter_event event = {
        .kind = kind,
        .direction = direction,
        .frame = kelter_frame_at(deck->card, now),
        .mono_ns = now,
        .rate = (uint32_t)kelter_clock_now(deck->card)->rate,
    };
    if (direction != KELTER_CARD) {
        const struct deck_side *side = &deck->sides[direction];
        event.pid = side->pid;
        event.period = side->period;
        event.buffer = side->buffer;
    }
    return event;
}

void deck_log(struct deck *deck, enum kelter_event_kind kind, enum kelter_direction direction, int64_t now)
{
    append_event(deck, event_of(deck, kind, direction, now));
}

void deck_set_state(struct deck *deck, enum kelter_direction direction, enum kelter_state state)
{
    atomic_store_explicit(&deck->card->streams[direction].state, state, memory_order_release);
}

enum kelter_state deck_state(const struct deck *deck, enum kelter_direction direction)
{
    return (enum kelter_state)atomic_load_explicit(&deck->card->streams[direction].state,
                                                   memory_order_relaxed);
}

static bool runs(const struct deck *deck, enum kelter_direction direction)
{
    enum kelter_state state = deck_state(deck, direction);
    return state == KELTER_RUNNING || state == KELTER_DRAINING;
}

bool deck_busy(const struct deck *deck)
{
    return runs(deck, KELTER_PLAYBACK) || runs(deck, KELTER_CAPTURE) || deck->segment_count > 0;
}

/* Acquire: the samples below the position are in `pending` once the position is seen. */
static int64_t handed_over(const struct deck *deck)
{
    uint64_t written =
        atomic_load_explicit(&deck->card->streams[KELTER_PLAYBACK].written, memory_order_acquire);
    return (int64_t)(written - deck->sides[KELTER_PLAYBACK].origin);
}

static int64_t min_frame(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_frame(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Silence on [from, to). The ring's first lap is still the sparse file's own zeros. */
static void erase(struct deck *deck, int64_t from, int64_t to)
{
    int64_t size = deck->card->tape_frames;
    from = max_frame(from, to - size);
    from = max_frame(from, size);
    while (from < to) {
        int64_t at = from & (size - 1);
        int64_t count = min_frame(to - from, size - at);
        memset(deck->tape + at, 0, (size_t)count * sizeof *deck->tape);
        from += count;
    }
}

static void copy_segment(struct deck *deck, const struct deck_segment *segment, int64_t from, int64_t to)
{
    int64_t size = deck->card->tape_frames;
    from = max_frame(max_frame(from, to - size), segment->first);
    to = min_frame(to, segment->first + segment->count);
    for (int64_t frame = from; frame < to; frame++) {
        uint64_t position = segment->position + (uint64_t)(frame - segment->first);
        int16_t sample = deck->card->pending[position % KELTER_PENDING_FRAMES];
        deck->tape[frame & (size - 1)] = KELTER_DRIVEN | (uint16_t)sample;
    }
}

static void write_tape(struct deck *deck, int64_t until)
{
    int64_t from = atomic_load_explicit(&deck->card->committed, memory_order_relaxed);
    if (until <= from)
        return;
    erase(deck, from, until);
    for (int i = 0; i < deck->segment_count; i++)
        copy_segment(deck, &deck->segments[i], from, until);
    atomic_store_explicit(&deck->card->committed, until, memory_order_release);
}

/* Forgets segments that have come out to their end; the running stream's is not at its end. */
static void retire_segments(struct deck *deck, int64_t until)
{
    int closed = deck->segment_count - (runs(deck, KELTER_PLAYBACK) ? 1 : 0);
    int done = 0;
    while (done < closed && deck->segments[done].first + deck->segments[done].count <= until)
        done++;
    deck->segment_count -= done;
    memmove(deck->segments, deck->segments + done, (size_t)deck->segment_count * sizeof *deck->segments);
}

/* Ends the running playback stream; `sounding` of what it handed over will have sounded. */
static void close_segment(struct deck *deck, enum kelter_event_kind why, int64_t sounding, int64_t now)
{
    struct deck_segment *segment = &deck->segments[deck->segment_count - 1];
    struct kelter_event event = event_of(deck, why, KELTER_PLAYBACK, now);
    event.handed = handed_over(deck);
    segment->count = min_frame(max_frame(sounding, 0), event.handed);
    event.voided = event.handed - segment->count;
    event.frame = segment->first + segment->count;
    deck_set_state(deck, KELTER_PLAYBACK, why == KELTER_EV_XRUN ? KELTER_XRUN : KELTER_SETUP);
    append_event(deck, event);
}

static int64_t playback_pointer(const struct deck *deck, int64_t frame)
{
    return frame - atomic_load_explicit(&deck->card->streams[KELTER_PLAYBACK].start, memory_order_relaxed);
}

/* The pointer has caught up with the application: like the interrupt of a real card, this does not
 * wait for the application to look. What was handed over later never sounds. */
static void follow_playback(struct deck *deck, int64_t frame, int64_t now)
{
    struct deck_segment *segment = &deck->segments[deck->segment_count - 1];
    segment->count = handed_over(deck);
    if (playback_pointer(deck, frame) < segment->count)
        return;
    bool drained = deck_state(deck, KELTER_PLAYBACK) == KELTER_DRAINING;
    close_segment(deck, drained ? KELTER_EV_DRAINED : KELTER_EV_XRUN, segment->count, now);
}

void deck_commit(struct deck *deck, int64_t now)
{
    int64_t frame = kelter_frame_at(deck->card, now);
    if (runs(deck, KELTER_PLAYBACK))
        follow_playback(deck, frame, now);
    write_tape(deck, frame);
    retire_segments(deck, frame);
}

int deck_start(struct deck *deck, enum kelter_direction direction, uint64_t origin, int64_t now)
{
    deck_commit(deck, now);
    if (direction == KELTER_PLAYBACK && deck->segment_count == DECK_SEGMENTS)
        return ENOSPC;
    struct kelter_event event = event_of(deck, KELTER_EV_START, direction, now);
    atomic_store_explicit(&deck->card->streams[direction].start, event.frame, memory_order_relaxed);
    deck->sides[direction].origin = origin;
    if (direction == KELTER_PLAYBACK) {
        event.handed = handed_over(deck);
        event.frame += deck->latency;
        deck->segments[deck->segment_count++] =
            (struct deck_segment){.first = event.frame, .count = event.handed, .position = origin};
    }
    deck_set_state(deck, direction, KELTER_RUNNING); /* release: publishes `start` */
    append_event(deck, event);
    return 0;
}

void deck_end(struct deck *deck, enum kelter_direction direction, enum kelter_event_kind why, int64_t now)
{
    deck_commit(deck, now);
    if (!runs(deck, direction))
        return;
    if (direction == KELTER_PLAYBACK) {
        close_segment(deck, why, playback_pointer(deck, kelter_frame_at(deck->card, now)), now);
        return;
    }
    struct kelter_event event = event_of(deck, why, direction, now);
    event.handed =
        (int64_t)atomic_load_explicit(&deck->card->streams[direction].written, memory_order_relaxed);
    deck_set_state(deck, direction, why == KELTER_EV_XRUN ? KELTER_XRUN : KELTER_SETUP);
    append_event(deck, event);
}

/* Nothing comes out of a card that has no power: the hidden latency is lost too. */
void deck_unplug(struct deck *deck, int64_t now)
{
    deck_commit(deck, now);
    int64_t frame = kelter_frame_at(deck->card, now);
    if (runs(deck, KELTER_PLAYBACK))
        close_segment(deck, KELTER_EV_UNPLUG, frame - deck->segments[deck->segment_count - 1].first, now);
    else
        deck_log(deck, KELTER_EV_UNPLUG, KELTER_CARD, now);
    deck->segment_count = 0;
}

static uint64_t clock_step(uint32_t rate, int64_t scale)
{
    kelter_u128 step = ((kelter_u128)(uint64_t)scale * rate) << 32;
    return (uint64_t)((step + 500000000u) / 1000000000u);
}

int deck_set_clock(struct deck *deck, uint32_t rate, int64_t scale, int64_t now)
{
    struct kelter_card *card = deck->card;
    uint64_t count = atomic_load_explicit(&card->clock_count, memory_order_relaxed);
    if (count == KELTER_CLOCK_PIECES)
        return ENOSPC;
    struct kelter_clock_piece piece = {.mono_ns = now, .step = clock_step(rate, scale), .rate = rate};
    if (count > 0)
        piece.frame = kelter_frame_in(&card->clock[count - 1], now, &piece.fraction);
    card->clock[count] = piece;
    atomic_store_explicit(&card->clock_count, count + 1, memory_order_release);
    deck->scale = scale;
    deck_log(deck, KELTER_EV_CLOCK, KELTER_CARD, now);
    return 0;
}

void deck_init(struct deck *deck, struct kelter_card *card, int32_t *tape, int64_t scale)
{
    *deck = (struct deck){.card = card, .tape = tape};
    deck_set_clock(deck, card->rates[0], scale, kelter_mono_ns());
}
