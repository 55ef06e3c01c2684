/* Who holds the card, in the shape of /proc/asound: asound/card0/pcm0[pc]/sub0/status. */
#ifndef KELTER_STATUS_H
#define KELTER_STATUS_H

#include "vcard.h"

#include <sys/types.h>

/* Replaces the file as a whole; the directory is made by control. Errors are ignored: the card works
 * without anyone watching. */
void status_write(enum kelter_direction direction, pid_t pid, enum kelter_state state);

#endif
