/* What a round trip of 64 bytes over a channel takes (benches/programs.toml), as `records` measures
 * that of a byte over two pipes: each side answers and waits in one call. And what a block of
 * 64 KiB takes: half of its way there and back, or one way, with an empty one in the other. */
#include "channels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wasi/api.h>

static uint64_t now(void)
{
    __wasi_timestamp_t time;
    is(__wasi_clock_time_get(__WASI_CLOCKID_MONOTONIC, 1, &time), 0, "clock");
    return time;
}

void echo(void)
{
    struct echo_v1_received asked = {0};
    is(echo_v1_use(HERE, PENUMBRA_SERVER), 0, "use");
    int error = echo_v1_receive(HERE, &asked, 0);
    while (error == 0) {
        struct echo_v1_answer answer;
        memcpy(answer.data, asked.message.ask.data, sizeof(answer.data));
        error = echo_v1_answer_call(HERE, &answer, &asked);
    }
    is(error, EPIPE, "the end of the echoes");
}

static void report(const char *what, const char *kernel, uint64_t spent, int rounds)
{
    struct penumbra_identity me;
    is(penumbra_self(&me), 0, "self");
    const char *end = (uint32_t)strtoul(kernel, NULL, 10) == me.kernel ? "" : "_cross";
    printf("record channel.%s%s %.3f ns\n", what, end, (double)spent / rounds);
}

void roundtrip(int rounds, const char *kernel)
{
    uint32_t ends[2];
    struct echo_v1_received reply = {0};
    struct echo_v1_ask ask = {{0}};
    is(echo_v1_channel(ends), 0, "channel");
    uint32_t pid = start(kernel, "channels-c", "echo", ends[1]);
    uint64_t began = 0;
    for (int i = -rounds / 4; i < rounds; i++) {
        if (i == 0)
            began = now();
        ask.data[0] = (uint8_t)i;
        is(echo_v1_ask_call(ends[0], &ask, &reply), 0, "ask");
        must(reply.message.answer.data[0] == (uint8_t)i, "another echo");
    }
    uint64_t spent = now() - began;
    close((int)ends[0]);
    ended(pid, PENUMBRA_EXIT);
    report("roundtrip_64", kernel, spent, rounds);
}

/* Its pages pass from one program to the other one, if both are on one kernel. */
static _Alignas(4096) uint8_t block[65536];

/* Writes a byte in each page. */
static void fill(uint32_t length, uint32_t number)
{
    for (uint32_t at = 0; at < length; at += 4096)
        block[at] = (uint8_t)number;
}

static void check(uint32_t length, uint32_t number)
{
    for (uint32_t at = 0; at < length; at += 4096)
        must(block[at] == (uint8_t)number, "another block");
}

/* Sends back an empty block if the number is even; else as much as has come, or a full block for an
 * empty one. */
void swap(void)
{
    struct piece_v1_received come = {.room = penumbra_piece(block, sizeof(block))};
    is(piece_v1_use(HERE, PENUMBRA_SERVER), 0, "use");
    int error = piece_v1_receive(HERE, &come, 0);
    while (error == 0) {
        const struct piece_v1_same same = {.sum = come.message.piece.sum};
        uint32_t full = come.block.count ? come.block.count : sizeof(block);
        uint32_t length = same.sum & 1 ? full : 0;
        check(come.block.count, same.sum);
        fill(length, same.sum + 1);
        error = piece_v1_same_call(HERE, &same, penumbra_piece(block, length), &come);
    }
    is(error, EPIPE, "the end of the pieces");
}

/* Rounds in which `sent` bytes are sent and `back` bytes come back, none or all. */
static uint64_t swaps(uint32_t end, int rounds, uint32_t sent, uint32_t back)
{
    struct piece_v1_received reply = {.room = penumbra_piece(block, sizeof(block))};
    uint64_t began = now();
    for (int i = 0; i < rounds; i++) {
        const struct piece_v1_piece piece = {.sum = 2 * (uint32_t)i + (back ? 1 : 0)};
        fill(sent, piece.sum);
        is(piece_v1_piece_call(end, &piece, penumbra_piece(block, sent), &reply), 0, "piece");
        must(reply.block.count == back, "another length");
        check(back, piece.sum + 1);
    }
    return now() - began;
}

void blocks(int rounds, const char *kernel)
{
    uint32_t ends[2];
    const uint32_t all = sizeof(block);
    is(piece_v1_channel(ends), 0, "channel");
    uint32_t pid = start(kernel, "channels-c", "swap", ends[1]);
    swaps(ends[0], rounds / 4 + 1, all, all);
    report("oneway_64k", kernel, swaps(ends[0], rounds, all, all), 2 * rounds);
    report("filled_64k", kernel, swaps(ends[0], rounds, all, 0), rounds);
    report("back_64k", kernel, swaps(ends[0], rounds, 0, all), rounds);
    close((int)ends[0]);
    ended(pid, PENUMBRA_EXIT);
}
