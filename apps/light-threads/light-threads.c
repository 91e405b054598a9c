/* Light threads (docs/howto/light-thread.md), for tests and measurements. The same source is a
 * program for Linux (`cc -pthread` with all files of this folder), where light threads are normal
 * ones: all modes but `exclude` hold there too.
 *
 *   light-threads share | files | grow | many | wait   prints `ok MODE`, or fails with 1; so do:
 *   light-threads turns [N]      N round trips between main and a light thread
 *   light-threads exclude [MS]   main and a light thread never execute at once
 *   light-threads measure        what turns cost
 *   light-threads loop FILE SECONDS   a light thread writes a line to FILE every second
 *   light-threads end exit       a light thread calls exit(7): ends with 7
 *   light-threads end return     main returns 3 while light threads run: ends with 3
 *   light-threads end trap       a light thread executes an `unreachable`
 *   light-threads end divide     a light thread divides by zero
 *   light-threads end kill       prints `ready`, then never ends */
#include "light.h"

#ifdef __wasm__
#include "penumbra_light.h"
#else
#define penumbra_light_create pthread_create
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *name = "light-threads";

void check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

static void check_created(int error, const char *function)
{
    if (error == 0)
        return;
    fprintf(stderr, "%s: %s: %s\n", name, function, strerror(error));
    exit(1);
}

pthread_t start_light(void *(*run)(void *), void *with)
{
    pthread_t thread;
    check_created(penumbra_light_create(&thread, NULL, run, with), "penumbra_light_create");
    return thread;
}

pthread_t start_normal(void *(*run)(void *), void *with)
{
    pthread_t thread;
    check_created(pthread_create(&thread, NULL, run, with), "pthread_create");
    return thread;
}

void *join(pthread_t thread)
{
    void *result = NULL;
    check(pthread_join(thread, &result) == 0, "pthread_join fails");
    return result;
}

void pause_for(long milliseconds)
{
    const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint32_t compute(uint32_t seed, uint32_t rounds)
{
    uint32_t state = seed | 1;
    for (uint32_t i = 0; i < rounds; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
    }
    return state;
}

static pthread_mutex_t steps = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stepped = PTHREAD_COND_INITIALIZER;
static int reached;

void reach(int step)
{
    pthread_mutex_lock(&steps);
    check(step == reached + 1, "a step is taken out of turn");
    reached = step;
    pthread_cond_broadcast(&stepped);
    pthread_mutex_unlock(&steps);
}

void await(int step)
{
    pthread_mutex_lock(&steps);
    while (reached < step)
        pthread_cond_wait(&stepped, &steps);
    pthread_mutex_unlock(&steps);
}

struct mode {
    const char *name;
    void (*run)(void);
    void (*run_with)(int number);
};

static const struct mode MODES[] = {
    {"share", share, NULL},     {"files", files, NULL},   {"grow", grow, NULL},
    {"many", many, NULL},       {"wait", waits, NULL},    {"turns", NULL, turns},
    {"exclude", NULL, exclude}, {"measure", measure, NULL},
};
enum { MODE_COUNT = sizeof MODES / sizeof MODES[0] };

/* Runs the mode of that name; returns whether there is one. */
static int run_mode(const char *wanted, int number)
{
    for (int i = 0; i < MODE_COUNT; i++) {
        if (strcmp(wanted, MODES[i].name) != 0)
            continue;
        if (MODES[i].run)
            MODES[i].run();
        else
            MODES[i].run_with(number);
        return 1;
    }
    return 0;
}

int main(int count, char **words)
{
    if (count > 1)
        name = words[1];
    const char *word = count > 2 ? words[2] : "";
    if (strcmp(name, "end") == 0)
        return end(word);
    if (strcmp(name, "loop") == 0) {
        check(count > 3, "say which file and how many seconds");
        loop(word, atoi(words[3]));
    } else {
        check(atoi(word) >= 0, "the number is negative");
        check(run_mode(name, atoi(word)), "no such mode: light-threads.c has the list");
    }
    printf("ok %s\n", name);
    return 0;
}
