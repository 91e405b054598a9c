/* What threads cost and what they gain. */
#include "threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static void *amount(void *with)
{
    return (void *)(uintptr_t)compute((uint32_t)(uintptr_t)with, 20000000);
}

int parallel(int count)
{
    enum { MOST = 64 };
    pthread_t threads[MOST];
    check(count > 0 && count <= MOST, "say how many threads, 1 to 64");
    uint64_t began = now();
    for (int i = 0; i < count; i++)
        threads[i] = start(amount, (void *)(uintptr_t)(i + 1));
    uintptr_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += (uintptr_t)join(threads[i]);
    uint64_t spent = now() - began;
    check(sum != 0, "the sum is 0");
    printf("%d threads: %.3f ms\n", count, (double)spent / 1e6);
    return 0;
}

static int ascending(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void *nothing(void *with)
{
    return with;
}

/* ns from before a thread's creation until it is joined: the median. */
static double create_join(void)
{
    enum { ROUNDS = 201 };
    static uint64_t times[ROUNDS];
    for (int i = -ROUNDS / 4; i < ROUNDS; i++) {
        uint64_t began = now();
        join(start(nothing, NULL));
        if (i >= 0)
            times[i] = now() - began;
    }
    qsort(times, ROUNDS, sizeof times[0], ascending);
    return (double)times[ROUNDS / 2];
}

enum { TURNS = 1000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

/* Takes every second turn: `with` tells which. */
static void *alternate(void *with)
{
    int own = (int)(intptr_t)with;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < TURNS; i++) {
        while (turn != own)
            pthread_cond_wait(&changed, &mutex);
        turn = !own;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* ns of a turn to another thread and back. */
static double round_trip(void)
{
    uint64_t began = now();
    pthread_t other = start(alternate, (void *)1);
    alternate((void *)0);
    join(other);
    return (double)(now() - began) / TURNS;
}

int records(void)
{
    double create = create_join();
    round_trip();
    double trip = round_trip();
    printf("record thread.create_join %.3f ns\n", create);
    printf("record futex.roundtrip %.3f ns\n", trip);
    return 0;
}
