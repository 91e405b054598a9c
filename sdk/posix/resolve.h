/* Addresses of hosts by name. */
#ifndef PENUMBRA_RESOLVE_H
#define PENUMBRA_RESOLVE_H

#include <netinet/in.h>

/* Most addresses of a name that are used: half of them of each family. */
#define RESOLVED 16

/* An address of a host. */
struct host_address {
    sa_family_t family;
    union {
        struct in_addr v4;
        struct in6_addr v6;
    };
};

/* Asks the network's server of names for the addresses of `name`, of a family or AF_UNSPEC, and
 * waits for its answers, a few seconds at most. Returns how many it has written, those of IPv4
 * first; if there are none, `error` is an error of getaddrinfo. */
int penumbra_resolve(const char *name, int family, struct host_address addresses[RESOLVED],
                     int *error);

#endif
