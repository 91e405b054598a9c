/* What a round trip of 64 bytes over a channel takes (benches/programs.toml), as `records` measures
 * that of a byte over two pipes: each side answers and waits in one call. */
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
    struct penumbra_identity me;
    is(penumbra_self(&me), 0, "self");
    const char *end = (uint32_t)strtoul(kernel, NULL, 10) == me.kernel ? "" : "_cross";
    printf("record channel.roundtrip_64%s %.3f ns\n", end, (double)spent / rounds);
}
