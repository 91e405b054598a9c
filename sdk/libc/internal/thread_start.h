/* How pthread_create (thread.c) starts a thread that is not a normal one (light.c). */
#ifndef THREAD_START_H
#define THREAD_START_H

struct start;

/* The calling thread's next pthread_create calls this in place of wasi.thread-spawn, and sets it to
 * 0, the default. It makes a new instance call wasi_thread_start(number, start), and returns the
 * number, or a negated error of WASI. (0, since wasm-ld 19 cannot put the address of a function into
 * a thread-local variable.) */
extern _Thread_local int (*__other_start)(struct start *start);

#endif
