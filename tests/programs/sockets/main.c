/* Sockets as POSIX programs use them, for `./pen test sockets`. It is a program for Linux, too,
 * except for `many` (cc -DLINUX).
 *
 *   all                checks in one process
 *   many, full         a poll of 1,024 descriptors; as many sockets as there are
 *   echo PORT COUNT    answers so many connections, all at a time, with what they send
 *   echo6 PORT COUNT   the same with a listener of both families
 *   inherited 0 COUNT  the same at the listener of its manifest
 *   serve PORT         the same without end; listens again when the network service restarts
 *   endure PORT        sends bytes to any number of strangers (endure.c)
 *   client PORT BYTES [HOST]  sends a pattern to `echo`, and compares what comes back
 *   abandon PORT       connects and exits without closing
 *   hold PORT          accepts a connection and never answers
 *   victim PORT        connects to `hold`, and exits with 7 when the connection is reset
 *   udp PORT COUNT     answers so many datagrams
 *   ask PORT COUNT     sends datagrams to `udp`, and compares what comes back
 *   refused            tries what its manifest does not allow
 */
#include "sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

_Noreturn void wrong(const char *file, int line, const char *what)
{
    printf("%s:%d: %s is false; errno %d (%s)\n", file, line, what, errno, strerror(errno));
    fflush(stdout);
    exit(1);
}

struct sockaddr_in address(uint16_t port)
{
    struct sockaddr_in made;
    memset(&made, 0, sizeof made);
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    made.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return made;
}

int listener_at(uint16_t port, int backlog)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in own = address(port);
    own.sin_addr.s_addr = htonl(INADDR_ANY);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    CHECK(listen(fd, backlog) == 0);
    return fd;
}

int listener6_at(uint16_t port, int backlog)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    CHECK(listen(fd, backlog) == 0);
    return fd;
}

uint16_t port_of(int fd)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    CHECK(getsockname(fd, (struct sockaddr *)&own, &bytes) == 0);
    /* Both families have it at the same place. */
    return ntohs(((struct sockaddr_in *)&own)->sin_port);
}

int connect_to(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = address(port);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Connects as soon as something listens at a port of this chip. */
static int reach(uint16_t port)
{
    for (;;) {
        int fd = connect_to(port);
        if (fd >= 0)
            return fd;
        CHECK(errno == ECONNREFUSED);
        poll(NULL, 0, 10);
    }
}

uint8_t pattern(uint32_t at)
{
    return (uint8_t)((at * 2654435761u) >> 24);
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

/* Sends all of it. */
static void send_all(int fd, const uint8_t *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t some = send(fd, data + sent, bytes - sent, MSG_NOSIGNAL);
        CHECK(some > 0);
        sent += (size_t)some;
    }
}

/* Answers `count` connections, as many at a time as there are. */
static void echo(int listener, int count)
{
    enum { MOST = 64 };
    struct pollfd fds[MOST + 1] = {{.fd = listener, .events = POLLIN}};
    int used = 1, ended = 0, accepted = 0;
    uint8_t data[2048];
    say("listening");
    while (ended < count) {
        fds[0].events = accepted < count && used <= MOST ? POLLIN : 0;
        CHECK(poll(fds, (nfds_t)used, -1) > 0);
        for (int at = used - 1; at > 0; at--) {
            if (!fds[at].revents)
                continue;
            ssize_t some = recv(fds[at].fd, data, sizeof data, 0);
            if (some > 0) {
                send_all(fds[at].fd, data, (size_t)some);
                continue;
            }
            CHECK(some == 0);
            close(fds[at].fd);
            fds[at] = fds[--used];
            ended++;
        }
        if (fds[0].revents & POLLIN) {
            fds[used] = (struct pollfd){.fd = accept(fds[0].fd, NULL, NULL), .events = POLLIN};
            CHECK(fds[used].fd >= 0);
            used++;
            accepted++;
        }
    }
    say("all connections have ended");
}

/* Returns the listener that the program was started with. */
static int inherited(void)
{
    const char *count = getenv("LISTEN_FDS"), *first = getenv("LISTEN_FDS_FIRST");
    CHECK(count && strcmp(count, "1") == 0 && first);
    return atoi(first);
}

static int try_to_listen(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in own = address(port);
    own.sin_addr.s_addr = htonl(INADDR_ANY);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&own, sizeof own) == 0 && listen(fd, 64) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Answers connections, one after the other. After the death of another kernel the service may have
 * lost its state, and with it the listener. */
_Noreturn static void serve(uint16_t port)
{
    int listener = -1;
    uint8_t data[2048];
    for (;;) {
        if (listener < 0 && (listener = try_to_listen(port)) < 0) {
            poll(NULL, 0, 10);
            continue;
        }
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            close(listener);
            listener = -1;
            continue;
        }
        ssize_t some;
        while ((some = recv(fd, data, sizeof data, 0)) > 0)
            if (send(fd, data, (size_t)some, MSG_NOSIGNAL) != some)
                break;
        close(fd);
    }
}

