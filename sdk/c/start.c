/* Linked into every program: begins in the directory that PWD names, makes hard links, has no threads.
 *
 * WASI has no working directory. wasi-libc keeps one of its own, which begins as `/`; it cannot
 * tell the preopens `.` and `/` apart (it strips both to nothing, and the last one wins). So who
 * begins a program hands `/` over last and names the directory in PWD, as Go's programs expect
 * too. */
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void begin_in_pwd(void)
{
    const char *path = getenv("PWD");
    if (path && path[0] == '/')
        (void)chdir(path);
}

/* Rust's std makes hard links by linkat from AT_FDCWD, of which its libc and wasi-libc's headers have
 * different ideas: libc then looks below a directory that is none. */
int __real_linkat(int from, const char *old, int to, const char *new, int flags);
int __wrap_linkat(int from, const char *old, int to, const char *new, int flags)
{
    if (from < 0 && to < 0 && flags == 0)
        return link(old, new);
    return __real_linkat(from, old, to, new, flags);
}

/* WASI has no threads. std of Rust asks for some of these names all the same, which a wasi-libc
 * without threads may lack: whoever wants a thread is told that there is none to be had. */
#include <errno.h>

#define WEAK __attribute__((weak))

WEAK int pthread_attr_init(void *attributes) { return (void)attributes, 0; }
WEAK int pthread_attr_destroy(void *attributes) { return (void)attributes, 0; }
WEAK int pthread_attr_setstacksize(void *attributes, size_t bytes)
{
    return (void)attributes, (void)bytes, 0;
}
WEAK int pthread_create(void *thread, const void *attributes, void *(*run)(void *), void *with)
{
    return (void)thread, (void)attributes, (void)run, (void)with, EAGAIN;
}
WEAK int pthread_join(void *thread, void **with) { return (void)thread, (void)with, ESRCH; }
WEAK int pthread_detach(void *thread) { return (void)thread, ESRCH; }
