/* Contract greet.v1, made by `./pen contract c examples/greet.v1.toml`; do not edit.
 * A client gives names, and a server greets each. */

#ifndef PENUMBRA_GREET_V1_H
#define PENUMBRA_GREET_V1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GREET_V1_NAME "greet.v1"
/* Both sides of a channel must have the same hash. */
#define GREET_V1_HASH { \
    0x5f, 0xc8, 0x9c, 0x2c, 0xe8, 0xb9, 0x42, 0x09, \
    0xf8, 0x64, 0x4a, 0xe9, 0xb3, 0x2b, 0xec, 0x33 }

/* The contract as the system takes it. */
static const unsigned char greet_v1_contract[] = {
    80, 110, 67, 116, 1, 0, 2, 2, 0, 0, 0, 0, 64, 0, 0, 0,
    158, 42, 126, 99, 167, 124, 23, 134, 113, 231, 185, 143, 107, 102, 223, 248,
    0, 1, 1, 0, 0, 0, 34, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 68, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 0,
};

/* The states, and the side that may send in each. */
enum {
    GREET_V1_STATE_IDLE = 0, /* client */
    GREET_V1_STATE_ASKED = 1, /* server */
    GREET_V1_START = GREET_V1_STATE_IDLE,
};

/* The messages, and the side that sends each. */
enum {
    GREET_V1_TAG_NAME = 0, /* client */
    GREET_V1_TAG_GREETING = 1, /* server */
};

