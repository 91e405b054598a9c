#include "datagrams.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT = 7777 };

static const char out[DATAGRAM_MOST] = { 0x5a };
static char in[DATAGRAM_MOST];

/* One life of a pair of sockets. */
static const char *live(const struct sockaddr_in *address, size_t datagram, size_t bytes)
{
    int reader = socket(AF_INET, SOCK_DGRAM, 0), writer = socket(AF_INET, SOCK_DGRAM, 0);
    const char *failed = reader < 0 || writer < 0 ? "socket" : NULL;
    if (!failed && bind(reader, (const struct sockaddr *)address, sizeof *address) < 0)
        failed = "bind";
    if (!failed && connect(writer, (const struct sockaddr *)address, sizeof *address) < 0)
        failed = "connect";
    while (!failed && bytes > 0) {
        size_t length = bytes < datagram ? bytes : datagram;
        if (send(writer, out, length, 0) != (ssize_t)length)
            failed = "send";
        else if (recv(reader, in, sizeof in, 0) != (ssize_t)length)
            failed = "recv";
        bytes -= length;
    }
    if (!failed && memcmp(in, out, 1) != 0)
        failed = "the same bytes";
    close(writer);
    close(reader);
    return failed;
}

const char *send_datagrams(size_t datagram, size_t life, size_t total)
{
    struct sockaddr_in address;
    const char *failed = NULL;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(PORT);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (!failed && total > 0) {
        size_t bytes = total < life ? total : life;
        failed = live(&address, datagram, bytes);
        total -= bytes;
    }
    return failed;
}
