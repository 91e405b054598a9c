/* A server that strangers cannot keep from serving: `endure PORT`.
 *
 * A connection that sends a line with a number gets so many bytes of the pattern, as fast as it
 * takes them, and is then closed. No connection is waited for. If there are as many as it serves,
 * the one that was idle for longest makes room for the next. */
#include "sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Connections at a time. */
enum { MOST = 100, LINE = 12 };

struct one {
    char line[LINE];
    uint32_t length, at, end;
    /* When it was last active. */
    uint64_t used;
};

static struct pollfd fds[MOST + 1];
static struct one all[MOST + 1];
static int count = 1;
static uint64_t now;

static void drop(int at)
{
    close(fds[at].fd);
    count--;
    fds[at] = fds[count];
    all[at] = all[count];
}

/* Reads the line. Returns whether the connection goes on. */
static int reads(int at)
{
    struct one *it = &all[at];
    ssize_t some = recv(fds[at].fd, it->line + it->length, LINE - 1 - it->length, 0);
    if (some < 0)
        return errno == EAGAIN;
    it->length += (uint32_t)some;
    if (some == 0 || (it->length == LINE - 1 && !memchr(it->line, '\n', it->length)))
        return 0;
    if (memchr(it->line, '\n', it->length)) {
        it->end = (uint32_t)atoi(it->line);
        fds[at].events = POLLOUT;
    }
    return 1;
}

/* Sends some of the pattern. Returns whether the connection goes on. */
static int sends(int at)
{
    struct one *it = &all[at];
    uint8_t data[2048];
    uint32_t piece = it->end - it->at < sizeof data ? it->end - it->at : sizeof data;
    for (uint32_t byte = 0; byte < piece; byte++)
        data[byte] = pattern(it->at + byte);
    ssize_t some = send(fds[at].fd, data, piece, MSG_NOSIGNAL);
    if (some < 0)
        return errno == EAGAIN;
    it->at += (uint32_t)some;
    return it->at < it->end;
}

static void accept_one(void)
{
    int fd = accept(fds[0].fd, NULL, NULL);
    if (fd < 0)
        return;
    if (count > MOST) {
        int oldest = 1;
        for (int at = 2; at < count; at++)
            if (all[at].used < all[oldest].used)
                oldest = at;
        drop(oldest);
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fds[count] = (struct pollfd){.fd = fd, .events = POLLIN};
    all[count] = (struct one){.used = now};
    count++;
}

_Noreturn void endure(uint16_t port)
{
    fds[0] = (struct pollfd){.fd = listener_at(port, 64), .events = POLLIN};
    for (;; now++) {
        CHECK(poll(fds, (nfds_t)count, -1) > 0);
        for (int at = count - 1; at > 0; at--) {
            if (!fds[at].revents)
                continue;
            all[at].used = now;
            if (!(all[at].end ? sends(at) : reads(at)))
                drop(at);
        }
        if (fds[0].revents & POLLIN)
            accept_one();
    }
}
