/* What wasi-libc's header leaves out. */
#ifndef PENUMBRA_ARPA_INET_H
#define PENUMBRA_ARPA_INET_H

#include_next <arpa/inet.h>

#ifdef __cplusplus
extern "C" {
#endif

in_addr_t inet_addr(const char *);
char *inet_ntoa(struct in_addr);

#ifdef __cplusplus
}
#endif

#endif
