/* Addresses of hosts by name. */
#ifndef PENUMBRA_RESOLVE_H
#define PENUMBRA_RESOLVE_H

#include <netinet/in.h>

/* Most addresses of a name that are used. */
#define RESOLVED 8

/* Asks the network's server of names for the IPv4 addresses of `name`, and waits for an answer, a
 * few seconds at most. Returns how many it has written; if there are none, `error` is an error of
 * getaddrinfo. */
int penumbra_resolve(const char *name, struct in_addr addresses[RESOLVED], int *error);

#endif
