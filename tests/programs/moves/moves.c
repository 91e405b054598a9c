/* A program that moves between kernels while it runs, for `./pen test moves.` and `./pen bench move`.
 * Its argument is one of the modes below. Each checks what it has after every move, and says
 * `ok MODE`. */

#include "penumbra.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint32_t own_kernel, own_pid;

static void fail(const char *what)
{
    printf("wrong: %s (errno %d)\n", what, errno);
    exit(1);
}

static void look(void)
{
    struct penumbra_identity me;
    if (penumbra_self(&me))
        fail("self");
    own_kernel = me.kernel;
    own_pid = me.pid;
}

/* Moves this process, and checks that it is there. */
static void to(uint32_t kernel)
{
    int error = penumbra_move(own_pid, kernel);
    if (error) {
        errno = error;
        fail("move");
    }
    uint32_t pid = own_pid;
    look();
    if (own_kernel != kernel || own_pid != pid)
        fail("it is not there");
}

static void back_and_forth(void)
{
    look();
    to(!own_kernel);
}

/* Deep frames with values of every kind in their locals, called by way of a table. */
typedef double (*step)(int depth, int64_t big, float small, double exact);

static double odd(int depth, int64_t big, float small, double exact);

static double even(int depth, int64_t big, float small, double exact)
{
    volatile int here = depth * 7;
    if (depth <= 0) {
        back_and_forth();
        return exact + small + (double)big;
    }
    step next = depth & 1 ? odd : even;
    double found = next(depth - 1, big + depth, small * 1.5f, exact / 3);
    if (here != depth * 7)
        fail("a local has changed");
    return found + small + (double)(big % 1000) + exact;
}

static double odd(int depth, int64_t big, float small, double exact)
{
    double inner = even(depth - 1, big * 3, small + 1, sqrt(exact));
    return inner - exact + (double)(big & 0xffff) + small;
}

static double frames(int depth)
{
    return even(depth, INT64_C(1) << 40, 0.25f, 1e9);
}

static void check_frames(void)
{
    /* Each starts on the other kernel than the one before. */
    double first = frames(200);
    for (int i = 0; i < 6; i++)
        if (frames(200) != first)
            fail("frames");
}

static void check_memory(void)
{
    enum { BLOCKS = 64, WORDS = 8192 };
    static uint32_t *blocks[BLOCKS];
    for (int round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < BLOCKS; i++) {
            if (!blocks[i] && !(blocks[i] = malloc(WORDS * 4)))
                fail("malloc");
            for (uint32_t j = 0; j < WORDS; j++)
                blocks[i][j] = j * 2654435761u + i + (uint32_t)round;
        }
        back_and_forth();
        for (uint32_t i = 0; i < BLOCKS; i++)
            for (uint32_t j = 0; j < WORDS; j++)
                if (blocks[i][j] != j * 2654435761u + i + (uint32_t)round)
                    fail("memory");
        free(blocks[round]);
        blocks[round] = NULL;
    }
}

static void check_files(void)
{
    const char *path = "/moves.txt";
    FILE *file = fopen(path, "w+");
    uint32_t ends[2];
    if (!file || penumbra_pipe(ends))
        fail("open");
    for (int i = 0; i < 6; i++) {
        char byte = (char)('a' + i), got = 0;
        if (fprintf(file, "line %d\n", i) < 0 || write((int)ends[1], &byte, 1) != 1)
            fail("write");
        back_and_forth();
        if (read((int)ends[0], &got, 1) != 1 || got != byte)
            fail("pipe");
    }
    rewind(file);
    for (int i = 0; i < 6; i++) {
        char line[16], wanted[16];
        snprintf(wanted, sizeof wanted, "line %d\n", i);
        if (!fgets(line, sizeof line, file) || strcmp(line, wanted))
            fail("read");
    }
    fclose(file);
    if (unlink(path))
        fail("unlink");
    if (!getenv("MOVES") || strcmp(getenv("MOVES"), "yes"))
        fail("environment");
}

