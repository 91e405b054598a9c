/* Channels: two programs that talk by a contract (docs/design/channels.md).
 *
 * Include this header before one that `./pen contract c` has made; then that one has functions that
 * send and receive its messages. Every function returns 0 or one of WASI's error numbers (the
 * values of errno.h of wasi-libc):
 *
 *   to send     EPROTO   the contract does not allow it now, or not with this length, block or ends;
 *                        the channel continues
 *               EPIPE    the peer has closed the channel
 *               EMLINK   a carried end has several descriptors
 *               ELOOP    the level of a carried end is not lower than that of this channel
 *               ENOBUFS  the peer's kernel has no room for more ends now; try again later
 *   to receive  EAGAIN   nothing is there, and PENUMBRA_NO_WAIT says not to wait
 *               EPIPE    the peer has closed the channel, as the contract allows
 *               EMSGSIZE the room is too small. Nothing was taken; the needed lengths are stored
 *   both        ECONNRESET  the channel is broken: the peer closed it elsewhere, ended there, or
 *                           its kernel died
 *               ENOTCONN the process has given no contract for this end (penumbra_channel_use)
 *
 * After a send the block is the receiver's: its bytes here are as before, or zero. One of 16 KiB or
 * more that begins with a page (_Alignas(4096), aligned_alloc) passes without a copy to a receiver
 * on the same kernel whose room begins with a page, too, and has whole pages. Bytes of the room
 * after the block may be overwritten, and all of it if the receive fails.
 *
 * A block can be a window: memory that both programs share from then on, if both have threads. The
 * sender sets PENUMBRA_WINDOW, and the block begins with a page and has whole pages; the receiver
 * passes PENUMBRA_WINDOWS with room of that kind. Only the sender stores there, and on two kernels
 * the memory is not coherent:
 *
 *   sender    store, penumbra_window_flush, send a message that says so
 *   receiver  receive it, penumbra_window_refresh, load
 *
 * Beyond the errors above: EBUSY the range is in another window; EINVAL it is not of whole pages;
 * ENOBUFS the process has 8 windows, or its tree 32 or a mebibyte of them, or the kernel twice as
 * many; ENOTSUP a program with one thread, or one with light threads. To receive, these can only
 * come if the message has a window.
 *
 * Close a window before its memory is freed: the next user of the memory would share it, too.
 *
 * close() closes an end; poll() says when there is a message (POLLIN). */
#ifndef PENUMBRA_CHANNEL_H
#define PENUMBRA_CHANNEL_H

#include <penumbra.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In penumbra_message.ends: no end here; and, received, an end that was lost on its way. */
#define PENUMBRA_NO_END UINT32_MAX
#define PENUMBRA_LOST_END (UINT32_MAX - 1)
/* penumbra_message.flags: it has a block, which may be empty. */
#define PENUMBRA_HAS_BLOCK 1u
/* And with it: the block is a window. */
#define PENUMBRA_WINDOW 2u
/* penumbra_channel_receive: return EAGAIN instead of waiting. */
#define PENUMBRA_NO_WAIT 1u
/* The same: share the memory of a window, instead of a copy of what it has now. */
#define PENUMBRA_WINDOWS 2u
/* Flag of penumbra_name_connect: wait until the name is served. */
#define PENUMBRA_AWAIT 1u

enum penumbra_side {
    PENUMBRA_CLIENT = 0,
    PENUMBRA_SERVER = 1
};

/* A message. To receive, the counts of `bytes` and `block` are room; afterwards lengths. */
struct penumbra_message {
    struct penumbra_piece bytes; /* the fields */
    struct penumbra_piece block;
    uint32_t ends[2]; /* descriptors. Sent ends are the caller's no longer */
    uint16_t tag;     /* the number of the message in its contract */
    uint16_t flags;
    uint32_t reserved; /* 0 */
};

static_assert(sizeof(struct penumbra_message) == 32, "as abi::channel::ChannelMessage");

/* Creates a channel: ends[0] is the client's, ends[1] the server's. */
PENUMBRA_CALL("channel")
int penumbra_channel(const void *contract, uint32_t bytes, uint32_t ends[2]);

/* Says by which contract this program uses an end that it has received or was started with, and as
 * which side. Fails with EPROTOTYPE if the end is of another contract or side. */
PENUMBRA_CALL("channel_use")
int penumbra_channel_use(uint32_t end, const void *contract, uint32_t bytes, uint32_t side);

/* Sends a message. Does not wait for the receiver. */
PENUMBRA_CALL("channel_send")
int penumbra_channel_send(uint32_t end, const struct penumbra_message *message);

/* Waits for a message. */
PENUMBRA_CALL("channel_receive")
int penumbra_channel_receive(uint32_t end, struct penumbra_message *message, uint32_t flags);

/* Sends a message, then waits for one, in one call. After EMSGSIZE the message was sent. */
PENUMBRA_CALL("channel_call")
int penumbra_channel_call(uint32_t end, const struct penumbra_message *message,
                          struct penumbra_message *reply);

/* Makes what this program has stored in a range of a window that it has sent visible to the
 * receiver. EINVAL: it has sent no window with this range. */
PENUMBRA_CALL("window_flush")
int penumbra_window_flush(const void *at, uint32_t length);

/* Makes a range of a window that was received show what the sender has flushed. EINVAL: this
 * program has received no window with this range. ECONNRESET: it is lost with a kernel. EIO: the
 * sender's kernel does not answer; try again. ENOMEM: no memory for the copy. */
PENUMBRA_CALL("window_refresh")
int penumbra_window_refresh(void *at, uint32_t length);

/* Ends the window that begins here, before its memory is used for something else: it has zeros
 * then, or the last copy. The other program keeps what it has. */
PENUMBRA_CALL("window_close")
int penumbra_window_close(void *at);

/* Serves a name by a contract, until the door is closed. Each message that arrives at the door has
 * the server's end of a new channel in ends[0]; say penumbra_channel_use before it is used. Fails
 * with EEXIST if another program serves the name, EISDIR if one serves a name below it, ENOTDIR if
 * its beginning is a name that is served. A name has 1 to 4 parts, joined by '/', of a-z 0-9 _ - . ;
 * those that begin with kernel or service are the system's: EPERM. */
PENUMBRA_CALL("name_serve")
int penumbra_name_serve(const char *name, uint32_t length, const void *contract, uint32_t bytes,
                        uint32_t *door);

/* Connects to the program that serves a name: *end is the client's end of a new channel. Fails with
 * ENOENT if no program does, ENXIO if the name is the system's, EPROTOTYPE if it does by another contract, ENOBUFS if it has no room
 * for more clients now. */
PENUMBRA_CALL("name_connect")
int penumbra_name_connect(const char *name, uint32_t length, const void *contract, uint32_t bytes,
                          uint32_t flags, uint32_t *end);

/* Returns a message without a block and ends; to receive, with this room for the fields. */
static inline struct penumbra_message penumbra_message(uint16_t tag, const void *bytes,
                                                       uint32_t count)
{
    struct penumbra_message message = {
        penumbra_piece(bytes, count), {0, 0}, {PENUMBRA_NO_END, PENUMBRA_NO_END}, tag, 0, 0,
    };
    return message;
}

#ifdef __cplusplus
}
#endif

#endif
