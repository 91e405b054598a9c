/* The one Linux system call that musl's threads need is the futex; `__futex` (futex.c) makes one of
 * WebAssembly's waits. All others answer -ENOSYS, which musl's code is written to stand. */
#undef SYS_futex
#undef SYS_get_robust_list
#undef SYS_set_robust_list
#define SYS_futex 1
#define SYS_get_robust_list 2
#define SYS_set_robust_list 3

struct timespec;
long __futex(volatile int *address, int operation, int value, const struct timespec *limit);

#define __scc(X) ((long)(X))
typedef long syscall_arg_t;

static inline long __system_call(long number, long a, long b, long c, long d)
{
    if (number != SYS_futex)
        return -ENOSYS;
    return __futex((volatile int *)a, (int)b, (int)c, (const struct timespec *)d);
}

static inline long __syscall1(long n, long a) { return __system_call(n, a, 0, 0, 0); }
static inline long __syscall2(long n, long a, long b) { return __system_call(n, a, b, 0, 0); }
static inline long __syscall3(long n, long a, long b, long c)
{
    return __system_call(n, a, b, c, 0);
}
static inline long __syscall4(long n, long a, long b, long c, long d)
{
    return __system_call(n, a, b, c, d);
}
static inline long __syscall5(long n, long a, long b, long c, long d, long e)
{
    return (void)e, __system_call(n, a, b, c, d);
}
static inline long __syscall6(long n, long a, long b, long c, long d, long e, long f)
{
    return (void)e, (void)f, __system_call(n, a, b, c, d);
}
