/* UDP over loopback, the same for every system (lab/linux/udp.c, light.c). */
#ifndef DATAGRAMS_H
#define DATAGRAMS_H

#include <stddef.h>

enum { DATAGRAM_MOST = 8 << 10 };

/* One thread writes datagrams to one socket and reads them from another, as fast as it can; after
 * `life` bytes it closes both and makes new ones (the K2 paper's figure 6c), until `total` bytes
 * have come. Returns a null pointer, or what failed, with the reason in errno. */
const char *send_datagrams(size_t datagram, size_t life, size_t total);

#endif
