/* Descriptors, which the threads of a process share; files are made in the current directory. */
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 50, SIZE = 3000 };

static void fill(unsigned char *bytes, unsigned with)
{
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(with * 31 + (unsigned)i);
}

/* Writes a file, reads it again through another descriptor, removes it. */
static void one_file(unsigned thread, unsigned round)
{
    unsigned char bytes[SIZE], back[SIZE];
    char path[40];
    snprintf(path, sizeof path, "threads.%u.%u", thread, round % 4);
    fill(bytes, thread * ROUNDS + round);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(file >= 0, "a file cannot be made");
    check(write(file, bytes, SIZE) == SIZE, "a write is short");
    int other = open(path, O_RDONLY);
    check(other >= 0 && other != file, "a file cannot be opened again");
    memset(back, 0, SIZE);
    check(read(other, back, SIZE) == SIZE, "a read is short");
    check(memcmp(bytes, back, SIZE) == 0, "a file has another's bytes");
    check(close(other) == 0 && close(file) == 0, "a descriptor cannot be closed");
    check(unlink(path) == 0, "a file cannot be removed");
}

static void *work(void *with)
{
    for (unsigned round = 0; round < ROUNDS; round++)
        one_file((unsigned)(uintptr_t)with, round);
    return NULL;
}

static void *read_shared(void *with)
{
    unsigned char bytes[SIZE], back[SIZE];
    fill(bytes, 7);
    int file = *(int *)with;
    check(lseek(file, 0, SEEK_SET) == 0, "another thread's descriptor cannot seek");
    check(read(file, back, SIZE) == SIZE, "another thread's descriptor cannot be read");
    check(memcmp(bytes, back, SIZE) == 0, "another thread's descriptor reads other bytes");
    return NULL;
}

void check_files(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = start(work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    unsigned char bytes[SIZE];
    fill(bytes, 7);
    int file = open("threads.shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(file >= 0 && write(file, bytes, SIZE) == SIZE, "the shared file cannot be written");
    join(start(read_shared, &file));
    check(close(file) == 0 && unlink("threads.shared") == 0, "the shared file cannot be removed");
}

static atomic_int reads;

/* Reads one byte at a time until the descriptor is closed; returns the error. */
static void *read_until_closed(void *with)
{
    int file = *(int *)with;
    unsigned char byte;
    for (;;) {
        ssize_t got = pread(file, &byte, 1, 0);
        if (got < 0)
            return (void *)(intptr_t)errno;
        check(got == 1 && byte == 'x', "a read during a close gives other bytes");
        atomic_fetch_add(&reads, 1);
    }
}

void check_closing(void)
{
    pthread_t readers[THREADS];
    int file = open("threads.closed", O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(file >= 0 && write(file, "x", 1) == 1, "the file cannot be written");
    reads = 0;
    for (int i = 0; i < THREADS; i++)
        readers[i] = start(read_until_closed, &file);
    while (reads < 100)
        pause_for(1);
    check(close(file) == 0, "a descriptor that others read cannot be closed");
    for (int i = 0; i < THREADS; i++)
        check((intptr_t)join(readers[i]) == EBADF, "a closed descriptor gives another error");
    check(unlink("threads.closed") == 0, "the file cannot be removed");
}
