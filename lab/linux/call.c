/* The null call: into the kernel and back. */
#define _GNU_SOURCE
#include "bench.h"
#include <sys/syscall.h>
#include <unistd.h>

static void null_call(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--)
        syscall(SYS_getpid);
}

const struct bench call_cases[] = {
    { .name = "call.null", .unit = "ns", .warmup = 2000, .rounds = 20000, .per_round = 1,
      .run = null_call },
    { 0 },
};
