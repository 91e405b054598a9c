/* ext2 on a RAM disk: one task creates, writes and closes eight files, one after the other (the K2
 * paper's figure 6b); with fsync each file is on the disk before it is closed.
 *
 * Debian's kernel serves ext2 by its ext4 driver. Blocks are 4 KiB. Removing the files between
 * rounds, and the write-back of that, is no part of the region.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "../../apps/light/eight.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static char *contents;

static void disk_setup(const struct bench *bench)
{
    char *format[] = { "/bin/busybox", "mke2fs", "-b", "4096", "/dev/ram0", NULL };
    int quiet = open("/dev/null", O_WRONLY), shown = dup(1);

    load_modules("ext2", "");
    fflush(stdout);
    dup2(quiet, 1);
    run_program(format);
    dup2(shown, 1);
    close(shown);
    close(quiet);
    mkdir("/mnt", 0755);
    must(mount("/dev/ram0", "/mnt", "ext2", 0, NULL), "mount the RAM disk");
    contents = malloc(bench->size);
    if (!contents)
        fail("malloc");
    memset(contents, 0x5a, bench->size);
}

/* Fails if something did. */
static void done(const char *failed)
{
    if (failed)
        fail(failed);
}

static void ext2_run(const struct bench *bench, unsigned long times)
{
    while (times--)
        done(make_eight("/mnt", contents, bench->size, bench->flag));
}

static void remove_files(const struct bench *bench)
{
    (void)bench;
    done(remove_eight("/mnt"));
    sync();
}

static void disk_teardown(const struct bench *bench)
{
    (void)bench;
    must(umount("/mnt"), "unmount the RAM disk");
    free(contents);
}

#define SIZE(S, s, n) \
    { .name = "ext2." S, .unit = "ns", .warmup = 2, .rounds = n, .size = s, .flag = 0, \
      .per_round = 1, .setup = disk_setup, .run = ext2_run, \
      .reset = remove_files, .teardown = disk_teardown }, \
    { .name = "ext2." S ".fsync", .unit = "ns", .warmup = 2, .rounds = n, .size = s, .flag = 1, \
      .per_round = 1, .setup = disk_setup, .run = ext2_run, \
      .reset = remove_files, .teardown = disk_teardown }

/* An operation is all eight files. */
const struct bench ext2_cases[] = {
    SIZE("1k", 1 * KIB, 50),
    SIZE("256k", 256 * KIB, 10),
    SIZE("1m", MIB, 5),
    { 0 },
};
