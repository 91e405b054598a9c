/* Waits between main and light threads: mutexes, conditions, time limits, barriers. */
#include "light.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

enum { MAIN, LIGHT, TURNS = 100 };
static int turn, passed, wanted;

/* Takes `wanted` turns, every second one. */
static void take_turns(int own)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < wanted; i++) {
        while (turn != own)
            pthread_cond_wait(&changed, &mutex);
        check(passed % 2 == own, "a turn is taken twice");
        passed++;
        turn = !own;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&mutex);
}

static void *take_turns_light(void *with)
{
    take_turns(LIGHT);
    return with;
}

void turns(int rounds)
{
    wanted = rounds ? rounds : TURNS;
    pthread_t thread = start_light(take_turns_light, NULL);
    take_turns(MAIN);
    join(thread);
    check(passed == 2 * wanted, "turns are lost");
}

enum { SHORT = 30, LONG = 60000 };

static struct timespec in_milliseconds(long milliseconds)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += milliseconds / 1000;
    at.tv_nsec += milliseconds % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec += 1;
    }
    return at;
}

/* Waits for what does not happen until the time is over. */
static void time_out(void)
{
    const struct timespec at = in_milliseconds(SHORT);
    const uint64_t began = now();
    int result = 0;
    pthread_mutex_lock(&mutex);
    while (result == 0)
        result = pthread_cond_timedwait(&changed, &mutex, &at);
    pthread_mutex_unlock(&mutex);
    check(result == ETIMEDOUT, "a timed wait ends otherwise than by its time");
    check(now() - began >= SHORT * 1000000u / 2, "a timed wait ends before its time");
}

static int flags[4];

static void set(int *flag)
{
    /* The other thread most likely waits by then. */
    pause_for(20);
    pthread_mutex_lock(&mutex);
    *flag = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static void wait_for(const int *flag)
{
    pthread_mutex_lock(&mutex);
    while (!*flag)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

/* The same with a time limit, which is far away. */
static void wait_long_for(const int *flag)
{
    const struct timespec at = in_milliseconds(LONG);
    int result = 0;
    pthread_mutex_lock(&mutex);
    while (!*flag && result == 0)
        result = pthread_cond_timedwait(&changed, &mutex, &at);
    pthread_mutex_unlock(&mutex);
    check(result == 0, "a wait with a time limit is not ended by a signal");
}

static void *wait_light(void *with)
{
    time_out();
    reach(1);
    wait_for(&flags[0]);
    set(&flags[1]);
    wait_long_for(&flags[2]);
    set(&flags[3]);
    return with;
}

void waits(void)
{
    pthread_t thread = start_light(wait_light, NULL);
    time_out();
    await(1);
    set(&flags[0]);
    wait_for(&flags[1]);
    set(&flags[2]);
    wait_long_for(&flags[3]);
    join(thread);
}

enum { LIGHTS = 4, NORMALS = 2, ROUNDS = 10, ADDITIONS = 50 };
static pthread_barrier_t barrier;
static volatile unsigned counter;
static atomic_uint serial;

static void meet(void)
{
    int result = pthread_barrier_wait(&barrier);
    check(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD, "a barrier fails");
    if (result == PTHREAD_BARRIER_SERIAL_THREAD)
        atomic_fetch_add(&serial, 1);
}

static void *count(void *with)
{
    for (unsigned round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < ADDITIONS; i++) {
            pthread_mutex_lock(&mutex);
            unsigned seen = counter;
            compute(seen, 10);
            counter = seen + 1;
            pthread_mutex_unlock(&mutex);
        }
        meet();
        check(counter == round * ADDITIONS * (LIGHTS + NORMALS), "additions are lost");
        meet();
    }
    return with;
}

void many(void)
{
    pthread_t threads[LIGHTS + NORMALS];
    check(pthread_barrier_init(&barrier, NULL, LIGHTS + NORMALS) == 0, "there is no barrier");
    for (uintptr_t i = 0; i < LIGHTS + NORMALS; i++)
        threads[i] = (i < LIGHTS ? start_light : start_normal)(count, (void *)i);
    for (uintptr_t i = 0; i < LIGHTS + NORMALS; i++)
        check(join(threads[i]) == (void *)i, "a thread's result is lost");
    check(serial == 2 * ROUNDS, "a barrier has not one serial thread");
}
