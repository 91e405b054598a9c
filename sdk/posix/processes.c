/* Descriptors and processes as POSIX has them, over Penumbra's (penumbra.h): duplicates, pipes,
 * signals to others, the end of children. There is no fork; a program starts others with
 * penumbra_spawn. All functions are weak, as in sockets.c. */
#ifndef _WASI_EMULATED_SIGNAL
#define _WASI_EMULATED_SIGNAL /* for the numbers of signals */
#endif
#include <errno.h>
#include <penumbra.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wasi/api.h>

#include "timeouts.h"

#define WEAK __attribute__((weak))

/* Returns 0, or -1 with errno. */
static int done(int error)
{
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

WEAK int dup(int fd)
{
    uint32_t new;
    if (done(penumbra_dup((uint32_t)fd, &new)))
        return -1;
    timeouts_copy(fd, (int)new);
    return (int)new;
}

/* `to` must be open, as WASI demands: programs replace their input and outputs with it. */
WEAK int dup2(int fd, int to)
{
    int new = dup(fd);
    if (new < 0 || fd == to) {
        if (new >= 0)
            close(new);
        return new < 0 ? -1 : to;
    }
    __wasi_errno_t error = __wasi_fd_renumber((__wasi_fd_t)new, (__wasi_fd_t)to);
    if (error)
        close(new);
    else
        timeouts_copy(fd, to);
    return done(error) ? -1 : to;
}

WEAK int pipe(int ends[2])
{
    uint32_t new[2];
    if (done(penumbra_pipe(new)))
        return -1;
    ends[0] = (int)new[0];
    ends[1] = (int)new[1];
    return 0;
}

WEAK int kill(pid_t pid, int signal)
{
    return done(penumbra_kill(pid, (uint32_t)signal));
}

static struct penumbra_identity self(void)
{
    struct penumbra_identity identity;
    if (penumbra_self(&identity))
        memset(&identity, 0, sizeof identity);
    return identity;
}

WEAK pid_t getpid(void)
{
    return (pid_t)self().pid;
}

WEAK pid_t getppid(void)
{
    return (pid_t)self().parent;
}

/* Returns the signal that a trap would be elsewhere. */
static int signal_of(uint32_t trap)
{
    switch (trap) {
    case PENUMBRA_TRAP_STACK:
    case PENUMBRA_TRAP_MEMORY: return SIGSEGV;
    case PENUMBRA_TRAP_TABLE: return SIGILL;
    case PENUMBRA_TRAP_NUMBER: return SIGFPE;
    case PENUMBRA_TRAP_NO_MEMORY: return SIGKILL;
    default: return SIGABRT;
    }
}

WEAK pid_t waitpid(pid_t pid, int *status, int flags)
{
    struct penumbra_ended ended;
    if (flags & ~WNOHANG)
        return done(EINVAL);
    if (done(penumbra_wait(pid, flags & WNOHANG ? PENUMBRA_NO_HANG : 0, &ended)))
        return -1;
    if (!status || ended.pid == 0)
        return (pid_t)ended.pid;
    switch (ended.kind) {
    case PENUMBRA_EXIT: *status = (int)(ended.status & 0xff) << 8; break;
    case PENUMBRA_SIGNAL: *status = (int)(ended.status & 0x7f); break;
    case PENUMBRA_TRAP: *status = signal_of(ended.status); break;
    default: *status = SIGKILL; /* Its kernel died. */
    }
    return (pid_t)ended.pid;
}

WEAK pid_t wait(int *status)
{
    return waitpid(-1, status, 0);
}
