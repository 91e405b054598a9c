/* Never is program code of main and of a light thread executed at once. */
#include "light.h"

#include <stdatomic.h>
#include <stdio.h>

#define MILLISECOND 1000000u

/* A thread executes without an interruption while it reads the clock at least this often, in ns. */
#define GAP 200000u
/* A clock may be read in one segment and its result be seen in the next, so that a segment seems
 * longer than it was, by less than a gap. */
#define TOLERANCE 300000u

enum { SEGMENTS = 16384, TIME = 500 };

struct segment {
    uint64_t from, to;
};

/* When a thread executed. Tracks have pages of their own. */
struct track {
    _Alignas(65536) int count;
    struct segment segments[SEGMENTS];
};

static struct track of_main, of_light;
static atomic_int stop;

/* Records that the calling thread executes now. */
static void record(struct track *track)
{
    const uint64_t time = now();
    if (track->count > 0 && time - track->segments[track->count - 1].to <= GAP) {
        track->segments[track->count - 1].to = time;
        return;
    }
    check(track->count < SEGMENTS, "too many segments: say a shorter time");
    track->segments[track->count++] = (struct segment){time, time};
}

static void *compute_light(void *with)
{
    while (!stop)
        record(&of_light);
    return with;
}

/* Says which segments overlap, and fails. */
static void fail_at(const struct segment *main, const struct segment *light)
{
    const uint64_t zero = of_main.segments[0].from;
    printf("main  %12.3f to %12.3f us\nlight %12.3f to %12.3f us\n",
           (double)(int64_t)(main->from - zero) / 1e3, (double)(int64_t)(main->to - zero) / 1e3,
           (double)(int64_t)(light->from - zero) / 1e3, (double)(int64_t)(light->to - zero) / 1e3);
    fflush(stdout);
    check(0, "main and a light thread execute at once");
}

static void check_overlaps(void)
{
    int i = 0, j = 0;
    while (i < of_main.count && j < of_light.count) {
        const struct segment *main = &of_main.segments[i], *light = &of_light.segments[j];
        const uint64_t from = main->from > light->from ? main->from : light->from;
        const uint64_t to = main->to < light->to ? main->to : light->to;
        if (to > from && to - from > TOLERANCE)
            fail_at(main, light);
        if (main->to < light->to)
            i++;
        else
            j++;
    }
}

/* Returns how many of the light thread's segments begin between two of main's. */
static int light_between(void)
{
    const uint64_t first = of_main.segments[0].from;
    const uint64_t last = of_main.segments[of_main.count - 1].from;
    int found = 0;
    for (int i = 0; i < of_light.count; i++)
        found += of_light.segments[i].from > first && of_light.segments[i].from < last;
    return found;
}

void exclude(int milliseconds)
{
    const uint64_t time = (uint64_t)(milliseconds ? milliseconds : TIME) * MILLISECOND;
    const uint64_t began = now();
    pthread_t thread = start_light(compute_light, NULL);
    /* A light thread whose kernel is slow may not have begun by then. */
    while (now() - began < time || (of_light.count < 2 && now() - began < 20 * time)) {
        const uint64_t awake = now();
        while (now() - awake < 5 * MILLISECOND)
            record(&of_main);
        pause_for(5);
    }
    stop = 1;
    join(thread);
    check(of_main.count > 1, "main has not run");
    check(light_between() > 0, "the light thread has not run while main slept");
    check_overlaps();
}
