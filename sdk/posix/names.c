/* Names of hosts and services: addresses as numbers, "localhost", names that the network's server
 * knows (resolve.c), ports as numbers. All functions are weak, as in sockets.c. */
#include "resolve.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
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

/* Writes the addresses of a host. Returns how many; if there are none, `error` says why. */
static int addresses_of(const char *text, bool is_number, struct in_addr addresses[RESOLVED],
                        int *error)
{
    *error = EAI_NONAME;
    if (inet_pton(AF_INET, text, addresses) == 1)
        return 1;
    if (is_number)
        return 0;
    if (strcmp(text, "localhost") == 0 || strcmp(text, "localhost.") == 0) {
        addresses->s_addr = htonl(INADDR_LOOPBACK);
        return 1;
    }
    return penumbra_resolve(text, addresses, error);
}

/* An answer, with what it points to. */
struct answer {
    struct addrinfo info;
    struct sockaddr_in address;
    char name[];
};

static struct addrinfo *answer(int type, struct sockaddr_in address, const char *name)
{
    size_t length = name ? strlen(name) + 1 : 0;
    struct answer *made = calloc(1, sizeof *made + length);
    if (!made)
        return NULL;
    made->address = address;
    made->info.ai_family = AF_INET;
    made->info.ai_socktype = type;
    made->info.ai_protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    made->info.ai_addrlen = sizeof made->address;
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
    struct sockaddr_in address = {.sin_family = AF_INET};
    static const int types[TYPES] = {SOCK_STREAM, SOCK_DGRAM};
    struct addrinfo *found = NULL, **end = &found;
    struct in_addr addresses[RESOLVED];
    int count = 1, error;
    if (!host && !service)
        return EAI_NONAME;
    if (how->ai_family != AF_UNSPEC && how->ai_family != AF_INET)
        return EAI_FAMILY;
    if (service && !port_of(service, &address.sin_port))
        return EAI_SERVICE;
    if (!host)
        addresses->s_addr = htonl(how->ai_flags & AI_PASSIVE ? INADDR_ANY : INADDR_LOOPBACK);
    else if (!(count = addresses_of(host, how->ai_flags & AI_NUMERICHOST, addresses, &error)))
        return error;
    for (size_t index = 0; index < (size_t)count * TYPES; index++) {
        address.sin_addr = addresses[index / TYPES];
        if (how->ai_socktype != 0 && how->ai_socktype != types[index % TYPES])
            continue;
        const char *name = how->ai_flags & AI_CANONNAME && !found ? host : NULL;
        struct addrinfo *made = answer(types[index % TYPES], address, name);
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
    if (bytes < 8 || address->sa_family != AF_INET)
        return EAI_FAMILY;
    if (flags & NI_NAMEREQD)
        return EAI_NONAME;
    if (host && host_bytes && !inet_ntop(AF_INET, &in->sin_addr, host, host_bytes))
        return EAI_OVERFLOW;
    if (service && service_bytes) {
        char port[6];
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
    static struct in_addr found[RESOLVED];
    static char *addresses[RESOLVED + 1], *aliases[] = {NULL}, kept[256];
    static struct hostent host = {kept, aliases, AF_INET, sizeof *found, addresses};
    int count = 0, error = EAI_NONAME;
    if (strlen(name) < sizeof kept)
        count = addresses_of(name, false, found, &error);
    if (count == 0) {
        h_errno = error == EAI_AGAIN ? TRY_AGAIN : HOST_NOT_FOUND;
        return NULL;
    }
    for (int index = 0; index <= count; index++)
        addresses[index] = index < count ? (char *)&found[index] : NULL;
    strcpy(kept, name);
    return &host;
}

/* No address has a name: the resolver asks for A records only. */
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
