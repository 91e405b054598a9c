/* Light threads: threads on the weak kernel (docs/design/light-threads.md).
 *
 * A file of its own: only a program that refers to it has the import, by which a kernel recognises
 * a program whose memory two kernels use. sdk/c/penumbra_light.h declares its functions. */
#include <pthread.h>
#include "thread_start.h"

__attribute__((import_module("penumbra"), import_name("light_spawn")))
int __penumbra_light_spawn(struct start *start);

void penumbra_next_thread_is_light(void)
{
    __other_start = __penumbra_light_spawn;
}

int penumbra_light_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                          void *(*run)(void *), void *restrict with)
{
    penumbra_next_thread_is_light();
    return pthread_create(thread, attributes, run, with);
}
