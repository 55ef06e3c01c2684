#include "desk.h"

#include "clock.h"
#include "status.h"

#include <errno.h>

enum { SOON_MS = 20, CLIP_LINGER_S = 4 };

/* --- requests of a stream ------------------------------------------------------------------- */

static void show_state(struct desk *desk, enum kelter_direction direction)
{
    status_write(direction, desk->deck.sides[direction].pid, deck_state(&desk->deck, direction));
}

static void show_closed(enum kelter_direction direction)
{
    status_write(direction, 0, KELTER_CLOSED);
    status_write_setup(direction, 0, 0, 0);
}

static int open_stream(struct desk *desk, struct desk_client *client, uint32_t direction,
                       struct kelter_reply *reply, int64_t now)
{
    if (direction > KELTER_CAPTURE || client->direction != KELTER_CARD)
        return EINVAL;
    if (desk->unplugged)
        return ENODEV;
    if (desk->refusal[direction])
        return desk->refusal[direction];
    struct deck_side *side = &desk->deck.sides[direction];
    if (side->pid)
        return EBUSY;
    struct kelter_card *card = desk->deck.card;
    *side = (struct deck_side){.pid = client->pid};
    client->direction = (enum kelter_direction)direction;
    client->generation = atomic_load_explicit(&card->generation, memory_order_relaxed);
    reply->values[0] = (int64_t)client->generation;
    reply->values[1] =
        (int64_t)atomic_load_explicit(&card->streams[direction].written, memory_order_relaxed);
    deck_set_state(&desk->deck, client->direction, KELTER_OPEN);
    deck_log(&desk->deck, KELTER_EV_OPEN, client->direction, now);
    return 0;
}

static bool offers(const struct kelter_card *card, uint32_t rate)
{
    for (uint32_t i = 0; i < card->rate_count; i++)
        if (card->rates[i] == rate)
            return true;
    return false;
}

/* Both directions run on one crystal: the second stream to be set up can't change the rate. */
static int configure(struct desk *desk, enum kelter_direction direction, const int64_t *args, int64_t now)
{
    struct deck *deck = &desk->deck;
    uint32_t rate = (uint32_t)args[0];
    const struct deck_side *other = &deck->sides[1 - direction];
    if (!offers(deck->card, rate))
        return EINVAL;
    if (other->pid && other->rate && other->rate != rate)
        return EBUSY;
    deck_end(deck, direction, KELTER_EV_STOP, now);
    int error = kelter_clock_now(deck->card)->rate == rate ? 0 : deck_set_clock(deck, rate, deck->scale, now);
    if (error)
        return error;
    struct deck_side *side = &deck->sides[direction];
    side->rate = rate;
    side->period = (uint32_t)args[1];
    side->buffer = (uint32_t)args[2];
    deck_set_state(deck, direction, KELTER_SETUP);
    status_write_setup(direction, side->rate, side->period, side->buffer);
    return 0;
}

static void close_stream(struct desk *desk, struct desk_client *client, enum kelter_event_kind why, int64_t now)
{
    enum kelter_direction direction = client->direction;
    struct deck *deck = &desk->deck;
    bool died = why == KELTER_EV_OWNER_DIED;
    uint64_t events = atomic_load_explicit(&deck->card->event_count, memory_order_relaxed);
    deck_end(deck, direction, died ? why : KELTER_EV_STOP, now);
    /* An owner that died while its stream was not running leaves a trace too. */
    if (!died || events == atomic_load_explicit(&deck->card->event_count, memory_order_relaxed))
        deck_log(deck, why, direction, now);
    deck_set_state(deck, direction, KELTER_CLOSED);
    deck->sides[direction].pid = 0;
    deck->sides[direction].rate = 0;
    client->direction = KELTER_CARD;
    show_closed(direction);
}

