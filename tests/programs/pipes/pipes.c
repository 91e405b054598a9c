/* A pipe between two processes, which each use it little by little, until one of them is gone.
 *
 *   pipes reads KERNEL    starts a process on this kernel that writes, and reads until the end
 *   pipes writes KERNEL   starts one that reads, and writes until there is no reader
 *   pipes talks KERNEL    starts one that returns what it reads, and talks to it with pauses
 *
 * When bytes have passed in the first two, there is a file /pipes.held. */
#include <errno.h>
#include <penumbra.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(int is_right, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "pipes: %s (errno %d)\n", what, errno);
        exit(1);
    }
}

static void hold(void)
{
    FILE *held = fopen("/pipes.held", "w");
    must(held != NULL && fclose(held) == 0, "a file");
}

/* Reads until the end. */
static void read_all(int from, int holds)
{
    char line[64];
    for (int count = 0; read(from, line, sizeof(line)) > 0; count++)
        if (holds && count == 2)
            hold();
}

/* Writes, with pauses, until there is no reader. */
static void write_all(int to, int holds)
{
    for (int count = 0; write(to, "a line\n", 7) == 7; count++) {
        if (holds && count == 2)
            hold();
        usleep(10 * 1000);
    }
}

/* Starts a process with these ends as its input and its output; -1: it has none. */
static void start(const char *kernel, const char *word, int input, int output)
{
    char arguments[64];
    int used = snprintf(arguments, sizeof(arguments), "pipes%c%s", 0, word) + 1;
    struct penumbra_file files[2];
    uint32_t count = 0;
    if (input >= 0)
        files[count++] = (struct penumbra_file){.descriptor = (uint32_t)input, .becomes = 0};
    if (output >= 0)
        files[count++] = (struct penumbra_file){.descriptor = (uint32_t)output, .becomes = 1};
    const struct penumbra_spawn what = {
        .path = penumbra_piece("bin/pipes", 9),
        .arguments = penumbra_piece(arguments, (uint32_t)used),
        .files = penumbra_piece(files, count),
        .directory = 3,
        .kernel = (uint32_t)atoi(kernel),
    };
    uint32_t pid = 0;
    must(penumbra_spawn(&what, &pid) == 0, "spawn");
    close(input);
    close(output);
}

/* Returns what it reads. */
static void echo(void)
{
    char line[64];
    for (ssize_t got; (got = read(0, line, sizeof(line))) > 0;)
        must(write(1, line, (size_t)got) == got, "echo");
}

/* Sends lines, and gets them back. */
static void talk(const char *kernel)
{
    uint32_t there[2], back[2];
    must(penumbra_pipe(there) == 0 && penumbra_pipe(back) == 0, "pipes");
    start(kernel, "echo", (int)there[0], (int)back[1]);
    for (int count = 0; count < 20; count++) {
        char sent[16], got[16];
        int length = snprintf(sent, sizeof(sent), "line %d\n", count);
        must(write((int)there[1], sent, (size_t)length) == length, "write");
        must(read((int)back[0], got, sizeof(got)) == length, "read");
        must(memcmp(sent, got, (size_t)length) == 0, "another line");
        usleep(30 * 1000);
    }
    close((int)there[1]);
    char end;
    must(read((int)back[0], &end, 1) == 0, "the end");
    puts("talked");
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    uint32_t ends[2];
    if (strcmp(mode, "reader") == 0) {
        read_all(0, 0);
    } else if (strcmp(mode, "writer") == 0) {
        write_all(1, 0);
    } else if (count > 2 && strcmp(mode, "reads") == 0) {
        must(penumbra_pipe(ends) == 0, "pipe");
        start(words[2], "writer", -1, (int)ends[1]);
        read_all((int)ends[0], 1);
    } else if (count > 2 && strcmp(mode, "writes") == 0) {
        must(penumbra_pipe(ends) == 0, "pipe");
        start(words[2], "reader", (int)ends[0], -1);
        write_all((int)ends[1], 1);
    } else if (strcmp(mode, "echo") == 0) {
        echo();
    } else if (count > 2 && strcmp(mode, "talks") == 0) {
        talk(words[2]);
    } else {
        must(0, "say what: reads KERNEL, writes KERNEL, talks KERNEL");
    }
    return 0;
}
