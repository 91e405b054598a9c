/* Checks in one process: both ends of each connection are its own. */
#include "sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef LINUX
#define make_pipe pipe
#else
#include <penumbra.h>
static int make_pipe(int ends[2])
{
    return penumbra_pipe((uint32_t *)ends);
}
#endif

/* Both ends of a connection. */
static void connection(int ends[2])
{
    int listener = listener_at(0, 1);
    ends[0] = connect_to(port_of(listener));
    CHECK(ends[0] >= 0);
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    ends[1] = accept(listener, (struct sockaddr *)&peer, &bytes);
    CHECK(ends[1] >= 0 && peer.sin_family == AF_INET);
    CHECK(ntohs(peer.sin_port) == port_of(ends[0]));
    CHECK(close(listener) == 0);
}

static void streams(void)
{
    int ends[2];
    char data[16];
    connection(ends);
    CHECK(write(ends[0], "hello", 5) == 5);
    CHECK(recv(ends[1], data, sizeof data, MSG_PEEK) == 5);
    CHECK(read(ends[1], data, 3) == 3 && memcmp(data, "hel", 3) == 0);
    CHECK(recv(ends[1], data, 2, MSG_WAITALL) == 2 && memcmp(data, "lo", 2) == 0);
    CHECK(recv(ends[1], data, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    CHECK(shutdown(ends[0], SHUT_WR) == 0);
    CHECK(read(ends[1], data, 1) == 0);
    CHECK(send(ends[0], "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
    CHECK(send(ends[1], "back", 4, 0) == 4);
    CHECK(recv(ends[0], data, sizeof data, 0) == 4);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    /* Closed with data that were not read: a reset. */
    connection(ends);
    CHECK(write(ends[0], "lost", 4) == 4);
    CHECK(close(ends[1]) == 0);
    CHECK(read(ends[0], data, 1) < 0 && errno == ECONNRESET);
    CHECK(read(ends[0], data, 1) == 0);
    CHECK(send(ends[0], "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
    CHECK(close(ends[0]) == 0);
    puts("ok streams");
}

static void datagrams(void)
{
    int one = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = address(0), from;
    socklen_t bytes = sizeof from;
    char data[16];
    CHECK(bind(other, (struct sockaddr *)&to, sizeof to) == 0);
    to = address(port_of(other));
    CHECK(sendto(one, "first", 5, 0, (struct sockaddr *)&to, sizeof to) == 5);
    CHECK(sendto(one, "", 0, 0, (struct sockaddr *)&to, sizeof to) == 0);
    CHECK(recvfrom(other, data, sizeof data, 0, (struct sockaddr *)&from, &bytes) == 5);
    CHECK(ntohs(from.sin_port) == port_of(one));
    CHECK(recv(other, data, sizeof data, 0) == 0);
    CHECK(send(one, "x", 1, 0) < 0);
    CHECK(sendto(other, "12345", 5, 0, (struct sockaddr *)&from, bytes) == 5);
    struct iovec pieces[2] = {{data, 2}, {data + 8, 2}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    CHECK(recvmsg(one, &message, 0) == 4 && message.msg_flags & MSG_TRUNC);
    CHECK(memcmp(data, "12", 2) == 0 && memcmp(data + 8, "34", 2) == 0);
    /* Connected: those of others are not seen. */
    int third = socket(AF_INET, SOCK_DGRAM, 0);
    struct pollfd ready = {.fd = one, .events = POLLIN};
    CHECK(connect(one, (struct sockaddr *)&to, sizeof to) == 0);
    CHECK(sendto(third, "x", 1, 0, (struct sockaddr *)&from, bytes) == 1);
    CHECK(poll(&ready, 1, 0) == 0);
    CHECK(sendto(other, "mine", 4, 0, (struct sockaddr *)&from, bytes) == 4);
    CHECK(poll(&ready, 1, -1) == 1 && recv(one, data, sizeof data, 0) == 4);
    close(one);
    close(other);
    close(third);
    puts("ok datagrams");
}

static void errors(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), value;
    socklen_t bytes = sizeof value;
    struct sockaddr_in to = address(1);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno == ECONNREFUSED);
    CHECK(recv(fd, &value, 1, 0) < 0 && errno == ENOTCONN);
    CHECK(getpeername(fd, (struct sockaddr *)&to, &bytes) < 0 && errno == ENOTCONN);
#ifndef LINUX
    CHECK(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EAFNOSUPPORT);
#endif
    CHECK(recv(1, &value, 1, 0) < 0 && errno == ENOTSOCK);
    CHECK(send(99, &value, 1, 0) < 0 && errno == EBADF);
    int listener = listener_at(0, 1), second = socket(AF_INET, SOCK_STREAM, 0);
    to = address(port_of(listener));
    CHECK(bind(second, (struct sockaddr *)&to, sizeof to) < 0 && errno == EADDRINUSE);
    to.sin_addr.s_addr = inet_addr("10.0.0.1");
#ifndef LINUX
    CHECK(connect(second, (struct sockaddr *)&to, sizeof to) < 0 && errno == ENETUNREACH);
#endif
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    CHECK(accept(listener, NULL, NULL) < 0 && errno == EAGAIN);
    close(fd);
    close(listener);
    close(second);
    puts("ok errors");
}

static void listeners(void)
{
    int listener = listener_at(0, 1);
    uint16_t port = port_of(listener);
    CHECK(listen(listener, 5) == 0);
    int waiting = connect_to(port);
    CHECK(waiting >= 0 && shutdown(listener, SHUT_WR) == 0);
    CHECK(close(accept(listener, NULL, NULL)) == 0);
    CHECK(shutdown(listener, SHUT_RD) == 0);
    CHECK(accept(listener, NULL, NULL) < 0 && errno == EINVAL);
    CHECK(connect_to(port) < 0 && errno == ECONNREFUSED);
    CHECK(listen(listener, 1) == 0);
    CHECK(close(waiting) == 0 && (waiting = connect_to(port_of(listener))) >= 0);
    close(waiting);
    close(listener);
    puts("ok listeners");
}

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Calls that wait no longer than their descriptor says, and a new one that says nothing. */
static void timeouts(void)
{
    static char data[1 << 16];
    const struct timeval limit = {0, 40000}, improper = {0, 1000000};
    struct timeval found = {0, 0};
    socklen_t bytes = sizeof found;
    int ends[2], again;
    connection(ends);
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK((again = dup(ends[0])) >= 0);
    CHECK(getsockopt(again, SOL_SOCKET, SO_RCVTIMEO, &found, &bytes) == 0);
    CHECK(found.tv_sec == 0 && found.tv_usec == 40000 && bytes == sizeof found);
    const long began = milliseconds();
    CHECK(recv(again, data, 1, 0) < 0 && errno == EAGAIN && milliseconds() - began >= 39);
    CHECK(send(ends[1], "x", 1, 0) == 1 && recv(ends[0], data, 2, MSG_WAITALL) == 1);
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    while (send(ends[0], data, sizeof data, 0) > 0)
        continue;
    CHECK(errno == EAGAIN);
    CHECK(setsockopt(again, SOL_SOCKET, SO_RCVTIMEO, &improper, sizeof limit) < 0 && errno == EDOM);
    CHECK(setsockopt(again, SOL_SOCKET, SO_RCVTIMEO, &limit, 4) < 0 && errno == EINVAL);
    close(again);
    CHECK(setsockopt(again, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0 && errno == EBADF);
    close(ends[0]);
    close(ends[1]);
    connection(ends);
    CHECK(getsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &found, &bytes) == 0 && found.tv_usec == 0);
    close(ends[0]);
    close(ends[1]);
}

static void options(void)
{
    int ends[2], value = 0;
    socklen_t bytes = sizeof value;
    connection(ends);
    CHECK(getsockopt(ends[0], SOL_SOCKET, SO_ERROR, &value, &bytes) == 0 && value == 0);
    CHECK(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, &bytes) == 0 && value == SOCK_STREAM);
    CHECK(getsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &value, &bytes) == 0 && value > 0);
    value = 1;
    CHECK(setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &value, sizeof value) == 0);
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_KEEPALIVE, &value, sizeof value) == 0);
    value = 0;
    CHECK(getsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &value, &bytes) == 0 && value == 1);
    CHECK(setsockopt(ends[0], SOL_SOCKET, 12345, &value, sizeof value) < 0 && errno == ENOPROTOOPT);
    close(ends[0]);
    close(ends[1]);
    timeouts();
    puts("ok options");
}

