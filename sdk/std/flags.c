/* Where std of wasm32-wasip2 and the C library that its programs are linked with have other numbers:
 * what is MSG_PEEK there is MSG_WAITALL here, which std never asks for. All other constants and the
 * structures of sockets are the same. The linker leads calls of recv and recvfrom here. */
#include <sys/socket.h>

enum { MSG_PEEK_OF_STD = 2 };
_Static_assert(MSG_PEEK != MSG_PEEK_OF_STD, "nothing to translate");

ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __real_recvfrom(int fd, void *data, size_t bytes, int flags, struct sockaddr *address,
                        socklen_t *length);

static int translated(int flags)
{
    return (flags & ~MSG_PEEK_OF_STD) | (flags & MSG_PEEK_OF_STD ? MSG_PEEK : 0);
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    return __real_recv(fd, data, bytes, translated(flags));
}

ssize_t __wrap_recvfrom(int fd, void *data, size_t bytes, int flags, struct sockaddr *address,
                        socklen_t *length)
{
    return __real_recvfrom(fd, data, bytes, translated(flags), address, length);
}
