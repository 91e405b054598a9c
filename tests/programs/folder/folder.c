/* Does to files what its arguments say, one after the other, for tests:
 *
 *   cat F        F to the output          ls D         names in D, in their order, a line
 *   put F TEXT   TEXT is what F holds     add F TEXT   TEXT at the end of F
 *   mkdir D      rmdir D      rm F        mv F G       ln TEXT F: a symbolic link
 *   size F       bytes of F, a line       cut F        F holds nothing any more
 *   log F        lines at the end of F, until one cannot be written
 *
 * What fails says so as a line of the output, and it goes on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 10000, NAMES = 4000 };

static int compare(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static int list(const char *path)
{
    static char *names[NAMES];
    size_t count = 0;
    DIR *directory = opendir(path);
    if (!directory)
        return -1;
    errno = 0;
    for (struct dirent *it; count < NAMES && (it = readdir(directory));)
        if (strcmp(it->d_name, ".") != 0 && strcmp(it->d_name, "..") != 0)
            names[count++] = strdup(it->d_name);
    int failed = errno;
    closedir(directory);
    qsort(names, count, sizeof *names, compare);
    for (size_t at = 0; at < count; at++)
        printf("%s%s", at ? " " : "", names[at]);
    printf("\n");
    errno = failed;
    return failed ? -1 : 0;
}

static int show(const char *path)
{
    static char bytes[ROOM];
    int file = open(path, O_RDONLY);
    if (file < 0)
        return -1;
    ssize_t count;
    while ((count = read(file, bytes, sizeof bytes)) > 0)
        fwrite(bytes, 1, (size_t)count, stdout);
    int failed = errno;
    close(file);
    errno = failed;
    return (int)count;
}

static int put(const char *path, const char *text, int how)
{
    int file = open(path, O_WRONLY | O_CREAT | how, 0666);
    if (file < 0)
        return -1;
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t count = write(file, text, left);
        if (count < 0)
            return close(file), -1;
        text += count;
        left -= (size_t)count;
    }
    return close(file);
}

static int write_on(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    while (file >= 0 && write(file, "line\n", 5) == 5)
        ;
    return -1;
}

static int size(const char *path)
{
    struct stat about;
    int failed = stat(path, &about);
    if (!failed)
        printf("%lld\n", (long long)about.st_size);
    return failed;
}

int main(int count, char **arguments)
{
    for (int at = 1; at + 1 < count;) {
        const char *what = arguments[at++], *path = arguments[at++];
        const char *other = at < count ? arguments[at] : "";
        int failed = 0;
#define IS(name) (strcmp(what, name) == 0)
        if (IS("put") || IS("add") || IS("mv") || IS("ln"))
            at++;
        if (IS("cat"))
            failed = show(path);
        else if (IS("ls"))
            failed = list(path);
        else if (IS("put"))
            failed = put(path, other, O_TRUNC);
        else if (IS("add"))
            failed = put(path, other, O_APPEND);
        else if (IS("cut"))
            failed = put(path, "", O_TRUNC);
        else if (IS("mkdir"))
            failed = mkdir(path, 0777);
        else if (IS("rmdir"))
            failed = rmdir(path);
        else if (IS("rm"))
            failed = unlink(path);
        else if (IS("mv"))
            failed = rename(path, other);
        else if (IS("ln"))
            failed = symlink(path, other);
        else if (IS("size"))
            failed = size(path);
        else if (IS("log"))
            failed = write_on(path);
        else
            return 2;
        if (failed)
            printf("%s %s: %s\n", what, path, strerror(errno));
        fflush(stdout);
    }
    return 0;
}