/* A listener, a connection, one that nothing has accepted yet, and many sockets besides. After so
 * many moves, what a move left would exceed what a tree can have. */
static void check_sockets(void)
{
    enum { MANY = 150, MOVES = 10 };
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0), many[MANY];
    if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 4) ||
        getsockname(listener, (struct sockaddr *)&here, &length))
        fail("listen");
    for (int i = 0; i < MANY; i++)
        if ((many[i] = socket(AF_INET, i % 2 ? SOCK_STREAM : SOCK_DGRAM, 0)) < 0)
            fail("socket");
    for (int i = 0; i < MOVES; i++) {
        char byte = (char)('a' + i), got = 0;
        int near = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(near, (struct sockaddr *)&here, sizeof here) || send(near, &byte, 1, 0) != 1)
            fail("connect");
        back_and_forth();
        int far = accept(listener, NULL, NULL);
        if (far < 0)
            fail("accept");
        back_and_forth();
        if (recv(far, &got, 1, 0) != 1 || got != byte || close(near) || recv(far, &got, 1, 0) != 0)
            fail("recv");
        close(far);
    }
    for (int i = 0; i < MANY; i++)
        if (close(many[i]))
            fail("close");
    close(listener);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Sleeps for three seconds, and says so: it is moved meanwhile. */
static void sleeps(void)
{
    printf("sleeping\n");
    fflush(stdout);
    uint64_t before = now();
    struct timespec time = {3, 0};
    if (nanosleep(&time, NULL))
        fail("nanosleep");
    uint64_t slept = (now() - before) / 1000000;
    look();
    printf("slept 3 s: %s, on %u\n", slept >= 3000 && slept < 3900 ? "yes" : "no", own_kernel);
}

/* Answers lines: it waits for input when it is moved. */
static void answers(void)
{
    char line[64];
    for (;;) {
        struct pollfd input = {.fd = 0, .events = POLLIN};
        if (poll(&input, 1, -1) != 1)
            fail("poll");
        if (!fgets(line, sizeof line, stdin))
            return;
        look();
        printf("%u: %s", own_kernel, line);
        fflush(stdout);
    }
}

/* Computes without a call: steps of a generator, which take seconds. */
static void computes(const char *steps)
{
    uint32_t state = 1;
    uint64_t count = strtoull(steps, NULL, 10);
    printf("computing\n");
    fflush(stdout);
    for (uint64_t i = 0; i < count; i++)
        state = state * 1664525u + 1013904223u;
    look();
    printf("%08x on %u\n", state, own_kernel);
}

/* A child is started before a move, and waited for after it. */
static void check_children(const char *self)
{
    for (int i = 0; i < 4; i++) {
        char arguments[64];
        int length = snprintf(arguments, sizeof arguments, "moves%cnothing%c", 0, 0);
        struct penumbra_spawn what = {
            .path = penumbra_piece(self, (uint32_t)strlen(self)),
            .arguments = penumbra_piece(arguments, (uint32_t)length),
            .directory = 3,
            .kernel = PENUMBRA_ANY_KERNEL,
        };
        uint32_t pid;
        if ((errno = penumbra_spawn(&what, &pid)))
            fail("spawn");
        back_and_forth();
        struct penumbra_ended ended;
        if ((errno = penumbra_wait((int32_t)pid, 0, &ended)))
            fail("wait");
        if (ended.pid != pid || ended.kind != 1 || ended.status != 0)
            fail("child");
    }
}

/* With as many files as it may have, it cannot have them on two kernels: it stays, and can move
 * when some are closed. */
static void check_full(void)
{
    int files[64], count = 0;
    while (count < 64 && (files[count] = open("/", O_RDONLY)) >= 0)
        count++;
    if (count == 64 || errno != ENFILE)
        fail("no limit of files");
    if ((errno = penumbra_move(own_pid, !own_kernel)) != ENFILE)
        fail("move with all files");
    uint32_t before = own_kernel;
    look();
    if (own_kernel != before)
        fail("it did not stay");
    while (count > 0)
        if (close(files[--count]))
            fail("close");
    back_and_forth();
}

