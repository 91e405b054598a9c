/* Linked into every C program: sets the working directory from PWD, makes hard links work, and
 * stubs threads.
 *
 * WASI has no working directory. wasi-libc keeps its own, initially `/`; it cannot tell the
 * preopens `.` and `/` apart (it strips both to nothing, and the last one wins). So a parent passes
 * `/` last and names the directory in PWD, which Go's programs expect too. */
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void begin_in_pwd(void)
{
    const char *path = getenv("PWD");
    if (path && path[0] == '/')
        (void)chdir(path);
}

/* Rust's std makes hard links with linkat from AT_FDCWD, whose value differs between Rust's libc
 * crate and wasi-libc: wasi-libc then resolves the path below a descriptor that is no directory. */
int __real_linkat(int from, const char *old, int to, const char *new, int flags);
int __wrap_linkat(int from, const char *old, int to, const char *new, int flags)
{
    if (from < 0 && to < 0 && flags == 0)
        return link(old, new);
    return __real_linkat(from, old, to, new, flags);
}

#ifndef _REENTRANT
/* A program without threads. Rust's std still refers to these functions, which a wasi-libc without
 * threads may lack. Creating a thread fails with EAGAIN. */
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
#endif
