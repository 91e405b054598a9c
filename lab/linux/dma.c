/* The soc's DMA engine, driven by the module in dma/: a batch of memory is cleared, copied by the
 * engine, and its descriptor given back (the K2 paper's figure 6a). One write of the module's
 * command file does all rounds of a region.
 *
 * Where the engine is, the host says on the kernel's command line ("penumbra_dma.registers=..."):
 * these words become the module's parameters. Without any there is no engine, and no case.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "penumbra_dma."

static char parameters[1024];
static int command = -1;

static int dma_available(const struct bench *bench)
{
    char line[4096] = "";
    FILE *file = fopen("/proc/cmdline", "r");
    (void)bench;
    if (!file || !fgets(line, sizeof line, file))
        fail("/proc/cmdline");
    fclose(file);
    parameters[0] = 0;
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
        if (strncmp(word, PREFIX, strlen(PREFIX)) != 0)
            continue;
        strncat(parameters, word + strlen(PREFIX), sizeof parameters - strlen(parameters) - 2);
        strcat(parameters, " ");
    }
    return parameters[0] != 0;
}

static void tell(const char *verb, size_t bytes, unsigned long times)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %zu %lu", verb, bytes, times);
    must(write(command, line, length), "the engine's transfers (the kernel's log says more)");
}

static void dma_setup(const struct bench *bench)
{
    if (command < 0) {
        load_modules("dma", parameters);
        command = must(open("/sys/kernel/debug/penumbra_dma/command", O_WRONLY), "command file");
    }
    tell("check", bench->size, 1);
}

static void dma_run(const struct bench *bench, unsigned long times)
{
    tell("run", bench->size, times);
}

#define BATCH(S, s, n) \
    { .name = "dma." S, .unit = "ns", .warmup = n / 4, .rounds = n, .size = s, .per_round = 1, \
      .available = dma_available, .setup = dma_setup, .run = dma_run }

const struct bench dma_cases[] = {
    BATCH("4k", 4 * KIB, 200),
    BATCH("128k", 128 * KIB, 40),
    BATCH("256k", 256 * KIB, 20),
    BATCH("1m", MIB, 8),
    { 0 },
};
