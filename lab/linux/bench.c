/* The harness: reads the kernel's command line, runs the chosen cases, prints their records.
 *
 *   penumbra.case=NAME       one case, or all whose names begin so; "all" without it
 *   penumbra.rounds=N        measured rounds, instead of each case's own
 *   penumbra.warmup=N        rounds before the region, instead of each case's own; 0 is possible
 *   penumbra.list=1          say "case NAME" for each chosen case, measure none
 *   penumbra.idle_after=S    after the work of one case: MARK_PHASE, exactly S seconds idle,
 *                            MARK_FINAL; nothing is printed or cleaned up before the final mark
 *
 * A record is one line, "record NAME VALUE UNIT OPERATIONS"; VALUE is nanoseconds of
 * CLOCK_MONOTONIC_RAW for one operation, OPERATIONS is how many were measured. The last line is
 * "records N".
 */
#define _GNU_SOURCE
#include "bench.h"
#include "marker.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MOST_RECORDS 128
/* Seconds before the first case: what the kernel puts off until after the boot would be counted. In
 * the first second it multiplies the null call by four. */
#define SETTLE 3

static const struct bench *const groups[] = {
    call_cases, process_cases, futex_cases, thread_cases, udp_cases, tcp_cases,
    http_cases, ext2_cases, dma_cases,
};

static struct {
    char name[64];
    long rounds, warmup, idle_after, list;
} wanted = { "all", -1, -1, -1, 0 };

static struct {
    const struct bench *bench;
    double value, operations;
} records[MOST_RECORDS];
static unsigned long record_count, printed;

static const char *now_running = "(none)";
static long spent;

void fail(const char *what)
{
    printf("failed %s: %s%s%s\n", now_running, what, errno ? ": " : "",
           errno ? strerror(errno) : "");
    exit(1);
}

long must(long value, const char *what)
{
    if (value < 0)
        fail(what);
    return value;
}

static long now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* The clock is read outside of the marks, so that the plugin counts the operation alone. */
static void measured_run(const struct bench *bench, unsigned long times)
{
    long begin = now(CLOCK_MONOTONIC_RAW);
    mark(MARK_START);
    bench->run(bench, times);
    mark(MARK_END);
    spent += now(CLOCK_MONOTONIC_RAW) - begin;
}

static void print_records(void)
{
    for (; printed < record_count; printed++)
        printf("record %s %.1f %s %.17g\n", records[printed].bench->name, records[printed].value,
               records[printed].bench->unit, records[printed].operations);
    fflush(stdout);
}

static void measure(const struct bench *bench)
{
    unsigned long warmup = wanted.warmup >= 0 ? (unsigned long)wanted.warmup : bench->warmup;
    unsigned long rounds = wanted.rounds > 0 ? (unsigned long)wanted.rounds : bench->rounds;

    now_running = bench->name;
    errno = 0;
    if (bench->setup)
        bench->setup(bench);
    spent = 0;
    if (bench->reset) {
        while (warmup--) {
            bench->run(bench, 1);
            bench->reset(bench);
        }
        for (unsigned long round = 1; round <= rounds; round++) {
            measured_run(bench, 1);
            if (round < rounds)
                bench->reset(bench);
        }
    } else {
        if (warmup > 0)
            bench->run(bench, warmup);
        measured_run(bench, rounds);
    }
    if (bench->stop)
        bench->stop(bench);
    records[record_count].bench = bench;
    records[record_count].operations = (double)rounds * bench->per_round;
    records[record_count].value = (double)spent / records[record_count].operations;
    record_count++;
}

/* Sleeps to a point in time, so that what it takes to get there is part of the idle time. */
static void idle_exactly(long seconds)
{
    long begin = now(CLOCK_MONOTONIC), end = begin + seconds * 1000000000L;
    struct timespec until = { end / 1000000000L, end % 1000000000L };

    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    mark(MARK_PHASE);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
    mark(MARK_FINAL);
    printf("idle %ld ns\n", now(CLOCK_MONOTONIC) - begin);
}

/* The wanted name means the case of that name; where there is none, all that begin so. */
static int chosen(const struct bench *bench)
{
    static int exact = -1;
    if (strcmp(wanted.name, "all") == 0)
        return 1;
    if (exact < 0) {
        exact = 0;
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
            for (const struct bench *other = groups[g]; other->name; other++)
                exact |= strcmp(wanted.name, other->name) == 0;
    }
    if (exact)
        return strcmp(wanted.name, bench->name) == 0;
    return strncmp(wanted.name, bench->name, strlen(wanted.name)) == 0;
}

static unsigned long count_chosen(void)
{
    unsigned long count = 0;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const struct bench *bench = groups[g]; bench->name; bench++)
            count += chosen(bench);
    return count;
}

static void list_chosen(void)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const struct bench *bench = groups[g]; bench->name; bench++)
            if (chosen(bench))
                printf("case %s\n", bench->name);
}

static void run_chosen(void)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const struct bench *bench = groups[g]; bench->name; bench++) {
            if (!chosen(bench))
                continue;
            if (bench->available && !bench->available(bench)) {
                now_running = bench->name;
                if (strcmp(wanted.name, bench->name) == 0)
                    fail("this machine has not what the case needs");
                printf("skipped %s\n", bench->name);
                continue;
            }
            if (record_count == MOST_RECORDS)
                fail("more cases than there is room for records");
            measure(bench);
            if (wanted.idle_after >= 0)
                return;
            if (bench->teardown)
                bench->teardown(bench);
            print_records();
        }
}

static void read_command_line(void)
{
    char line[4096] = "";
    FILE *file = fopen("/proc/cmdline", "r");
    if (!file || !fgets(line, sizeof line, file))
        fail("/proc/cmdline");
    fclose(file);
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
        sscanf(word, "penumbra.case=%63s", wanted.name);
        sscanf(word, "penumbra.rounds=%ld", &wanted.rounds);
        sscanf(word, "penumbra.warmup=%ld", &wanted.warmup);
        sscanf(word, "penumbra.idle_after=%ld", &wanted.idle_after);
        sscanf(word, "penumbra.list=%ld", &wanted.list);
    }
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    read_command_line();
    now_running = wanted.name;
    if (count_chosen() == 0)
        fail("no case has this name, and none begins so");
    if (wanted.list) {
        list_chosen();
        printf("records 0\n");
        return 0;
    }
    if (wanted.idle_after >= 0 && count_chosen() > 1)
        fail("penumbra.idle_after is for one case, and this name chooses several");
    sleep(SETTLE);
    run_chosen();
    if (wanted.idle_after >= 0)
        idle_exactly(wanted.idle_after);
    print_records();
    printf("records %lu\n", record_count);
    return 0;
}
