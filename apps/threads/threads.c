/* Programs with POSIX threads, for tests (docs/reference/testing.md) and measurements. The same
 * source is a program for wasi-threads and for Linux (`cc -pthread` with all files of this folder).
 *
 *   threads join | mutex | tls | malloc | files | all   prints `ok NAME`, or fails with 1
 *   threads exit N       a thread ends the process while others wait: ends with N
 *   threads main-returns main returns 7 while others run: ends with 7
 *   threads trap         one thread traps while others run
 *   threads spin         prints `ready`, then never ends
 *   threads many         as many threads as there can be, twice
 *   threads parallel N   N threads compute a fixed amount each; prints the time
 *   threads records, threads speedup   what `pen bench` measures */
#include "threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *name = "threads";

void check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

pthread_t start(void *(*run)(void *), void *with)
{
    pthread_t thread;
    check(pthread_create(&thread, NULL, run, with) == 0, "pthread_create fails");
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

struct named {
    const char *name;
    void (*run)(void);
};

static const struct named CHECKS[] = {
    {"join", check_join},       {"join", check_detach},     {"mutex", check_mutex},
    {"mutex", check_condition}, {"mutex", check_timeout},   {"tls", check_tls},
    {"malloc", check_malloc},   {"files", check_files},     {"files", check_closing},
};
enum { CHECK_COUNT = sizeof CHECKS / sizeof CHECKS[0] };

/* Runs the checks of that name, or all; returns 0 if there was one. */
static int run_checks(const char *wanted)
{
    int all = strcmp(wanted, "all") == 0, found = 0;
    for (int i = 0; i < CHECK_COUNT; i++) {
        if (!all && strcmp(wanted, CHECKS[i].name) != 0)
            continue;
        found = 1;
        name = CHECKS[i].name;
        CHECKS[i].run();
        if (i + 1 == CHECK_COUNT || strcmp(name, CHECKS[i + 1].name) != 0)
            printf("ok %s\n", name);
    }
    return !found;
}

int main(int count, char **words)
{
    name = count > 1 ? words[1] : "threads";
    int number = count > 2 ? atoi(words[2]) : 0;
    if (strcmp(name, "exit") == 0)
        return exit_from_thread(number);
    if (strcmp(name, "main-returns") == 0)
        return return_from_main();
    if (strcmp(name, "trap") == 0)
        return trap();
    if (strcmp(name, "spin") == 0)
        return spin();
    if (strcmp(name, "many") == 0)
        return many();
    if (strcmp(name, "parallel") == 0)
        return parallel(number);
    if (strcmp(name, "records") == 0)
        return records();
    if (strcmp(name, "speedup") == 0)
        return speedup();
    check(run_checks(name) == 0, "no such check: threads.c has the list");
    return 0;
}
