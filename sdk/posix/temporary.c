/* Files with names that no other file has. All functions are weak, as in sockets.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Characters that are replaced, and how often a name is tried. */
#define SUFFIX 6
#define TRIES 100

__attribute__((weak)) int mkstemp(char *template)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t length = strlen(template);
    if (length < SUFFIX || strcmp(template + length - SUFFIX, "XXXXXX") != 0) {
        errno = EINVAL;
        return -1;
    }
    for (int attempt = 0; attempt < TRIES; attempt++) {
        uint8_t random[SUFFIX];
        if (getentropy(random, sizeof random) != 0)
            return -1;
        for (size_t index = 0; index < SUFFIX; index++)
            template[length - SUFFIX + index] = letters[random[index] % 64];
        int fd = open(template, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}
