/* What the checks of `threads` share. */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>
#include <stdint.h>

/* Exits with 1 and a message that names `what`, unless `holds`. */
void check(int holds, const char *what);

/* Starts a thread; fails the check if there is none. */
pthread_t start(void *(*run)(void *), void *with);

/* Waits for a thread; returns its result. */
void *join(pthread_t thread);

/* Sleeps so many milliseconds. */
void pause_for(long milliseconds);

/* ns of the monotonic clock. */
uint64_t now(void);

/* A fixed amount of computation; what it returns depends on all of it. */
uint32_t compute(uint32_t seed, uint32_t rounds);

/* Checks: each returns if it holds. */
void check_join(void);
void check_detach(void);
void check_mutex(void);
void check_condition(void);
void check_timeout(void);
void check_tls(void);
void check_malloc(void);
void check_files(void);
void check_closing(void);

/* What ends otherwise than by a return. */
int exit_from_thread(int code);
int return_from_main(void);
int trap(void);
int spin(void);
int many(void);
int parallel(int count);
int speedup(void);

/* What `pen bench` measures: lines `record NAME VALUE UNIT`. */
int records(void);

#endif
