/* Who holds the card, and how it is set up, in the shape of /proc/asound: status and hw_params in
 * asound/card0/pcm0[pc]/sub0. */
#ifndef KELTER_STATUS_H
#define KELTER_STATUS_H

#include "vcard.h"

#include <sys/types.h>

/* Replaces the file as a whole; the directory is made by control. Errors are ignored: the card works
 * without anyone watching. */
void status_write(enum kelter_direction direction, pid_t pid, enum kelter_state state);

/* The same, frames; with a rate of 0 it is closed. */
void status_write_setup(enum kelter_direction direction, uint32_t rate, uint32_t period, uint32_t buffer);

#endif
