/* The working directory, for threads: wasi-libc's chdir.c and getcwd.c keep paths in static
 * buffers. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wasi/libc-find-relpath.h>
#include <wasi/libc.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
/* Absolute; from the heap, except the first. */
static char root[] = "/";
static char *directory = root;

char *getcwd(char *into, size_t size)
{
    pthread_rwlock_rdlock(&lock);
    if (!into) {
        into = strdup(directory);
        if (!into)
            errno = ENOMEM;
    } else if (strlen(directory) >= size) {
        into = NULL;
        errno = ERANGE;
    } else {
        strcpy(into, directory);
    }
    pthread_rwlock_unlock(&lock);
    return into;
}

/* Returns `path` as an absolute one, from the heap. */
static char *absolute(const char *path)
{
    if (path[0] == '/')
        return strdup(path);
    while (path[0] == '.' && (path[1] == '/' || path[1] == 0))
        path += path[1] ? 2 : 1;
    pthread_rwlock_rdlock(&lock);
    size_t length = strlen(directory);
    char *made = malloc(length + strlen(path) + 2);
    if (made) {
        memcpy(made, directory, length + 1);
        if (path[0] && made[length - 1] != '/')
            made[length++] = '/';
        strcpy(made + length, path);
    }
    pthread_rwlock_unlock(&lock);
    return made;
}

/* Puts what of `path` is below the preopened directory that is returned into `*relative`, which is
 * the caller's and grows if it may. `*prefix` is the directory's name. */
int __wasilibc_find_relpath_alloc(const char *path, const char **prefix, char **relative,
                                  size_t *size, int may_grow)
{
    char *whole = absolute(path);
    const char *rest;
    if (!whole) {
        errno = ENOMEM;
        return -1;
    }
    int parent = __wasilibc_find_abspath(whole, prefix, &rest);
    size_t needed = parent < 0 ? 0 : strlen(rest) + 1;
    if (needed > *size) {
        char *grown = may_grow ? realloc(*relative, needed) : NULL;
        if (grown) {
            *relative = grown;
            *size = needed;
        } else {
            errno = may_grow ? ENOMEM : ERANGE;
            parent = -1;
        }
    }
    if (parent >= 0)
        strcpy(*relative, rest);
    free(whole);
    return parent;
}

/* Returns "/PREFIX/RELATIVE", from the heap. */
static char *join(const char *prefix, const char *relative)
{
    char *made = malloc(strlen(prefix) + strlen(relative) + 3);
    if (!made)
        return NULL;
    strcpy(made, "/");
    strcat(made, prefix);
    if (strcmp(relative, ".") != 0) {
        if (prefix[0])
            strcat(made, "/");
        strcat(made, relative);
    }
    return made;
}

/* Returns "/PREFIX/RELATIVE" for the directory `path`; NULL with errno if it is none. */
static char *find_directory(const char *path)
{
    const char *prefix;
    char *relative = NULL, *made = NULL;
    size_t size = 0;
    struct stat status;
    int parent = __wasilibc_find_relpath_alloc(path, &prefix, &relative, &size, 1);
    if (parent >= 0 && fstatat(parent, relative, &status, 0) == 0) {
        if (!S_ISDIR(status.st_mode))
            errno = ENOTDIR;
        else if (!(made = join(prefix, relative)))
            errno = ENOMEM;
    }
    free(relative);
    return made;
}

int chdir(const char *path)
{
    char *made = find_directory(path);
    if (!made)
        return -1;
    pthread_rwlock_wrlock(&lock);
    char *old = directory;
    directory = made;
    pthread_rwlock_unlock(&lock);
    if (old != root)
        free(old);
    return 0;
}
