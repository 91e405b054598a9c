/* A light task that writes files, the same for every system (lab/linux/ext2.c, light.c). */
#ifndef EIGHT_H
#define EIGHT_H

#include <stddef.h>

/* Creates, writes and closes eight files of `size` bytes in a folder, one after the other (the K2
 * paper's figure 6b); with `sync` each one is on the disk before it is closed. Returns a null
 * pointer, or what failed, with the reason in errno. */
const char *make_eight(const char *folder, const void *contents, size_t size, int sync);

/* Removes them. */
const char *remove_eight(const char *folder);

#endif
