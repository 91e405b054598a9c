/* Light threads: threads of a process that run on the weak kernel, with the same memory and
 * descriptors, while all normal threads of the process are blocked (docs/howto/light-thread.md).
 *
 * For programs with threads only (`threads = true` in apps/apps.toml); the C library that they are
 * linked with has the functions. Separate from penumbra.h, which needs no <pthread.h>. */
#ifndef PENUMBRA_LIGHT_H
#define PENUMBRA_LIGHT_H

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the calling thread's next pthread_create, or thrd_create, create a light thread. It applies
 * to one creation, whether that succeeds or not. Without a weak kernel that can run it, the thread is
 * a normal one. */
void penumbra_next_thread_is_light(void);

/* Creates a light thread, as pthread_create creates a normal one. */
int penumbra_light_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *with);

#ifdef __cplusplus
}
#endif

#endif