/* Connects to a port of this chip by IPv6, or by IPv4 as IPv6 maps it. Returns -1 if it cannot. */
static int connect6_to(uint16_t port, bool is_mapped)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    CHECK(fd >= 0 && inet_pton(AF_INET6, is_mapped ? "::ffff:127.0.0.1" : "::1", &to.sin6_addr));
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Returns the peer of the next connection at a listener of IPv6. */
static const char *next_peer(int listener)
{
    static char text[INET6_ADDRSTRLEN];
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    int fd = accept(listener, (struct sockaddr *)&peer, &bytes);
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&peer;
    CHECK(fd >= 0 && bytes == sizeof *in6 && in6->sin6_family == AF_INET6);
    CHECK(close(fd) == 0);
    return inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
}

static void families(void)
{
    int on = 1, off = 0, both = listener6_at(0, 4), fd;
    uint16_t port = port_of(both);
    /* A listener at :: hears both families. */
    CHECK((fd = connect6_to(port, false)) >= 0 && close(fd) == 0);
    CHECK(strcmp(next_peer(both), "::1") == 0);
    for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
        CHECK((fd = is_mapped ? connect6_to(port, true) : connect_to(port)) >= 0);
        CHECK(close(fd) == 0);
        CHECK(strcmp(next_peer(both), "::ffff:127.0.0.1") == 0);
    }
    /* With IPV6_V6ONLY it hears IPv6 alone, and the port of IPv4 is free. */
    int only = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    CHECK(setsockopt(only, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0);
    CHECK(close(both) == 0);
    CHECK(bind(only, (struct sockaddr *)&own, sizeof own) == 0 && listen(only, 4) == 0);
    CHECK(setsockopt(only, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0 && errno == EINVAL);
    CHECK(connect_to(port) < 0 && errno == ECONNREFUSED);
    int listener = listener_at(port, 1);
    CHECK((fd = connect_to(port)) >= 0 && close(fd) == 0);
    CHECK((fd = connect6_to(port, false)) >= 0 && close(fd) == 0);
    CHECK(strcmp(next_peer(only), "::1") == 0);
    close(only);
    CHECK(connect6_to(port, false) < 0 && errno == ECONNREFUSED);
    close(listener);
    /* A socket of IPv4 has no addresses of IPv6. */
    fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&own, sizeof own) < 0 && errno == EAFNOSUPPORT);
    CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0);
    close(fd);
    /* Datagrams. */
    int one = socket(AF_INET6, SOCK_DGRAM, 0), other = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6}, from;
    socklen_t bytes = sizeof to;
    char data[8];
    to.sin6_addr = in6addr_loopback;
    CHECK(bind(other, (struct sockaddr *)&to, sizeof to) == 0);
    CHECK(getsockname(other, (struct sockaddr *)&to, &bytes) == 0 && bytes == sizeof to);
    CHECK(sendto(one, "six", 3, 0, (struct sockaddr *)&to, sizeof to) == 3);
    CHECK(recvfrom(other, data, sizeof data, 0, (struct sockaddr *)&from, &bytes) == 3);
    CHECK(IN6_IS_ADDR_LOOPBACK(&from.sin6_addr) && from.sin6_family == AF_INET6);
    CHECK(sendto(other, "answer", 6, 0, (struct sockaddr *)&from, bytes) == 6);
    CHECK(recv(one, data, sizeof data, 0) == 6);
    close(one);
    close(other);
    puts("ok families");
}

