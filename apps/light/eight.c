#include "eight.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { FILES = 8, ROOM = 64 };

static const char *make_one(const char *name, const char *from, size_t size, int sync)
{
    int file = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (file < 0)
        return "create a file";
    while (size) {
        ssize_t written = write(file, from, size);
        if (written <= 0)
            return "write a file";
        from += written;
        size -= (size_t)written;
    }
    if (sync && fsync(file) < 0)
        return "fsync a file";
    return close(file) < 0 ? "close a file" : NULL;
}

static void name_of(char *name, const char *folder, int at)
{
    snprintf(name, ROOM, "%s/file%d", folder, at);
}

const char *make_eight(const char *folder, const void *contents, size_t size, int sync)
{
    char name[ROOM];
    for (int at = 0; at < FILES; at++) {
        name_of(name, folder, at);
        const char *failed = make_one(name, contents, size, sync);
        if (failed)
            return failed;
    }
    return NULL;
}

const char *remove_eight(const char *folder)
{
    char name[ROOM];
    for (int at = 0; at < FILES; at++) {
        name_of(name, folder, at);
        if (unlink(name) < 0)
            return "remove a file";
    }
    return NULL;
}
