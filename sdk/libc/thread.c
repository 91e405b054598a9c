/* Threads from wasi-threads: what musl does with clone and exit.
 *
 * A thread has one block of the heap: its stack (which grows down from `stack`, away from the
 * rest), its thread-local variables, the values of its keys, and its descriptor. The block may be
 * freed only when its thread has left its stack for good. Its last act, in wasi_thread_start, is
 * therefore to release the lock of the thread list: whoever frees a block takes that lock first.
 * A detached thread's block waits in `dead` for the next thread that is created.
 *
 * Limits: a thread ends by returning from its function. pthread_exit and pthread_cancel do not
 * exist, since WebAssembly cannot unwind a stack, and a program that calls them does not link. */
#include "pthread_impl.h"
#include "stdio_impl.h"
#include "libc.h"
#include "lock.h"
#include "thread_start.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* No thread that wasi-threads starts has this number (they are below 2^29). */
#define MAIN_TID 0x3fffffff

static struct pthread main_thread = {
    .self = &main_thread,
    .prev = &main_thread,
    .next = &main_thread,
    .tid = MAIN_TID,
    .detach_state = DT_JOINABLE,
    .robust_list = { .head = &main_thread.robust_list.head },
    .locale = &__libc.global_locale,
};

/* A thread that starts replaces it by its own. */
_Thread_local struct pthread *__thread_pointer = &main_thread;

volatile int __thread_list_lock;
static struct pthread *dead;

/* pthread_key_create.c has the real ones, if the program uses keys. */
static volatile size_t no_keys = 0;
weak_alias(no_keys, __pthread_tsd_size);
static void *no_values[1];
weak_alias(no_values, __pthread_tsd_main);
static void no_destructors(void) {}
weak_alias(no_destructors, __pthread_tsd_run_dtors);
weak_alias(no_destructors, __do_orphaned_stdio_locks);

static FILE *volatile no_file;
weak_alias(no_file, __stdin_used);
weak_alias(no_file, __stdout_used);
weak_alias(no_file, __stderr_used);

void __tl_lock(void)
{
    while (a_cas(&__thread_list_lock, 0, 1))
        __futexwait(&__thread_list_lock, 1, 1);
}

void __tl_unlock(void)
{
    a_store(&__thread_list_lock, 0);
    __wake(&__thread_list_lock, 1, 1);
}

/* Returns when `thread`, which has ended, is off its stack. */
void __tl_sync(pthread_t thread)
{
    (void)thread;
    __tl_lock();
    __tl_unlock();
}

/* pthread_join frees a block with this. */
int __munmap(void *block, size_t size)
{
    (void)size;
    free(block);
    return 0;
}

void __block_app_sigs(void *set) { (void)set; }
void __restore_sigs(void *set) { (void)set; }

void thrd_yield(void) { sched_yield(); }

/* What wasi_thread_start finds; it knows the places of the first two. */
struct start {
    void *stack;
    void *tls;
    struct pthread *thread;
    void *(*run)(void *);
    void *with;
    /* thrd_create's function returns an int. */
    int c11;
};

/* Ends the calling thread, but for the lock of the thread list, which it holds until it is gone. */
static void finish(struct pthread *self, void *result)
{
    self->result = result;
    __pthread_tsd_run_dtors();
    __do_orphaned_stdio_locks();
    __tl_lock();
    self->next->prev = self->prev;
    self->prev->next = self->next;
    if (!--libc.threads_minus_1)
        libc.need_locks = -1;
    if (a_cas(&self->detach_state, DT_JOINABLE, DT_EXITED) == DT_JOINABLE) {
        __wake(&self->detach_state, 1, 1);
    } else {
        self->next = dead;
        dead = self;
    }
}

hidden void __thread_main(int tid, struct start *start)
{
    struct pthread *self = start->thread;
    __thread_pointer = self;
    self->tid = tid;
    void *result;
    if (start->c11)
        result = (void *)(intptr_t)((int (*)(void *))start->run)(start->with);
    else
        result = start->run(start->with);
    finish(self, result);
}

/* Called by the host, in a new instance, with a new thread's number and its `struct start`. */
__asm__(".globaltype __stack_pointer, i32\n"
        ".functype __wasm_init_tls (i32) -> ()\n"
        ".functype __thread_main (i32, i32) -> ()\n"
        ".export_name wasi_thread_start, wasi_thread_start\n"
        ".globl wasi_thread_start\n"
        ".type wasi_thread_start,@function\n"
        "wasi_thread_start:\n"
        ".functype wasi_thread_start (i32, i32) -> ()\n"
        "local.get 1\n i32.load 0\n global.set __stack_pointer\n"
        "local.get 1\n i32.load 4\n call __wasm_init_tls\n"
        "local.get 0\n local.get 1\n call __thread_main\n"
        "i32.const __thread_list_lock\n i32.const 0\n i32.atomic.store 0\n"
        "i32.const __thread_list_lock\n i32.const 1\n memory.atomic.notify 0\n drop\n"
        "end_function\n");
