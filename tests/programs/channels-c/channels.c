/* A test program: channels in C. The words are those of tests/programs/channels:
 *
 *   channels-c alone                  one process with both ends
 *   channels-c parent KERNEL PROGRAM  pings `PROGRAM serve` on that kernel
 *   channels-c gives KERNEL PROGRAM   gives a channel to `PROGRAM takes` there, and talks over it
 *   channels-c pieces KERNEL PROGRAM  sends blocks to `PROGRAM returns` there, and gets them back
 *   channels-c leaves KERNEL PROGRAM  pings `PROGRAM leave` there, which ends without an answer
 *   channels-c waits KERNEL PROGRAM   pings `PROGRAM hold` there, and waits until its kernel dies
 *   channels-c roundtrip N KERNEL     measures N rounds with `echo` on that kernel
 *   channels-c blocks N KERNEL        measures N rounds with blocks and `swap` on that kernel
 *   channels-c sizes N KERNEL         measures N rounds with blocks of each size, likewise
 *   channels-c finds                  finds what `channels names` serves
 *   channels-c serve, takes, returns, leave, hold, echo, swap
 *                                     the other process, with its end at descriptor 20 */
#include "channels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PINGS = 3 };

void must(bool good, const char *what)
{
    if (good)
        return;
    printf("wrong: %s\n", what);
    exit(1);
}

void is(int error, int wanted, const char *what)
{
    if (error == wanted)
        return;
    printf("wrong: %s: error %d, not %d\n", what, error, wanted);
    exit(1);
}

uint32_t start(const char *kernel, const char *program, const char *word, uint32_t end)
{
    char path[64], arguments[128];
    int path_length = snprintf(path, sizeof(path), "bin/%s", program);
    int used = snprintf(arguments, sizeof(arguments), "%s%c%s", program, 0, word) + 1;
    const struct penumbra_file files[] = {
        {.descriptor = 1, .becomes = 1},
        {.descriptor = 2, .becomes = 2},
        {.descriptor = end, .becomes = HERE},
        {.descriptor = root_directory(), .becomes = 3, .preopen = penumbra_piece("/", 1)},
    };
    const struct penumbra_spawn what = {
        .path = penumbra_piece(path, (uint32_t)path_length),
        .arguments = penumbra_piece(arguments, (uint32_t)used),
        .files = penumbra_piece(files, 4),
        .directory = root_directory(),
        .kernel = (uint32_t)atoi(kernel),
    };
    uint32_t pid = 0;
    is(penumbra_spawn(&what, &pid), 0, "spawn");
    /* It has moved if the child is on another kernel; then there is nothing to close. */
    close((int)end);
    return pid;
}

void ended(uint32_t pid, uint32_t kind)
{
    struct penumbra_ended end;
    is(penumbra_wait((int32_t)pid, 0, &end), 0, "wait");
    must(end.kind == kind && (kind != PENUMBRA_EXIT || end.status == 0), "the child's end");
}

static void parent(char **words)
{
    uint32_t ends[2];
    struct ping_v1_received reply = {0};
    is(ping_v1_channel(ends), 0, "channel");
    uint32_t pid = start(words[2], words[3], "serve", ends[1]);
    for (uint64_t sequence = 1; sequence <= PINGS; sequence++) {
        const struct ping_v1_ping ping = {.sequence = sequence};
        is(ping_v1_ping_call(ends[0], &ping, &reply), 0, "call");
        must(reply.message.pong.sequence == sequence, "the pong of another ping");
        printf("ping %d of %d\n", (int)sequence, PINGS);
    }
    is(ping_v1_bye_send(ends[0]), 0, "bye");
    close((int)ends[0]);
    ended(pid, PENUMBRA_EXIT);
}

static void serve(void)
{
    struct ping_v1_received come = {0};
    is(ping_v1_use(HERE, PENUMBRA_SERVER), 0, "use");
    for (;;) {
        int error = ping_v1_receive(HERE, &come, 0);
        if (error == EPIPE || (error == 0 && come.tag == PING_V1_TAG_BYE))
            break;
        is(error, 0, "receive");
        const struct ping_v1_pong pong = {.sequence = come.message.ping.sequence};
        is(ping_v1_pong_send(HERE, &pong), 0, "pong");
    }
    close(HERE);
}

static void echoes(uint32_t end)
{
    struct echo_v1_received reply = {0};
    for (int round = 1; round <= PINGS; round++) {
        struct echo_v1_ask ask;
        memset(ask.data, round, sizeof(ask.data));
        is(echo_v1_ask_call(end, &ask, &reply), 0, "ask");
        must(memcmp(reply.message.answer.data, ask.data, sizeof(ask.data)) == 0, "another echo");
        printf("echo %d of %d\n", round, PINGS);
    }
    close((int)end);
}

