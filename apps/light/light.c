/* A light task as a program: `light SECONDS FOLDER BYTES [sync]`. Sleeps so long that the kernels
 * rest, makes eight files, sleeps until the episode is over, and prints its parts as phases of the
 * lab (docs/reference/lab-linux.md, "Episodes"). The files are removed last. */
#include "eight.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND 1000000000ULL

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * SECOND + (uint64_t)at.tv_nsec;
}

static void sleep_until(uint64_t due)
{
    for (uint64_t at = now(); at < due; at = now()) {
        struct timespec length = { (time_t)((due - at) / SECOND), (long)((due - at) % SECOND) };
        nanosleep(&length, NULL);
    }
}

static void must(const char *failed)
{
    if (failed) {
        fprintf(stderr, "light: %s: %s\n", failed, strerror(errno));
        exit(1);
    }
}

int main(int count, char **words)
{
    if (count < 4) {
        fprintf(stderr, "usage: light SECONDS FOLDER BYTES [sync]\n");
        return 2;
    }
    const char *folder = words[2];
    size_t size = strtoul(words[3], NULL, 10);
    int sync = count > 4 && strcmp(words[4], "sync") == 0;
    char *contents = malloc(size);
    if (!contents)
        must("memory for the contents");
    memset(contents, 0x5a, size);

    uint64_t due = now() + strtoull(words[1], NULL, 10) * SECOND;
    sleep_until(due);
    uint64_t start = now();
    must(make_eight(folder, contents, size, sync));
    uint64_t end = now();
    sleep_until(end + 6 * SECOND);

    const struct { const char *name; uint64_t at; } parts[] = {
        { "inactive_before", due - SECOND }, { "wake", due }, { "work", start },
        { "idle", end }, { "inactive_after", end + 5 * SECOND }, { "end", end + 6 * SECOND },
    };
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++)
        printf("phase %s %llu\n", parts[at].name, (unsigned long long)parts[at].at);
    must(remove_eight(folder));
    return 0;
}
