/* An hour of a phone's day (`./pen lab day`): each role is a process of its own, which ends after
 * SECONDS.
 *
 *   light sensor SECONDS PERIOD FOLDER   samples, filters, and appends to a file
 *   light mail SECONDS PERIOD FOLDER     fetches messages: eight files on the disk
 *   light work SECONDS START LENGTH      waits START seconds, then computes for LENGTH; prints
 *                                        the hour as a phase of the lab */
#include "eight.h"
#include "role.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 256, TAPS = 16, MESSAGE = 16 << 10 };

/* Takes samples, and appends their filtered sum to the file. */
static void sample(const char *folder)
{
    static uint32_t seed = 1;
    int32_t taken[SAMPLES], sum = 0;
    char name[64];
    for (int at = 0; at < SAMPLES; at++) {
        seed = seed * 1664525 + 1013904223;
        taken[at] = (int32_t)(seed >> 16);
    }
    for (int at = TAPS; at < SAMPLES; at++)
        for (int tap = 0; tap < TAPS; tap++)
            sum += taken[at - tap] * (tap + 1) >> 8;
    snprintf(name, sizeof name, "%s/samples", folder);
    int file = open(name, O_CREAT | O_APPEND | O_WRONLY, 0644);
    if (file < 0 || write(file, &sum, sizeof sum) != sizeof sum || close(file) < 0)
        must("append a sample");
}

static void fetch(const char *folder)
{
    static char message[MESSAGE];
    memset(message, 0x5a, sizeof message);
    must(make_eight(folder, message, sizeof message, 1));
}

/* Computes until a time, and returns something that depends on it. */
static uint32_t compute(uint64_t until)
{
    uint32_t value = 1;
    do
        for (int at = 0; at < 1 << 20; at++)
            value = value * 1664525 + 1013904223;
    while (now() < until);
    return value;
}

/* Returns 0 for an unknown role, or a period of nothing. */
int day(char **words)
{
    const char *role = words[0];
    uint64_t start = now(), end = start + seconds(words[1]), second = seconds(words[2]);
    void (*task)(const char *) = strcmp(role, "mail") == 0     ? fetch
                                 : strcmp(role, "sensor") == 0 ? sample
                                                               : NULL;
    if (strcmp(role, "work") == 0) {
        sleep_until(start + second);
        unsigned computed = compute(start + second + seconds(words[3]));
        printf("phase day %llu\nphase end %llu\ncomputed %u\n", (unsigned long long)start,
               (unsigned long long)end, computed);
    } else if (task && second != 0) {
        for (uint64_t due = start + second; due < end; due += second) {
            sleep_until(due);
            task(words[3]);
        }
    } else {
        return 0;
    }
    sleep_until(end);
    return 1;
}
