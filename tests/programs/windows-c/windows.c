/* Windows: memory that two programs share, in C. The words are those of tests/programs/windows:
 *
 *   windows-c writes KERNEL PROGRAM   fills a window again and again for `PROGRAM reads` there
 *   windows-c speed N KERNEL          measures N rounds with parts of 64 KiB and `looks` there
 *   windows-c storm                   windows come and go under threads that use their range
 *   windows-c reads, looks            the other process, with its end at descriptor 20 */
#include <errno.h>
#include <fcntl.h>
#include <penumbra.h>
#include <penumbra_channel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wasi/api.h>

#include "stream_v1.h"

enum { ROOT = 3, HERE = 20, LENGTH = 256 << 10, PART = 24 << 10, ROUNDS = 40 };
enum { PAGE = 4096, LONG = 64 << 10 };

/* The window. Another program accesses it, too. */
static _Alignas(4096) volatile uint64_t words[LENGTH / 8];

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "windows-c: %s\n", what);
    exit(1);
}

static void is(int error, int wanted, const char *what)
{
    if (error != wanted)
        fprintf(stderr, "error %d, not %d: ", error, wanted);
    must(error == wanted, what);
}

/* Starts `program word` on a kernel with this end. Returns its number. */
static uint32_t start(const char *kernel, const char *program, const char *word, uint32_t end)
{
    char path[64], arguments[64];
    int path_length = snprintf(path, sizeof(path), "bin/%s", program);
    int used = snprintf(arguments, sizeof(arguments), "%s%c%s", program, 0, word) + 1;
    const struct penumbra_file files[] = {
        {.descriptor = 2, .becomes = 2},
        {.descriptor = end, .becomes = HERE},
    };
    const struct penumbra_spawn what = {
        .path = penumbra_piece(path, (uint32_t)path_length),
        .arguments = penumbra_piece(arguments, (uint32_t)used),
        .files = penumbra_piece(files, 2),
        .directory = ROOT,
        .kernel = (uint32_t)atoi(kernel),
    };
    uint32_t pid;
    is(penumbra_spawn(&what, &pid), 0, "spawn");
    close((int)end);
    return pid;
}

/* Fills a part. Returns the sum of its words. */
static uint64_t fill(uint64_t round, uint32_t at)
{
    uint64_t sum = 0;
    for (uint32_t place = at; place < at + PART; place += 8) {
        uint64_t value = (round + 1) * 0x9e3779b97f4a7c15u ^ place;
        words[place / 8] = value;
        sum += value;
    }
    return sum;
}

/* Waits until a part was read. */
static void was_read(uint32_t end, uint64_t sum)
{
    struct stream_v1_received come = {0};
    is(stream_v1_receive(end, &come, 0), 0, "the answer");
    must(come.message.read.sum == sum, "another sum");
}

/* Sends the window, with the length of its first part. */
static void send_window(uint32_t end, uint32_t length)
{
    uint8_t fields[STREAM_V1_BYTES_MEMORY];
    const struct stream_v1_memory memory = {.length = length};
    must(stream_v1_memory_encode(&memory, fields), "the fields");
    struct penumbra_message sent =
        penumbra_message(STREAM_V1_TAG_MEMORY, fields, sizeof(fields));
    sent.block = penumbra_piece((void *)words, LENGTH);
    sent.flags = PENUMBRA_HAS_BLOCK | PENUMBRA_WINDOW;
    is(penumbra_channel_send(end, &sent), 0, "the window");
}

/* Says that the server may end, and waits for that. */
static void is_enough(uint32_t end, uint32_t pid)
{
    struct penumbra_ended ended;
    is(stream_v1_enough_send(end), 0, "enough");
    close((int)end);
    is(penumbra_wait((int32_t)pid, 0, &ended), 0, "wait");
    must(ended.kind == PENUMBRA_EXIT && ended.status == 0, "the child's end");
}

static void writes(const char *kernel, const char *program)
{
    uint32_t ends[2];
    is(stream_v1_channel(ends), 0, "channel");
    uint32_t pid = start(kernel, program, "reads", ends[1]);
    uint64_t sum = fill(0, 0);
    send_window(ends[0], PART);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        was_read(ends[0], sum);
        uint32_t at = (uint32_t)(round * 5 * 1024) % (LENGTH - PART);
        sum = fill(round, at);
        is(penumbra_window_flush((uint8_t *)words + at, PART), 0, "flush");
        const struct stream_v1_filled filled = {.at = at, .length = PART};
        is(stream_v1_filled_send(ends[0], &filled), 0, "filled");
    }
    was_read(ends[0], sum);
    is(penumbra_window_close((void *)words), 0, "close");
    is(penumbra_window_close((void *)words), EINVAL, "close again");
    must(words[0] == 0 && words[LENGTH / 8 - 1] == 0, "zeros are left");
    is_enough(ends[0], pid);
    puts("written");
}

