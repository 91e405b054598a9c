/* Contract echo.v1, made by `./pen contract c tests/contracts/echo.v1.toml`; do not edit.
 * A client sends 64 bytes and gets them back: what a round trip takes. */

#ifndef PENUMBRA_ECHO_V1_H
#define PENUMBRA_ECHO_V1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ECHO_V1_NAME "echo.v1"
/* Both sides of a channel must have the same hash. */
#define ECHO_V1_HASH { \
    0x0c, 0x08, 0x1d, 0x4a, 0xec, 0x5b, 0x38, 0xe8, \
    0x41, 0x51, 0x0f, 0x4e, 0xeb, 0x64, 0x00, 0x7a }

/* The contract as the system takes it. */
static const unsigned char echo_v1_contract[] = {
    80, 110, 67, 116, 1, 0, 2, 2, 0, 0, 0, 0, 64, 0, 0, 0,
    177, 154, 180, 199, 149, 60, 189, 244, 141, 44, 89, 65, 67, 201, 238, 140,
    0, 1, 1, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 0,
};

/* The states, and the side that may send in each. */
enum {
    ECHO_V1_STATE_IDLE = 0, /* client */
    ECHO_V1_STATE_ASKED = 1, /* server */
    ECHO_V1_START = ECHO_V1_STATE_IDLE,
};

/* The messages, and the side that sends each. */
enum {
    ECHO_V1_TAG_ASK = 0, /* client */
    ECHO_V1_TAG_ANSWER = 1, /* server */
};

