/* ext2 on a RAM disk: one task creates, writes and closes eight files, one after the other (the K2
 * paper's figure 6b); with fsync each file is on the disk before it is closed.
 *
 * Debian's kernel serves ext2 by its ext4 driver. Blocks are 4 KiB. Removing the files between
 * rounds, and the write-back of that, is no part of the region.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 8

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

static void file_name(char *name, int number)
{
    memcpy(name, "/mnt/file0", sizeof "/mnt/file0");
    name[sizeof "/mnt/file0" - 2] += number;
}

static void ext2_run(const struct bench *bench, unsigned long times)
{
    char name[sizeof "/mnt/file0"];
    while (times--)
        for (int i = 0; i < FILES; i++) {
            file_name(name, i);
            int file = must(open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644), "create a file");
            if (write(file, contents, bench->size) != (ssize_t)bench->size)
                fail("write a file");
            if (bench->flag)
                must(fsync(file), "fsync");
            must(close(file), "close a file");
        }
}

static void remove_files(const struct bench *bench)
{
    char name[sizeof "/mnt/file0"];
    (void)bench;
    for (int i = 0; i < FILES; i++) {
        file_name(name, i);
        must(unlink(name), "unlink a file");
    }
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