/* name: Someone to be greeted. */
#define GREET_V1_BYTES_NAME 34
struct greet_v1_name {
    uint16_t text_length;
    uint8_t text[31]; /* in UTF-8 */
    uint8_t padding_33[1];
};
_Static_assert(sizeof(struct greet_v1_name) == GREET_V1_BYTES_NAME, "size");
_Static_assert(offsetof(struct greet_v1_name, text_length) == 0, "text_length");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool greet_v1_name_encode(
    const struct greet_v1_name *message, uint8_t bytes[GREET_V1_BYTES_NAME])
{
    if (message->text_length > 31)
        return false;
    memset(bytes, 0, GREET_V1_BYTES_NAME);
    bytes[0] = (uint8_t)((uint64_t)message->text_length >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->text_length >> 8);
    memcpy(bytes + 2, message->text, message->text_length);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool greet_v1_name_decode(
    struct greet_v1_name *message, const uint8_t *bytes, size_t length)
{
    if (length != GREET_V1_BYTES_NAME)
        return false;
    memset(message, 0, sizeof(*message));
    message->text_length = (uint16_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8);
    memcpy(message->text, bytes + 2, 31);
    if (message->text_length > 31)
        return false;
    return true;
}

/* greeting: What to say. */
#define GREET_V1_BYTES_GREETING 68
struct greet_v1_greeting {
    uint32_t kernel; /* on which the server runs */
    uint16_t text_length;
    uint8_t text[62]; /* in UTF-8 */
};
_Static_assert(sizeof(struct greet_v1_greeting) == GREET_V1_BYTES_GREETING, "size");
_Static_assert(offsetof(struct greet_v1_greeting, kernel) == 0, "kernel");
_Static_assert(offsetof(struct greet_v1_greeting, text_length) == 4, "text_length");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool greet_v1_greeting_encode(
    const struct greet_v1_greeting *message, uint8_t bytes[GREET_V1_BYTES_GREETING])
{
    if (message->text_length > 62)
        return false;
    memset(bytes, 0, GREET_V1_BYTES_GREETING);
    bytes[0] = (uint8_t)((uint64_t)message->kernel >> 0);
    bytes[1] = (uint8_t)((uint64_t)message->kernel >> 8);
    bytes[2] = (uint8_t)((uint64_t)message->kernel >> 16);
    bytes[3] = (uint8_t)((uint64_t)message->kernel >> 24);
    bytes[4] = (uint8_t)((uint64_t)message->text_length >> 0);
    bytes[5] = (uint8_t)((uint64_t)message->text_length >> 8);
    memcpy(bytes + 6, message->text, message->text_length);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool greet_v1_greeting_decode(
    struct greet_v1_greeting *message, const uint8_t *bytes, size_t length)
{
    if (length != GREET_V1_BYTES_GREETING)
        return false;
    memset(message, 0, sizeof(*message));
    message->kernel = (uint32_t)((uint64_t)bytes[0]
        | (uint64_t)bytes[1] << 8
        | (uint64_t)bytes[2] << 16
        | (uint64_t)bytes[3] << 24);
    message->text_length = (uint16_t)((uint64_t)bytes[4]
        | (uint64_t)bytes[5] << 8);
    memcpy(message->text, bytes + 6, 62);
    if (message->text_length > 62)
        return false;
    return true;
}

#endif /* PENUMBRA_GREET_V1_H */

/* With penumbra_channel.h: functions that return 0 or an error number. */
#if defined(PENUMBRA_CHANNEL_H) && !defined(PENUMBRA_GREET_V1_CALLS_H)
#define PENUMBRA_GREET_V1_CALLS_H

#include <errno.h>

/* Creates a channel: ends[0] is the client's, ends[1] the server's. */
static inline int greet_v1_channel(uint32_t ends[2])
{
    return penumbra_channel(
        greet_v1_contract, sizeof(greet_v1_contract), ends);
}

/* Uses an end that was received or inherited. `side`: enum penumbra_side. */
static inline int greet_v1_use(uint32_t end, uint32_t side)
{
    return penumbra_channel_use(
        end, greet_v1_contract, sizeof(greet_v1_contract), side);
}

/* A received message: the member of `message` that `tag` says. `room` is the caller's,
 * for blocks; `block` is the part of it with the block, `ends` what it carries. */
struct greet_v1_received {
    struct penumbra_piece room;
    uint16_t tag;
    struct penumbra_piece block;
    uint32_t ends[2];
    union {
        struct greet_v1_name name;
        struct greet_v1_greeting greeting;
    } message;
};

/* Reads what came into `from`. EPROTO if it is not by the contract. */
static inline int greet_v1_read(
    struct greet_v1_received *into, const struct penumbra_message *from,
    const uint8_t *bytes)
{
    into->tag = from->tag;
    into->block = from->block;
    memcpy(into->ends, from->ends, sizeof(into->ends));
    bool good = false;
    (void)bytes;
    switch (from->tag) {
    case GREET_V1_TAG_NAME:
        good = greet_v1_name_decode(&into->message.name, bytes, from->bytes.count);
        break;
    case GREET_V1_TAG_GREETING:
        good = greet_v1_greeting_decode(&into->message.greeting, bytes, from->bytes.count);
        break;
    default:
        break;
    }
    return good ? 0 : EPROTO;
}

/* Waits for a message. `flags`: PENUMBRA_NO_WAIT. After EMSGSIZE, `block` has the
 * count that is needed. */
static inline int greet_v1_receive(
    uint32_t channel, struct greet_v1_received *into, uint32_t flags)
{
    uint8_t bytes[68];
    struct penumbra_message come = penumbra_message(0, bytes, sizeof(bytes));
    come.block = into->room;
    int error = penumbra_channel_receive(channel, &come, flags);
    into->block = come.block;
    return error ? error : greet_v1_read(into, &come, bytes);
}

/* Sends `name`. */
static inline int greet_v1_name_send(
    uint32_t channel,
    const struct greet_v1_name *message)
{
    uint8_t bytes[34];
    if (!greet_v1_name_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(GREET_V1_TAG_NAME, bytes, sizeof(bytes));
    return penumbra_channel_send(channel, &sent);
}

/* Sends `name` and waits for what follows. After EMSGSIZE it was sent. */
static inline int greet_v1_name_call(
    uint32_t channel,
    const struct greet_v1_name *message,
    struct greet_v1_received *reply)
{
    uint8_t bytes[34];
    if (!greet_v1_name_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(GREET_V1_TAG_NAME, bytes, sizeof(bytes));
    uint8_t answer[68];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : greet_v1_read(reply, &come, answer);
}

/* Sends `greeting`. */
static inline int greet_v1_greeting_send(
    uint32_t channel,
    const struct greet_v1_greeting *message)
{
    uint8_t bytes[68];
    if (!greet_v1_greeting_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(GREET_V1_TAG_GREETING, bytes, sizeof(bytes));
    return penumbra_channel_send(channel, &sent);
}

/* Sends `greeting` and waits for what follows. After EMSGSIZE it was sent. */
static inline int greet_v1_greeting_call(
    uint32_t channel,
    const struct greet_v1_greeting *message,
    struct greet_v1_received *reply)
{
    uint8_t bytes[68];
    if (!greet_v1_greeting_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(GREET_V1_TAG_GREETING, bytes, sizeof(bytes));
    uint8_t answer[68];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : greet_v1_read(reply, &come, answer);
}

#endif /* PENUMBRA_GREET_V1_CALLS_H */