/* Returns the families of the addresses of a host: 4, 6, 46 for both in this order, or 0. */
static int families_of(const char *host, int family, int flags)
{
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found, *one;
    int result = 0;
    if (getaddrinfo(host, "80", &hints, &found))
        return 0;
    for (one = found; one; one = one->ai_next)
        result = 10 * result + (one->ai_family == AF_INET6 ? 6 : 4);
    freeaddrinfo(found);
    return result;
}

static void names(void)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_family = AF_INET,
                             .ai_socktype = SOCK_DGRAM}, *found;
    struct in_addr numeric = {.s_addr = inet_addr("127.0.0.1")};
    char host[64], service[16];
    CHECK(strcmp(inet_ntoa(numeric), "127.0.0.1") == 0);
    CHECK(getaddrinfo(NULL, "53", &hints, &found) == 0 && !found->ai_next);
    struct sockaddr_in *in = (struct sockaddr_in *)found->ai_addr;
    CHECK(ntohs(in->sin_port) == 53 && in->sin_addr.s_addr == htonl(INADDR_ANY));
    freeaddrinfo(found);
    CHECK(getaddrinfo("127.0.0.1", NULL, NULL, &found) == 0);
    CHECK(getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, service,
                      sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) == 0);
    CHECK(strcmp(host, "127.0.0.1") == 0 && strcmp(service, "0") == 0);
    freeaddrinfo(found);
    CHECK(getaddrinfo("no.such.host.invalid", "80", NULL, &found) != 0);
