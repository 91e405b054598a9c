/* Ends of a process while its threads compute, sleep and wait. */
#include "threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int ready;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

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

static void *wait_for_condition(void *with)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&own);
    atomic_fetch_add(&ready, 1);
    for (;;)
        pthread_cond_wait(&never, &own);
    return with;
}

/* Standard input is a pipe to which nobody writes, or a file that is at its end. */
static void *read_input(void *with)
{
    char byte;
    atomic_fetch_add(&ready, 1);
    while (read(0, &byte, 1) >= 0)
        pause_for(1);
    return with;
}

/* Starts a thread of each kind, and returns when all are likely to wait. */
static void start_all(void)
{
    void *(*const kinds[])(void *) = {
        compute_for_ever, sleep_for_ever,   wait_for_mutex, wait_for_condition,
        read_input,       compute_for_ever,
    };
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    pthread_mutex_lock(&held);
    for (int i = 0; i < KINDS; i++)
        start(kinds[i], (void *)(uintptr_t)(i + 1));
    while (ready < KINDS)
        pause_for(1);
    pause_for(20);
}

static void *call_exit(void *with)
{
    exit((int)(intptr_t)with);
}

int exit_from_thread(int code)
{
    start_all();
    join(start(call_exit, (void *)(intptr_t)code));
    return 1;
}

int return_from_main(void)
{
    start_all();
    return 7;
}

static void *call_trap(void *with)
{
    (void)with;
    __builtin_trap();
}

int trap(void)
{
    start_all();
    join(start(call_trap, NULL));
    return 0;
}

int spin(void)
{
    start(compute_for_ever, (void *)1);
    start(compute_for_ever, (void *)2);
    while (ready < 2)
        pause_for(1);
    printf("ready\n");
    fflush(stdout);
    compute_for_ever((void *)3);
    return 0;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *wait_at_gate(void *with)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return with;
}

/* Starts threads until there can be no more, or enough; returns how many there were. */
static int fill_up(void)
{
    enum { ENOUGH = 200 };
    static pthread_t threads[ENOUGH];
    int count = 0, error = 0;
    pthread_mutex_lock(&gate);
    while (count < ENOUGH && error == 0) {
        error = pthread_create(&threads[count], NULL, wait_at_gate, (void *)(uintptr_t)count);
        count += error == 0;
    }
    pthread_mutex_unlock(&gate);
    check(error == 0 || error == EAGAIN, "pthread_create fails otherwise than with EAGAIN");
    for (int i = 0; i < count; i++)
        check(join(threads[i]) == (void *)(uintptr_t)i, "a thread's result is lost");
    return count;
}

int many(void)
{
    int first = fill_up(), second = fill_up();
    printf("%d threads, then %d\n", first, second);
    check(first >= 15, "fewer than 15 threads");
    check(second >= first, "threads that ended are still counted");
    printf("ok many\n");
    return 0;
}
