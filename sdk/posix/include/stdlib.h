/* What wasi-libc's header leaves out: temporary.c implements it. */
#ifndef PENUMBRA_STDLIB_H
#define PENUMBRA_STDLIB_H

#include_next <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

int mkstemp(char *);

#ifdef __cplusplus
}
#endif

#endif