#ifndef LINUX
    CHECK(getaddrinfo("localhost", "99999", NULL, &found) != 0);
#endif
    CHECK(gethostbyname("localhost")->h_length == 4);
    CHECK(families_of("127.0.0.1", AF_UNSPEC, 0) == 4 && families_of("::1", AF_UNSPEC, 0) == 6);
    CHECK(families_of("::1", AF_INET, 0) == 0 && families_of("127.0.0.1", AF_INET6, 0) == 0);
    CHECK(families_of("127.0.0.1", AF_INET6, AI_V4MAPPED) == 6);
    CHECK(families_of(NULL, AF_UNSPEC, AI_PASSIVE) == 46);
#ifndef LINUX
    CHECK(families_of("localhost", AF_INET6, 0) == 6);
    CHECK(families_of("localhost", AF_UNSPEC, 0) == 46);
#endif
    CHECK(getaddrinfo("fec0::2", NULL, NULL, &found) == 0);
    CHECK(getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, NULL, 0,
                      NI_NUMERICHOST) == 0 && strcmp(host, "fec0::2") == 0);
    freeaddrinfo(found);
    puts("ok names");
}

/* One poll over a pipe, two sockets and a time. */
static void polls(void)
{
    int ends[2], pipes[2], listener = listener_at(0, 4);
    char byte;
    connection(ends);
    CHECK(make_pipe(pipes) == 0);
    struct pollfd fds[] = {
        {.fd = pipes[0], .events = POLLIN},
        {.fd = ends[0], .events = POLLIN},
        {.fd = listener, .events = POLLIN},
        {.fd = -1, .events = POLLIN},
    };
    long before = milliseconds();
    CHECK(poll(fds, 4, 50) == 0);
    CHECK(milliseconds() - before >= 49);
    CHECK(write(pipes[1], "p", 1) == 1);
    CHECK(poll(fds, 4, -1) == 1 && fds[0].revents == POLLIN && fds[1].revents == 0);
    CHECK(write(ends[1], "s", 1) == 1);
    CHECK(poll(fds, 4, -1) == 2 && fds[1].revents == POLLIN);
    CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'p');
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 's');
    CHECK(poll(fds, 4, 0) == 0);
    int third = connect_to(port_of(listener));
    CHECK(poll(fds, 4, -1) == 1 && fds[2].revents == POLLIN);
    CHECK(close(accept(listener, NULL, NULL)) == 0);
    fds[1].events = POLLIN | POLLOUT;
    CHECK(poll(fds, 4, -1) == 1 && fds[1].revents == POLLOUT);
    CHECK(close(ends[1]) == 0);
    CHECK(poll(fds, 4, -1) == 1 && fds[1].revents & POLLIN);
    CHECK(read(ends[0], &byte, 1) == 0);
    CHECK(close(pipes[1]) == 0);
    CHECK(poll(fds, 1, -1) == 1 && fds[0].revents & POLLHUP);
    /* Polled for nothing: neither data nor a connection, but the end. */
    fds[1].events = fds[2].events = 0;
    CHECK(poll(fds + 1, 2, 0) == 0);
    CHECK(shutdown(ends[0], SHUT_WR) == 0);
    CHECK(poll(fds + 1, 2, -1) == 1 && fds[1].revents == POLLHUP);
    close(pipes[0]);
    close(ends[0]);
    close(third);
    close(listener);
    puts("ok polls");
}

void check_all(void)
{
    streams();
    datagrams();
    errors();
    listeners();
    options();
    families();
    names();
    polls();
}
