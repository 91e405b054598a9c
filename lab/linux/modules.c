/* Loads kernel modules: files /modules/GROUP-NN.ko or .ko.xz, in the order of their numbers. The
 * host packs them so from lab/linux/modules. The kernel unpacks xz itself.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/module.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Opens module `number` of `group`; -1 when there is none. */
static int open_module(const char *group, int number, int *flags)
{
    char path[128];
    int file;
    snprintf(path, sizeof path, "/modules/%s-%02d.ko.xz", group, number);
    *flags = MODULE_INIT_COMPRESSED_FILE;
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0)
        return file;
    snprintf(path, sizeof path, "/modules/%s-%02d.ko", group, number);
    *flags = 0;
    return open(path, O_RDONLY | O_CLOEXEC);
}

void load_modules(const char *group, const char *parameters)
{
    int file, flags;
    for (int number = 0; (file = open_module(group, number, &flags)) >= 0; number++) {
        if (syscall(SYS_finit_module, file, parameters, flags) < 0 && errno != EEXIST)
            fail("load a kernel module");
        close(file);
    }
    errno = 0;
}
