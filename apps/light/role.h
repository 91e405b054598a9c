/* What the programs of light tasks share. */
#ifndef ROLE_H
#define ROLE_H

#include <stdint.h>

#define SECOND 1000000000ULL

/* ns of the monotonic clock: chip time in the lab. */
uint64_t now(void);

/* A number of seconds in ns. */
uint64_t seconds(const char *number);

void sleep_until(uint64_t due);

/* Exits with a message if `failed` is not null. */
void must(const char *failed);

/* The roles. `episode` gets the words after its name, the others those from the role on; they
 * return 0 for what they do not know. */
void episode(int count, char **words);
int day(char **words);
int serve(char **words);

#endif
