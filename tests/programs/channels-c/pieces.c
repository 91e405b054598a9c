/* Blocks: one process sends some, the other one sends each back. */
#include "channels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The longest block of the contract. */
enum { MOST = 65536 };

/* Pages that begin like this pass on one kernel. */
static _Alignas(4096) uint8_t sent[MOST], room[MOST];

static uint32_t sum(const uint8_t *bytes, uint32_t count)
{
    uint32_t all = 0;
    for (uint32_t at = 0; at < count; at++)
        all += bytes[at];
    return all;
}

static void send_piece(uint32_t end, uint32_t length)
{
    for (uint32_t at = 0; at < length; at++)
        sent[at] = (uint8_t)(at * 7 + length);
    const struct piece_v1_piece piece = {.sum = sum(sent, length)};
    is(piece_v1_piece_send(end, &piece, penumbra_piece(sent, length)), 0, "piece");
}

static void receive_same(uint32_t end, uint32_t length)
{
    struct piece_v1_received come = {.room = penumbra_piece(room, MOST)};
    is(piece_v1_receive(end, &come, 0), 0, "same");
    must(come.block.count == length && come.message.same.sum == sum(room, length), "its length");
    for (uint32_t at = 0; at < length; at++)
        must(room[at] == (uint8_t)(at * 7 + length), "its bytes");
}

void pieces(char **words)
{
    static const uint32_t lengths[] = {0, 1, 4095, 4096, 4097, 40000, MOST};
    uint32_t ends[2];
    is(piece_v1_channel(ends), 0, "channel");
    /* Before the other process starts: its end moves with the block in its queue. */
    send_piece(ends[0], MOST);
    uint32_t pid = start(words[2], words[3], "returns", ends[1]);
    receive_same(ends[0], MOST);
    for (size_t at = 0; at < sizeof(lengths) / sizeof(lengths[0]); at++) {
        send_piece(ends[0], lengths[at]);
        receive_same(ends[0], lengths[at]);
    }
    close((int)ends[0]);
    puts("pieces");
    ended(pid, PENUMBRA_EXIT);
}

void returns(void)
{
    is(piece_v1_use(HERE, PENUMBRA_SERVER), 0, "use");
    for (;;) {
        /* Without room, the length that is needed. */
        struct piece_v1_received come = {0};
        int error = piece_v1_receive(HERE, &come, 0);
        if (error == EMSGSIZE) {
            come.room = penumbra_piece(room, come.block.count);
            error = piece_v1_receive(HERE, &come, 0);
        }
        if (error == EPIPE)
            break;
        is(error, 0, "receive");
        const struct piece_v1_same same = {.sum = sum(room, come.block.count)};
        must(same.sum == come.message.piece.sum, "the sum");
        is(piece_v1_same_send(HERE, &same, penumbra_piece(room, come.block.count)), 0, "same");
    }
    close(HERE);
}
