/* One process with both ends of each channel. */
#include "channels.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wasi/api.h>

uint32_t root_directory(void)
{
    __wasi_prestat_t about;
    uint8_t name[2] = {0};
    for (int at = 3; __wasi_fd_prestat_get(at, &about) == 0; at++)
        if (about.u.dir.pr_name_len == 1 && __wasi_fd_prestat_dir_name(at, name, 1) == 0 &&
            name[0] == '/')
            return (uint32_t)at;
    return 3;
}

static const struct ping_v1_ping PING = {.sequence = 7};
static const struct ping_v1_pong PONG = {.sequence = 7, .time = UINT64_MAX};

static void both_closed(const uint32_t ends[2])
{
    close((int)ends[0]);
    close((int)ends[1]);
}

/* A wrong order is refused, and the channel continues. */
static void order(void)
{
    uint32_t ends[2];
    struct ping_v1_received come = {0};
    is(ping_v1_channel(ends), 0, "channel");
    is(ping_v1_pong_send(ends[0], &PONG), EPROTO, "a client's pong");
    is(ping_v1_pong_send(ends[1], &PONG), EPROTO, "an early pong");
    is(ping_v1_ping_send(ends[1], &PING), EPROTO, "a server's ping");
    is(ping_v1_ping_send(STDOUT_FILENO, &PING), EBADF, "no channel");
    is(ping_v1_ping_send(ends[0], &PING), 0, "ping");
    is(ping_v1_ping_send(ends[0], &PING), EPROTO, "a second ping");
    is(ping_v1_bye_send(ends[0]), EPROTO, "bye instead of waiting");
    is(ping_v1_receive(ends[1], &come, 0), 0, "receive");
    must(come.tag == PING_V1_TAG_PING && come.message.ping.sequence == 7, "another ping");
    is(ping_v1_pong_send(ends[1], &PONG), 0, "pong");
    is(ping_v1_receive(ends[0], &come, PENUMBRA_NO_WAIT), 0, "receive");
    must(come.message.pong.time == UINT64_MAX, "another pong");
    is(ping_v1_receive(ends[0], &come, PENUMBRA_NO_WAIT), EAGAIN, "nothing to receive");
    is(ping_v1_bye_send(ends[0]), 0, "bye");
    both_closed(ends);
    is(ping_v1_ping_send(ends[0], &PING), EBADF, "a closed descriptor");
    puts("ok order");
}

/* What each side sees of the other's close. */
static void closes(void)
{
    uint32_t ends[2];
    struct ping_v1_received come = {0};
    is(ping_v1_channel(ends), 0, "channel");
    close((int)ends[0]);
    is(ping_v1_receive(ends[1], &come, 0), EPIPE, "a channel that was closed");
    is(ping_v1_receive(ends[1], &come, 0), EPIPE, "the same later");
    close((int)ends[1]);

    is(ping_v1_channel(ends), 0, "channel");
    is(ping_v1_ping_send(ends[0], &PING), 0, "ping");
    is(ping_v1_receive(ends[1], &come, 0), 0, "receive");
    close((int)ends[1]);
    is(ping_v1_receive(ends[0], &come, 0), ECONNRESET, "the server owed an answer");
    close((int)ends[0]);
    puts("ok close");
}

/* Ends in messages. */
static void carry(void)
{
    uint32_t ends[2], served[2], pings[2];
    struct give_v1_received come = {0};
    struct echo_v1_received asked = {0};
    const struct echo_v1_ask ask = {.data = "in the queue of an end that is sent"};
    is(give_v1_channel(ends) | echo_v1_channel(served) | ping_v1_channel(pings), 0, "channel");
    is(give_v1_give_send(ends[0], served[0]), EPROTO, "a client's end");
    is(give_v1_give_send(ends[0], pings[1]), EPROTO, "an end of another contract");
    is(give_v1_give_send(ends[0], PENUMBRA_NO_END), EPROTO, "no end");
    uint32_t second;
    is(penumbra_dup(served[1], &second), 0, "dup");
    is(give_v1_give_send(ends[0], served[1]), EMLINK, "an end with two descriptors");
    close((int)second);
    is(echo_v1_ask_send(served[0], &ask), 0, "ask");
    is(give_v1_give_send(ends[0], served[1]), 0, "give");
    is(give_v1_receive(ends[1], &come, 0), 0, "receive");
    uint32_t end = come.ends[0];
    must(end != PENUMBRA_NO_END && end != PENUMBRA_LOST_END && come.ends[1] == PENUMBRA_NO_END,
         "carried ends");
    is(ping_v1_use(end, PENUMBRA_SERVER), EPROTOTYPE, "by another contract");
    is(echo_v1_use(end, PENUMBRA_CLIENT), EPROTOTYPE, "as the other side");
    is(echo_v1_use(end, PENUMBRA_SERVER), 0, "use");
    is(echo_v1_receive(end, &asked, 0), 0, "receive");
    must(memcmp(asked.message.ask.data, ask.data, sizeof(ask.data)) == 0, "another message");
    close((int)end);
    close((int)served[0]);
    both_closed(ends);
    both_closed(pings);
    puts("ok carry");
}

/* Too little room. */
static void room(void)
{
    uint32_t ends[2];
    uint8_t bytes[8];
    is(ping_v1_channel(ends), 0, "channel");
    is(ping_v1_ping_send(ends[0], &PING), 0, "ping");
    struct penumbra_message small = penumbra_message(0, bytes, 7);
    is(penumbra_channel_receive(ends[1], &small, 0), EMSGSIZE, "7 bytes for 8");
    must(small.bytes.count == 8 && small.block.count == 0, "the needed room");
    is(penumbra_channel_receive(ends[1], &small, 0), 0, "8 bytes for 8");
    both_closed(ends);
    puts("ok room");
}

