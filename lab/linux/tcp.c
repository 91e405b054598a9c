/* TCP over the loopback device, both ends in one thread.
 *
 *   tcp.loopback        nanoseconds a KiB, of 64 KiB that are written as there is room
 *   tcp.connect_close   a connection: connect, accept, close of both ends
 */
#define _GNU_SOURCE
#include "bench.h"
#include "../../apps/bench/streams.h"
#include <unistd.h>

static int listener, ends[2];

static void hold(const char *failed)
{
    if (failed)
        fail(failed);
}

static void tcp_setup(const struct bench *bench)
{
    loopback_up(bench);
    listener = must(stream_listener(), "listen");
    hold(stream_connect(listener, ends));
}

static void pass_run(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--)
        hold(stream_pass(ends));
}

static void connect_run(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--)
        hold(stream_connect_close(listener));
}

static void tcp_teardown(const struct bench *bench)
{
    (void)bench;
    close(ends[0]);
    close(ends[1]);
    close(listener);
}

const struct bench tcp_cases[] = {
    { .name = "tcp.loopback", .unit = "ns/KiB", .warmup = 20, .rounds = 100,
      .per_round = (double)STREAM_PIECE / KIB, .setup = tcp_setup, .run = pass_run,
      .teardown = tcp_teardown },
    { .name = "tcp.connect_close", .unit = "ns", .warmup = 50, .rounds = 200, .per_round = 1,
      .setup = tcp_setup, .run = connect_run, .teardown = tcp_teardown },
    { 0 },
};
