/* Linked into every program: begins in the directory that PWD names.
 *
 * WASI has no working directory. wasi-libc keeps one of its own, which begins as `/`; it cannot
 * tell the preopens `.` and `/` apart (it strips both to nothing, and the last one wins). So who
 * begins a program hands `/` over last and names the directory in PWD, as Go's programs expect
 * too. */
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void begin_in_pwd(void)
{
    const char *path = getenv("PWD");
    if (path && path[0] == '/')
        (void)chdir(path);
}
