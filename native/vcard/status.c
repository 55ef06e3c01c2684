#include "status.h"

#include <stdio.h>

static const char *const STATES[] = {
    [KELTER_OPEN] = "OPEN",       [KELTER_SETUP] = "SETUP",       [KELTER_PREPARED] = "PREPARED",
    [KELTER_RUNNING] = "RUNNING", [KELTER_DRAINING] = "DRAINING", [KELTER_XRUN] = "XRUN",
};

void status_write(enum kelter_direction direction, pid_t pid, enum kelter_state state)
{
    const char *directory =
        direction == KELTER_PLAYBACK ? "asound/card0/pcm0p/sub0" : "asound/card0/pcm0c/sub0";
    char fresh[64], path[64];
    snprintf(fresh, sizeof fresh, "%s/.status", directory);
    snprintf(path, sizeof path, "%s/status", directory);
    FILE *file = fopen(fresh, "we");
    if (!file)
        return;
    if (state == KELTER_CLOSED)
        fputs("closed\n", file);
    else
        fprintf(file, "state: %s\nowner_pid   : %d\n", STATES[state], (int)pid);
    fclose(file);
    rename(fresh, path);
}
