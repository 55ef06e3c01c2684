#include "status.h"

#include <stdio.h>

static const char *const STATES[] = {
    [KELTER_OPEN] = "OPEN",       [KELTER_SETUP] = "SETUP",       [KELTER_PREPARED] = "PREPARED",
    [KELTER_RUNNING] = "RUNNING", [KELTER_DRAINING] = "DRAINING", [KELTER_XRUN] = "XRUN",
};

static void replace(enum kelter_direction direction, const char *name, const char *text)
{
    const char *directory =
        direction == KELTER_PLAYBACK ? "asound/card0/pcm0p/sub0" : "asound/card0/pcm0c/sub0";
    char fresh[64], path[64];
    snprintf(fresh, sizeof fresh, "%s/.%s", directory, name);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(fresh, "we");
    if (!file)
        return;
    fputs(text, file);
    fclose(file);
    rename(fresh, path);
}

void status_write(enum kelter_direction direction, pid_t pid, enum kelter_state state)
{
    char text[64] = "closed\n";
    if (state != KELTER_CLOSED)
        snprintf(text, sizeof text, "state: %s\nowner_pid   : %d\n", STATES[state], (int)pid);
    replace(direction, "status", text);
}

void status_write_setup(enum kelter_direction direction, uint32_t rate, uint32_t period, uint32_t buffer)
{
    char text[96] = "closed\n";
    if (rate != 0)
        snprintf(text, sizeof text, "rate: %u (%u/1)\nperiod_size: %u\nbuffer_size: %u\n", rate, rate,
                 period, buffer);
    replace(direction, "hw_params", text);
}
