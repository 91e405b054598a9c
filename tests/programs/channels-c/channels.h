/* What the files of channels-c share. */
#ifndef CHANNELS_H
#define CHANNELS_H

#include <penumbra_channel.h>

#include "echo_v1.h"
#include "give_v1.h"
#include "piece_v1.h"
#include "ping_v1.h"

/* Exits with a line that says what is wrong, unless `good`. */
void must(bool good, const char *what);

/* The same, unless `error` is `wanted`. */
void is(int error, int wanted, const char *what);

/* The descriptor of the preopened directory `/`. */
uint32_t root_directory(void);

/* Where a child has its end. */
enum { HERE = 20 };

/* Starts `program word` on a kernel with this end, and closes it here. Returns its number. */
uint32_t start(const char *kernel, const char *program, const char *word, uint32_t end);

/* Waits for its end, which must be of this kind. */
void ended(uint32_t pid, uint32_t kind);

/* Rounds between this process and `echo` on a kernel. */
void roundtrip(int rounds, const char *kernel);
void echo(void);

/* Rounds with blocks between this process and `swap` on a kernel. */
void blocks(int rounds, const char *kernel);
void swap(void);

/* Rounds with blocks of several sizes between this process and `swap` on a kernel. */
void sizes(int rounds, const char *kernel);

/* Sends blocks to a child, and sends back what the parent sends. */
void pieces(char **words);
void returns(void);

/* The checks of one process with both ends. */
void alone(void);

#endif
