/* Names of hosts and services: addresses as numbers, "localhost", names that the network's server
 * knows (resolve.c), ports as numbers. All functions are weak, as in sockets.c. */
#include "resolve.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WEAK __attribute__((weak))

WEAK int h_errno;

WEAK in_addr_t inet_addr(const char *text)
{
    struct in_addr address;
    return inet_pton(AF_INET, text, &address) == 1 ? address.s_addr : INADDR_NONE;
}

WEAK char *inet_ntoa(struct in_addr address)
{
    static char text[INET_ADDRSTRLEN];
    return (char *)inet_ntop(AF_INET, &address, text, sizeof text);
}

/* Returns whether `text` is a decimal number below 65,536. */
static bool port_of(const char *text, in_port_t *port)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    *port = htons((uint16_t)number);
    return *text >= '0' && *text <= '9' && !*end && number < 65536;
}

/* Writes the given addresses, of a family or AF_UNSPEC. Returns how many. */
static int both(int family, in_addr_t v4, struct in6_addr v6, struct host_address *to)
{
    int count = 0;
    if (family != AF_INET6)
        to[count++] = (struct host_address){.family = AF_INET, .v4.s_addr = htonl(v4)};
    if (family != AF_INET)
        to[count++] = (struct host_address){.family = AF_INET6, .v6 = v6};
    return count;
}

/* Writes the addresses of a host, of a family or AF_UNSPEC, those of IPv4 first. Returns how many;
 * if there are none, `error` says why. */
static int addresses_of(const char *text, int family, bool is_number,
                        struct host_address addresses[RESOLVED], int *error)
{
    *error = EAI_NONAME;
    addresses->family = AF_INET;
    if (inet_pton(AF_INET, text, &addresses->v4) == 1)
        return family != AF_INET6;
    addresses->family = AF_INET6;
    if (inet_pton(AF_INET6, text, &addresses->v6) == 1)
        return family != AF_INET;
    if (is_number)
        return 0;
    if (strcmp(text, "localhost") == 0 || strcmp(text, "localhost.") == 0)
        return both(family, INADDR_LOOPBACK, in6addr_loopback, addresses);
    return penumbra_resolve(text, family, addresses, error);
}

/* Makes addresses of IPv4 those that IPv6 maps. */
static void map(struct host_address *addresses, int count)
{
    for (int index = 0; index < count; index++) {
        struct in_addr v4 = addresses[index].v4;
        addresses[index] = (struct host_address){.family = AF_INET6};
        addresses[index].v6.s6_addr[10] = addresses[index].v6.s6_addr[11] = 0xff;
        memcpy(&addresses[index].v6.s6_addr[12], &v4, sizeof v4);
    }
}

