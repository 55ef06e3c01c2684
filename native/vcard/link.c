#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static void *map_file(int directory, const char *name, size_t size, int protection)
{
    int fd = openat(directory, name, (protection & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *map = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* Through the open directory: a socket's path is limited to 107 bytes, a directory's is not. */
static int connect_keeper(int directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = 2};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", directory);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static int attach(struct kelter_link *link, int directory)
{
    link->socket = connect_keeper(directory);
    link->card = map_file(directory, "card", sizeof *link->card, PROT_READ | PROT_WRITE);
    if (link->socket < 0 || !link->card)
        return -ENODEV;
    if (link->card->magic != KELTER_MAGIC || link->card->version != KELTER_VERSION)
        return -EPROTO;
    link->tape = map_file(directory, "tape", link->card->tape_frames * sizeof *link->tape, PROT_READ);
    return link->tape ? 0 : -ENODEV;
}

int link_open(struct kelter_link *link, const char *directory)
{
    *link = (struct kelter_link){.socket = -1};
    int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -ENODEV;
    int error = attach(link, fd);
    close(fd);
    if (error)
        link_close(link);
    return error;
}

void link_close(struct kelter_link *link)
{
    if (link->tape)
        munmap((void *)(uintptr_t)link->tape, link->card->tape_frames * sizeof *link->tape);
    if (link->card)
        munmap(link->card, sizeof *link->card);
    if (link->socket >= 0)
        close(link->socket);
    *link = (struct kelter_link){.socket = -1};
}

int link_request(struct kelter_link *link, const struct kelter_request *request, struct kelter_reply *reply)
{
    struct kelter_reply answer;
    if (send(link->socket, request, sizeof *request, MSG_NOSIGNAL) != (ssize_t)sizeof *request)
        return -ENODEV;
    ssize_t got;
    do
        got = recv(link->socket, &answer, sizeof answer, 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof answer)
        return -ENODEV;
    if (reply)
        *reply = answer;
    return -answer.error;
}
