#include "timeouts.h"

#include <errno.h>
#include <limits.h>
#include <penumbra_sockets.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <wasi/api.h>

/* Descriptors with lower numbers can have limits. */
enum { DESCRIPTORS = 1024 };
enum direction { RECEIVES, SENDS };

/* In ms; 0: none. */
static _Atomic int limits[2][DESCRIPTORS];
_Atomic int timeouts_exist;

static int is_known(int fd)
{
    return fd >= 0 && fd < DESCRIPTORS;
}

void timeouts_begin(int fd)
{
    if (is_known(fd))
        limits[RECEIVES][fd] = limits[SENDS][fd] = 0;
}

void timeouts_copy(int from, int to)
{
    for (int way = RECEIVES; way <= SENDS; way++)
        if (is_known(to))
            limits[way][to] = is_known(from) ? limits[way][from] : 0;
}

/* Finds the limit that an option is about. Returns as timeouts_set. */
static int find(int fd, int level, int name, _Atomic int **limit)
{
    struct penumbra_address own;
    if (level != SOL_SOCKET || (name != SO_RCVTIMEO && name != SO_SNDTIMEO))
        return -1;
    int error = penumbra_local_address((uint32_t)fd, &own);
    if (error)
        return error;
    if (!is_known(fd))
        return ENOBUFS;
    *limit = &limits[name == SO_RCVTIMEO ? RECEIVES : SENDS][fd];
    return 0;
}

int timeouts_set(int fd, int level, int name, const void *value, socklen_t bytes)
{
    _Atomic int *limit;
    struct timeval time;
    int error = find(fd, level, name, &limit);
    if (error)
        return error;
    if (bytes < sizeof time)
        return EINVAL;
    memcpy(&time, value, sizeof time);
    if (time.tv_sec < 0 || time.tv_usec < 0 || time.tv_usec >= 1000000)
        return EDOM;
    timeouts_exist = 1;
    /* Rounded up: a limit of less than a millisecond is one. */
    int is_long = time.tv_sec >= INT_MAX / 1000;
    *limit = is_long ? INT_MAX : (int)(time.tv_sec * 1000 + (time.tv_usec + 999) / 1000);
    return 0;
}

int timeouts_get(int fd, int level, int name, void *value, socklen_t *bytes)
{
    _Atomic int *limit;
    int error = find(fd, level, name, &limit);
    if (error)
        return error;
    struct timeval time = {*limit / 1000, *limit % 1000 * 1000};
    if (*bytes < sizeof time)
        return EINVAL;
    memcpy(value, &time, sizeof time);
    *bytes = sizeof time;
    return 0;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int is_nonblocking(int fd)
{
    __wasi_fdstat_t stat;
    return __wasi_fd_fdstat_get((__wasi_fd_t)fd, &stat) != 0 ||
           stat.fs_flags & __WASI_FDFLAGS_NONBLOCK;
}

struct timeout timeouts_of(int fd, short events, int must_not_wait)
{
    struct timeout limit = {.fd = fd, .events = events};
    if (must_not_wait || !is_known(fd))
        return limit;
    int ms = limits[events == POLLIN ? RECEIVES : SENDS][fd];
    if (ms != 0 && !is_nonblocking(fd))
        limit.until = now() + ms;
    return limit;
}

int timeouts_wait(struct timeout *limit)
{
    if (limit->until <= 0)
        return 0;
    int64_t left = limit->until - now();
    struct pollfd one = {.fd = limit->fd, .events = limit->events};
    if (left <= 0 || poll(&one, 1, (int)left) <= 0)
        limit->until = -1;
    return 1;
}
