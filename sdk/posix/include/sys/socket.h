/* Sockets: what wasi-libc's header leaves out, because WASI has no such functions.
 * sdk/posix/sockets.c implements them. */
#ifndef PENUMBRA_SYS_SOCKET_H
#define PENUMBRA_SYS_SOCKET_H

#include_next <sys/socket.h>

#include <__struct_iovec.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SOMAXCONN
#define SOMAXCONN 128
#endif

/* MSG_PEEK and MSG_WAITALL are WASI's. wasi-libc's MSG_TRUNC has the number of MSG_PEEK. */
#undef MSG_TRUNC
#define MSG_TRUNC 0x20
#define MSG_DONTWAIT 0x40
/* Always so: there are no signals for a broken connection. */
#define MSG_NOSIGNAL 0x4000

#ifndef SO_REUSEADDR
#define SO_REUSEADDR 2
#define SO_ERROR 4
#define SO_BROADCAST 6
#define SO_SNDBUF 7
#define SO_RCVBUF 8
#define SO_KEEPALIVE 9
#define SO_LINGER 13
#define SO_REUSEPORT 15
#define SO_ACCEPTCONN 30
#define SO_PROTOCOL 38
#define SO_DOMAIN 39
#define SO_RCVTIMEO 66
#define SO_SNDTIMEO 67
#endif

int socket(int, int, int);
int bind(int, const struct sockaddr *, socklen_t);
int listen(int, int);
int connect(int, const struct sockaddr *, socklen_t);
int getsockname(int, struct sockaddr *__restrict, socklen_t *__restrict);
int getpeername(int, struct sockaddr *__restrict, socklen_t *__restrict);
ssize_t sendto(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
ssize_t recvfrom(int, void *__restrict, size_t, int, struct sockaddr *__restrict,
                 socklen_t *__restrict);
ssize_t sendmsg(int, const struct msghdr *, int);
ssize_t recvmsg(int, struct msghdr *, int);
int setsockopt(int, int, int, const void *, socklen_t);

#ifdef __cplusplus
}
#endif

#endif
