/* Descriptors, which main and a light thread share; files are made in the current directory. */
#include "light.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef __wasm__
#include "penumbra.h"
#include <wasi/libc.h>

/* dup2, which wasi-libc lacks: a second descriptor, moved to the wanted place. */
static int second(int from, int to)
{
    uint32_t made;
    if (penumbra_dup((uint32_t)from, &made) != 0)
        return -1;
    return __wasilibc_fd_renumber((int)made, to) == 0 ? to : -1;
}
#else
#define second dup2
#endif

enum { SIZE = 12 };
static const char *const PATHS[] = {"light-threads.one", "light-threads.two"};
static const char *const TEXTS[] = {"first text.\n", "other text.\n"};

static int by_main, by_light;

/* Makes a file with its text; returns its descriptor, which stands at the beginning. */
static int make(int which)
{
    int file = open(PATHS[which], O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(file >= 0, "a file cannot be made");
    check(write(file, TEXTS[which], SIZE) == SIZE, "a file cannot be written");
    check(lseek(file, 0, SEEK_SET) == 0, "a file cannot be rewound");
    return file;
}

/* Reads a part of a file's text at the descriptor's position. */
static void reads(int file, int which, int from, int bytes, const char *what)
{
    char text[SIZE];
    check(read(file, text, (size_t)bytes) == bytes, what);
    check(memcmp(text, TEXTS[which] + from, (size_t)bytes) == 0, what);
}

static void is_closed(int file, const char *what)
{
    char byte;
    check(read(file, &byte, 1) == -1 && errno == EBADF, what);
}

/* The light thread closes main's file, and main the light thread's. */
static void *close_light(void *with)
{
    /* Main has read 5 bytes. */
    reads(by_main, 0, 5, SIZE - 5, "main's file cannot be read in the light thread");
    by_light = open(PATHS[1], O_RDONLY);
    check(by_light >= 0, "the light thread cannot open a file");
    reads(by_light, 1, 0, 4, "the light thread cannot read its file");
    check(close(by_main) == 0, "the light thread cannot close main's file");
    reach(1);
    await(2);
    is_closed(by_light, "a file that main has closed is open in the light thread");
    return with;
}

static void closing(void)
{
    by_main = make(0);
    check(close(make(1)) == 0, "a file cannot be closed");
    reads(by_main, 0, 0, 5, "main cannot read its file");
    pthread_t thread = start_light(close_light, NULL);
    await(1);
    is_closed(by_main, "a file that the light thread has closed is open in main");
    reads(by_light, 1, 4, SIZE - 4, "the light thread's file cannot be read in main");
    check(close(by_light) == 0, "main cannot close the light thread's file");
    is_closed(by_light, "a file that main has closed is open in main");
    reach(2);
    join(thread);
}

/* Each of them makes a descriptor of the other one's a second one of its own file. */
static void *renumber_light(void *with)
{
    by_light = open(PATHS[0], O_RDONLY);
    check(by_light >= 0, "the light thread cannot open a file again");
    check(second(by_light, by_main) == by_main, "the light thread cannot renumber a descriptor");
    reach(3);
    await(4);
    reads(by_light, 1, 0, SIZE, "main's dup2 is not seen in the light thread");
    return with;
}

static void renumbering(void)
{
    by_main = open(PATHS[1], O_RDONLY);
    check(by_main >= 0, "main cannot open a file again");
    pthread_t thread = start_light(renumber_light, NULL);
    await(3);
    /* Both have one position. */
    reads(by_light, 0, 0, 6, "the light thread's file cannot be read in main");
    reads(by_main, 0, 6, SIZE - 6, "the light thread's dup2 is not seen in main");
    int two = open(PATHS[1], O_RDONLY);
    check(two >= 0, "main cannot open another file");
    check(second(two, by_light) == by_light, "main cannot renumber a descriptor");
    reach(4);
    join(thread);
    check(close(two) == 0 && close(by_light) == 0, "a descriptor cannot be closed");
    check(close(by_main) == 0, "a renumbered descriptor cannot be closed");
}

void files(void)
{
    closing();
    renumbering();
    check(unlink(PATHS[0]) == 0 && unlink(PATHS[1]) == 0, "a file cannot be removed");
}
