/* HTTP over the loopback device: a request of a client and its answer by a server in the same thread,
 * each in a connection of its own.
 *
 *   http.S   a request for S bytes, connections included
 */
#define _GNU_SOURCE
#include "bench.h"
#include "../../apps/light/web.h"
#include <unistd.h>

enum { PORT = 80 };

static int listener;

static void http_setup(const struct bench *bench)
{
    loopback_up(bench);
    listener = must(web_listen(PORT), "listen");
}

static void http_run(const struct bench *bench, unsigned long times)
{
    while (times--) {
        const char *failed = web_request(listener, PORT, bench->size);
        if (failed)
            fail(failed);
    }
}

static void http_teardown(const struct bench *bench)
{
    (void)bench;
    close(listener);
}

#define SIZE(S, s, n) \
    { .name = "http." S, .unit = "ns", .warmup = n / 4, .rounds = n, .size = s, .per_round = 1, \
      .setup = http_setup, .run = http_run, .teardown = http_teardown }

const struct bench http_cases[] = {
    SIZE("1k", 1 * KIB, 200),
    SIZE("16k", 16 * KIB, 100),
    { 0 },
};
