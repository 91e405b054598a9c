/* How a thread finds its descriptor, for musl's code: a thread-local pointer (thread.c). */
extern _Thread_local struct __pthread *__thread_pointer;

static inline uintptr_t __get_tp(void)
{
    return (uintptr_t)__thread_pointer;
}

#define tls_mod_off_t unsigned long long

/* WASI has no signals: these do nothing. */
void __block_app_sigs(void *set);
void __restore_sigs(void *set);