/* Moves a child, which waits for input each time. */
static void relay(const char *self)
{
    uint32_t in[2], out[2], pid;
    if (penumbra_pipe(in) || penumbra_pipe(out))
        fail("pipe");
    char arguments[] = "moves\0answer";
    const struct penumbra_file files[] = {
        {.descriptor = in[0], .becomes = 0},
        {.descriptor = out[1], .becomes = 1},
        {.descriptor = 2, .becomes = 2},
    };
    struct penumbra_spawn what = {
        .path = penumbra_piece(self, (uint32_t)strlen(self)),
        .arguments = penumbra_piece(arguments, sizeof arguments),
        .files = penumbra_piece(files, 3),
        .directory = 3,
        .kernel = own_kernel,
    };
    if ((errno = penumbra_spawn(&what, &pid)))
        fail("spawn");
    for (uint32_t i = 0; i < 8; i++) {
        char wanted[32], got[32];
        if (i == 4) {
            /* Until here, this process has the child's ends, too, and they work. */
            close((int)in[0]);
            close((int)out[1]);
        } else if (i < 4 && (write((int)out[1], "own", 3) != 3 || read((int)out[0], got, 3) != 3)) {
            fail("an end that a child has, too");
        }
        uint32_t kernel = (own_kernel + i) % 2;
        if ((errno = penumbra_move(pid, kernel)))
            fail("move of a child");
        int length = snprintf(wanted, sizeof wanted, "%u: line %u\n", kernel, i);
        if (write((int)in[1], wanted + 3, (size_t)length - 3) != length - 3)
            fail("write");
        if (read((int)out[0], got, sizeof got) != length || memcmp(got, wanted, (size_t)length))
            fail("answer");
    }
    close((int)in[1]);
    struct penumbra_ended ended;
    if ((errno = penumbra_wait((int32_t)pid, 0, &ended)) || ended.kind != 1 || ended.status)
        fail("wait");
}

/* Moves there and back as often as it is told to, from kernel 0, and says how long one takes. */
static void measure(const char *times, const char *kib)
{
    int count = atoi(times);
    size_t bytes = (size_t)atoi(kib) << 10;
    volatile char *block = malloc(bytes);
    if (!block)
        fail("malloc");
    for (size_t at = 0; at < bytes; at += 512)
        block[at] = 1;
    uint64_t sums[2] = {0, 0};
    for (int i = 0; i < 2 * count; i++) {
        look();
        uint32_t from = own_kernel;
        uint64_t before = now();
        if ((errno = penumbra_move(own_pid, !from)))
            fail("move");
        sums[from] += now() - before;
    }
    const char *size = bytes ? "_1m" : "";
    printf("record move.to_weak%s %.1f us\n", size, (double)sums[0] / 1e3 / count);
    printf("record move.to_strong%s %.1f us\n", size, (double)sums[1] / 1e3 / count);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    look();
    if (!strcmp(mode, "frames"))
        check_frames();
    else if (!strcmp(mode, "memory"))
        check_memory();
    else if (!strcmp(mode, "files"))
        check_files();
    else if (!strcmp(mode, "sockets"))
        check_sockets();
    else if (!strcmp(mode, "children"))
        check_children(argv[2]);
    else if (!strcmp(mode, "full"))
        check_full();
    else if (!strcmp(mode, "relay"))
        relay(argv[2]);
    else if (!strcmp(mode, "sleep"))
        sleeps();
    else if (!strcmp(mode, "answer"))
        answers();
    else if (!strcmp(mode, "compute"))
        computes(argv[2]);
    else if (!strcmp(mode, "measure"))
        measure(argv[2], argv[3]);
    else if (strcmp(mode, "nothing"))
        fail("no such mode");
    if (argc > 1 && strcmp(mode, "nothing"))
        printf("ok %s\n", mode);
    return 0;
}
