/* `light episode SECONDS FOLDER BYTES [sync]`: sleeps so long that the kernels rest, makes eight
 * files, sleeps until the episode is over, and prints its parts as phases of the lab
 * (docs/reference/lab-linux.md, "Episodes"). The files are removed last. */
#include "eight.h"
#include "role.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void episode(int count, char **words)
{
    const char *folder = words[1];
    size_t size = strtoul(words[2], NULL, 10);
    int sync = count > 3 && strcmp(words[3], "sync") == 0;
    char *contents = malloc(size);
    if (!contents)
        must("memory for the contents");
    memset(contents, 0x5a, size);

    uint64_t due = now() + seconds(words[0]);
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
}