static int handle_stream(struct desk *desk, struct desk_client *client, const struct kelter_request *request,
                         int64_t now)
{
    struct deck *deck = &desk->deck;
    enum kelter_direction direction = client->direction;
    if (direction == KELTER_CARD)
        return EBADFD;
    int error = 0;
    switch (request->op) {
    case KELTER_OP_CONFIGURE:
        error = configure(desk, direction, request->args, now);
        break;
    case KELTER_OP_PREPARE:
        deck_end(deck, direction, KELTER_EV_STOP, now);
        deck_set_state(deck, direction, KELTER_PREPARED);
        break;
    case KELTER_OP_START:
        error = deck_start(deck, direction, (uint64_t)request->args[0], now);
        break;
    case KELTER_OP_DRAIN:
        deck_commit(deck, now);
        if (deck_state(deck, direction) == KELTER_RUNNING)
            deck_set_state(deck, direction, KELTER_DRAINING);
        break;
    case KELTER_OP_CHECK:
        if (direction == KELTER_CAPTURE)
            deck_end(deck, direction, KELTER_EV_XRUN, now);
        else
            deck_commit(deck, now);
        break;
    case KELTER_OP_STOP:
        deck_end(deck, direction, KELTER_EV_STOP, now);
        deck_set_state(deck, direction, KELTER_SETUP);
        break;
    case KELTER_OP_CLOSE:
        close_stream(desk, client, KELTER_EV_CLOSE, now);
        return 0;
    default:
        return EINVAL;
    }
    show_state(desk, direction);
    return error;
}

/* --- requests of control -------------------------------------------------------------------- */

static void unplug(struct desk *desk, int64_t now)
{
    struct deck *deck = &desk->deck;
    if (desk->unplugged)
        return;
    desk->unplugged = true;
    deck_unplug(deck, now);
    for (int direction = 0; direction < 2; direction++) {
        deck->sides[direction] = (struct deck_side){0};
        deck_set_state(deck, (enum kelter_direction)direction, KELTER_CLOSED);
        show_closed((enum kelter_direction)direction);
    }
    /* Release: whoever sees the new generation sees its stream closed. */
    atomic_fetch_add_explicit(&deck->card->generation, 1, memory_order_release);
}

static int plug(struct desk *desk, bool in, int64_t now)
{
    if (!in) {
        unplug(desk, now);
    } else if (desk->unplugged) {
        desk->unplugged = false;
        deck_log(&desk->deck, KELTER_EV_REPLUG, KELTER_CARD, now);
    }
    return 0;
}

/* Samples of a clip stay where they are until every capture stream has long read them. */
static bool clip_lingers(const struct desk *desk, uint64_t index, int64_t frame)
{
    const struct kelter_clip *clip = &desk->deck.card->clips[index % KELTER_CLIPS];
    int64_t linger = CLIP_LINGER_S * (int64_t)kelter_clock_now(desk->deck.card)->rate;
    return frame < clip->frame + clip->count + linger;
}

static int reserve(struct desk *desk, int64_t samples, struct kelter_reply *reply, int64_t now)
{
    const struct kelter_card *card = desk->deck.card;
    if (samples <= 0 || samples > KELTER_ARENA_FRAMES)
        return EINVAL;
    int64_t frame = kelter_frame_at(card, now);
    uint64_t head = desk->arena_head + (uint64_t)samples;
    uint64_t count = atomic_load_explicit(&card->clip_count, memory_order_relaxed);
    for (uint64_t i = count > KELTER_CLIPS ? count - KELTER_CLIPS : 0; i < count; i++)
        if (head - card->clips[i % KELTER_CLIPS].position > KELTER_ARENA_FRAMES && clip_lingers(desk, i, frame))
            return ENOSPC;
    reply->values[0] = (int64_t)desk->arena_head;
    desk->arena_head = head;
    return 0;
}

static int speak(struct desk *desk, const int64_t *args, struct kelter_reply *reply, int64_t now)
{
    struct kelter_card *card = desk->deck.card;
    int64_t frame = kelter_frame_at(card, now);
    int64_t at = args[2];
    if (at < 0)
        at = kelter_frame_at(card, now + SOON_MS * 1000000);
    else if (at < frame)
        return ETIME;
    uint64_t count = atomic_load_explicit(&card->clip_count, memory_order_relaxed);
    if (count >= KELTER_CLIPS && clip_lingers(desk, count - KELTER_CLIPS, frame))
        return ENOSPC;
    card->clips[count % KELTER_CLIPS] =
        (struct kelter_clip){.frame = at, .position = (uint64_t)args[0], .count = args[1]};
    atomic_store_explicit(&card->clip_count, count + 1, memory_order_release);
    if (at + args[1] > desk->mic_end)
        desk->mic_end = at + args[1];
    reply->values[0] = at;
    return 0;
}

