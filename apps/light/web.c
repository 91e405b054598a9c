#include "web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 512, BACKLOG = 16 };

int web_listen(uint16_t port)
{
    struct sockaddr_in at;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    close(fd);
    return -1;
}

static int write_all(int fd, const char *from, size_t bytes)
{
    while (bytes) {
        ssize_t written = write(fd, from, bytes);
        if (written <= 0)
            return -1;
        from += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* Reads a request up to its blank line. Returns how many bytes it wants, or -1. */
static long wanted(int fd)
{
    char request[ROOM];
    size_t used = 0;
    do {
        ssize_t some = read(fd, request + used, sizeof request - 1 - used);
        if (some <= 0)
            return -1;
        used += (size_t)some;
        request[used] = 0;
    } while (!strstr(request, "\r\n\r\n") && used < sizeof request - 1);
    if (strncmp(request, "GET /", 5) != 0)
        return -1;
    return strtol(request + 5, NULL, 10);
}

/* Sends header and body by one call, so that a small answer is one packet. */
static const char *answer(int fd, size_t bytes)
{
    static char page[ROOM + WEB_MOST];
    int header = snprintf(page, ROOM, "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n", bytes);
    for (uint32_t at = 0; at < bytes; at++)
        page[(size_t)header + at] = (char)(at * 2654435761u >> 24);
    return write_all(fd, page, (size_t)header + bytes) < 0 ? "answer" : NULL;
}

const char *web_answer(int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return "accept";
    long bytes = wanted(fd);
    int is_good = bytes >= 0 && bytes <= WEB_MOST;
    /* A client that is gone, or asks for something else, is no failure of the server. */
    const char *failed = is_good ? answer(fd, (size_t)bytes) : NULL;
    close(fd);
    return failed;
}

const char *web_request(int listener, uint16_t port, size_t bytes)
{
    static char page[ROOM + WEB_MOST];
    struct sockaddr_in to;
    size_t used = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return "connect";
    int length = snprintf(page, ROOM, "GET /%zu HTTP/1.0\r\nHost: chip\r\n\r\n", bytes);
    if (write_all(fd, page, (size_t)length) < 0)
        return "request";
    const char *failed = web_answer(listener);
    for (ssize_t some = 1; !failed && some > 0 && used < sizeof page - 1; used += (size_t)some)
        if ((some = read(fd, page + used, sizeof page - 1 - used)) < 0)
            failed = "receive";
    page[used] = 0;
    close(fd);
    const char *body = strstr(page, "\r\n\r\n");
    if (!failed && (!body || used - (size_t)(body + 4 - page) != bytes)) {
        errno = EBADMSG;
        failed = "the whole answer";
    }
    return failed;
}
