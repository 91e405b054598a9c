/* `records net`: what a KiB costs from one socket to another of the same process. */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KIB = 1024, PIECE = 4 * KIB, ROUNDS = 500 };

/* Returns a socket with a port of this chip. */
static int bound(int type, struct sockaddr_in *at)
{
    socklen_t bytes = sizeof *at;
    int fd = socket(AF_INET, type, 0);
    must(fd < 0, "socket");
    *at = (struct sockaddr_in){.sin_family = AF_INET};
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(bind(fd, (struct sockaddr *)at, bytes), "bind");
    must(getsockname(fd, (struct sockaddr *)at, &bytes), "getsockname");
    return fd;
}

/* Sends `bytes` bytes and receives them, `ROUNDS` times; time of all. */
static uint64_t rounds(int from, int to, size_t bytes)
{
    static char data[PIECE];
    uint64_t began = 0;
    for (int i = -ROUNDS / 4; i < ROUNDS; i++) {
        if (i == 0)
            began = now();
        must(send(from, data, bytes, 0) != (ssize_t)bytes, "send");
        for (size_t received = 0; received < bytes;) {
            ssize_t some = recv(to, data, bytes - received, 0);
            must(some <= 0, "recv");
            received += (size_t)some;
        }
    }
    return now() - began;
}

void sockets(void)
{
    struct sockaddr_in at, other;
    int listener = bound(SOCK_STREAM, &at), near = socket(AF_INET, SOCK_STREAM, 0);
    must(listen(listener, 1), "listen");
    must(connect(near, (struct sockaddr *)&at, sizeof at), "connect");
    int far = accept(listener, NULL, NULL);
    must(far < 0, "accept");
    record("tcp.loopback_kib", (double)rounds(near, far, PIECE) / (ROUNDS * (PIECE / KIB)));
    int from = bound(SOCK_DGRAM, &other), to = bound(SOCK_DGRAM, &at);
    must(connect(from, (struct sockaddr *)&at, sizeof at), "connect");
    record("udp.loopback_kib", (double)rounds(from, to, KIB) / ROUNDS);
}