static void sync_reply(struct desk *desk, struct kelter_reply *reply, int64_t now)
{
    const struct kelter_card *card = desk->deck.card;
    deck_commit(&desk->deck, now);
    reply->values[0] = atomic_load_explicit(&card->committed, memory_order_relaxed);
    reply->values[1] = (int64_t)atomic_load_explicit(&card->event_count, memory_order_relaxed);
    reply->values[2] = (int64_t)atomic_load_explicit(&card->event_lost, memory_order_relaxed);
    reply->values[3] = desk->mic_end;
}

static int inject(struct desk *desk, uint32_t direction, struct kelter_reply *reply, int64_t now)
{
    if (direction > KELTER_CAPTURE)
        return EINVAL;
    reply->values[0] = deck_state(&desk->deck, (enum kelter_direction)direction) == KELTER_RUNNING;
    deck_end(&desk->deck, (enum kelter_direction)direction, KELTER_EV_XRUN, now);
    return 0;
}

static int handle_control(struct desk *desk, const struct kelter_request *request, struct kelter_reply *reply,
                          int64_t now)
{
    struct kelter_card *card = desk->deck.card;
    const int64_t *args = request->args;
    switch (request->op) {
    case KELTER_OP_SYNC:
        sync_reply(desk, reply, now);
        return 0;
    case KELTER_OP_SCALE:
        deck_commit(&desk->deck, now);
        return deck_set_clock(&desk->deck, (uint32_t)kelter_clock_now(card)->rate, args[0], now);
    case KELTER_OP_LOOP:
        atomic_store_explicit(&card->loop_delay, args[1], memory_order_relaxed);
        atomic_store_explicit(&card->loop_gain, (int32_t)args[0], memory_order_relaxed);
        return 0;
    case KELTER_OP_LATENCY:
        if (args[0] < 0 || args[0] > KELTER_MAX_LATENCY)
            return EINVAL;
        desk->deck.latency = args[0];
        return 0;
    case KELTER_OP_QUANTUM:
        atomic_store_explicit(&card->quantum, args[0] != 0, memory_order_relaxed);
        return 0;
    case KELTER_OP_REFUSE:
        if (request->direction > KELTER_CAPTURE)
            return EINVAL;
        desk->refusal[request->direction] = (int)args[0];
        return 0;
    case KELTER_OP_INJECT:
        return inject(desk, request->direction, reply, now);
    case KELTER_OP_PLUG:
        return plug(desk, args[0] != 0, now);
    case KELTER_OP_RESERVE:
        return reserve(desk, args[0], reply, now);
    case KELTER_OP_SPEAK:
        return speak(desk, args, reply, now);
    default:
        return EINVAL;
    }
}

/* --- dispatch ------------------------------------------------------------------------------- */

/* An unplugged stream's owner still talks to a card that is gone; nothing it says has an effect. */
static bool dead(const struct desk *desk, const struct desk_client *client)
{
    return client->direction != KELTER_CARD &&
           client->generation != atomic_load_explicit(&desk->deck.card->generation, memory_order_relaxed);
}

struct kelter_reply desk_handle(struct desk *desk, struct desk_client *client,
                                const struct kelter_request *request, int64_t now)
{
    struct kelter_reply reply = {0};
    if (dead(desk, client))
        return reply;
    if (request->op == KELTER_OP_OPEN) {
        reply.error = open_stream(desk, client, request->direction, &reply, now);
        if (!reply.error)
            show_state(desk, client->direction);
    } else if (request->op < KELTER_OP_SYNC) {
        reply.error = handle_stream(desk, client, request, now);
    } else {
        reply.error = handle_control(desk, request, &reply, now);
    }
    return reply;
}

void desk_lost(struct desk *desk, struct desk_client *client, int64_t now)
{
    if (client->direction != KELTER_CARD && !dead(desk, client))
        close_stream(desk, client, KELTER_EV_OWNER_DIED, now);
}

void desk_init(struct desk *desk, struct kelter_card *card, int32_t *tape, int64_t scale)
{
    deck_init(&desk->deck, card, tape, scale);
    show_closed(KELTER_PLAYBACK);
    show_closed(KELTER_CAPTURE);
}
