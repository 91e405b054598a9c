/* Prints what a program receives: its identity, arguments, directory and environment.
 *
 * `hello PROGRAM ARGUMENT...` also starts that program (a path from the root, without the ISA
 * suffix), waits for it, and prints how it ended. */
#include <penumbra.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wasi/api.h>

enum { ROOM = 4096 };

extern char **environ;

/* The preopened root: the directory where the path of a program begins. */
static uint32_t root_directory(void)
{
    __wasi_prestat_t about;
    uint8_t name[2] = {0};
    for (uint32_t at = 3; __wasi_fd_prestat_get((int)at, &about) == 0; at++)
        if (about.u.dir.pr_name_len == 1 &&
            __wasi_fd_prestat_dir_name((int)at, name, 1) == 0 && name[0] == '/')
            return at;
    return 3;
}

/* Begins the program `words[0]` with descriptors 0, 1 and 2; an error, or 0. */
static int begin(int count, char **words, uint32_t *pid)
{
    static char arguments[ROOM];
    uint32_t used = 0;
    for (int i = 0; i < count; i++) {
        uint32_t length = (uint32_t)strlen(words[i]) + 1;
        if (length > ROOM - used)
            return 1; /* E2BIG of WASI */
        memcpy(arguments + used, words[i], length);
        used += length;
    }
    const struct penumbra_file files[] = {{.becomes = 0},
                                          {.descriptor = 1, .becomes = 1},
                                          {.descriptor = 2, .becomes = 2}};
    const char *path = words[0] + (words[0][0] == '/');
    const struct penumbra_spawn what = {
        .path = penumbra_piece(path, (uint32_t)strlen(path)),
        .arguments = penumbra_piece(arguments, used),
        .files = penumbra_piece(files, 3),
        .directory = root_directory(),
        .kernel = PENUMBRA_ANY_KERNEL,
    };
    return penumbra_spawn(&what, pid);
}

int main(int count, char **words)
{
    char here[ROOM];
    struct penumbra_identity me = {0};
    if (penumbra_self(&me) == 0)
        printf("process %u on kernel %u\n", me.pid, me.kernel);
    for (int i = 0; i < count; i++)
        printf("argument %d: %s\n", i, words[i]);
    printf("in %s\n", getcwd(here, sizeof here) ? here : "?");
    for (char **line = environ; line && *line; line++)
        printf("%s\n", *line);
    if (count < 2)
        return 0;
    uint32_t pid = 0;
    struct penumbra_ended ended = {0};
    fflush(stdout);
    int error = begin(count - 1, words + 1, &pid);
    if (error == 0)
        error = penumbra_wait((int32_t)pid, 0, &ended);
    if (error != 0)
        return fprintf(stderr, "%s: error %d\n", words[1], error), 1;
    printf("%s: kind %u, status %u\n", words[1], ended.kind, ended.status);
    return 0;
}
