/* What the cases of `records` share. */
#ifndef BENCH_H
#define BENCH_H

#include <penumbra.h>
#include <stdint.h>
#include <wasi/api.h>

/* ns of the monotonic clock: under exact counts, instructions. */
uint64_t now(void);

/* Exits with a message naming `what` if `error` is not 0. */
void must(int error, const char *what);

/* Records `record NAME VALUE UNIT`, printed at the end so that it disturbs no measurement. */
void record(const char *name, double value);

/* The unit of what follows. */
void in_unit(const char *name);

/* The preopened directory `/`. */
int root_directory(void);

/* Begins `path` with one argument beside its name, on a kernel, with these descriptors as its input
 * and output; its number. */
uint32_t begin(const char *path, const char *argument, uint32_t kernel, int input, int output);

/* Waits for it; it must have ended with 0. */
void end(uint32_t pid);

/* One byte there and back, `rounds` times, between this process and one on `kernel`; time of all. */
uint64_t pipe_rounds(uint32_t kernel, int rounds);

/* A program that ends at once, begun and waited for `rounds` times; time of all. */
uint64_t spawn_rounds(uint32_t kernel, int rounds);

/* The cases of `records files FOLDER`. */
void files(const char *folder);

/* The cases of `records net`. */
void sockets(void);

#endif
