/* What wasi-libc's header leaves out. */
#ifndef PENUMBRA_NETINET_IN_H
#define PENUMBRA_NETINET_IN_H

#include_next <netinet/in.h>

#include <sys/socket.h>

#endif