static uint64_t now(void)
{
    __wasi_timestamp_t time;
    is(__wasi_clock_time_get(__WASI_CLOCKID_MONOTONIC, 1, &time), 0, "clock");
    return time;
}

/* A part is filled, as far as a word of each page is, and read likewise. */
static void speed(int rounds, const char *kernel)
{
    struct penumbra_identity me;
    uint32_t ends[2];
    uint64_t began = 0;
    is(penumbra_self(&me), 0, "self");
    is(stream_v1_channel(ends), 0, "channel");
    uint32_t pid = start(kernel, "windows-c", "looks", ends[1]);
    send_window(ends[0], LONG);
    was_read(ends[0], 0);
    for (int round = -rounds / 4 - 1; round < rounds; round++) {
        if (round == 0)
            began = now();
        uint64_t sum = 0;
        for (uint32_t at = 0; at < LONG; at += PAGE)
            sum += words[at / 8] = (uint64_t)round + at;
        is(penumbra_window_flush((void *)words, LONG), 0, "flush");
        const struct stream_v1_filled filled = {.at = 0, .length = LONG};
        is(stream_v1_filled_send(ends[0], &filled), 0, "filled");
        was_read(ends[0], sum);
    }
    const char *where = (uint32_t)atoi(kernel) == me.kernel ? "" : "_cross";
    printf("record channel.window_64k%s %.3f ns\n", where, (double)(now() - began) / rounds);
    is_enough(ends[0], pid);
}

/* Receives the window into `words`. Returns the length of its first part. */
static uint32_t receive_window(void)
{
    uint8_t bytes[STREAM_V1_BYTES_MEMORY];
    struct stream_v1_received come;
    struct penumbra_message message = penumbra_message(0, bytes, sizeof(bytes));
    message.block = penumbra_piece((void *)words, LENGTH);
    is(penumbra_channel_receive(HERE, &message, PENUMBRA_WINDOWS), 0, "the window");
    must(message.flags == (PENUMBRA_HAS_BLOCK | PENUMBRA_WINDOW), "it is no window");
    must(message.block.count == LENGTH, "its length");
    is(stream_v1_read(&come, &message, bytes), 0, "its message");
    return come.message.memory.length;
}

/* Reads a word of each `step` bytes. */
static void reads(uint32_t step)
{
    is(stream_v1_use(HERE, PENUMBRA_SERVER), 0, "use");
    uint32_t at = 0, length = receive_window();
    struct stream_v1_received come = {0};
    do {
        must(at % 8 == 0 && length <= LENGTH && at <= LENGTH - length, "a part");
        is(penumbra_window_refresh((uint8_t *)words + at, length), 0, "refresh");
        struct stream_v1_read answer = {0};
        for (uint32_t place = at; place < at + length; place += step)
            answer.sum += words[place / 8];
        is(stream_v1_read_send(HERE, &answer), 0, "read");
        is(stream_v1_receive(HERE, &come, 0), 0, "more");
        at = come.message.filled.at;
        length = come.message.filled.length;
    } while (come.tag == STREAM_V1_TAG_FILLED);
    close(HERE);
}

static atomic_bool is_over;

/* The kernel stores in the range. */
static void *reads_a_file(void *name)
{
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(file >= 0 && ftruncate(file, LENGTH) == 0, "the file");
    while (!is_over)
        must(pread(file, (void *)words, LENGTH, 0) > 0, "a read of the file");
    close(file);
    unlink(name);
    return NULL;
}

/* The program does. */
static void *stores(void *unused)
{
    for (uint64_t number = 0; !is_over; number++)
        words[number * 513 % (LENGTH / 8)] = number;
    return unused;
}

static void storm(void)
{
    enum { TIMES = 300, THREADS = 3 };
    pthread_t threads[THREADS];
    is(pthread_create(&threads[0], NULL, reads_a_file, "/windows.storm"), 0, "a thread");
    for (int at = 1; at < THREADS; at++)
        is(pthread_create(&threads[at], NULL, stores, NULL), 0, "a thread");
    for (int round = 0; round < TIMES; round++) {
        uint32_t ends[2];
        is(stream_v1_channel(ends), 0, "channel");
        send_window(ends[0], PART);
        is(penumbra_window_flush((void *)words, LENGTH), 0, "flush");
        is(penumbra_window_close((void *)words), 0, "close");
        close((int)ends[0]);
        close((int)ends[1]);
    }
    is_over = true;
    for (int at = 0; at < THREADS; at++)
        is(pthread_join(threads[at], NULL), 0, "join");
    puts("over");
}

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "writes") == 0)
        writes(arguments[2], arguments[3]);
    else if (count == 4 && strcmp(arguments[1], "speed") == 0)
        speed(atoi(arguments[2]), arguments[3]);
    else if (count == 2 && strcmp(arguments[1], "storm") == 0)
        storm();
    else if (count == 2 && strcmp(arguments[1], "reads") == 0)
        reads(8);
    else if (count == 2 && strcmp(arguments[1], "looks") == 0)
        reads(PAGE);
    else
        must(false, "no such words");
    return 0;
}
