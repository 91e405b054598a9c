/* `light episode SECONDS FOLDER BYTES [sync]`, `light episode SECONDS datagrams BYTES`,
 * `light episode SECONDS requests COUNT`: sleeps so long that the kernels rest, makes eight files,
 * or sends so many bytes or HTTP requests over loopback, sleeps until the episode is over, and
 * prints its parts as phases of the lab (docs/reference/lab-linux.md, "Episodes"). Files are removed
 * last. */
#include "datagrams.h"
#include "eight.h"
#include "role.h"
#include "web.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As lab/linux/udp.c and http.c have them. */
enum { PIECE = 1 << 10, LIFE = 64 << 10, PAGE = 1 << 10, PORT = 80 };

/* A task: prepares itself, works, and cleans up. */
struct task {
    const char *what;
    size_t number;
    int sync, listener;
    char *contents;
};

static struct task prepare(int count, char **words)
{
    struct task task = { words[1], strtoul(words[2], NULL, 10), 0, -1, NULL };
    task.sync = count > 3 && strcmp(words[3], "sync") == 0;
    if (strcmp(task.what, "requests") == 0) {
        task.listener = web_listen(PORT);
        if (task.listener < 0)
            must("listen");
    } else if (strcmp(task.what, "datagrams") != 0) {
        task.contents = malloc(task.number);
        if (!task.contents)
            must("memory for the contents");
        memset(task.contents, 0x5a, task.number);
    }
    return task;
}

static void work(const struct task *task)
{
    if (task->contents)
        must(make_eight(task->what, task->contents, task->number, task->sync));
    else if (task->listener < 0)
        must(send_datagrams(PIECE, LIFE, task->number));
    else
        for (size_t at = 0; at < task->number; at++)
            must(web_request(task->listener, PORT, PAGE));
}

void episode(int count, char **words)
{
    struct task task = prepare(count, words);
    uint64_t due = now() + seconds(words[0]);
    sleep_until(due);
    uint64_t start = now();
    work(&task);
    uint64_t end = now();
    sleep_until(end + 6 * SECOND);

    const struct { const char *name; uint64_t at; } parts[] = {
        { "inactive_before", due - SECOND }, { "wake", due }, { "work", start },
        { "idle", end }, { "inactive_after", end + 5 * SECOND }, { "end", end + 6 * SECOND },
    };
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++)
        printf("phase %s %llu\n", parts[at].name, (unsigned long long)parts[at].at);
    if (task.contents)
        must(remove_eight(task.what));
}
