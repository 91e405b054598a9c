/* What Penumbra offers a WASI program beyond WASI: sockets. POSIX programs include <sys/socket.h>
 * instead, whose functions are made of these (sockets.c).
 *
 * Every function returns 0 or one of WASI's error numbers (the values of errno.h of wasi-libc). */
#ifndef PENUMBRA_SOCKETS_H
#define PENUMBRA_SOCKETS_H

#include <assert.h>
#include <stdint.h>
#include <wasi/api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENUMBRA_SOCKET_CALL(name)                                                                 \
    __attribute__((import_module("penumbra"), import_name(name)))

/* Families of addresses. */
#define PENUMBRA_INET 1u
#define PENUMBRA_INET6 2u
/* Kinds of sockets: WASI's file types. */
#define PENUMBRA_DATAGRAMS 5u
#define PENUMBRA_STREAM 6u
/* Flag of a new socket: operations do not wait. */
#define PENUMBRA_NONBLOCK 4u
/* Flags of receiving: leave the data; wait until the buffers are full; do not wait. */
#define PENUMBRA_PEEK 1u
#define PENUMBRA_WAITALL 2u
#define PENUMBRA_DONTWAIT 4u
/* Flag of what was received: the datagram was longer than the buffers. */
#define PENUMBRA_TRUNCATED 1u

/* Options. ERROR and ACCEPTCONN cannot be set; setting the size of a buffer has no effect. */
#define PENUMBRA_OPTION_ERROR 1u
#define PENUMBRA_OPTION_REUSEADDR 2u
#define PENUMBRA_OPTION_RCVBUF 3u
#define PENUMBRA_OPTION_SNDBUF 4u
#define PENUMBRA_OPTION_NODELAY 5u
#define PENUMBRA_OPTION_KEEPALIVE 6u
#define PENUMBRA_OPTION_BROADCAST 7u
#define PENUMBRA_OPTION_ACCEPTCONN 8u
/* A socket of IPv6 that reaches and hears IPv6 alone. Set before it has a port. */
#define PENUMBRA_OPTION_V6ONLY 9u

/* Address of a socket. */
struct penumbra_address {
    uint16_t family;
    uint16_t port;       /* a number, not in network order */
    uint32_t flow;       /* 0, and ignored */
    uint8_t address[16]; /* IPv4: the first four bytes */
    uint32_t scope;      /* 0, and ignored */
};

static_assert(sizeof(struct penumbra_address) == 28, "as abi::program::SocketAddress");

/* Creates a socket of a family and kind, and stores its descriptor. */
PENUMBRA_SOCKET_CALL("socket")
int penumbra_socket(uint32_t family, uint32_t kind, uint32_t flags, uint32_t *descriptor);

/* Gives a socket a local address; port 0: any. */
PENUMBRA_SOCKET_CALL("bind")
int penumbra_bind(uint32_t descriptor, const struct penumbra_address *address);

/* Makes a stream socket accept connections. */
PENUMBRA_SOCKET_CALL("listen")
int penumbra_listen(uint32_t descriptor, uint32_t backlog);

/* Connects a stream to a listener, or sets the only peer of a datagram socket. */
PENUMBRA_SOCKET_CALL("connect")
int penumbra_connect(uint32_t descriptor, const struct penumbra_address *address);

/* Takes a connection. `address` may be null. */
PENUMBRA_SOCKET_CALL("accept")
int penumbra_accept(uint32_t descriptor, uint32_t flags, struct penumbra_address *address,
                    uint32_t *accepted);

/* Sends to an address, or with a null one to the peer. Flag: PENUMBRA_DONTWAIT. */
PENUMBRA_SOCKET_CALL("send_to")
int penumbra_send_to(uint32_t descriptor, const __wasi_ciovec_t *pieces, uint32_t count,
                     uint32_t flags, const struct penumbra_address *address, uint32_t *sent);

/* Receives. `address` may be null. */
PENUMBRA_SOCKET_CALL("recv_from")
int penumbra_recv_from(uint32_t descriptor, const __wasi_iovec_t *pieces, uint32_t count,
                       uint32_t flags, struct penumbra_address *address, uint32_t *received,
                       uint16_t *found);

/* Stores the address of a socket, or of its peer. */
PENUMBRA_SOCKET_CALL("local_address")
int penumbra_local_address(uint32_t descriptor, struct penumbra_address *address);
PENUMBRA_SOCKET_CALL("peer_address")
int penumbra_peer_address(uint32_t descriptor, struct penumbra_address *address);

/* Reads or changes an option. */
PENUMBRA_SOCKET_CALL("get_option")
int penumbra_get_option(uint32_t descriptor, uint32_t option, uint32_t *value);
PENUMBRA_SOCKET_CALL("set_option")
int penumbra_set_option(uint32_t descriptor, uint32_t option, uint32_t value);

#ifdef __cplusplus
}
#endif

#endif