static void client(uint16_t port, uint32_t bytes, const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    CHECK(getaddrinfo(host, service, &hints, &found) == 0);
    int fd;
    for (;;) {
        fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
        if (connect(fd, found->ai_addr, found->ai_addrlen) == 0)
            break;
        CHECK(errno == ECONNREFUSED && close(fd) == 0);
        poll(NULL, 0, 10);
    }
    freeaddrinfo(found);
    uint32_t sent = 0, received = 0;
    uint8_t data[3000];
    while (received < bytes) {
        uint32_t piece = bytes - sent < sizeof data ? bytes - sent : sizeof data;
        for (uint32_t at = 0; at < piece; at++)
            data[at] = pattern(sent + at);
        send_all(fd, data, piece);
        sent += piece;
        if (sent == bytes)
            CHECK(shutdown(fd, SHUT_WR) == 0);
        while (received < sent) {
            ssize_t some = recv(fd, data, sizeof data, 0);
            CHECK(some > 0);
            for (uint32_t at = 0; at < (uint32_t)some; at++)
                CHECK(data[at] == pattern(received + at));
            received += (uint32_t)some;
        }
    }
    CHECK(recv(fd, data, sizeof data, 0) == 0);
    printf("%u of %u bytes came back\n", received, bytes);
}

static void udp(uint16_t port, int count)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own = address(port), from;
    uint8_t data[2000];
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    /* The client waits until it can connect. */
    int listener = listener_at(port, 1);
    CHECK(close(accept(listener, NULL, NULL)) == 0 && close(listener) == 0);
    while (count-- > 0) {
        socklen_t bytes = sizeof from;
        ssize_t some = recvfrom(fd, data, sizeof data, 0, (struct sockaddr *)&from, &bytes);
        CHECK(some >= 0 && bytes == sizeof from);
        CHECK(sendto(fd, data, (size_t)some, 0, (struct sockaddr *)&from, bytes) == some);
    }
}

static void ask(uint16_t port, uint32_t count)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = address(port);
    uint8_t data[1472], back[1472];
    close(reach(port));
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    for (uint32_t number = 0; number < count; number++) {
        size_t bytes = number * 97 % (sizeof data + 1);
        for (uint32_t at = 0; at < bytes; at++)
            data[at] = pattern(at + number);
        CHECK(send(fd, data, bytes, 0) == (ssize_t)bytes);
        CHECK(recv(fd, back, sizeof back, 0) == (ssize_t)bytes);
        CHECK(memcmp(data, back, bytes) == 0);
    }
    printf("%u of %u datagrams came back\n", count, count);
}

static void hold(uint16_t port)
{
    int fd = listener_at(port, 4);
    say("listening");
    CHECK(accept(fd, NULL, NULL) >= 0);
    say("accepted");
    poll(NULL, 0, -1);
}

/* At PORT + 1 it can be seen that it is connected. */
static void victim(uint16_t port)
{
    int fd = reach(port), seen = listener_at((uint16_t)(port + 1), 1);
    char byte;
    CHECK(accept(seen, NULL, NULL) >= 0);
    ssize_t some = recv(fd, &byte, 1, 0);
    /* The death that resets the connection may take the pipe of the output with it. */
    exit(some < 0 && errno == ECONNRESET ? 7 : 1);
}

/* Its manifest allows connections to port 9 and a listener at 80. */
static void refused(void)
{
    struct sockaddr_in own = address(81);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof own) < 0 && errno == EACCES);
    CHECK(listen(fd, 1) < 0 && errno == EACCES);
    CHECK(connect_to(10) < 0 && errno == EACCES);
    CHECK(connect_to(9) < 0 && errno == ECONNREFUSED);
    CHECK(close(listener_at(80, 1)) == 0);
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = address(7);
    CHECK(sendto(datagrams, "x", 1, 0, (struct sockaddr *)&to, sizeof to) < 0 && errno == EACCES);
    CHECK(bind(datagrams, (struct sockaddr *)&to, sizeof to) < 0 && errno == EACCES);
    say("ok refused");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    uint16_t port = argc > 2 ? (uint16_t)atoi(argv[2]) : 0;
    int count = argc > 3 ? atoi(argv[3]) : 1;
    if (strcmp(what, "all") == 0)
        check_all();
    else if (strcmp(what, "many") == 0)
        check_many();
    else if (strcmp(what, "full") == 0)
        check_full();
    else if (strcmp(what, "echo") == 0)
        echo(listener_at(port, 64), count);
    else if (strcmp(what, "echo6") == 0)
        echo(listener6_at(port, 64), count);
    else if (strcmp(what, "inherited") == 0)
        echo(inherited(), count);
    else if (strcmp(what, "client") == 0)
        client(port, (uint32_t)count, argc > 4 ? argv[4] : "localhost");
    else if (strcmp(what, "serve") == 0)
        serve(port);
    else if (strcmp(what, "endure") == 0)
        endure(port);
    else if (strcmp(what, "abandon") == 0)
        CHECK(reach(port) >= 0);
    else if (strcmp(what, "hold") == 0)
        hold(port);
    else if (strcmp(what, "victim") == 0)
        victim(port);
    else if (strcmp(what, "udp") == 0)
        udp(port, count);
    else if (strcmp(what, "ask") == 0)
        ask(port, (uint32_t)count);
    else if (strcmp(what, "refused") == 0)
        refused();
    else
        return 2;
    return 0;
}
