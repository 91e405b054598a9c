/* What the programs of light tasks share. */
#ifndef ROLE_H
#define ROLE_H

#include <stdint.h>

#define SECOND 1000000000ULL

/* ns of the monotonic clock: chip time in the lab. */
uint64_t now(void);

void sleep_until(uint64_t due);

/* Exits with a message if `failed` is not null. */
void must(const char *failed);

/* The roles, with their words after the name, or with it. */
void episode(int count, char **words);
void day(char **words);

#endif
