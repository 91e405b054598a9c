/* The socket functions of POSIX over those of Penumbra (penumbra_sockets.h). All of them are weak, so
 * that a program may have functions of the same names. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <penumbra_sockets.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <wasi/api.h>

#include "timeouts.h"

#define WEAK __attribute__((weak))

_Static_assert(SOCK_STREAM == PENUMBRA_STREAM && SOCK_DGRAM == PENUMBRA_DATAGRAMS, "as WASI's");
_Static_assert(AF_INET == PENUMBRA_INET && AF_INET6 == PENUMBRA_INET6, "as wasi-libc's");
_Static_assert(MSG_PEEK == PENUMBRA_PEEK && MSG_WAITALL == PENUMBRA_WAITALL, "as WASI's");

/* Returns 0, or -1 with errno. */
static int done(int error)
{
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

static int to_penumbra(const struct sockaddr *from, socklen_t bytes, struct penumbra_address *to)
{
    memset(to, 0, sizeof *to);
    if (bytes < sizeof(sa_family_t))
        return EINVAL;
    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)from;
        if (bytes < offsetof(struct sockaddr_in6, sin6_scope_id))
            return EINVAL;
        to->family = PENUMBRA_INET6;
        to->port = ntohs(in6->sin6_port);
        memcpy(to->address, &in6->sin6_addr, sizeof to->address);
        return 0;
    }
    if (from->sa_family != AF_INET)
        return EAFNOSUPPORT;
    const struct sockaddr_in *in = (const void *)from;
    /* Older structures have no padding at the end. */
    if (bytes < 8)
        return EINVAL;
    to->family = PENUMBRA_INET;
    to->port = ntohs(in->sin_port);
    memcpy(to->address, &in->sin_addr, 4);
    return 0;
}

static void from_penumbra(const struct penumbra_address *from, struct sockaddr *to,
                          socklen_t *bytes)
{
    if (!to || !bytes)
        return;
    if (from->family == PENUMBRA_INET6) {
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
        memcpy(&in6.sin6_addr, from->address, sizeof from->address);
        memcpy(to, &in6, *bytes < sizeof in6 ? *bytes : sizeof in6);
        *bytes = sizeof in6;
        return;
    }
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(from->port)};
    memcpy(&in.sin_addr, from->address, 4);
    memcpy(to, &in, *bytes < sizeof in ? *bytes : sizeof in);
    *bytes = sizeof in;
}

WEAK int socket(int family, int type, int protocol)
{
    int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (protocol != 0 && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
        return done(EPROTONOSUPPORT);
    uint32_t flags = type & SOCK_NONBLOCK ? PENUMBRA_NONBLOCK : 0, new;
    int error = penumbra_socket((uint32_t)family, (uint32_t)kind, flags, &new);
    if (done(error))
        return -1;
    timeouts_begin((int)new);
    return (int)new;
}

WEAK int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    struct penumbra_address to;
    int error = to_penumbra(address, bytes, &to);
    return done(error ? error : penumbra_bind((uint32_t)fd, &to));
}

WEAK int listen(int fd, int backlog)
{
    return done(penumbra_listen((uint32_t)fd, backlog < 0 ? 0 : (uint32_t)backlog));
}

WEAK int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    struct penumbra_address to;
    int error = to_penumbra(address, bytes, &to);
    return done(error ? error : penumbra_connect((uint32_t)fd, &to));
}

WEAK int accept4(int fd, struct sockaddr *__restrict address, socklen_t *__restrict bytes, int flags)
{
    struct penumbra_address from;
    uint32_t new;
    uint32_t how = flags & SOCK_NONBLOCK ? PENUMBRA_NONBLOCK : 0;
    struct timeout limit = timeouts_start(fd, POLLIN, 0);
    timeouts_wait(&limit);
    if (limit.until < 0)
        return done(EAGAIN);
    if (done(penumbra_accept((uint32_t)fd, how, &from, &new)))
        return -1;
    timeouts_begin((int)new);
    from_penumbra(&from, address, bytes);
    return (int)new;
}

