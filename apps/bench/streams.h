/* Streams over loopback in one thread, the same for every system (net.c, lab/linux/tcp.c). What
 * returns a text returns a null pointer, or what failed, with the reason in errno. */
#ifndef STREAMS_H
#define STREAMS_H

#include <stddef.h>

enum { STREAM_PIECE = 64 << 10 };

/* Returns a listener at a free port of loopback, or -1. */
int stream_listener(void);

/* A connection to the listener: `ends` are the client's socket and the server's. */
const char *stream_connect(int listener, int ends[2]);

/* Connects, then closes both ends, the client's first. */
const char *stream_connect_close(int listener);

/* Writes STREAM_PIECE bytes to one end, as many at a time as there is room for, and reads them from
 * the other. */
const char *stream_pass(const int ends[2]);

#endif