/* Whatever links pthread_create needs it. */
void wasi_thread_start(int tid, struct start *start);
hidden void (*const __thread_entry)(int, struct start *) = wasi_thread_start;

__attribute__((import_module("wasi"), import_name("thread-spawn")))
int __wasi_thread_spawn(struct start *start);

_Thread_local int (*__other_start)(struct start *);

static void init_file_lock(FILE *file)
{
    if (file && file->lock < 0)
        file->lock = 0;
}

/* From the first thread on, locks are locks. */
static void become_threaded(void)
{
    for (FILE *file = *__ofl_lock(); file; file = file->next)
        init_file_lock(file);
    __ofl_unlock();
    init_file_lock(__stdin_used);
    init_file_lock(__stdout_used);
    init_file_lock(__stderr_used);
    if (!main_thread.tsd)
        main_thread.tsd = (void **)__pthread_tsd_main;
    libc.threaded = 1;
}

static void free_dead(void)
{
    __tl_lock();
    struct pthread *next = dead;
    dead = 0;
    __tl_unlock();
    while (next) {
        struct pthread *this = next;
        next = this->next;
        free(this->map_base);
    }
}

static size_t up(size_t value, size_t align) { return (value + align - 1) & -align; }

/* Returns a thread's start, in a new block with room for all it needs; 0 without memory. */
static struct start *make_block(const pthread_attr_t *attributes)
{
    size_t tls_align = __builtin_wasm_tls_align() < 16 ? 16 : __builtin_wasm_tls_align();
    size_t stack_size = up(attributes->_a_stacksize, 16);
    size_t stack = attributes->_a_stackaddr ? 0 : stack_size;
    size_t tls = up(stack, tls_align);
    size_t keys = up(tls + __builtin_wasm_tls_size(), 16);
    size_t thread = up(keys + __pthread_tsd_size, 16);
    size_t start = thread + up(sizeof(struct pthread), 16);
    size_t size = start + sizeof(struct start);
    void *block;
    if (size < stack || posix_memalign(&block, tls_align, size))
        return 0;
    char *base = block;
    memset(base + tls, 0, size - tls);
    struct pthread *new = (struct pthread *)(base + thread);
    struct start *made = (struct start *)(base + start);
    void *top = attributes->_a_stackaddr ? (void *)(attributes->_a_stackaddr & -16) : base + stack;
    *new = (struct pthread){
        .self = new,
        .map_base = block,
        .map_size = size,
        .stack = top,
        .stack_size = stack_size,
        .tsd = (void **)(base + keys),
        .locale = &libc.global_locale,
        .detach_state = attributes->_a_detach ? DT_DETACHED : DT_JOINABLE,
        .robust_list = { .head = &new->robust_list.head },
    };
    *made = (struct start){ .stack = top, .tls = base + tls, .thread = new };
    return made;
}

/* Puts a thread into the list, starts it, and takes it out again if that fails. The list is not
 * locked meanwhile: threads that end need it, and would pile up. */
static int start_thread(int (*other_start)(struct start *), struct start *start)
{
    struct pthread *self = __pthread_self(), *new = start->thread;
    __tl_lock();
    if (!libc.threads_minus_1++)
        libc.need_locks = 1;
    new->next = self->next;
    new->prev = self;
    new->next->prev = new;
    self->next = new;
    __tl_unlock();
    if ((other_start ? other_start : __wasi_thread_spawn)(start) > 0)
        return 0;
    __tl_lock();
    new->next->prev = new->prev;
    new->prev->next = new->next;
    if (!--libc.threads_minus_1)
        libc.need_locks = 0;
    __tl_unlock();
    return EAGAIN;
}

int __pthread_create(pthread_t *restrict made, const pthread_attr_t *restrict given,
                     void *(*run)(void *), void *restrict with)
{
    int (*other_start)(struct start *) = __other_start;
    __other_start = 0;
    pthread_attr_t attributes = { 0 };
    int c11 = given == __ATTRP_C11_THREAD;
    if (given && !c11)
        attributes = *given;
    if (!attributes._a_stacksize)
        attributes._a_stacksize = DEFAULT_STACK_SIZE;
    if (!libc.threaded)
        become_threaded();
    free_dead();
    struct start *start = make_block(&attributes);
    if (!start)
        return EAGAIN;
    start->run = run;
    start->with = with;
    start->c11 = c11;
    struct pthread *new = start->thread;
    *made = new;
    int failed = start_thread(other_start, start);
    if (failed)
        free(new->map_base);
    return failed;
}
weak_alias(__pthread_create, pthread_create);
