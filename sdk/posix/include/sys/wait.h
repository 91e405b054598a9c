/* How children end. processes.c implements it; children are started with penumbra_spawn. */
#ifndef PENUMBRA_SYS_WAIT_H
#define PENUMBRA_SYS_WAIT_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WNOHANG 1

#define WEXITSTATUS(status) (((status) >> 8) & 0xff)
#define WTERMSIG(status) ((status) & 0x7f)
#define WIFEXITED(status) (WTERMSIG(status) == 0)
#define WIFSIGNALED(status) (WTERMSIG(status) != 0)
/* A child is never reported as stopped. */
#define WIFSTOPPED(status) ((void)(status), 0)
#define WSTOPSIG(status) WEXITSTATUS(status)

pid_t wait(int *);
pid_t waitpid(pid_t, int *, int);

#ifdef __cplusplus
}
#endif

#endif