/* Waits at most 10 ms; a bit for each that is ready. */
static int ready(int pipe, int channel)
{
    struct pollfd files[] = {{.fd = pipe, .events = POLLIN}, {.fd = channel, .events = POLLIN}};
    poll(files, 2, 10);
    return (files[0].revents != 0) | (files[1].revents != 0) << 1;
}

/* A pipe and a channel. */
static void polls(void)
{
    uint32_t ends[2], pipe[2];
    is(ping_v1_channel(ends) | penumbra_pipe(pipe), 0, "channel, pipe");
    must(ready((int)pipe[0], (int)ends[1]) == 0, "nothing is ready");
    is(ping_v1_ping_send(ends[0], &PING), 0, "ping");
    must(ready((int)pipe[0], (int)ends[1]) == 2, "the channel is ready");
    must(write((int)pipe[1], "x", 1) == 1, "write");
    must(ready((int)pipe[0], (int)ends[1]) == 3, "both are ready");
    both_closed(ends);
    both_closed(pipe);
    puts("ok poll");
}

/* Pages of blocks, with room for a part of one more. */
enum { PAGE = 4096, SENT = 9 * PAGE + 100, MOST = 16 * PAGE };

static _Alignas(PAGE) uint8_t from[MOST], to[MOST + PAGE], untouched[MOST];

static void must_be(const uint8_t *bytes, uint32_t count, uint8_t what)
{
    for (uint32_t at = 0; at < count; at++)
        must(bytes[at] == what, "another byte");
}

/* Sends SENT bytes of this value, and receives them at `place`. */
static void pass(const uint32_t ends[2], uint8_t value, uint8_t *place, uint32_t space)
{
    const struct piece_v1_piece piece = {.sum = value};
    const struct piece_v1_same same = {.sum = value};
    struct piece_v1_received come = {.room = penumbra_piece(place, space)};
    memset(from, value, sizeof(from));
    is(piece_v1_same_send(ends[0], &same, penumbra_piece(from, SENT)), EPROTO, "a client's");
    must_be(from, sizeof(from), value);
    is(piece_v1_piece_send(ends[0], &piece, penumbra_piece(from, SENT)), 0, "piece");
    is(piece_v1_piece_send(ends[0], &piece, penumbra_piece(from, SENT)), EPROTO, "a second one");
    must_be(from, 9 * PAGE, 0);
    must_be(from + 9 * PAGE, MOST - 9 * PAGE, value);
    is(piece_v1_receive(ends[1], &come, 0), 0, "receive");
    must(come.block.count == SENT && come.message.piece.sum == value, "another piece");
    must_be(place, SENT, value);
    is(piece_v1_same_send(ends[1], &same, penumbra_piece(place, 0)), 0, "same");
    come.room = penumbra_piece(NULL, 0);
    is(piece_v1_receive(ends[0], &come, 0), 0, "receive");
}

/* Whole pages of blocks pass, wherever they are received, and leave zeros; a refused message leaves
 * its block as it was. */
static void passes(void)
{
    uint32_t ends[2];
    is(piece_v1_channel(ends), 0, "channel");
    pass(ends, 1, to, MOST);
    pass(ends, 2, to, SENT);
    pass(ends, 3, to + 13, MOST);
    pass(ends, 4, to, MOST);
    memset(to, 5, sizeof(to));
    pass(ends, 6, to + PAGE, SENT);
    must_be(to, PAGE, 5);
    must_be(to + PAGE + SENT, MOST - SENT, 5);
    both_closed(ends);
    puts("ok pass");
}

/* Pages without memory pass as zeros, and a message may describe itself in the pages of its block. */
static void passes_itself(void)
{
    uint32_t ends[2];
    struct piece_v1_received come = {.room = penumbra_piece(to, MOST)};
    struct penumbra_message *inside = (struct penumbra_message *)from;
    uint32_t *field = (uint32_t *)(from + 64);
    is(piece_v1_channel(ends), 0, "channel");
    const struct piece_v1_piece piece = {.sum = 7};
    is(piece_v1_piece_send(ends[0], &piece, penumbra_piece(untouched, MOST)), 0, "piece");
    memset(to, 1, sizeof(to));
    is(piece_v1_receive(ends[1], &come, 0), 0, "receive");
    must_be(to, MOST, 0);
    const struct piece_v1_same same = {.sum = 7};
    is(piece_v1_same_send(ends[1], &same, penumbra_piece(NULL, 0)), 0, "same");
    is(piece_v1_receive(ends[0], &come, 0), 0, "receive");

    /* The reply goes into the pages that are sent, too. */
    *field = 8;
    *inside = penumbra_message(PIECE_V1_TAG_PIECE, field, sizeof(*field));
    inside->block = penumbra_piece(from, MOST);
    inside->flags = PENUMBRA_HAS_BLOCK;
    is(penumbra_channel_send(ends[0], inside), 0, "a message in its block");
    must_be(from, PAGE, 0);
    come.room = penumbra_piece(to, MOST);
    is(piece_v1_receive(ends[1], &come, 0), 0, "receive");
    must(come.message.piece.sum == 8 && *(uint32_t *)(to + 64) == 8, "another message");
    both_closed(ends);
    puts("ok pass itself");
}

void alone(void)
{
    order();
    closes();
    carry();
    room();
    polls();
    passes();
    passes_itself();
}
