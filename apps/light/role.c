#include "role.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * SECOND + (uint64_t)at.tv_nsec;
}

uint64_t seconds(const char *number)
{
    return strtoull(number, NULL, 10) * SECOND;
}

void sleep_until(uint64_t due)
{
    for (uint64_t at = now(); at < due; at = now()) {
        struct timespec length = { (time_t)((due - at) / SECOND), (long)((due - at) % SECOND) };
        nanosleep(&length, NULL);
    }
}

void must(const char *failed)
{
    if (failed) {
        fprintf(stderr, "%s: %s\n", failed, strerror(errno));
        exit(1);
    }
}