static void gives(char **words)
{
    uint32_t ends[2], given[2];
    struct give_v1_received reply = {0};
    is(give_v1_channel(ends), 0, "channel");
    is(echo_v1_channel(given), 0, "channel");
    uint32_t pid = start(words[2], words[3], "takes", ends[1]);
    is(give_v1_give_send(ends[0], given[1]), 0, "give");
    echoes(given[0]);
    is(give_v1_receive(ends[0], &reply, 0), 0, "taken");
    close((int)ends[0]);
    ended(pid, PENUMBRA_EXIT);
}

static void takes(void)
{
    struct give_v1_received come = {0};
    struct echo_v1_received asked = {0};
    is(give_v1_use(HERE, PENUMBRA_SERVER), 0, "use");
    is(give_v1_receive(HERE, &come, 0), 0, "give");
    uint32_t served = come.ends[0];
    is(echo_v1_use(served, PENUMBRA_SERVER), 0, "use");
    int error;
    while ((error = echo_v1_receive(served, &asked, 0)) == 0) {
        struct echo_v1_answer answer;
        memcpy(answer.data, asked.message.ask.data, sizeof(answer.data));
        is(echo_v1_answer_send(served, &answer), 0, "answer");
    }
    is(error, EPIPE, "the end of the echoes");
    close((int)served);
    is(give_v1_taken_send(HERE), 0, "taken");
    is(give_v1_receive(HERE, &come, 0), EPIPE, "the end");
}

/* The child breaks the contract, by its own end or by that of its kernel. */
static void broken(char **words, const char *word)
{
    uint32_t ends[2];
    struct ping_v1_received reply = {0};
    const struct ping_v1_ping ping = {.sequence = 1};
    bool holds = strcmp(word, "hold") == 0;
    is(ping_v1_channel(ends), 0, "channel");
    uint32_t pid = start(words[2], words[3], word, ends[1]);
    is(ping_v1_ping_send(ends[0], &ping), 0, "ping");
    if (holds)
        puts("waiting");
    fflush(stdout);
    is(ping_v1_receive(ends[0], &reply, 0), ECONNRESET, "a broken channel");
    /* A death can take more: this program's output, and what is known of its child. */
    if (holds)
        return;
    puts("broken");
    ended(pid, PENUMBRA_EXIT);
}

/* Receives a ping and ends without an answer. */
static void leave(void)
{
    struct ping_v1_received come = {0};
    const struct ping_v1_pong pong = {0};
    is(ping_v1_pong_send(HERE, &pong), ENOTCONN, "without a contract");
    is(ping_v1_use(HERE, PENUMBRA_SERVER), 0, "use");
    is(ping_v1_receive(HERE, &come, 0), 0, "ping");
}

/* Receives a ping, says so by a file, and does not answer. */
static void hold(void)
{
    leave();
    FILE *held = fopen("/channels-c.held", "w");
    must(held != NULL && fclose(held) == 0, "a file");
    sleep(3600);
}

/* Connects by name to an echo of 64 bytes. */
static uint32_t connected(uint32_t flags)
{
    uint32_t end = 0;
    is(penumbra_name_connect("test/echo", 9, echo_v1_contract, sizeof(echo_v1_contract), flags,
                             &end),
       0, "connect");
    return end;
}

static void finds(void)
{
    uint32_t end;
    is(penumbra_name_connect("test/none", 9, echo_v1_contract, sizeof(echo_v1_contract), 0, &end),
       ENOENT, "a name that nobody serves");
    is(penumbra_name_connect("test/echo", 9, ping_v1_contract, sizeof(ping_v1_contract), 0, &end),
       EPROTOTYPE, "a name with another contract");
    echoes(connected(0));
    echoes(connected(PENUMBRA_AWAIT));
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "alone") == 0)
        alone();
    else if (strcmp(what, "parent") == 0 && count > 3)
        parent(words);
    else if (strcmp(what, "gives") == 0 && count > 3)
        gives(words);
    else if (strcmp(what, "pieces") == 0 && count > 3)
        pieces(words);
    else if (strcmp(what, "leaves") == 0 && count > 3)
        broken(words, "leave");
    else if (strcmp(what, "waits") == 0 && count > 3)
        broken(words, "hold");
    else if (strcmp(what, "roundtrip") == 0 && count > 3)
        roundtrip(atoi(words[2]), words[3]);
    else if (strcmp(what, "blocks") == 0 && count > 3)
        blocks(atoi(words[2]), words[3]);
    else if (strcmp(what, "sizes") == 0 && count > 3)
        sizes(atoi(words[2]), words[3]);
    else if (strcmp(what, "finds") == 0)
        finds();
    else if (strcmp(what, "echo") == 0)
        echo();
    else if (strcmp(what, "swap") == 0)
        swap();
    else if (strcmp(what, "serve") == 0)
        serve();
    else if (strcmp(what, "takes") == 0)
        takes();
    else if (strcmp(what, "returns") == 0)
        returns();
    else if (strcmp(what, "leave") == 0)
        leave();
    else if (strcmp(what, "hold") == 0)
        hold();
    else
        must(false, "see the top of channels.c");
    return 0;
}
