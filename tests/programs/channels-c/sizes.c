/* What it takes to send a block of one size or another and to receive it: half of the time in which
 * it goes there and back, after Helios' figure 5 (benches/helios.toml). */
#include "channels.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wasi/api.h>

/* It begins with a page. */
static _Alignas(4096) uint8_t block[65536];

static uint64_t now(void)
{
    __wasi_timestamp_t time;
    is(__wasi_clock_time_get(__WASI_CLOCKID_MONOTONIC, 1, &time), 0, "clock");
    return time;
}

/* Rounds with a block of `size` bytes; half of the time of one in ns. */
static double measured(uint32_t end, int rounds, uint32_t size)
{
    struct piece_v1_received reply = {.room = penumbra_piece(block, sizeof(block))};
    uint64_t began = 0;
    for (int i = -rounds / 4 - 1; i < rounds; i++) {
        if (i == 0)
            began = now();
        /* As `swap` checks it, which sends the block back for an odd number. */
        const struct piece_v1_piece piece = {.sum = 2 * (uint32_t)i + 1};
        for (uint32_t at = 0; at < size; at += 4096)
            block[at] = (uint8_t)piece.sum;
        is(piece_v1_piece_call(end, &piece, penumbra_piece(block, size), &reply), 0, "piece");
        must(reply.block.count == size && block[0] == (uint8_t)(piece.sum + 1), "another block");
    }
    return (double)(now() - began) / rounds / 2;
}

void sizes(int rounds, const char *kernel)
{
    static const struct {
        uint32_t bytes;
        const char *name;
    } all[] = {{1, "1"}, {64, "64"}, {1024, "1k"}, {4096, "4k"}, {16384, "16k"}, {65536, "64k"}};
    struct penumbra_identity me;
    uint32_t ends[2];
    is(penumbra_self(&me), 0, "self");
    const char *where = (uint32_t)strtoul(kernel, NULL, 10) == me.kernel ? "" : "_cross";
    is(piece_v1_channel(ends), 0, "channel");
    uint32_t pid = start(kernel, "channels-c", "swap", ends[1]);
    for (size_t at = 0; at < sizeof(all) / sizeof(all[0]); at++) {
        double ns = measured(ends[0], rounds, all[at].bytes);
        printf("record channel.size_%s%s %.3f ns\n", all[at].name, where, ns);
    }
    close((int)ends[0]);
    ended(pid, PENUMBRA_EXIT);
}
