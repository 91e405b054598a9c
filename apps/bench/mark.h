/* Work as CoreMark does it, for compilers to be compared by: the same source makes a program and
 * an image of its own for each chip (native/). */
#ifndef MARK_H
#define MARK_H

#include <stdint.h>

/* So many rounds; a checksum of all that was computed, which depends on nothing else. */
uint32_t mark(uint32_t rounds);

#endif
