/* UDP over the loopback device: one thread writes datagrams to one socket and reads them from
 * another, as fast as it can; after `life` bytes it closes both and makes new ones (the K2 paper's
 * figure 6c).
 *
 *   udp.D.life_L            nanoseconds a KiB, with D bytes a datagram and L bytes a socket life
 *   udp.D.life_L.total_T    nanoseconds for a whole run of T bytes, sockets included
 */
#define _GNU_SOURCE
#include "bench.h"
#include "../../apps/light/datagrams.h"
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

void loopback_up(const struct bench *bench)
{
    struct ifreq request = { .ifr_name = "lo" };
    int any = must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    (void)bench;
    must(ioctl(any, SIOCGIFFLAGS, &request), "flags of lo");
    request.ifr_flags |= IFF_UP;
    must(ioctl(any, SIOCSIFFLAGS, &request), "lo up");
    close(any);
}

/* `flag` is the total in KiB; 0: each round is one life. */
static void udp_run(const struct bench *bench, unsigned long times)
{
    size_t total = bench->flag ? bench->flag * KIB : bench->life;
    while (times--) {
        const char *failed = send_datagrams(bench->size, bench->life, total);
        if (failed)
            fail(failed);
    }
}

#define STEADY(D, d, L, l, n) \
    { .name = "udp." D ".life_" L, .unit = "ns/KiB", .warmup = n / 4 + 1, .rounds = n, \
      .size = d, .life = l, .per_round = (double)(l) / KIB, \
      .setup = loopback_up, .run = udp_run }
#define TOTAL(D, d, L, l, T, t, n) \
    { .name = "udp." D ".life_" L ".total_" T, .unit = "ns", .warmup = n / 4 + 1, .rounds = n, \
      .size = d, .life = l, .flag = t, .per_round = 1, .setup = loopback_up, .run = udp_run }
#define LIFE(D, d, L, l, n) \
    STEADY(D, d, L, l, n), TOTAL(D, d, L, l, "1k", 1, 200), \
        TOTAL(D, d, L, l, "64k", 64, 40), TOTAL(D, d, L, l, "256k", 256, 16), \
        TOTAL(D, d, L, l, "1m", 1024, 4)
#define DATAGRAM(D, d) \
    LIFE(D, d, "4k", 4 * KIB, 200), LIFE(D, d, "64k", 64 * KIB, 40), LIFE(D, d, "1m", MIB, 4)

const struct bench udp_cases[] = {
    DATAGRAM("1k", 1 * KIB),
    DATAGRAM("8k", 8 * KIB),
    { 0 },
};
