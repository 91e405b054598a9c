/* `records net`: what a KiB costs from one socket to another of the same process, and what a
 * connection costs. */
#include "bench.h"
#include "streams.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { KIB = 1024, ROUNDS = 500 };

/* Returns a UDP socket with a port of this chip. */
static int bound(struct sockaddr_in *at)
{
    socklen_t bytes = sizeof *at;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    must(fd < 0, "socket");
    *at = (struct sockaddr_in){.sin_family = AF_INET};
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(bind(fd, (struct sockaddr *)at, bytes), "bind");
    must(getsockname(fd, (struct sockaddr *)at, &bytes), "getsockname");
    return fd;
}

static void hold(const char *failed)
{
    if (failed)
        must(1, failed);
}

/* A case of streams: a few rounds, then `ROUNDS` that count; time of each. */
enum stream_case { PASSES, CONNECTS };

static double stream_rounds(enum stream_case what, int listener, const int ends[2])
{
    uint64_t began = 0;
    for (int i = -ROUNDS / 4; i < ROUNDS; i++) {
        if (i == 0)
            began = now();
        hold(what == PASSES ? stream_pass(ends) : stream_connect_close(listener));
    }
    return (double)(now() - began) / ROUNDS;
}

static void streams(void)
{
    int ends[2], listener = stream_listener();
    must(listener < 0, "listen");
    hold(stream_connect(listener, ends));
    record("tcp.loopback_kib", stream_rounds(PASSES, listener, ends) / (STREAM_PIECE / KIB));
    record("tcp.connect_close", stream_rounds(CONNECTS, listener, ends));
}

static void datagrams(void)
{
    static char data[KIB];
    struct sockaddr_in at, other;
    int from = bound(&other), to = bound(&at);
    must(connect(from, (struct sockaddr *)&at, sizeof at), "connect");
    uint64_t began = 0;
    for (int i = -ROUNDS / 4; i < ROUNDS; i++) {
        if (i == 0)
            began = now();
        must(send(from, data, sizeof data, 0) != sizeof data, "send");
        must(recv(to, data, sizeof data, 0) != sizeof data, "recv");
    }
    record("udp.loopback_kib", (double)(now() - began) / ROUNDS);
}

void sockets(void)
{
    datagrams();
    streams();
}
