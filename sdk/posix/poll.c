/* poll for any number of descriptors: wasi-libc's has its lists on the stack, where those for a
 * thousand descriptors have no room. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

/* Penumbra's event of a descriptor that is polled for nothing: its connection has ended. */
#define EVENT_HANGUP ((__wasi_eventtype_t)3)

/* Adds what `fd` waits for. */
static void subscribe(__wasi_subscription_t *to, size_t index, int fd, __wasi_eventtype_t type)
{
    memset(to, 0, sizeof *to);
    to->userdata = index;
    to->u.tag = type;
    /* The fields of both kinds of descriptors lie at the same place. */
    to->u.u.fd_read.file_descriptor = (__wasi_fd_t)fd;
}

static void apply(const __wasi_event_t *event, struct pollfd *to)
{
    bool reads = event->type == __WASI_EVENTTYPE_FD_READ;
    if (event->error == __WASI_ERRNO_BADF) {
        to->revents |= POLLNVAL;
    } else if (event->error == __WASI_ERRNO_PIPE) {
        to->revents |= POLLHUP;
    } else if (event->error) {
        to->revents |= POLLERR;
    } else {
        if (event->type != EVENT_HANGUP)
            to->revents |= to->events & (reads ? POLLIN : POLLOUT);
        if (event->fd_readwrite.flags & __WASI_EVENTRWFLAGS_FD_READWRITE_HANGUP)
            to->revents |= POLLHUP;
    }
}

__attribute__((weak)) int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    size_t most = 2 * (size_t)count + 1, used = 0, found;
    __wasi_subscription_t *wanted = malloc(most * sizeof *wanted);
    __wasi_event_t *events = malloc(most * sizeof *events);
    int ready = -1;
    if (!wanted || !events) {
        errno = ENOMEM;
        goto out;
    }
    for (nfds_t index = 0; index < count; index++) {
        fds[index].revents = 0;
        if (fds[index].fd < 0)
            continue;
        if (fds[index].events & POLLIN)
            subscribe(&wanted[used++], index, fds[index].fd, __WASI_EVENTTYPE_FD_READ);
        if (fds[index].events & POLLOUT)
            subscribe(&wanted[used++], index, fds[index].fd, __WASI_EVENTTYPE_FD_WRITE);
        if (!(fds[index].events & (POLLIN | POLLOUT)))
            subscribe(&wanted[used++], index, fds[index].fd, EVENT_HANGUP);
    }
    /* Without a descriptor, WASI wants a time. */
    if (timeout >= 0 || used == 0) {
        __wasi_subscription_t *clock = &wanted[used++];
        memset(clock, 0, sizeof *clock);
        clock->userdata = count;
        clock->u.tag = __WASI_EVENTTYPE_CLOCK;
        clock->u.u.clock.id = __WASI_CLOCKID_MONOTONIC;
        clock->u.u.clock.timeout = timeout < 0 ? UINT64_MAX : (uint64_t)timeout * 1000000;
    }
    __wasi_errno_t error = __wasi_poll_oneoff(wanted, events, used, &found);
    if (error) {
        errno = error;
        goto out;
    }
    for (size_t index = 0; index < found; index++)
        if (events[index].userdata < count)
            apply(&events[index], &fds[events[index].userdata]);
    ready = 0;
    for (nfds_t index = 0; index < count; index++)
        ready += fds[index].fd >= 0 && fds[index].revents != 0;
out:
    free(wanted);
    free(events);
    return ready;
}
