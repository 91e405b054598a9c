/* The records that programs measure: `pen bench` runs this on a board (benches/programs.toml).
 *
 *   records calls          calls, memory, pipes, other processes
 *   records cross KERNEL   the same pipes and processes with another kernel
 *   records files FOLDER   eight files made in FOLDER
 *   records net            a KiB from one socket to another
 *   records mark           what the compiler makes of a program, beside clang for the chip itself
 *   records echo, yield, sink, source    the other process of a case
 *
 * Time is the monotonic clock's: a nanosecond is an instruction under exact counts, and chip time
 * in the lab. What it costs to ask the clock twice is taken off each region. Interrupts are in it,
 * and whatever else the kernel does meanwhile, as on Linux. */
#include "bench.h"
#include "mark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES = 32, ROOM = 64, PAGE = 4096, WASM_PAGE = 65536 };

static char lines[LINES][ROOM];
static int line_count;
static const char *unit = "ns";
static uint64_t clock_cost;

uint64_t now(void)
{
    __wasi_timestamp_t time;
    must(__wasi_clock_time_get(__WASI_CLOCKID_MONOTONIC, 1, &time), "clock");
    return time;
}

void must(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "records: %s: error %d\n", what, error);
    exit(1);
}

void in_unit(const char *name)
{
    unit = name;
}

void record(const char *name, double value)
{
    if (line_count < LINES)
        snprintf(lines[line_count++], ROOM, "record %s %.3f %s\n", name, value, unit);
}

/* Time since `began`, without the clock's own. */
static uint64_t since(uint64_t began)
{
    uint64_t spent = now() - began;
    return spent > clock_cost ? spent - clock_cost : 0;
}

int root_directory(void)
{
    __wasi_prestat_t about;
    uint8_t name[2] = {0};
    for (int at = 3; __wasi_fd_prestat_get(at, &about) == 0; at++)
        if (about.u.dir.pr_name_len == 1 && __wasi_fd_prestat_dir_name(at, name, 1) == 0 &&
            name[0] == '/')
            return at;
    return 3;
}

uint32_t begin(const char *path, const char *argument, uint32_t kernel, int input, int output)
{
    char arguments[ROOM] = "program";
    uint32_t used = (uint32_t)strlen(arguments) + 1;
    snprintf(arguments + used, ROOM - used, "%s", argument);
    used += (uint32_t)strlen(arguments + used) + 1;
    const struct penumbra_file given[] = {{.descriptor = (uint32_t)input, .becomes = 0},
                                          {.descriptor = (uint32_t)output, .becomes = 1}};
    const struct penumbra_spawn what = {
        .path = penumbra_piece(path, (uint32_t)strlen(path)),
        .arguments = penumbra_piece(arguments, used),
        .files = penumbra_piece(given, input < 0 ? 0 : 2),
        .directory = (uint32_t)root_directory(),
        .kernel = kernel,
    };
    uint32_t pid = 0;
    must(penumbra_spawn(&what, &pid), path);
    return pid;
}

void end(uint32_t pid)
{
    struct penumbra_ended ended;
    must(penumbra_wait((int32_t)pid, 0, &ended), "wait");
    must(ended.kind != PENUMBRA_EXIT || ended.status != 0, "the other process");
}

static void put(int to, uint8_t byte)
{
    const __wasi_ciovec_t piece = {.buf = &byte, .buf_len = 1};
    __wasi_size_t done;
    must(__wasi_fd_write(to, &piece, 1, &done) || done != 1, "write");
}

/* Returns false at the end: no writer is left. */
static int take(int from, uint8_t *byte)
{
    const __wasi_iovec_t piece = {.buf = byte, .buf_len = 1};
    __wasi_size_t done;
    must(__wasi_fd_read(from, &piece, 1, &done), "read");
    return done == 1;
}

static int echo(void)
{
    uint8_t byte;
    while (take(0, &byte))
        put(1, byte);
    return 0;
}

/* Two pipes to a process on `kernel`: [0] to read from it, [1] to write to it. */
static uint32_t other(const char *what, uint32_t kernel, int ends[2])
{
    uint32_t there[2], back[2];
    must(penumbra_pipe(there), "pipe");
    must(penumbra_pipe(back), "pipe");
    uint32_t pid = begin("bin/records", what, kernel, (int)there[0], (int)back[1]);
    close((int)there[0]);
    close((int)back[1]);
    ends[0] = (int)back[0];
    ends[1] = (int)there[1];
    return pid;
}

