/* What wasi-libc's header leaves out. */
#ifndef PENUMBRA_POLL_H
#define PENUMBRA_POLL_H

#include_next <poll.h>

/* Nothing urgent ever comes. */
#ifndef POLLPRI
#define POLLPRI 0x4
#endif

#endif
