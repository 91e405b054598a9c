/* Futexes: two parties take turns by one word. A round trip is both turns, two switches. */
#define _GNU_SOURCE
#include "bench.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MINE, YOURS, OVER };

static _Atomic unsigned *turn;
/* FUTEX_PRIVATE_FLAG between threads, nothing between processes. */
static int private;
static pthread_t thread;
static pid_t process;

/* Waits while the turn is `other`'s; answers whose it is then. */
static unsigned await(unsigned other)
{
    unsigned seen;
    while ((seen = atomic_load(turn)) == other)
        syscall(SYS_futex, turn, FUTEX_WAIT | private, other, NULL, NULL, 0);
    return seen;
}

static void pass(unsigned to)
{
    atomic_store(turn, to);
    syscall(SYS_futex, turn, FUTEX_WAKE | private, 1, NULL, NULL, 0);
}

static void *partner(void *nothing)
{
    while (await(MINE) == YOURS)
        pass(MINE);
    return nothing;
}

static void futex_setup(const struct bench *bench)
{
    turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (turn == MAP_FAILED)
        fail("mmap of the shared word");
    atomic_store(turn, MINE);
    private = bench->flag ? 0 : FUTEX_PRIVATE_FLAG;
    if (!bench->flag) {
        if (pthread_create(&thread, NULL, partner, NULL) != 0)
            fail("pthread_create");
        return;
    }
    process = must(fork(), "fork");
    if (process == 0) {
        partner(NULL);
        _exit(0);
    }
}

static void futex_run(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--) {
        pass(YOURS);
        await(YOURS);
    }
}

static void futex_teardown(const struct bench *bench)
{
    pass(OVER);
    if (bench->flag)
        must(waitpid(process, NULL, 0), "waitpid");
    else
        pthread_join(thread, NULL);
    munmap((void *)turn, 4096);
}

const struct bench futex_cases[] = {
    { .name = "futex.threads", .unit = "ns", .warmup = 500, .rounds = 4000, .per_round = 1,
      .flag = 0, .setup = futex_setup, .run = futex_run, .teardown = futex_teardown },
    { .name = "futex.processes", .unit = "ns", .warmup = 500, .rounds = 4000, .per_round = 1,
      .flag = 1, .setup = futex_setup, .run = futex_run, .teardown = futex_teardown },
    { 0 },
};
