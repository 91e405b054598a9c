/* Contract ping.v1, made by `./pen contract c contracts/ping.v1.toml`; do not edit.
 * A client asks whether a server answers, as often as it likes, and leaves. */

#ifndef PENUMBRA_PING_V1_H
#define PENUMBRA_PING_V1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PING_V1_NAME "ping.v1"
/* Both sides of a channel must have the same hash. */
#define PING_V1_HASH { \
    0x0c, 0x18, 0xd6, 0x0b, 0xdc, 0x91, 0x7d, 0xe6, \
    0x24, 0xfe, 0xbd, 0xf1, 0x6b, 0xd8, 0xcd, 0x84 }

/* The contract as the system takes it. */
static const unsigned char ping_v1_contract[] = {
    80, 110, 67, 116, 1, 0, 3, 3, 0, 0, 0, 0, 83, 0, 0, 0,
    76, 77, 151, 212, 80, 15, 123, 149, 52, 15, 192, 108, 198, 15, 168, 100,
    0, 1, 1, 0, 2, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 2, 255, 0, 255,
    255, 255, 255,
};

/* The states, and the side that may send in each. */
enum {
    PING_V1_STATE_IDLE = 0, /* client */
    PING_V1_STATE_ASKED = 1, /* server */
    PING_V1_STATE_OVER = 2, /* none: an end */
    PING_V1_START = PING_V1_STATE_IDLE,
};

/* The messages, and the side that sends each. */
enum {
    PING_V1_TAG_PING = 0, /* client */
    PING_V1_TAG_PONG = 1, /* server */
    PING_V1_TAG_BYE = 2, /* client */
};

