#include "streams.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int stream_listener(void)
{
    struct sockaddr_in at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0)
        return fd;
    close(fd);
    return -1;
}

const char *stream_connect(int listener, int ends[2])
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    if (getsockname(listener, (struct sockaddr *)&at, &bytes) != 0)
        return "getsockname";
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (ends[0] < 0)
        return "socket";
    if (connect(ends[0], (struct sockaddr *)&at, bytes) == 0) {
        ends[1] = accept(listener, NULL, NULL);
        if (ends[1] >= 0)
            return NULL;
    }
    close(ends[0]);
    return "connect";
}

const char *stream_connect_close(int listener)
{
    int ends[2];
    const char *failed = stream_connect(listener, ends);
    if (!failed && (close(ends[0]) != 0 || close(ends[1]) != 0))
        failed = "close";
    return failed;
}

const char *stream_pass(const int ends[2])
{
    static char data[STREAM_PIECE];
    size_t sent = 0, received = 0;
    while (received < sizeof data) {
        if (sent < sizeof data) {
            ssize_t some = send(ends[0], data + sent, sizeof data - sent, MSG_DONTWAIT);
            if (some < 0 && errno != EAGAIN)
                return "send";
            sent += some < 0 ? 0 : (size_t)some;
            /* What was sent before is not acknowledged yet. */
            if (some < 0 && received == sent) {
                struct pollfd one = {.fd = ends[0], .events = POLLOUT};
                if (poll(&one, 1, -1) < 0)
                    return "poll";
                continue;
            }
        }
        ssize_t some = recv(ends[1], data, sizeof data - received, 0);
        if (some <= 0)
            return "recv";
        received += (size_t)some;
    }
    return NULL;
}
