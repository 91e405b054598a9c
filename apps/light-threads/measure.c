/* What turns between main and light threads cost. */
#include "light.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 60, SLEEP = 30 };
static const uint64_t MILLISECOND = 1000000, GAP = 20000;

/* What the light thread does; it writes `resumed` when it has not run for a while. */
enum { SLEEPS, COMPUTES, ENDS };
static atomic_int task;
static atomic_ullong resumed;

static void *light(void *with)
{
    uint64_t last = now();
    while (task != ENDS) {
        if (task == SLEEPS) {
            pause_for(10000);
            continue;
        }
        const uint64_t time = now();
        if (time - last > GAP)
            resumed = time;
        last = time;
    }
    return with;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Prints the median and the longest of so many times. */
static void say(const char *name, uint64_t *times)
{
    qsort(times, ROUNDS, sizeof times[0], ascending);
    printf("record %s %.3f us\n", name, (double)times[ROUNDS / 2] / 1e3);
    printf("record %s_worst %.3f us\n", name, (double)times[ROUNDS - 1] / 1e3);
}

/* Sleeps; `wakes` are the times from a deadline until main runs, `resumes` those from main's sleep
 * until the light thread runs. */
static void sleep_often(uint64_t *wakes, uint64_t *resumes)
{
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t began = now(), planned = began + SLEEP * MILLISECOND + 7000u * round;
        const struct timespec at = {(time_t)(planned / 1000000000u), (long)(planned % 1000000000u)};
        check(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == 0, "a sleep fails");
        wakes[round] = now() - planned;
        resumes[round] = resumed > began ? resumed - began : 0;
    }
}

/* A call that waits for nothing, in a program with light threads: it leaves and enters. */
static double call(void)
{
    enum { CALLS = 2000 };
    const uint64_t began = now();
    for (int i = 0; i < CALLS; i++)
        pause_for(0);
    return (double)(now() - began) / CALLS / 1e3;
}

void measure(void)
{
    static uint64_t wakes[ROUNDS], resumes[ROUNDS];
    sleep_often(wakes, resumes);
    say("nw.wake_alone", wakes);
    printf("record nw.call %.3f us\n", call());
    const pthread_t thread = start_light(light, NULL);
    sleep_often(wakes, resumes);
    say("nw.wake_idle", wakes);
    task = COMPUTES;
    /* Main computes until the light thread, which sleeps, has noticed. */
    pause_for(12000);
    sleep_often(wakes, resumes);
    say("nw.switch_suspend", wakes);
    say("nw.resume", resumes);
    task = ENDS;
    join(thread);
}
