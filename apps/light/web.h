/* A small HTTP server, the same for every system (lab/linux/http.c, light.c). */
#ifndef WEB_H
#define WEB_H

#include <stddef.h>
#include <stdint.h>

enum { WEB_MOST = 64 << 10 };

/* Returns a listener at a port, or -1. */
int web_listen(uint16_t port);

/* Waits for a connection, and answers its request: GET /N gets N bytes of a pattern. Returns a null
 * pointer, or what failed, with the reason in errno. */
const char *web_answer(int listener);

/* A request over loopback and its answer, all in this thread: the client connects and sends, the
 * server accepts, answers and closes, the client receives. Returns as above. */
const char *web_request(int listener, uint16_t port, size_t bytes);

#endif
