/* What threads cost and what they gain. */
#include "threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __wasm__
static void wait_while(atomic_int *word, int value)
{
    __builtin_wasm_memory_atomic_wait32((int *)word, value, -1);
}

static void wake(atomic_int *word)
{
    __builtin_wasm_memory_atomic_notify((int *)word, 1);
}
#else
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static void wait_while(atomic_int *word, int value)
{
    syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void wake(atomic_int *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}
#endif

enum { MOST = 64 };

static void *amount(void *with)
{
    return (void *)(uintptr_t)compute((uint32_t)(uintptr_t)with, 5000000);
}

/* Returns the ns that so many threads take, each with the same amount. */
static uint64_t all(int count)
{
    pthread_t threads[MOST];
    uint64_t began = now();
    for (int i = 0; i < count; i++)
        threads[i] = start(amount, (void *)(uintptr_t)(i + 1));
    uintptr_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += (uintptr_t)join(threads[i]);
    uint64_t spent = now() - began;
    check(sum != 0, "the sum is 0");
    return spent;
}

int parallel(int count)
{
    check(count > 0 && count <= MOST, "say how many threads, 1 to 64");
    printf("%d threads: %.3f ms\n", count, (double)all(count) / 1e6);
    return 0;
}

/* How many times as much two threads do as one, in the same time. */
int speedup(void)
{
    double one = (double)all(1);
    printf("record program.thread.speedup %.3f ratio\n", 2 * one / (double)all(2));
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
static void *by_condition(void *with)
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

static atomic_int word;

/* The same with one word, as lab/linux/futex.c does. */
static void *by_futex(void *with)
{
    int own = (int)(intptr_t)with;
    for (int i = 0; i < TURNS; i++) {
        while (word != own)
            wait_while(&word, !own);
        word = !own;
        wake(&word);
    }
    return NULL;
}

/* ns of a turn to another thread and back; the first time is for warming up. */
static double round_trip(void *(*take_turns)(void *))
{
    uint64_t spent = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t began = now();
        pthread_t other = start(take_turns, (void *)1);
        take_turns((void *)0);
        join(other);
        spent = now() - began;
    }
    return (double)spent / TURNS;
}

int records(void)
{
    double create = create_join();
    double futex = round_trip(by_futex), condition = round_trip(by_condition);
    printf("record program.thread.create_join %.3f ns\n", create);
    printf("record futex.roundtrip %.3f ns\n", futex);
    printf("record condition.roundtrip %.3f ns\n", condition);
    return 0;
}
