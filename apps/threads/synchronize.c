/* Checks of counters, mutexes, condition variables and thread-local variables. */
#include "threads.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 10000, PASSES = 1000 };

static atomic_uint counter;

static void *count(void *with)
{
    for (int i = 0; i < ROUNDS; i++)
        atomic_fetch_add(&counter, 1);
    return (void *)((uintptr_t)with * 3 + 1);
}

void check_join(void)
{
    pthread_t threads[THREADS];
    counter = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = start(count, (void *)i);
    for (uintptr_t i = 0; i < THREADS; i++)
        check(join(threads[i]) == (void *)(i * 3 + 1), "a thread's result is lost");
    check(counter == THREADS * ROUNDS, "atomic additions are lost");
}

static void *count_one(void *with)
{
    atomic_fetch_add(&counter, 1);
    return with;
}

#ifdef __wasm__
static size_t megabytes(void) { return __builtin_wasm_memory_size(0) / 16; }
#else
static size_t megabytes(void) { return 0; }
#endif

/* The stacks of threads that have ended are used again: all together would take 125 MiB. */
void check_detach(void)
{
    enum { DETACHED = 1000, AT_ONCE = 8, MOST_MEGABYTES = 32 };
    size_t before = megabytes();
    counter = 0;
    for (unsigned i = 0; i < DETACHED; i++) {
        while (counter + AT_ONCE <= i)
            sched_yield();
        check(pthread_detach(start(count_one, NULL)) == 0, "a thread cannot be detached");
    }
    while (counter < DETACHED)
        pause_for(1);
    check(megabytes() <= before + MOST_MEGABYTES, "stacks of detached threads are lost");
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile unsigned guarded;

static void *count_guarded(void *with)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        unsigned seen = guarded;
        /* Lets another thread run meanwhile, also on one core. */
        if (i % 100 == 0)
            sched_yield();
        guarded = seen + 1;
        pthread_mutex_unlock(&mutex);
    }
    return with;
}

void check_mutex(void)
{
    pthread_t threads[THREADS];
    guarded = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(count_guarded, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    check(guarded == THREADS * ROUNDS, "additions under a mutex are lost");
}

/* Adds 1 whenever the number's parity is its own. */
static void *pass(void *with)
{
    unsigned parity = (unsigned)(uintptr_t)with;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < PASSES; i++) {
        while (guarded % 2 != parity)
            pthread_cond_wait(&changed, &mutex);
        guarded++;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

void check_condition(void)
{
    guarded = 0;
    pthread_t even = start(pass, (void *)0), odd = start(pass, (void *)1);
    join(even);
    join(odd);
    check(guarded == 2 * PASSES, "two threads do not alternate");
}

void check_timeout(void)
{
    enum { WAIT = 30000000 };
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += WAIT;
    if (limit.tv_nsec >= 1000000000) {
        limit.tv_nsec -= 1000000000;
        limit.tv_sec += 1;
    }
    uint64_t began = now();
    pthread_mutex_lock(&mutex);
    int result = 0;
    while (result == 0)
        result = pthread_cond_timedwait(&changed, &mutex, &limit);
    pthread_mutex_unlock(&mutex);
    check(result == ETIMEDOUT, "a timed wait ends otherwise than by its time");
    check(now() - began >= WAIT / 2, "a timed wait ends before its time");
}

static _Thread_local unsigned local = 17;
static _Thread_local char large[3000];
static atomic_uint arrived;
static pthread_key_t key;
static atomic_uint destroyed;

static void destroy(void *value)
{
    atomic_fetch_add(&destroyed, (unsigned)(uintptr_t)value);
}

/* Sets what is its own, lets all others do so, and looks at it again. */
static void *keep(void *with)
{
    unsigned own = (unsigned)(uintptr_t)with;
    check(local == 17 && large[own] == 0, "a thread-local variable does not begin with its value");
    local = own;
    large[own] = 1;
    pthread_setspecific(key, with);
    errno = 0;
    check(own % 2 ? close(-1) == -1 : lseek(0x7fff, 0, SEEK_SET) == -1, "a wrong call succeeds");
    int seen = errno;
    errno = (int)own;
    atomic_fetch_add(&arrived, 1);
    while (arrived < THREADS)
        pause_for(1);
    check(seen != 0 && errno == (int)own, "errno is another thread's");
    check(local == own && large[own] == 1, "a thread-local variable is another thread's");
    check(pthread_getspecific(key) == with, "a key's value is another thread's");
    return &local;
}

void check_tls(void)
{
    pthread_t threads[THREADS];
    arrived = 0;
    destroyed = 0;
    errno = 0;
    check(pthread_key_create(&key, destroy) == 0, "no key");
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = start(keep, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        check(join(threads[i]) != &local, "two threads have one variable");
    check(local == 17 && errno == 0, "a thread changes main's variables");
    check(destroyed == THREADS * (THREADS + 1) / 2, "a key's destructor is not called once");
    pthread_key_delete(key);
}
