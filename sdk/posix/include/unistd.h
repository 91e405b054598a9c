/* What wasi-libc's header leaves out: processes.c and identity.c
 * implement it. */
#ifndef PENUMBRA_UNISTD_H
#define PENUMBRA_UNISTD_H

/* getpid is a real one. */
#ifndef _WASI_EMULATED_GETPID
#define _WASI_EMULATED_GETPID
#endif

#include_next <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

int dup(int);
int dup2(int, int);
int pipe(int[2]);
pid_t getppid(void);
uid_t getuid(void);
uid_t geteuid(void);
gid_t getgid(void);
gid_t getegid(void);

#ifdef __cplusplus
}
#endif

#endif
