/* What wasi-libc's header leaves out: signals to other processes. */
#ifndef PENUMBRA_SIGNAL_H
#define PENUMBRA_SIGNAL_H

#include_next <signal.h>

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

int kill(pid_t, int);

#ifdef __cplusplus
}
#endif

#endif
