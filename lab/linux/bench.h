/* What every case of the benchmark is made of.
 *
 * A case does its operation `times` times in run(). The harness (bench.c) calls run() for the
 * warm-up, then marks the region, calls run() for the measured count and takes the time by
 * CLOCK_MONOTONIC_RAW. A case with reset() is run a round at a time, each a region of its own, with
 * reset() in between.
 * Nothing in run() prints or allocates beyond what the operation itself does.
 * A system call that fails ends the program with a sentence: a wrong figure is worse than none.
 */
#ifndef PENUMBRA_BENCH_H
#define PENUMBRA_BENCH_H

#include <stddef.h>

#define KIB 1024UL
#define MIB (1024UL * 1024UL)

struct bench {
    /* Stable; `penumbra.case=` chooses by it. */
    const char *name;
    /* "ns", or "ns/KiB" where an operation is one KiB. */
    const char *unit;
    /* Calls of the operation before the region, and in it. */
    unsigned long warmup, rounds;
    /* What run() is about: sizes, variants. */
    size_t size, life;
    int flag;
    /* Operations that one round stands for; the value is the time over rounds * per_round. */
    double per_round;
    /* Can this machine do it? Without the function it can. A case that it cannot do fails when it
     * was asked for by its whole name, and is passed over otherwise. */
    int (*available)(const struct bench *);
    void (*setup)(const struct bench *);
    void (*run)(const struct bench *, unsigned long times);
    void (*reset)(const struct bench *);
    /* Right after the last region: ends what would keep the core busy in the idle time. */
    void (*stop)(const struct bench *);
    void (*teardown)(const struct bench *);
};

extern const struct bench call_cases[], process_cases[], futex_cases[], thread_cases[];
extern const struct bench udp_cases[], tcp_cases[], http_cases[], ext2_cases[], dma_cases[];

/* Ends the program with "failed CASE: ..." and the meaning of errno. */
void fail(const char *what) __attribute__((noreturn));
/* Fails unless `value` (an answer of a system call) is at least 0; answers it. */
long must(long value, const char *what);
/* Loads the modules of lab/linux/modules whose group is `group`, in the order of the file, each
 * with `parameters` ("name=value name=value"). */
void load_modules(const char *group, const char *parameters);
/* Makes the loopback device usable. */
void loopback_up(const struct bench *bench);
/* Runs a program to its end; fails unless it ends with code 0. */
void run_program(char *const arguments[]);

#endif
