/* Checks in one process: both ends of each connection are its own. */
#include "sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
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
    CHECK(socket(AF_INET6, SOCK_STREAM, 0) < 0 && errno == EAFNOSUPPORT);
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
    puts("ok options");
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
    CHECK(getaddrinfo("localhost", "99999", NULL, &found) != 0);
    CHECK(gethostbyname("localhost")->h_length == 4);
    puts("ok names");
}

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
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
    names();
    polls();
}