/* ping: Asks for an answer. */
#define PING_V1_BYTES_PING 8
struct ping_v1_ping {
    uint64_t sequence; /* which ping this is */
};
_Static_assert(sizeof(struct ping_v1_ping) == PING_V1_BYTES_PING, "size");
_Static_assert(offsetof(struct ping_v1_ping, sequence) == 0, "sequence");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool ping_v1_ping_encode(
    const struct ping_v1_ping *message, uint8_t bytes[PING_V1_BYTES_PING])
{
    memset(bytes, 0, PING_V1_BYTES_PING);
    bytes[0] = (uint8_t)((uint64_t)message->sequence >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->sequence >> 8);
    bytes[2] = (uint8_t)((uint64_t)message->sequence >> 16);
    bytes[3] = (uint8_t)((uint64_t)message->sequence >> 24);
    bytes[4] = (uint8_t)((uint64_t)message->sequence >> 32);
    bytes[5] = (uint8_t)((uint64_t)message->sequence >> 40);
    bytes[6] = (uint8_t)((uint64_t)message->sequence >> 48);
    bytes[7] = (uint8_t)((uint64_t)message->sequence >> 56);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool ping_v1_ping_decode(
    struct ping_v1_ping *message, const uint8_t *bytes, size_t length)
{
    if (length != PING_V1_BYTES_PING)
        return false;
    memset(message, 0, sizeof(*message));
    message->sequence = (uint64_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8
        | (uint64_t)bytes[2] << 16
        | (uint64_t)bytes[3] << 24
        | (uint64_t)bytes[4] << 32
        | (uint64_t)bytes[5] << 40
        | (uint64_t)bytes[6] << 48
        | (uint64_t)bytes[7] << 56);
    return true;
}

/* pong: Answers the last ping. */
#define PING_V1_BYTES_PONG 16
struct ping_v1_pong {
    uint64_t sequence; /* that of the ping */
    uint64_t time; /* the server's clock in ns */
};
_Static_assert(sizeof(struct ping_v1_pong) == PING_V1_BYTES_PONG, "size");
_Static_assert(offsetof(struct ping_v1_pong, sequence) == 0, "sequence");
_Static_assert(offsetof(struct ping_v1_pong, time) == 8, "time");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool ping_v1_pong_encode(
    const struct ping_v1_pong *message, uint8_t bytes[PING_V1_BYTES_PONG])
{
    memset(bytes, 0, PING_V1_BYTES_PONG);
    bytes[0] = (uint8_t)((uint64_t)message->sequence >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->sequence >> 8);
    bytes[2] = (uint8_t)((uint64_t)message->sequence >> 16);
    bytes[3] = (uint8_t)((uint64_t)message->sequence >> 24);
    bytes[4] = (uint8_t)((uint64_t)message->sequence >> 32);
    bytes[5] = (uint8_t)((uint64_t)message->sequence >> 40);
    bytes[6] = (uint8_t)((uint64_t)message->sequence >> 48);
    bytes[7] = (uint8_t)((uint64_t)message->sequence >> 56);
    bytes[8] = (uint8_t)((uint64_t)message->time >> 0);
    bytes[9] = (uint8_t)((uint64_t)message->time >> 8);
    bytes[10] = (uint8_t)((uint64_t)message->time >> 16);
    bytes[11] = (uint8_t)((uint64_t)message->time >> 24);
    bytes[12] = (uint8_t)((uint64_t)message->time >> 32);
    bytes[13] = (uint8_t)((uint64_t)message->time >> 40);
    bytes[14] = (uint8_t)((uint64_t)message->time >> 48);
    bytes[15] = (uint8_t)((uint64_t)message->time >> 56);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool ping_v1_pong_decode(
    struct ping_v1_pong *message, const uint8_t *bytes, size_t length)
{
    if (length != PING_V1_BYTES_PONG)
        return false;
    memset(message, 0, sizeof(*message));
    message->sequence = (uint64_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8
        | (uint64_t)bytes[2] << 16
        | (uint64_t)bytes[3] << 24
        | (uint64_t)bytes[4] << 32
        | (uint64_t)bytes[5] << 40
        | (uint64_t)bytes[6] << 48
        | (uint64_t)bytes[7] << 56);
    message->time = (uint64_t)((uint64_t)bytes[8]
        | (uint64_t)bytes[9] << 8
        | (uint64_t)bytes[10] << 16
        | (uint64_t)bytes[11] << 24
        | (uint64_t)bytes[12] << 32
        | (uint64_t)bytes[13] << 40
        | (uint64_t)bytes[14] << 48
        | (uint64_t)bytes[15] << 56);
    return true;
}

/* bye: Ends the conversation. */
#define PING_V1_BYTES_BYE 0

#endif /* PENUMBRA_PING_V1_H */

/* With penumbra_channel.h: functions that return 0 or an error number. */
#if defined(PENUMBRA_CHANNEL_H) && !defined(PENUMBRA_PING_V1_CALLS_H)
#define PENUMBRA_PING_V1_CALLS_H

#include <errno.h>

/* Creates a channel: ends[0] is the client's, ends[1] the server's. */
static inline int ping_v1_channel(uint32_t ends[2])
{
    return penumbra_channel(
        ping_v1_contract, sizeof(ping_v1_contract), ends);
}

/* Uses an end that was received or inherited. `side`: enum penumbra_side. */
static inline int ping_v1_use(uint32_t end, uint32_t side)
{
    return penumbra_channel_use(
        end, ping_v1_contract, sizeof(ping_v1_contract), side);
}

/* A received message: the member of `message` that `tag` says. `room` is the caller's,
 * for blocks; `block` is the part of it with the block, `ends` what it carries. */
struct ping_v1_received {
    struct penumbra_piece room;
    uint16_t tag;
    struct penumbra_piece block;
    uint32_t ends[2];
    union {
        struct ping_v1_ping ping;
        struct ping_v1_pong pong;
    } message;
};

/* Reads what came into `from`. EPROTO if it is not by the contract. */
static inline int ping_v1_read(
    struct ping_v1_received *into, const struct penumbra_message *from,
    const uint8_t *bytes)
{
    into->tag = from->tag;
    into->block = from->block;
    memcpy(into->ends, from->ends, sizeof(into->ends));
    bool good = false;
    (void)bytes;
    switch (from->tag) {
    case PING_V1_TAG_PING:
        good = ping_v1_ping_decode(&into->message.ping, bytes, from->bytes.count);
        break;
    case PING_V1_TAG_PONG:
        good = ping_v1_pong_decode(&into->message.pong, bytes, from->bytes.count);
        break;
    case PING_V1_TAG_BYE:
        good = from->bytes.count == 0;
        break;
    default:
        break;
    }
    return good ? 0 : EPROTO;
}

/* Waits for a message. `flags`: PENUMBRA_NO_WAIT. After EMSGSIZE, `block` has the
 * count that is needed. */
static inline int ping_v1_receive(
    uint32_t channel, struct ping_v1_received *into, uint32_t flags)
{
    uint8_t bytes[16];
    struct penumbra_message come = penumbra_message(0, bytes, sizeof(bytes));
    come.block = into->room;
    int error = penumbra_channel_receive(channel, &come, flags);
    into->block = come.block;
    return error ? error : ping_v1_read(into, &come, bytes);
}

/* Sends `ping`. */
static inline int ping_v1_ping_send(
    uint32_t channel,
    const struct ping_v1_ping *message)
{
    uint8_t bytes[8];
    if (!ping_v1_ping_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(PING_V1_TAG_PING, bytes, sizeof(bytes));
    return penumbra_channel_send(channel, &sent);
}

/* Sends `ping` and waits for what follows. After EMSGSIZE it was sent. */
static inline int ping_v1_ping_call(
    uint32_t channel,
    const struct ping_v1_ping *message,
    struct ping_v1_received *reply)
{
    uint8_t bytes[8];
    if (!ping_v1_ping_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(PING_V1_TAG_PING, bytes, sizeof(bytes));
    uint8_t answer[16];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : ping_v1_read(reply, &come, answer);
}

/* Sends `pong`. */
static inline int ping_v1_pong_send(
    uint32_t channel,
    const struct ping_v1_pong *message)
{
    uint8_t bytes[16];
    if (!ping_v1_pong_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(PING_V1_TAG_PONG, bytes, sizeof(bytes));
    return penumbra_channel_send(channel, &sent);
}

/* Sends `pong` and waits for what follows. After EMSGSIZE it was sent. */
static inline int ping_v1_pong_call(
    uint32_t channel,
    const struct ping_v1_pong *message,
    struct ping_v1_received *reply)
{
    uint8_t bytes[16];
    if (!ping_v1_pong_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(PING_V1_TAG_PONG, bytes, sizeof(bytes));
    uint8_t answer[16];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : ping_v1_read(reply, &come, answer);
}

/* Sends `bye`. */
static inline int ping_v1_bye_send(
    uint32_t channel)
{
    struct penumbra_message sent = penumbra_message(PING_V1_TAG_BYE, 0, 0);
    return penumbra_channel_send(channel, &sent);
}

#endif /* PENUMBRA_PING_V1_CALLS_H */
