/* Time limits of sockets: SO_RCVTIMEO and SO_SNDTIMEO. The system has none. So a call of a descriptor
 * with a limit is tried without waiting, and waits by poll in between. */
#ifndef TIMEOUTS_H
#define TIMEOUTS_H

#include <stdint.h>
#include <sys/socket.h>

/* The limit of one call. */
struct timeout {
    int fd;
    short events;
    /* When it is over, in ms of the monotonic clock; 0: there is none, negative: it is over. */
    int64_t until;
};

/* A new socket has no limits; a duplicate has those of its original. */
void timeouts_begin(int fd);
void timeouts_copy(int from, int to);

/* For setsockopt and getsockopt: an error number, 0 for success, or -1 for any other option. */
int timeouts_set(int fd, int level, int name, const void *value, socklen_t bytes);
int timeouts_get(int fd, int level, int name, void *value, socklen_t *bytes);

/* Whether any descriptor has had a limit. */
extern _Atomic int timeouts_exist;

struct timeout timeouts_of(int fd, short events, int must_not_wait);

/* The limit of a call that waits for `events`. A call that does not wait in any case has none. */
static inline struct timeout timeouts_start(int fd, short events, int must_not_wait)
{
    return timeouts_exist ? timeouts_of(fd, events, must_not_wait) : (struct timeout){0};
}

/* Waits for the events, within the limit. Returns whether to try the call (again): after the limit
 * once more, then not. Without a limit, 0. */
int timeouts_wait(struct timeout *limit);

#endif
