/* Eight files made in a folder: created, written and closed, with and without fsync, as the cases
 * of lab/linux/ext2.c do it. Names go away between rounds, outside of the region. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

enum { FILES = 8, LARGEST = 1 << 20, PIECE = 64 << 10 };

static uint8_t bytes[PIECE];

static void name_of(char *name, unsigned room, int at)
{
    snprintf(name, room, "records-%d", at);
}

static void fill(int file, uint32_t size)
{
    for (uint32_t done = 0; done < size;) {
        uint32_t count = size - done < PIECE ? size - done : PIECE;
        const __wasi_ciovec_t piece = {.buf = bytes, .buf_len = count};
        __wasi_size_t written;
        must(__wasi_fd_write(file, &piece, 1, &written), "write");
        done += written;
    }
}

static void make_all(int folder, uint32_t size, int sync)
{
    char name[32];
    for (int at = 0; at < FILES; at++) {
        __wasi_fd_t file;
        name_of(name, sizeof name, at);
        must(__wasi_path_open(folder, 0, name, __WASI_OFLAGS_CREAT | __WASI_OFLAGS_TRUNC,
                              __WASI_RIGHTS_FD_WRITE | __WASI_RIGHTS_FD_SYNC, 0, 0, &file),
             "create");
        fill(file, size);
        if (sync)
            must(__wasi_fd_sync(file), "fsync");
        must(__wasi_fd_close(file), "close");
    }
}

static void remove_all(int folder)
{
    char name[32];
    for (int at = 0; at < FILES; at++) {
        name_of(name, sizeof name, at);
        must(__wasi_path_unlink_file(folder, name), "unlink");
    }
    // What was freed can be taken again, and the next round begins with a clean cache.
    must(__wasi_fd_sync(folder), "fsync of the folder");
}

/* After as many rounds as on Linux that are not measured. About one round in forty takes longer,
 * because the journal is emptied; so of short ones there are many. */
static void measure(int folder, const char *name, uint32_t size, int rounds, int sync)
{
    enum { WARMUP = 2 };
    uint64_t spent = 0;
    for (int round = -WARMUP; round < rounds; round++) {
        uint64_t began = now();
        make_all(folder, size, sync);
        if (round >= 0)
            spent += now() - began;
        remove_all(folder);
    }
    record(name, (double)spent / rounds);
}

void files(const char *path)
{
    __wasi_fd_t folder;
    must(__wasi_path_open(root_directory(), 0, path + (path[0] == '/'), __WASI_OFLAGS_DIRECTORY,
                          __WASI_RIGHTS_PATH_OPEN | __WASI_RIGHTS_PATH_CREATE_FILE |
                              __WASI_RIGHTS_PATH_UNLINK_FILE | __WASI_RIGHTS_FD_SYNC |
                              __WASI_RIGHTS_PATH_FILESTAT_SET_SIZE,
                          __WASI_RIGHTS_FD_WRITE | __WASI_RIGHTS_FD_SYNC, 0, &folder),
         path);
    memset(bytes, 0x5a, sizeof bytes);
    measure(folder, "ext2.create8_1k", 1 << 10, 200, 0);
    measure(folder, "ext2.create8_256k", 256 << 10, 10, 0);
    measure(folder, "ext2.create8_1m", LARGEST, 5, 0);
    measure(folder, "ext2.create8_1k_sync", 1 << 10, 50, 1);
    measure(folder, "ext2.create8_256k_sync", 256 << 10, 10, 1);
    measure(folder, "ext2.create8_1m_sync", LARGEST, 5, 1);
}
