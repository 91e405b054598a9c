/* What the modes of `light-threads` share. */
#ifndef LIGHT_H
#define LIGHT_H

#include <pthread.h>
#include <stdint.h>

/* Exits with 1 and a message that names `what`, unless `holds`. */
void check(int holds, const char *what);

/* Starts a light thread; on Linux, a thread. Fails the check if there is none. */
pthread_t start_light(void *(*run)(void *), void *with);

/* The same of a normal thread. */
pthread_t start_normal(void *(*run)(void *), void *with);

/* Waits for a thread; returns its result. */
void *join(pthread_t thread);

/* Sleeps so many milliseconds. */
void pause_for(long milliseconds);

/* ns of the monotonic clock. */
uint64_t now(void);

/* A fixed amount of computation; what it returns depends on all of it. */
uint32_t compute(uint32_t seed, uint32_t rounds);

/* Two threads take steps in turn, numbered from 1: `reach` says that a step is done, `await` blocks
 * until it is. */
void reach(int step);
void await(int step);

/* Modes: each returns if all checks hold. A number of 0 is the default. */
void share(void);
void turns(int rounds);
void exclude(int milliseconds);
void files(void);
void grow(void);
void many(void);
void waits(void);
void loop(const char *path, int seconds);
void measure(void);

/* Ends the process in the way that `how` names; returns main's exit code. */
int end(const char *how);

#endif