/* ask: To be sent back. */
#define ECHO_V1_BYTES_ASK 64
struct echo_v1_ask {
    uint8_t data[64]; /* anything */
};
_Static_assert(sizeof(struct echo_v1_ask) == ECHO_V1_BYTES_ASK, "size");
_Static_assert(offsetof(struct echo_v1_ask, data) == 0, "data");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool echo_v1_ask_encode(
    const struct echo_v1_ask *message, uint8_t bytes[ECHO_V1_BYTES_ASK])
{
    memset(bytes, 0, ECHO_V1_BYTES_ASK);
    memcpy(bytes + 0, message->data, 64);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool echo_v1_ask_decode(
    struct echo_v1_ask *message, const uint8_t *bytes, size_t length)
{
    if (length != ECHO_V1_BYTES_ASK)
        return false;
    memset(message, 0, sizeof(*message));
    memcpy(message->data, bytes + 0, 64);
    return true;
}

/* answer: What was sent. */
#define ECHO_V1_BYTES_ANSWER 64
struct echo_v1_answer {
    uint8_t data[64]; /* the same */
};
_Static_assert(sizeof(struct echo_v1_answer) == ECHO_V1_BYTES_ANSWER, "size");
_Static_assert(offsetof(struct echo_v1_answer, data) == 0, "data");

/* Writes the fields to `bytes`. False if a length is invalid. */
static inline bool echo_v1_answer_encode(
    const struct echo_v1_answer *message, uint8_t bytes[ECHO_V1_BYTES_ANSWER])
{
    memset(bytes, 0, ECHO_V1_BYTES_ANSWER);
    memcpy(bytes + 0, message->data, 64);
    return true;
}

/* Reads the fields from `length` bytes. False if a length is invalid. */
static inline bool echo_v1_answer_decode(
    struct echo_v1_answer *message, const uint8_t *bytes, size_t length)
{
    if (length != ECHO_V1_BYTES_ANSWER)
        return false;
    memset(message, 0, sizeof(*message));
    memcpy(message->data, bytes + 0, 64);
    return true;
}

#endif /* PENUMBRA_ECHO_V1_H */

/* With penumbra_channel.h: functions that return 0 or an error number. */
#if defined(PENUMBRA_CHANNEL_H) && !defined(PENUMBRA_ECHO_V1_CALLS_H)
#define PENUMBRA_ECHO_V1_CALLS_H

#include <errno.h>

/* Creates a channel: ends[0] is the client's, ends[1] the server's. */
static inline int echo_v1_channel(uint32_t ends[2])
{
    return penumbra_channel(
        echo_v1_contract, sizeof(echo_v1_contract), ends);
}

/* Uses an end that was received or inherited. `side`: enum penumbra_side. */
static inline int echo_v1_use(uint32_t end, uint32_t side)
{
    return penumbra_channel_use(
        end, echo_v1_contract, sizeof(echo_v1_contract), side);
}

/* A received message: the member of `message` that `tag` says. `room` is the caller's,
 * for blocks; `block` is the part of it with the block, `ends` what it carries. */
struct echo_v1_received {
    struct penumbra_piece room;
    uint16_t tag;
    struct penumbra_piece block;
    uint32_t ends[2];
    union {
        struct echo_v1_ask ask;
        struct echo_v1_answer answer;
    } message;
};

/* Reads what came into `from`. EPROTO if it is not by the contract. */
static inline int echo_v1_read(
    struct echo_v1_received *into, const struct penumbra_message *from,
    const uint8_t *bytes)
{
    into->tag = from->tag;
    into->block = from->block;
    memcpy(into->ends, from->ends, sizeof(into->ends));
    bool good = false;
    (void)bytes;
    switch (from->tag) {
    case ECHO_V1_TAG_ASK:
        good = echo_v1_ask_decode(&into->message.ask, bytes, from->bytes.count);
        break;
    case ECHO_V1_TAG_ANSWER:
        good = echo_v1_answer_decode(&into->message.answer, bytes, from->bytes.count);
        break;
    default:
        break;
    }
    return good ? 0 : EPROTO;
}

/* Waits for a message. `flags`: PENUMBRA_NO_WAIT. After EMSGSIZE, `block` has the
 * count that is needed. */
static inline int echo_v1_receive(
    uint32_t channel, struct echo_v1_received *into, uint32_t flags)
{
    uint8_t bytes[64];
    struct penumbra_message come = penumbra_message(0, bytes, sizeof(bytes));
    come.block = into->room;
    int error = penumbra_channel_receive(channel, &come, flags);
    into->block = come.block;
    return error ? error : echo_v1_read(into, &come, bytes);
}

/* Sends `ask`. */
static inline int echo_v1_ask_send(
    uint32_t channel,
    const struct echo_v1_ask *message)
{
    uint8_t bytes[64];
    if (!echo_v1_ask_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(ECHO_V1_TAG_ASK, bytes, sizeof(bytes));
    return penumbra_channel_send(channel, &sent);
}

/* Sends `ask` and waits for what follows. After EMSGSIZE it was sent. */
static inline int echo_v1_ask_call(
    uint32_t channel,
    const struct echo_v1_ask *message,
    struct echo_v1_received *reply)
{
    uint8_t bytes[64];
    if (!echo_v1_ask_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(ECHO_V1_TAG_ASK, bytes, sizeof(bytes));
    uint8_t answer[64];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : echo_v1_read(reply, &come, answer);
}

/* Sends `answer`. */
static inline int echo_v1_answer_send(
    uint32_t channel,
    const struct echo_v1_answer *message)
{
    uint8_t bytes[64];
    if (!echo_v1_answer_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(ECHO_V1_TAG_ANSWER, bytes, sizeof(bytes));
    return penumbra_channel_send(channel, &sent);
}

/* Sends `answer` and waits for what follows. After EMSGSIZE it was sent. */
static inline int echo_v1_answer_call(
    uint32_t channel,
    const struct echo_v1_answer *message,
    struct echo_v1_received *reply)
{
    uint8_t bytes[64];
    if (!echo_v1_answer_encode(message, bytes))
        return EINVAL;
    struct penumbra_message sent = penumbra_message(ECHO_V1_TAG_ANSWER, bytes, sizeof(bytes));
    uint8_t answer[64];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : echo_v1_read(reply, &come, answer);
}

#endif /* PENUMBRA_ECHO_V1_CALLS_H */
