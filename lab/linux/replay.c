/* Mounts images of ext2 with a journal, which the kernel replays, and lists what they contain:
 *
 *     image NAME
 *     d PATH
 *     f PATH SIZE HASH
 *     l PATH SIZE HASH
 *     end NAME
 *
 * for each file of /images, copied to a RAM disk. HASH is FNV-1a of 64 bits over the contents, or
 * the text of a link. A failing system call ends the program with a sentence.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK "/dev/ram0"
#define PLACE "/mnt"

void fail(const char *what)
{
    printf("failed %s: %s\n", what, strerror(errno));
    exit(1);
}

static long must_at(long value, const char *what, const char *path)
{
    if (value < 0) {
        printf("failed %s %s: %s\n", what, path, strerror(errno));
        exit(1);
    }
    return value;
}

static uint64_t hashed(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t at = 0; at < count; at++)
        hash = (hash ^ (unsigned char)bytes[at]) * UINT64_C(0x100000001b3);
    return hash;
}

static const uint64_t begun = UINT64_C(0xcbf29ce484222325);

static uint64_t hash_of_file(const char *path)
{
    static char piece[64 * KIB];
    uint64_t hash = begun;
    int file = must_at(open(path, O_RDONLY), "open", path);
    ssize_t count;
    while ((count = must_at(read(file, piece, sizeof piece), "read", path)) > 0)
        hash = hashed(hash, piece, count);
    close(file);
    return hash;
}

static uint64_t hash_of_link(const char *path)
{
    char text[PATH_MAX];
    ssize_t count = must_at(readlink(path, text, sizeof text), "read the link", path);
    return hashed(begun, text, count);
}

static void list(const char *folder);

static void list_one(const char *path)
{
    struct stat found;
    must_at(lstat(path, &found), "look at", path);
    const char *shown = path + sizeof PLACE;
    if (S_ISDIR(found.st_mode)) {
        printf("d %s\n", shown);
        return list(path);
    }
    int is_link = S_ISLNK(found.st_mode);
    uint64_t hash = is_link ? hash_of_link(path) : hash_of_file(path);
    printf("%c %s %jd %016" PRIx64 "\n", is_link ? 'l' : 'f', shown, (intmax_t)found.st_size, hash);
}

static void list(const char *folder)
{
    DIR *entries = opendir(folder);
    must_at(entries ? 0 : -1, "list", folder);
    for (;;) {
        char path[PATH_MAX];
        errno = 0;
        struct dirent *entry = readdir(entries);
        if (!entry)
            break;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            !strcmp(entry->d_name, "lost+found"))
            continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            must_at(-1, "name", folder);
        list_one(path);
    }
    must_at(errno ? -1 : 0, "list", folder);
    closedir(entries);
}

static void copy_to_disk(const char *path)
{
    struct stat image;
    int from = must_at(open(path, O_RDONLY), "open", path);
    int to = must_at(open(DISK, O_WRONLY), "open", DISK);
    must_at(fstat(from, &image), "look at", path);
    for (off_t done = 0; done < image.st_size;)
        if (must_at(sendfile(to, from, &done, image.st_size - done), "copy", path) == 0)
            must_at(-1, "copy all of", path);
    must_at(fsync(to), "write", DISK);
    close(to);
    close(from);
}

static void replay(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/images/%s", name);
    copy_to_disk(path);
    must_at(unlink(path), "remove", path);
    printf("image %s\n", name);
    must_at(mount(DISK, PLACE, "ext4", 0, NULL), "mount", name);
    list(PLACE);
    must_at(umount(PLACE), "unmount", name);
    printf("end %s\n", name);
}

int main(void)
{
    struct dirent **names;
    setvbuf(stdout, NULL, _IOLBF, 0);
    load_modules("ext2", "");
    int count = scandir("/images", &names, NULL, alphasort);
    must_at(count, "list", "/images");
    for (int at = 0; at < count; at++)
        if (names[at]->d_name[0] != '.')
            replay(names[at]->d_name);
    return 0;
}
