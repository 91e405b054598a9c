/* Ends of a process that has light threads, and one that writes a log. */
#include "light.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int ready;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *compute_for_ever(void *with)
{
    uint32_t state = (uint32_t)(uintptr_t)with;
    atomic_fetch_add(&ready, 1);
    for (;;)
        state = compute(state, 1000);
    return with;
}

static void *sleep_for_ever(void *with)
{
    atomic_fetch_add(&ready, 1);
    for (;;)
        pause_for(1000000);
    return with;
}

static void *wait_for_mutex(void *with)
{
    atomic_fetch_add(&ready, 1);
    pthread_mutex_lock(&held);
    check(0, "a mutex that is held is given away");
    return with;
}

/* Starts light threads that compute, sleep and wait, and a normal one that waits; returns when all
 * have run. */
static void start_all(void)
{
    enum { ALL = 4 };
    pthread_mutex_lock(&held);
    start_light(compute_for_ever, (void *)1);
    start_light(sleep_for_ever, NULL);
    start_light(wait_for_mutex, NULL);
    start_normal(wait_for_mutex, NULL);
    while (ready < ALL)
        pause_for(1);
    pause_for(20);
}

static void *call_exit(void *with)
{
    exit((int)(intptr_t)with);
}

static void *call_trap(void *with)
{
    (void)with;
    __builtin_trap();
}

static void *divide_by_zero(void *with)
{
    volatile int zero = 0;
    return (char *)with + 7 / zero;
}

/* Computes and sleeps by turns, so that light threads run, too. */
static void *run_for_ever(void *with)
{
    uint32_t state = (uint32_t)(uintptr_t)with;
    for (;;) {
        const uint64_t began = now();
        while (now() - began < 2000000)
            state = compute(state, 100);
        pause_for(5);
    }
    return with;
}

int end(const char *how)
{
    const int returns = strcmp(how, "return") == 0, kill = strcmp(how, "kill") == 0;
    void *(*ends)(void *) = strcmp(how, "exit") == 0     ? call_exit
                            : strcmp(how, "trap") == 0   ? call_trap
                            : strcmp(how, "divide") == 0 ? divide_by_zero
                                                         : NULL;
    check(returns || kill || ends, "say how: exit, return, trap, divide or kill");
    start_all();
    if (returns)
        return 3;
    if (kill) {
        start_normal(run_for_ever, (void *)3);
        printf("ready\n");
        fflush(stdout);
        run_for_ever((void *)5);
    }
    join(start_light(ends, (void *)7));
    check(0, "the process has not ended");
    return 1;
}

struct log {
    const char *path;
    int seconds;
};

static void *write_log(void *with)
{
    const struct log *log = with;
    for (int i = 0; i < log->seconds; i++) {
        FILE *file = fopen(log->path, "a");
        check(file != NULL, "the file cannot be opened");
        check(fprintf(file, "second %d\n", i) > 0, "the file cannot be written");
        check(fclose(file) == 0, "the file cannot be closed");
        pause_for(1000);
    }
    return NULL;
}

void loop(const char *path, int seconds)
{
    struct log log = {path, seconds};
    join(start_light(write_log, &log));
}