static void leave(uint32_t pid, int ends[2])
{
    close(ends[1]);
    end(pid);
    close(ends[0]);
}

uint64_t pipe_rounds(uint32_t kernel, int rounds)
{
    int ends[2];
    uint32_t pid = other("echo", kernel, ends);
    uint8_t byte = 0;
    uint64_t began = 0;
    for (int i = -rounds / 4; i < rounds; i++) {
        if (i == 0)
            began = now();
        put(ends[1], (uint8_t)i);
        must(!take(ends[0], &byte) || byte != (uint8_t)i, "echo");
    }
    uint64_t spent = since(began);
    leave(pid, ends);
    return spent;
}

/* Bytes of a stream, and of each piece of it. */
enum { STREAM = 2 << 20, PIECE = 64 << 10 };
static uint8_t piece[PIECE];

static void send_stream(int to)
{
    for (uint32_t done = 0; done < STREAM;) {
        const __wasi_ciovec_t part = {.buf = piece, .buf_len = PIECE};
        __wasi_size_t written;
        must(__wasi_fd_write(to, &part, 1, &written), "write");
        done += written;
    }
}

static void receive_stream(int from)
{
    for (uint32_t done = 0; done < STREAM;) {
        const __wasi_iovec_t part = {.buf = piece, .buf_len = PIECE};
        __wasi_size_t came;
        must(__wasi_fd_read(from, &part, 1, &came) || came == 0, "read");
        done += came;
    }
}

/* Answers with a byte when a stream has come. */
static int sink(void)
{
    uint8_t byte;
    receive_stream(0);
    put(1, 0);
    must(take(0, &byte), "more than the stream");
    return 0;
}

/* Sends a stream when a byte has come. */
static int source(void)
{
    uint8_t byte;
    must(!take(0, &byte), "read");
    send_stream(1);
    return 0;
}

/* A stream to a process on `kernel`, and one from there, in MB (10^6 bytes) a second. */
static void streams(uint32_t kernel)
{
    int ends[2];
    uint8_t byte;
    uint32_t pid = other("sink", kernel, ends);
    uint64_t began = now();
    send_stream(ends[1]);
    must(!take(ends[0], &byte), "read");
    record("pipe.cross_mb_per_s", STREAM * 1e3 / (double)since(began));
    leave(pid, ends);
    pid = other("source", kernel, ends);
    began = now();
    put(ends[1], 0);
    receive_stream(ends[0]);
    record("pipe.cross_back_mb_per_s", STREAM * 1e3 / (double)since(began));
    leave(pid, ends);
}

uint64_t spawn_rounds(uint32_t kernel, int rounds)
{
    uint64_t began = 0;
    for (int i = -rounds / 4; i < rounds; i++) {
        if (i == 0)
            began = now();
        end(begin("bin/tiny", "", kernel, -1, -1));
    }
    return since(began);
}

static void give_way(int times)
{
    int errors = 0;
    for (int i = 0; i < times; i++)
        errors |= __wasi_sched_yield();
    must(errors, "yield");
}

/* Says that it is there, and yields until its input ends; looks at that seldom. */
static int yield(void)
{
    uint8_t byte;
    put(1, 0);
    must(!take(0, &byte), "read");
    give_way(4000);
    return 0;
}

/* One switch: each of the two yields as often as the other. */
static void yields(void)
{
    enum { ROUNDS = 2000 };
    int ends[2];
    uint32_t pid = other("yield", PENUMBRA_ANY_KERNEL, ends);
    uint8_t byte;
    must(!take(ends[0], &byte), "read");
    put(ends[1], 0);
    give_way(100);
    uint64_t began = now();
    give_way(ROUNDS);
    record("thread.yield", (double)since(began) / (2 * ROUNDS));
    leave(pid, ends);
}

static void clocks(void)
{
    enum { ROUNDS = 10000 };
    uint64_t began = now();
    for (int i = 0; i < ROUNDS; i++)
        now();
    clock_cost = (now() - began) / ROUNDS;
    // The call alone, without a look at each answer.
    __wasi_timestamp_t time;
    int errors = 0;
    began = now();
    for (int i = 0; i < ROUNDS; i++)
        errors |= __wasi_clock_time_get(__WASI_CLOCKID_MONOTONIC, 1, &time);
    uint64_t spent = now() - began;
    must(errors, "clock");
    record("call.clock", (double)spent / ROUNDS);
}

