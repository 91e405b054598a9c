/* A futex from WebAssembly's memory.atomic.wait32 and memory.atomic.notify. */
#include "pthread_impl.h"
#include <time.h>

static long wait(volatile int *address, int value, const struct timespec *limit)
{
    /* Without a limit, and with one beyond 292 years. */
    long long nanoseconds = -1;
    if (limit && limit->tv_sec < 9000000000)
        nanoseconds = limit->tv_sec * 1000000000LL + limit->tv_nsec;
    switch (__builtin_wasm_memory_atomic_wait32((int *)address, value, nanoseconds)) {
    case 0:
        return 0;
    case 1:
        return -EAGAIN;
    default:
        return -ETIMEDOUT;
    }
}

long __futex(volatile int *address, int operation, int value, const struct timespec *limit)
{
    switch (operation & ~FUTEX_PRIVATE) {
    case FUTEX_WAIT:
        return wait(address, value, limit);
    case FUTEX_WAKE:
        return __builtin_wasm_memory_atomic_notify((int *)address, value);
    case FUTEX_REQUEUE:
        /* There is no queue to move a waiter to: it wakes, and waits for the mutex by itself. */
        return __builtin_wasm_memory_atomic_notify((int *)address, 1);
    default:
        return -ENOSYS;
    }
}

/* Waits while `*address` is `value`, until `at` on `clock`; cancellation does not exist here.
 * A clock of 0 is how musl's initialisers name CLOCK_REALTIME, which is a pointer in WASI. */
int __timedwait(volatile int *address, int value, clockid_t clock, const struct timespec *at,
                int private)
{
    struct timespec left, *limit = 0;
    (void)private;
    if (at) {
        if (at->tv_nsec < 0 || at->tv_nsec >= 1000000000L)
            return EINVAL;
        if (clock_gettime(clock ? clock : CLOCK_REALTIME, &left))
            return EINVAL;
        left.tv_sec = at->tv_sec - left.tv_sec;
        left.tv_nsec = at->tv_nsec - left.tv_nsec;
        if (left.tv_nsec < 0) {
            left.tv_sec -= 1;
            left.tv_nsec += 1000000000L;
        }
        if (left.tv_sec < 0)
            return ETIMEDOUT;
        limit = &left;
    }
    return wait(address, value, limit) == -ETIMEDOUT ? ETIMEDOUT : 0;
}

int __timedwait_cp(volatile int *address, int value, clockid_t clock, const struct timespec *at,
                   int private)
{
    return __timedwait(address, value, clock, at, private);
}

/* The attribute holds the clock's address, which musl's pthread_cond_init keeps. */
int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
        return EINVAL;
    attributes->__attr = (attributes->__attr & 0x80000000) | (unsigned)(uintptr_t)clock;
    return 0;
}
