/* Contract give.v1, made by `./pen contract c tests/contracts/give.v1.toml`; do not edit.
 * A client gives channels of its own away, for another program to serve. */

#ifndef PENUMBRA_GIVE_V1_H
#define PENUMBRA_GIVE_V1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GIVE_V1_NAME "give.v1"
/* Both sides of a channel must have the same hash. */
#define GIVE_V1_HASH { \
    0x14, 0x4e, 0xda, 0x57, 0xc6, 0x94, 0xca, 0x71, \
    0x10, 0x7e, 0x72, 0xaa, 0xd7, 0xb3, 0xe1, 0x03 }

/* The contract as the system takes it. */
static const unsigned char give_v1_contract[] = {
    80, 110, 67, 116, 1, 0, 2, 2, 0, 1, 1, 0, 84, 0, 0, 0,
    193, 144, 207, 164, 18, 53, 18, 141, 184, 156, 98, 4, 140, 228, 0, 81,
    0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 12, 8, 29, 74,
    236, 91, 56, 232, 65, 81, 15, 78, 235, 100, 0, 122, 1, 0, 0, 0,
    1, 255, 255, 0,
};

/* The states, and the side that may send in each. */
enum {
    GIVE_V1_STATE_IDLE = 0, /* client */
    GIVE_V1_STATE_GIVEN = 1, /* server */
    GIVE_V1_START = GIVE_V1_STATE_IDLE,
};

/* The messages, and the side that sends each. */
enum {
    GIVE_V1_TAG_GIVE = 0, /* client */
    GIVE_V1_TAG_TAKEN = 1, /* server */
};

/* give: A channel to serve. Carries served: the server's end, by echo.v1. */
#define GIVE_V1_BYTES_GIVE 0
#define GIVE_V1_ENDPOINTS_GIVE 1

/* taken: It is served from now on. */
#define GIVE_V1_BYTES_TAKEN 0

#endif /* PENUMBRA_GIVE_V1_H */

/* With penumbra_channel.h: functions that return 0 or an error number. */
#if defined(PENUMBRA_CHANNEL_H) && !defined(PENUMBRA_GIVE_V1_CALLS_H)
#define PENUMBRA_GIVE_V1_CALLS_H

#include <errno.h>

/* Creates a channel: ends[0] is the client's, ends[1] the server's. */
static inline int give_v1_channel(uint32_t ends[2])
{
    return penumbra_channel(
        give_v1_contract, sizeof(give_v1_contract), ends);
}

/* Uses an end that was received or inherited. `side`: enum penumbra_side. */
static inline int give_v1_use(uint32_t end, uint32_t side)
{
    return penumbra_channel_use(
        end, give_v1_contract, sizeof(give_v1_contract), side);
}

/* A received message: the member of `message` that `tag` says. `room` is the caller's,
 * for blocks; `block` is the part of it with the block, `ends` what it carries. */
struct give_v1_received {
    struct penumbra_piece room;
    uint16_t tag;
    struct penumbra_piece block;
    uint32_t ends[2];
};

/* Reads what came into `from`. EPROTO if it is not by the contract. */
static inline int give_v1_read(
    struct give_v1_received *into, const struct penumbra_message *from,
    const uint8_t *bytes)
{
    into->tag = from->tag;
    into->block = from->block;
    memcpy(into->ends, from->ends, sizeof(into->ends));
    bool good = false;
    (void)bytes;
    switch (from->tag) {
    case GIVE_V1_TAG_GIVE:
        good = from->bytes.count == 0;
        break;
    case GIVE_V1_TAG_TAKEN:
        good = from->bytes.count == 0;
        break;
    default:
        break;
    }
    return good ? 0 : EPROTO;
}

/* Waits for a message. `flags`: PENUMBRA_NO_WAIT. After EMSGSIZE, `block` has the
 * count that is needed. */
static inline int give_v1_receive(
    uint32_t channel, struct give_v1_received *into, uint32_t flags)
{
    uint8_t bytes[1];
    struct penumbra_message come = penumbra_message(0, bytes, sizeof(bytes));
    come.block = into->room;
    int error = penumbra_channel_receive(channel, &come, flags);
    into->block = come.block;
    return error ? error : give_v1_read(into, &come, bytes);
}

/* Sends `give`. */
static inline int give_v1_give_send(
    uint32_t channel,
    uint32_t served)
{
    struct penumbra_message sent = penumbra_message(GIVE_V1_TAG_GIVE, 0, 0);
    sent.ends[0] = served;
    return penumbra_channel_send(channel, &sent);
}

/* Sends `give` and waits for what follows. After EMSGSIZE it was sent. */
static inline int give_v1_give_call(
    uint32_t channel,
    uint32_t served,
    struct give_v1_received *reply)
{
    struct penumbra_message sent = penumbra_message(GIVE_V1_TAG_GIVE, 0, 0);
    sent.ends[0] = served;
    uint8_t answer[1];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : give_v1_read(reply, &come, answer);
}

/* Sends `taken`. */
static inline int give_v1_taken_send(
    uint32_t channel)
{
    struct penumbra_message sent = penumbra_message(GIVE_V1_TAG_TAKEN, 0, 0);
    return penumbra_channel_send(channel, &sent);
}

/* Sends `taken` and waits for what follows. After EMSGSIZE it was sent. */
static inline int give_v1_taken_call(
    uint32_t channel,
    struct give_v1_received *reply)
{
    struct penumbra_message sent = penumbra_message(GIVE_V1_TAG_TAKEN, 0, 0);
    uint8_t answer[1];
    struct penumbra_message come = penumbra_message(0, answer, sizeof(answer));
    come.block = reply->room;
    int error = penumbra_channel_call(channel, &sent, &come);
    reply->block = come.block;
    return error ? error : give_v1_read(reply, &come, answer);
}

#endif /* PENUMBRA_GIVE_V1_CALLS_H */
