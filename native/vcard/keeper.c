/* kelter-vcard-keeper DIRECTORY TAPE_FRAMES SCALE RATE...
 *
 * The hardware of the virtual card: one thread, woken by requests, by the death of a stream's owner,
 * and every millisecond while something sounds. Says "ready" on standard output once the socket
 * listens. Ends when standard input closes or the process that started it is gone. */
#define _GNU_SOURCE
#include "clock.h"
#include "desk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { TICK_NS = 1000000, MAX_CLIENTS = 64, FIXED_FDS = 3 };

static struct desk_client clients[MAX_CLIENTS];
static int client_count;

static int pidfd_of(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void *map_file(const char *name, size_t size)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    void *map = ftruncate(fd, (off_t)size) == 0
                    ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static struct kelter_card *make_card(uint32_t tape_frames, int rate_count, char **rates)
{
    struct kelter_card *card = map_file("card", sizeof *card);
    if (!card)
        return NULL;
    card->magic = KELTER_MAGIC;
    card->version = KELTER_VERSION;
    card->tape_frames = tape_frames;
    card->committed_offset = offsetof(struct kelter_card, committed);
    card->clock_offset = offsetof(struct kelter_card, clock_count);
    card->event_offset = offsetof(struct kelter_card, event_count);
    card->arena_offset = offsetof(struct kelter_card, arena);
    card->rate_count = (uint32_t)rate_count;
    for (int i = 0; i < rate_count; i++)
        card->rates[i] = (uint32_t)strtoul(rates[i], NULL, 10);
    return card;
}

static int listen_here(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(address.sun_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16) < 0)
        return -1;
    return fd;
}

static void accept_client(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (client_count == MAX_CLIENTS || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        close(fd);
        return;
    }
    clients[client_count++] =
        (struct desk_client){.fd = fd, .pid = peer.pid, .pidfd = pidfd_of(peer.pid), .direction = KELTER_CARD};
}

/* Answers every request that has arrived; false once the peer has hung up. */
static bool serve(struct desk *desk, struct desk_client *client)
{
    struct kelter_request request;
    for (;;) {
        ssize_t got = recv(client->fd, &request, sizeof request, 0);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR;
        if (got != (ssize_t)sizeof request)
            return false;
        struct kelter_reply reply = desk_handle(desk, client, &request, kelter_mono_ns());
        if (send(client->fd, &reply, sizeof reply, MSG_NOSIGNAL) < 0)
            return false;
    }
}

static void drop_client(struct desk *desk, int index)
{
    desk_lost(desk, &clients[index], kelter_mono_ns());
    close(clients[index].fd);
    if (clients[index].pidfd >= 0)
        close(clients[index].pidfd);
    clients[index] = clients[--client_count];
}

/* A forked child may hold the socket open, so the owner's own end counts as well as the hang-up. */
static void serve_clients(struct desk *desk, const struct pollfd *fds)
{
    for (int i = client_count - 1; i >= 0; i--) {
        bool dead = fds[2 * i + 1].revents != 0;
        if (fds[2 * i].revents && !serve(desk, &clients[i]))
            dead = true;
        if (dead)
            drop_client(desk, i);
    }
}

static nfds_t fill_poll(struct pollfd *fds, int parent, int listener)
{
    fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = parent, .events = POLLIN};
    fds[2] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 0; i < client_count; i++) {
        fds[FIXED_FDS + 2 * i] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
        fds[FIXED_FDS + 2 * i + 1] = (struct pollfd){.fd = clients[i].pidfd, .events = POLLIN};
    }
    return (nfds_t)(FIXED_FDS + 2 * client_count);
}

static int run(struct desk *desk, int parent, int listener)
{
    struct pollfd fds[FIXED_FDS + 2 * MAX_CLIENTS];
    const struct timespec tick = {.tv_nsec = TICK_NS};
    for (;;) {
        nfds_t count = fill_poll(fds, parent, listener);
        if (ppoll(fds, count, deck_busy(&desk->deck) ? &tick : NULL, NULL) < 0 && errno != EINTR)
            return EXIT_FAILURE;
        deck_commit(&desk->deck, kelter_mono_ns());
        if (fds[0].revents || fds[1].revents)
            return EXIT_SUCCESS;
        serve_clients(desk, fds + FIXED_FDS);
        if (fds[2].revents)
            accept_client(listener);
    }
}

/* Only a matter of lateness: without the right to it the tape is filled late, never wrongly. */
static void ask_for_punctuality(void)
{
    struct sched_param priority = {.sched_priority = 2};
    sched_setscheduler(0, SCHED_FIFO, &priority);
    prctl(PR_SET_TIMERSLACK, 1ul);
}

static int fail(const char *what)
{
    fprintf(stderr, "kelter-vcard-keeper: %s: %s\n", what, strerror(errno));
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc - 4 > KELTER_MAX_RATES) {
        fprintf(stderr, "usage: %s DIRECTORY TAPE_FRAMES SCALE RATE...\n", argv[0]);
        return EXIT_FAILURE;
    }
    uint32_t tape_frames = (uint32_t)strtoul(argv[2], NULL, 10);
    if (tape_frames == 0 || (tape_frames & (tape_frames - 1)) != 0) {
        fprintf(stderr, "%s: tape of %s frames: must be a power of two\n", argv[0], argv[2]);
        return EXIT_FAILURE;
    }
    int parent = pidfd_of(getppid());
    if (chdir(argv[1]) < 0)
        return fail(argv[1]);
    int32_t *tape = map_file("tape", (size_t)tape_frames * sizeof *tape);
    struct kelter_card *card = make_card(tape_frames, argc - 4, argv + 4);
    int listener = listen_here();
    if (!tape || !card || listener < 0)
        return fail("cannot set up the card");
    static struct desk desk;
    desk_init(&desk, card, tape, strtoll(argv[3], NULL, 10));
    ask_for_punctuality();
    signal(SIGPIPE, SIG_IGN);
    puts("ready");
    fflush(stdout);
    int status = run(&desk, parent, listener);
    /* The large files go even if the one who made the directory was killed. */
    unlink("socket");
    unlink("tape");
    unlink("card");
    return status;
}
