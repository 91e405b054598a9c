/* Contract stream.v1, made by `./pen contract c tests/contracts/stream.v1.toml`; do not edit.
 * A client shares memory with the server, and fills it part by part. */

#ifndef PENUMBRA_STREAM_V1_H
#define PENUMBRA_STREAM_V1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STREAM_V1_NAME "stream.v1"
/* Both sides of a channel must have the same hash. */
#define STREAM_V1_HASH { \
    0xfd, 0xb5, 0x6b, 0x0e, 0x03, 0x01, 0x13, 0x4b, \
    0x53, 0x08, 0x49, 0x53, 0x19, 0x44, 0x4e, 0x5f }

/* The contract as the system takes it. */
static const unsigned char stream_v1_contract[] = {
    80, 110, 67, 116, 1, 0, 4, 4, 0, 0, 0, 0, 104, 0, 0, 0,
    201, 158, 186, 202, 136, 35, 170, 178, 209, 210, 103, 101, 70, 170, 194, 40,
    0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 16, 0,
    0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 8, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 2,
    255, 1, 3, 255, 255, 255, 255, 255,
};

/* The states, and the side that may send in each. */
enum {
    STREAM_V1_STATE_BEGIN = 0, /* client */
    STREAM_V1_STATE_READS = 1, /* server */
    STREAM_V1_STATE_FILLS = 2, /* client */
    STREAM_V1_STATE_OVER = 3, /* none: an end */
    STREAM_V1_START = STREAM_V1_STATE_BEGIN,
};

/* The messages, and the side that sends each. */
enum {
    STREAM_V1_TAG_MEMORY = 0, /* client */
    STREAM_V1_TAG_FILLED = 1, /* client */
    STREAM_V1_TAG_ENOUGH = 2, /* client */
    STREAM_V1_TAG_READ = 3, /* server */
};

