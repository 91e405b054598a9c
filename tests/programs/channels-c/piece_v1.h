/* Contract piece.v1, made by `./pen contract c tests/contracts/piece.v1.toml`; do not edit.
 * A client sends blocks and gets each back. */

#ifndef PENUMBRA_PIECE_V1_H
#define PENUMBRA_PIECE_V1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PIECE_V1_NAME "piece.v1"
/* Both sides of a channel must have the same hash. */
#define PIECE_V1_HASH { \
    0x25, 0x76, 0xd0, 0x3d, 0x26, 0x65, 0xdc, 0xce, \
    0xd1, 0x37, 0x41, 0xc9, 0x3e, 0x1b, 0xd5, 0x66 }

/* The contract as the system takes it. */
static const unsigned char piece_v1_contract[] = {
    80, 110, 67, 116, 1, 0, 2, 2, 0, 0, 0, 0, 64, 0, 0, 0,
    23, 211, 141, 29, 181, 226, 64, 114, 232, 205, 200, 78, 33, 220, 36, 159,
    0, 1, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0,
    1, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 255, 255, 0,
};

/* The states, and the side that may send in each. */
enum {
    PIECE_V1_STATE_IDLE = 0, /* client */
    PIECE_V1_STATE_SENT = 1, /* server */
    PIECE_V1_START = PIECE_V1_STATE_IDLE,
};

/* The messages, and the side that sends each. */
enum {
    PIECE_V1_TAG_PIECE = 0, /* client */
    PIECE_V1_TAG_SAME = 1, /* server */
};

