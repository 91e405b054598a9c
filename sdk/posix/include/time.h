/* What wasi-libc's header leaves out: identity.c implements it. */
#ifndef PENUMBRA_TIME_H
#define PENUMBRA_TIME_H

#include_next <time.h>

#ifdef __cplusplus
extern "C" {
#endif

void tzset(void);

#ifdef __cplusplus
}
#endif

#endif