/* memory: The memory, whose first part is filled. With a block of at most 1048576 bytes. */
#define STREAM_V1_BYTES_MEMORY 4
#define STREAM_V1_BLOCK_MEMORY 1048576
struct stream_v1_memory {
    uint32_t length; /* of that part */
};
_Static_assert(sizeof(struct stream_v1_memory) == STREAM_V1_BYTES_MEMORY, "size");
_Static_assert(offsetof(struct stream_v1_memory, length) == 0, "length");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool stream_v1_memory_encode(
    const struct stream_v1_memory *message, uint8_t bytes[STREAM_V1_BYTES_MEMORY])
{
    memset(bytes, 0, STREAM_V1_BYTES_MEMORY);
    bytes[0] = (uint8_t)((uint64_t)message->length >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->length >> 8);
    bytes[2] = (uint8_t)((uint64_t)message->length >> 16);
    bytes[3] = (uint8_t)((uint64_t)message->length >> 24);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool stream_v1_memory_decode(
    struct stream_v1_memory *message, const uint8_t *bytes, size_t length)
{
    if (length != STREAM_V1_BYTES_MEMORY)
        return false;
    memset(message, 0, sizeof(*message));
    message->length = (uint32_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8
        | (uint64_t)bytes[2] << 16
        | (uint64_t)bytes[3] << 24);
    return true;
}

/* filled: A part is filled. */
#define STREAM_V1_BYTES_FILLED 8
struct stream_v1_filled {
    uint32_t at;
    uint32_t length;
};
_Static_assert(sizeof(struct stream_v1_filled) == STREAM_V1_BYTES_FILLED, "size");
_Static_assert(offsetof(struct stream_v1_filled, at) == 0, "at");
_Static_assert(offsetof(struct stream_v1_filled, length) == 4, "length");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool stream_v1_filled_encode(
    const struct stream_v1_filled *message, uint8_t bytes[STREAM_V1_BYTES_FILLED])
{
    memset(bytes, 0, STREAM_V1_BYTES_FILLED);
    bytes[0] = (uint8_t)((uint64_t)message->at >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->at >> 8);
    bytes[2] = (uint8_t)((uint64_t)message->at >> 16);
    bytes[3] = (uint8_t)((uint64_t)message->at >> 24);
    bytes[4] = (uint8_t)((uint64_t)message->length >> 0);
    bytes[5] = (uint8_t)((uint64_t)message->length >> 8);
    bytes[6] = (uint8_t)((uint64_t)message->length >> 16);
    bytes[7] = (uint8_t)((uint64_t)message->length >> 24);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool stream_v1_filled_decode(
    struct stream_v1_filled *message, const uint8_t *bytes, size_t length)
{
    if (length != STREAM_V1_BYTES_FILLED)
        return false;
    memset(message, 0, sizeof(*message));
    message->at = (uint32_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8
        | (uint64_t)bytes[2] << 16
        | (uint64_t)bytes[3] << 24);
    message->length = (uint32_t)((uint64_t)bytes[4]
        | (uint64_t)bytes[5] << 8
        | (uint64_t)bytes[6] << 16
        | (uint64_t)bytes[7] << 24);
    return true;
}

/* enough: There are no more parts. */
#define STREAM_V1_BYTES_ENOUGH 0

/* read: The part has been read. */
#define STREAM_V1_BYTES_READ 8
struct stream_v1_read {
    uint64_t sum; /* of its words */
};
_Static_assert(sizeof(struct stream_v1_read) == STREAM_V1_BYTES_READ, "size");
_Static_assert(offsetof(struct stream_v1_read, sum) == 0, "sum");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool stream_v1_read_encode(
    const struct stream_v1_read *message, uint8_t bytes[STREAM_V1_BYTES_READ])
{
    memset(bytes, 0, STREAM_V1_BYTES_READ);
    bytes[0] = (uint8_t)((uint64_t)message->sum >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->sum >> 8);
    bytes[2] = (uint8_t)((uint64_t)message->sum >> 16);
    bytes[3] = (uint8_t)((uint64_t)message->sum >> 24);
    bytes[4] = (uint8_t)((uint64_t)message->sum >> 32);
    bytes[5] = (uint8_t)((uint64_t)message->sum >> 40);
    bytes[6] = (uint8_t)((uint64_t)message->sum >> 48);
    bytes[7] = (uint8_t)((uint64_t)message->sum >> 56);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool stream_v1_read_decode(
    struct stream_v1_read *message, const uint8_t *bytes, size_t length)
{
    if (length != STREAM_V1_BYTES_READ)
        return false;
    memset(message, 0, sizeof(*message));
    message->sum = (uint64_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8
        | (uint64_t)bytes[2] << 16
        | (uint64_t)bytes[3] << 24
        | (uint64_t)bytes[4] << 32
        | (uint64_t)bytes[5] << 40
        | (uint64_t)bytes[6] << 48
        | (uint64_t)bytes[7] << 56);
    return true;
}

#endif /* PENUMBRA_STREAM_V1_H */

/* With penumbra_channel.h: functions that return 0 or an error number. */
#if defined(PENUMBRA_CHANNEL_H) && !defined(PENUMBRA_STREAM_V1_CALLS_H)
#define PENUMBRA_STREAM_V1_CALLS_H

#include <errno.h>

/* Creates a channel: ends[0] is the client's, ends[1] the server's. */
static inline int stream_v1_channel(uint32_t ends[2])
{
    return penumbra_channel(
        stream_v1_contract, sizeof(stream_v1_contract), ends);
}

/* Uses an end that was received or inherited. `side`: enum penumbra_side. */
static inline int stream_v1_use(uint32_t end, uint32_t side)
{
    return penumbra_channel_use(
        end, stream_v1_contract, sizeof(stream_v1_contract), side);
}

/* A received message: the member of `message` that `tag` says. `room` is the caller's,
 * for blocks; `block` is the part of it with the block, `ends` what it carries. */
struct stream_v1_received {
    struct penumbra_piece room;
    uint16_t tag;
    struct penumbra_piece block;
    uint32_t ends[2];
    union {
        struct stream_v1_memory memory;
        struct stream_v1_filled filled;
        struct stream_v1_read read;
    } message;
};

/* Reads what came into `from`. EPROTO if it is not by the contract. */
static inline int stream_v1_read(
    struct stream_v1_received *into, const struct penumbra_message *from,
    const uint8_t *bytes)
{
    into->tag = from->tag;
    into->block = from->block;
    memcpy(into->ends, from->ends, sizeof(into->ends));
    bool good = false;
    (void)bytes;
    switch (from->tag) {
    case STREAM_V1_TAG_MEMORY:
        good = stream_v1_memory_decode(&into->message.memory, bytes, from->bytes.count);
        break;
    case STREAM_V1_TAG_FILLED:
        good = stream_v1_filled_decode(&into->message.filled, bytes, from->bytes.count);
        break;
    case STREAM_V1_TAG_ENOUGH:
        good = from->bytes.count == 0;
        break;
    case STREAM_V1_TAG_READ:
        good = stream_v1_read_decode(&into->message.read, bytes, from->bytes.count);
        break;
    default:
        break;
    }
    return good ? 0 : EPROTO;
}

/* Waits for a message. `flags`: PENUMBRA_NO_WAIT. After EMSGSIZE, `block` has the
 * count that is needed. */
static inline int stream_v1_receive(
    uint32_t channel, struct stream_v1_received *into, uint32_t flags)
{
    uint8_t bytes[8];
    struct penumbra_message come = penumbra_message(0, bytes, sizeof(bytes));
    come.block = into->room;
    int error = penumbra_channel_receive(channel, &come, flags);
    into->block = come.block;
    return error ? error : stream_v1_read(into, &come, bytes);
}

/* Sends `memory`. */
static inline int stream_v1_memory_send(
    uint32_t channel,
    const struct stream_v1_memory *message,
    struct penumbra_piece block)
{
    uint8_t bytes[4];
    if (!stream_v1_memory_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(STREAM_V1_TAG_MEMORY, bytes, sizeof(bytes));
    sent.block = block;
    sent.flags = PENUMBRA_HAS_BLOCK;
    return penumbra_channel_send(channel, &sent);
}

/* Sends `memory` and waits for what follows. After EMSGSIZE it was sent. */
static inline int stream_v1_memory_call(
    uint32_t channel,
    const struct stream_v1_memory *message,
    struct penumbra_piece block,
    struct stream_v1_received *reply)
{
    uint8_t bytes[4];
    if (!stream_v1_memory_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(STREAM_V1_TAG_MEMORY, bytes, sizeof(bytes));
    sent.block = block;
    sent.flags = PENUMBRA_HAS_BLOCK;
    uint8_t answer[8];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : stream_v1_read(reply, &come, answer);
}

/* Sends `filled`. */
static inline int stream_v1_filled_send(
    uint32_t channel,
    const struct stream_v1_filled *message)
{
    uint8_t bytes[8];
    if (!stream_v1_filled_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(STREAM_V1_TAG_FILLED, bytes, sizeof(bytes));
    return penumbra_channel_send(channel, &sent);
}

/* Sends `filled` and waits for what follows. After EMSGSIZE it was sent. */
static inline int stream_v1_filled_call(
    uint32_t channel,
    const struct stream_v1_filled *message,
    struct stream_v1_received *reply)
{
    uint8_t bytes[8];
    if (!stream_v1_filled_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(STREAM_V1_TAG_FILLED, bytes, sizeof(bytes));
    uint8_t answer[8];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : stream_v1_read(reply, &come, answer);
}

/* Sends `enough`. */
static inline int stream_v1_enough_send(
    uint32_t channel)
{
    struct penumbra_message sent = penumbra_message(STREAM_V1_TAG_ENOUGH, 0, 0);
    return penumbra_channel_send(channel, &sent);
}

/* Sends `read`. */
static inline int stream_v1_read_send(
    uint32_t channel,
    const struct stream_v1_read *message)
{
    uint8_t bytes[8];
    if (!stream_v1_read_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(STREAM_V1_TAG_READ, bytes, sizeof(bytes));
    return penumbra_channel_send(channel, &sent);
}

/* Sends `read` and waits for what follows. After EMSGSIZE it was sent. */
static inline int stream_v1_read_call(
    uint32_t channel,
    const struct stream_v1_read *message,
    struct stream_v1_received *reply)
{
    uint8_t bytes[8];
    if (!stream_v1_read_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(STREAM_V1_TAG_READ, bytes, sizeof(bytes));
    uint8_t answer[8];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : stream_v1_read(reply, &come, answer);
}

#endif /* PENUMBRA_STREAM_V1_CALLS_H */