/* A file of the root, made here. */
static int make(const char *name)
{
    __wasi_fd_t file;
    must(__wasi_path_open(root_directory(), 0, name, __WASI_OFLAGS_CREAT,
                          __WASI_RIGHTS_FD_WRITE | __WASI_RIGHTS_FD_SEEK, 0, 0, &file),
         name);
    return file;
}

/* A file at this path from the root; made, if it is not there. */
static int file_at(const char *path)
{
    __wasi_fd_t file;
    if (__wasi_path_open(root_directory(), 0, path, 0, __WASI_RIGHTS_FD_WRITE, 0, 0, &file) == 0)
        return file;
    return make(path);
}

/* One byte at a time. */
static void writes(const char *path, const char *name)
{
    enum { ROUNDS = 5000 };
    int file = file_at(path);
    const uint8_t byte = 0;
    const __wasi_ciovec_t piece = {.buf = &byte, .buf_len = 1};
    __wasi_size_t done;
    uint64_t began = 0;
    for (int i = -ROUNDS / 4; i < ROUNDS; i++) {
        if (i == 0)
            began = now();
        must(__wasi_fd_write(file, &piece, 1, &done) || done != 1, "write");
    }
    record(name, (double)since(began) / ROUNDS);
    close(file);
}

static void opens(void)
{
    enum { ROUNDS = 2000 };
    close(make("records.file"));
    int root = root_directory();
    uint64_t began = 0;
    for (int i = -ROUNDS / 4; i < ROUNDS; i++) {
        if (i == 0)
            began = now();
        __wasi_fd_t file;
        must(__wasi_path_open(root, 0, "records.file", 0, __WASI_RIGHTS_FD_READ, 0, 0, &file),
             "open");
        must(__wasi_fd_close(file), "close");
    }
    record("file.open_close", (double)since(began) / ROUNDS);
    must(__wasi_path_unlink_file(root, "records.file"), "unlink");
}

/* The first write to each page of new memory; growing it is not in it. */
static void touches(void)
{
    enum { GROWN = 128 };
    size_t before = __builtin_wasm_memory_grow(0, GROWN);
    must(before == SIZE_MAX, "memory.grow");
    volatile uint8_t *first = (uint8_t *)(before * WASM_PAGE);
    uint64_t began = now();
    for (size_t at = 0; at < (size_t)GROWN * WASM_PAGE; at += PAGE)
        first[at] = 1;
    record("memory.touch_4k", (double)since(began) / (GROWN * WASM_PAGE / PAGE));
}

static void calls(void)
{
    writes("dev/null", "call.write1");
    writes("records.file", "file.write1");
    must(__wasi_path_unlink_file(root_directory(), "records.file"), "unlink");
    opens();
    touches();
    yields();
    record("pipe.roundtrip", (double)pipe_rounds(PENUMBRA_ANY_KERNEL, 1000) / 1000);
    record("spawn.wait", (double)spawn_rounds(PENUMBRA_ANY_KERNEL, 40) / 40);
}

static void cross(uint32_t kernel)
{
    record("pipe.roundtrip_cross", (double)pipe_rounds(kernel, 100) / 100);
    record("spawn.wait_cross", (double)spawn_rounds(kernel, 20) / 20);
    in_unit("MB/s");
    streams(kernel);
}

static void marks(void)
{
    enum { ROUNDS = 20 };
    mark(1);
    uint64_t began = now();
    uint32_t sum = mark(ROUNDS);
    record("program.mark", (double)since(began) / ROUNDS);
    in_unit("checksum");
    record("program.sum", sum);
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "echo") == 0)
        return echo();
    if (strcmp(what, "yield") == 0)
        return yield();
    if (strcmp(what, "sink") == 0)
        return sink();
    if (strcmp(what, "source") == 0)
        return source();
    clocks();
    if (strcmp(what, "calls") == 0)
        calls();
    else if (strcmp(what, "cross") == 0 && count > 2)
        cross((uint32_t)atoi(words[2]));
    else if (strcmp(what, "files") == 0 && count > 2)
        files(words[2]);
    else if (strcmp(what, "net") == 0)
        sockets();
    else if (strcmp(what, "mark") == 0)
        marks();
    else
        must(1, "say what: calls, cross KERNEL, files FOLDER, net, mark");
    for (int i = 0; i < line_count; i++)
        fputs(lines[i], stdout);
    return 0;
}