WEAK int accept(int fd, struct sockaddr *__restrict address, socklen_t *__restrict bytes)
{
    return accept4(fd, address, bytes, 0);
}

WEAK int getsockname(int fd, struct sockaddr *__restrict address, socklen_t *__restrict bytes)
{
    struct penumbra_address own;
    if (done(penumbra_local_address((uint32_t)fd, &own)))
        return -1;
    from_penumbra(&own, address, bytes);
    return 0;
}

WEAK int getpeername(int fd, struct sockaddr *__restrict address, socklen_t *__restrict bytes)
{
    struct penumbra_address peer;
    if (done(penumbra_peer_address((uint32_t)fd, &peer)))
        return -1;
    from_penumbra(&peer, address, bytes);
    return 0;
}

/* Converts the flags of a send or receive; -1 if there are unknown ones. */
static int32_t how(int flags, int known)
{
    known |= MSG_NOSIGNAL | MSG_DONTWAIT;
    if (flags & ~known)
        return -1;
    return (flags & (MSG_PEEK | MSG_WAITALL)) | (flags & MSG_DONTWAIT ? PENUMBRA_DONTWAIT : 0);
}

/* A buffer or several, as one message. */
struct pieces {
    const struct iovec *list;
    size_t count;
};

static inline ssize_t send_pieces(int fd, struct pieces pieces, int flags,
                                  const struct sockaddr *name, socklen_t length)
{
    struct penumbra_address to, *address = NULL;
    int32_t sends = how(flags, 0);
    uint32_t sent;
    if (sends < 0)
        return done(EOPNOTSUPP);
    if (name) {
        int error = to_penumbra(name, length, &to);
        if (error)
            return done(error);
        address = &to;
    }
    struct timeout limit = timeouts_start(fd, POLLOUT, sends & PENUMBRA_DONTWAIT);
    sends |= limit.until ? PENUMBRA_DONTWAIT : 0;
    int error;
    do {
        error = penumbra_send_to((uint32_t)fd, (const void *)pieces.list, (uint32_t)pieces.count,
                                 (uint32_t)sends, address, &sent);
    } while (error == EAGAIN && timeouts_wait(&limit));
    return done(error) ? -1 : (ssize_t)sent;
}

WEAK ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct pieces pieces = {message->msg_iov, (size_t)message->msg_iovlen};
    if (message->msg_controllen)
        return done(EOPNOTSUPP);
    return send_pieces(fd, pieces, flags, message->msg_name, message->msg_namelen);
}

/* `name`: where the sender's address goes, of `*length` bytes; or NULL. */
static inline ssize_t receive_pieces(int fd, struct pieces pieces, int flags,
                                     struct sockaddr *name, socklen_t *length, uint16_t *found)
{
    struct penumbra_address from;
    int32_t receives = how(flags, MSG_PEEK | MSG_WAITALL);
    uint32_t received;
    if (receives < 0)
        return done(EOPNOTSUPP);
    struct timeout limit = timeouts_start(fd, POLLIN, receives & PENUMBRA_DONTWAIT);
    if (limit.until)
        receives = (receives & ~MSG_WAITALL) | PENUMBRA_DONTWAIT;
    /* The peer of a stream is asked for only if it is wanted. */
    struct penumbra_address *address = name ? &from : NULL;
    int error;
    do {
        error = penumbra_recv_from((uint32_t)fd, (const void *)pieces.list, (uint32_t)pieces.count,
                                   (uint32_t)receives, address, &received, found);
    } while (error == EAGAIN && timeouts_wait(&limit));
    if (done(error))
        return -1;
    if (address)
        from_penumbra(&from, name, length);
    return (ssize_t)received;
}

