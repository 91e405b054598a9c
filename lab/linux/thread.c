/* Threads: create and join one; switch to another one by yielding. */
#define _GNU_SOURCE
#include "bench.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static void *nothing_to_do(void *nothing)
{
    return nothing;
}

static void create_join(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing_to_do, NULL) != 0)
            fail("pthread_create");
        pthread_join(thread, NULL);
    }
}

static _Atomic int yielding;
static pthread_t partner;

static void *yield_too(void *nothing)
{
    while (atomic_load_explicit(&yielding, memory_order_relaxed))
        sched_yield();
    return nothing;
}

static void yield_setup(const struct bench *bench)
{
    (void)bench;
    atomic_store(&yielding, 1);
    if (pthread_create(&partner, NULL, yield_too, NULL) != 0)
        fail("pthread_create");
}

/* On one core each of our yields is two switches: to the partner, and by its own yield back. */
static void yield_run(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--)
        sched_yield();
}

static void yield_stop(const struct bench *bench)
{
    (void)bench;
    atomic_store(&yielding, 0);
    pthread_join(partner, NULL);
}

const struct bench thread_cases[] = {
    { .name = "thread.create_join", .unit = "ns", .warmup = 100, .rounds = 1000, .per_round = 1,
      .run = create_join },
    { .name = "thread.yield", .unit = "ns", .warmup = 500, .rounds = 4000, .per_round = 2,
      .setup = yield_setup, .run = yield_run, .stop = yield_stop },
    { 0 },
};