/* piece: To be sent back. With a block of at most 65536 bytes. */
#define PIECE_V1_BYTES_PIECE 4
#define PIECE_V1_BLOCK_PIECE 65536
struct piece_v1_piece {
    uint32_t sum; /* of its bytes */
};
_Static_assert(sizeof(struct piece_v1_piece) == PIECE_V1_BYTES_PIECE, "size");
_Static_assert(offsetof(struct piece_v1_piece, sum) == 0, "sum");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool piece_v1_piece_encode(
    const struct piece_v1_piece *message, uint8_t bytes[PIECE_V1_BYTES_PIECE])
{
    memset(bytes, 0, PIECE_V1_BYTES_PIECE);
    bytes[0] = (uint8_t)((uint64_t)message->sum >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->sum >> 8);
    bytes[2] = (uint8_t)((uint64_t)message->sum >> 16);
    bytes[3] = (uint8_t)((uint64_t)message->sum >> 24);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool piece_v1_piece_decode(
    struct piece_v1_piece *message, const uint8_t *bytes, size_t length)
{
    if (length != PIECE_V1_BYTES_PIECE)
        return false;
    memset(message, 0, sizeof(*message));
    message->sum = (uint32_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8
        | (uint64_t)bytes[2] << 16
        | (uint64_t)bytes[3] << 24);
    return true;
}

/* same: The same block. With a block of at most 65536 bytes. */
#define PIECE_V1_BYTES_SAME 4
#define PIECE_V1_BLOCK_SAME 65536
struct piece_v1_same {
    uint32_t sum; /* of its bytes, as the server has added them up */
};
_Static_assert(sizeof(struct piece_v1_same) == PIECE_V1_BYTES_SAME, "size");
_Static_assert(offsetof(struct piece_v1_same, sum) == 0, "sum");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool piece_v1_same_encode(
    const struct piece_v1_same *message, uint8_t bytes[PIECE_V1_BYTES_SAME])
{
    memset(bytes, 0, PIECE_V1_BYTES_SAME);
    bytes[0] = (uint8_t)((uint64_t)message->sum >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->sum >> 8);
    bytes[2] = (uint8_t)((uint64_t)message->sum >> 16);
    bytes[3] = (uint8_t)((uint64_t)message->sum >> 24);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool piece_v1_same_decode(
    struct piece_v1_same *message, const uint8_t *bytes, size_t length)
{
    if (length != PIECE_V1_BYTES_SAME)
        return false;
    memset(message, 0, sizeof(*message));
    message->sum = (uint32_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8
        | (uint64_t)bytes[2] << 16
        | (uint64_t)bytes[3] << 24);
    return true;
}

#endif /* PENUMBRA_PIECE_V1_H */

/* With penumbra_channel.h: functions that return 0 or an error number. */
#if defined(PENUMBRA_CHANNEL_H) && !defined(PENUMBRA_PIECE_V1_CALLS_H)
#define PENUMBRA_PIECE_V1_CALLS_H

#include <errno.h>

/* Creates a channel: ends[0] is the client's, ends[1] the server's. */
static inline int piece_v1_channel(uint32_t ends[2])
{
    return penumbra_channel(
        piece_v1_contract, sizeof(piece_v1_contract), ends);
}

/* Uses an end that was received or inherited. `side`: enum penumbra_side. */
static inline int piece_v1_use(uint32_t end, uint32_t side)
{
    return penumbra_channel_use(
        end, piece_v1_contract, sizeof(piece_v1_contract), side);
}

/* A received message: the member of `message` that `tag` says. `room` is the caller's,
 * for blocks; `block` is the part of it with the block, `ends` what it carries. */
struct piece_v1_received {
    struct penumbra_piece room;
    uint16_t tag;
    struct penumbra_piece block;
    uint32_t ends[2];
    union {
        struct piece_v1_piece piece;
        struct piece_v1_same same;
    } message;
};

/* Reads what came into `from`. EPROTO if it is not by the contract. */
static inline int piece_v1_read(
    struct piece_v1_received *into, const struct penumbra_message *from,
    const uint8_t *bytes)
{
    into->tag = from->tag;
    into->block = from->block;
    memcpy(into->ends, from->ends, sizeof(into->ends));
    bool good = false;
    (void)bytes;
    switch (from->tag) {
    case PIECE_V1_TAG_PIECE:
        good = piece_v1_piece_decode(&into->message.piece, bytes, from->bytes.count);
        break;
    case PIECE_V1_TAG_SAME:
        good = piece_v1_same_decode(&into->message.same, bytes, from->bytes.count);
        break;
    default:
        break;
    }
    return good ? 0 : EPROTO;
}

/* Waits for a message. `flags`: PENUMBRA_NO_WAIT. After EMSGSIZE, `block` has the
 * count that is needed. */
static inline int piece_v1_receive(
    uint32_t channel, struct piece_v1_received *into, uint32_t flags)
{
    uint8_t bytes[4];
    struct penumbra_message come = penumbra_message(0, bytes, sizeof(bytes));
    come.block = into->room;
    int error = penumbra_channel_receive(channel, &come, flags);
    into->block = come.block;
    return error ? error : piece_v1_read(into, &come, bytes);
}

/* Sends `piece`. */
static inline int piece_v1_piece_send(
    uint32_t channel,
    const struct piece_v1_piece *message,
    struct penumbra_piece block)
{
    uint8_t bytes[4];
    if (!piece_v1_piece_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(PIECE_V1_TAG_PIECE, bytes, sizeof(bytes));
    sent.block = block;
    sent.flags = PENUMBRA_HAS_BLOCK;
    return penumbra_channel_send(channel, &sent);
}

/* Sends `piece` and waits for what follows. After EMSGSIZE it was sent. */
static inline int piece_v1_piece_call(
    uint32_t channel,
    const struct piece_v1_piece *message,
    struct penumbra_piece block,
    struct piece_v1_received *reply)
{
    uint8_t bytes[4];
    if (!piece_v1_piece_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(PIECE_V1_TAG_PIECE, bytes, sizeof(bytes));
    sent.block = block;
    sent.flags = PENUMBRA_HAS_BLOCK;
    uint8_t answer[4];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : piece_v1_read(reply, &come, answer);
}

/* Sends `same`. */
static inline int piece_v1_same_send(
    uint32_t channel,
    const struct piece_v1_same *message,
    struct penumbra_piece block)
{
    uint8_t bytes[4];
    if (!piece_v1_same_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(PIECE_V1_TAG_SAME, bytes, sizeof(bytes));
    sent.block = block;
    sent.flags = PENUMBRA_HAS_BLOCK;
    return penumbra_channel_send(channel, &sent);
}

/* Sends `same` and waits for what follows. After EMSGSIZE it was sent. */
static inline int piece_v1_same_call(
    uint32_t channel,
    const struct piece_v1_same *message,
    struct penumbra_piece block,
    struct piece_v1_received *reply)
{
    uint8_t bytes[4];
    if (!piece_v1_same_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(PIECE_V1_TAG_SAME, bytes, sizeof(bytes));
    sent.block = block;
    sent.flags = PENUMBRA_HAS_BLOCK;
    uint8_t answer[4];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : piece_v1_read(reply, &come, answer);
}

#endif /* PENUMBRA_PIECE_V1_CALLS_H */