WEAK ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    struct pieces pieces = {message->msg_iov, (size_t)message->msg_iovlen};
    uint16_t found;
    ssize_t received = receive_pieces(fd, pieces, flags, message->msg_name, &message->msg_namelen,
                                      &found);
    if (received >= 0) {
        message->msg_controllen = 0;
        message->msg_flags = found & PENUMBRA_TRUNCATED ? MSG_TRUNC : 0;
    }
    return received;
}

WEAK ssize_t sendto(int fd, const void *data, size_t bytes, int flags,
                    const struct sockaddr *address, socklen_t length)
{
    struct iovec piece = {(void *)data, bytes};
    return send_pieces(fd, (struct pieces){&piece, 1}, flags, address, length);
}

WEAK ssize_t recvfrom(int fd, void *__restrict data, size_t bytes, int flags,
                      struct sockaddr *__restrict address, socklen_t *__restrict length)
{
    struct iovec piece = {data, bytes};
    uint16_t found;
    return receive_pieces(fd, (struct pieces){&piece, 1}, flags, length ? address : NULL, length,
                          &found);
}

WEAK ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    struct iovec piece = {(void *)data, bytes};
    return send_pieces(fd, (struct pieces){&piece, 1}, flags, NULL, 0);
}

WEAK ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    struct iovec piece = {data, bytes};
    uint16_t found;
    return receive_pieces(fd, (struct pieces){&piece, 1}, flags, NULL, NULL, &found);
}

WEAK int shutdown(int fd, int directions)
{
    return done(__wasi_sock_shutdown((__wasi_fd_t)fd, (__wasi_sdflags_t)directions));
}

/* Returns Penumbra's number of an option, or 0. */
static uint32_t option_of(int level, int name)
{
    if (level == IPPROTO_TCP)
        return name == TCP_NODELAY ? PENUMBRA_OPTION_NODELAY : 0;
    if (level == IPPROTO_IPV6)
        return name == IPV6_V6ONLY ? PENUMBRA_OPTION_V6ONLY : 0;
    if (level != SOL_SOCKET)
        return 0;
    switch (name) {
    case SO_ERROR: return PENUMBRA_OPTION_ERROR;
    case SO_REUSEADDR: return PENUMBRA_OPTION_REUSEADDR;
    case SO_RCVBUF: return PENUMBRA_OPTION_RCVBUF;
    case SO_SNDBUF: return PENUMBRA_OPTION_SNDBUF;
    case SO_KEEPALIVE: return PENUMBRA_OPTION_KEEPALIVE;
    case SO_BROADCAST: return PENUMBRA_OPTION_BROADCAST;
    case SO_ACCEPTCONN: return PENUMBRA_OPTION_ACCEPTCONN;
    default: return 0;
    }
}

WEAK int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
    uint32_t number = 0;
    int error = timeouts_set(fd, level, name, value, bytes);
    if (error >= 0)
        return done(error);
    if (bytes < sizeof number)
        return done(EINVAL);
    memcpy(&number, value, sizeof number);
    return done(penumbra_set_option((uint32_t)fd, option_of(level, name), number));
}

WEAK int getsockopt(int fd, int level, int name, void *__restrict value,
                    socklen_t *__restrict bytes)
{
    uint32_t number;
    int error = timeouts_get(fd, level, name, value, bytes);
    if (error >= 0)
        return done(error);
    if (*bytes < sizeof number)
        return done(EINVAL);
    if (level == SOL_SOCKET && (name == SO_TYPE || name == SO_DOMAIN || name == SO_PROTOCOL)) {
        __wasi_fdstat_t stat;
        struct penumbra_address own;
        if (done(__wasi_fd_fdstat_get((__wasi_fd_t)fd, &stat)) ||
            done(penumbra_local_address((uint32_t)fd, &own)))
            return -1;
        number = stat.fs_filetype;
        if (name == SO_PROTOCOL)
            number = number == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
        if (name == SO_DOMAIN)
            number = own.family;
    } else if (done(penumbra_get_option((uint32_t)fd, option_of(level, name), &number))) {
        return -1;
    }
    memcpy(value, &number, sizeof number);
    *bytes = sizeof number;
    return 0;
}