/* An answer, with what it points to. */
struct answer {
    struct addrinfo info;
    union {
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    char name[];
};

static struct addrinfo *answer(int type, const struct host_address *host, in_port_t port,
                               const char *name)
{
    size_t length = name ? strlen(name) + 1 : 0;
    struct answer *made = calloc(1, sizeof *made + length);
    if (!made)
        return NULL;
    made->info.ai_family = host->family;
    if (host->family == AF_INET6) {
        made->address.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
        made->address.v6.sin6_addr = host->v6;
        made->info.ai_addrlen = sizeof made->address.v6;
    } else {
        made->address.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        made->address.v4.sin_addr = host->v4;
        made->info.ai_addrlen = sizeof made->address.v4;
    }
    made->info.ai_socktype = type;
    made->info.ai_protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    made->info.ai_addr = (struct sockaddr *)&made->address;
    if (name)
        made->info.ai_canonname = memcpy(made->name, name, length);
    return &made->info;
}

/* Kinds of sockets that an answer has for each address. */
#define TYPES 2

WEAK void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

WEAK int getaddrinfo(const char *__restrict host, const char *__restrict service,
                     const struct addrinfo *__restrict hints, struct addrinfo **__restrict list)
{
    static const struct addrinfo none;
    const struct addrinfo *how = hints ? hints : &none;
    static const int types[TYPES] = {SOCK_STREAM, SOCK_DGRAM};
    struct addrinfo *found = NULL, **end = &found;
    struct host_address addresses[RESOLVED];
    in_port_t port = 0;
    int count, error, family = how->ai_family;
    if (!host && !service)
        return EAI_NONAME;
    if (family != AF_UNSPEC && family != AF_INET && family != AF_INET6)
        return EAI_FAMILY;
    if (service && !port_of(service, &port))
        return EAI_SERVICE;
    if (!host && how->ai_flags & AI_PASSIVE)
        count = both(family, INADDR_ANY, in6addr_any, addresses);
    else if (!host)
        count = both(family, INADDR_LOOPBACK, in6addr_loopback, addresses);
    else
        count = addresses_of(host, family, how->ai_flags & AI_NUMERICHOST, addresses, &error);
    if (count == 0 && family == AF_INET6 && how->ai_flags & AI_V4MAPPED) {
        count = addresses_of(host, AF_INET, how->ai_flags & AI_NUMERICHOST, addresses, &error);
        map(addresses, count);
    }
    if (count == 0)
        return error;
    for (size_t index = 0; index < (size_t)count * TYPES; index++) {
        if (how->ai_socktype != 0 && how->ai_socktype != types[index % TYPES])
            continue;
        const char *name = how->ai_flags & AI_CANONNAME && !found ? host : NULL;
        struct addrinfo *made =
            answer(types[index % TYPES], &addresses[index / TYPES], port, name);
        if (!made) {
            freeaddrinfo(found);
            return EAI_MEMORY;
        }
        *end = made;
        end = &made->ai_next;
    }
    if (!found)
        return EAI_SOCKTYPE;
    *list = found;
    return 0;
}

WEAK int getnameinfo(const struct sockaddr *__restrict address, socklen_t bytes,
                     char *__restrict host, socklen_t host_bytes, char *__restrict service,
                     socklen_t service_bytes, int flags)
{
    const struct sockaddr_in *in = (const void *)address;
    const struct sockaddr_in6 *in6 = (const void *)address;
    bool is_v6 = bytes >= offsetof(struct sockaddr_in6, sin6_scope_id)
        && address->sa_family == AF_INET6;
    if (!is_v6 && (bytes < 8 || address->sa_family != AF_INET))
        return EAI_FAMILY;
    if (flags & NI_NAMEREQD)
        return EAI_NONAME;
    const void *number = is_v6 ? (const void *)&in6->sin6_addr : &in->sin_addr;
    if (host && host_bytes && !inet_ntop(address->sa_family, number, host, host_bytes))
        return EAI_OVERFLOW;
    if (service && service_bytes) {
        char port[6];
        /* Both families have the port at the same place. */
        int length = snprintf(port, sizeof port, "%u", (unsigned)ntohs(in->sin_port));
        if (length < 0 || (socklen_t)length >= service_bytes)
            return EAI_OVERFLOW;
        memcpy(service, port, (size_t)length + 1);
    }
    return 0;
}

WEAK const char *gai_strerror(int error)
{
    switch (error) {
    case EAI_BADFLAGS: return "Invalid flags";
    case EAI_NONAME: return "Name does not resolve";
    case EAI_AGAIN: return "Try again";
    case EAI_FAIL: return "Non-recoverable error";
    case EAI_FAMILY: return "Unrecognized address family or invalid length";
    case EAI_SOCKTYPE: return "Unrecognized socket type";
    case EAI_SERVICE: return "Unrecognized service";
    case EAI_MEMORY: return "Out of memory";
    case EAI_SYSTEM: return "System error";
    case EAI_OVERFLOW: return "Overflow";
    default: return "Unknown error";
    }
}

WEAK struct hostent *gethostbyname(const char *name)
{
    static struct host_address found[RESOLVED];
    static char *addresses[RESOLVED + 1], *aliases[] = {NULL}, kept[256];
    static struct hostent host = {kept, aliases, AF_INET, sizeof found->v4, addresses};
    int count = 0, error = EAI_NONAME;
    if (strlen(name) < sizeof kept)
        count = addresses_of(name, AF_INET, false, found, &error);
    if (count == 0) {
        h_errno = error == EAI_AGAIN ? TRY_AGAIN : HOST_NOT_FOUND;
        return NULL;
    }
    for (int index = 0; index <= count; index++)
        addresses[index] = index < count ? (char *)&found[index].v4 : NULL;
    strcpy(kept, name);
    return &host;
}

/* No address has a name: the resolver asks for addresses only. */
WEAK struct hostent *gethostbyaddr(const void *address, socklen_t bytes, int family)
{
    (void)address, (void)bytes, (void)family;
    h_errno = HOST_NOT_FOUND;
    return NULL;
}

WEAK struct servent *getservbyname(const char *name, const char *protocol)
{
    return (void)name, (void)protocol, NULL;
}
