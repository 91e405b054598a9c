/* What sdk/posix adds to WASI's C library, except sockets (tests/programs/sockets): descriptors,
 * processes, temporary files, lists. Prints `ok NAME` for each part; exits with 1 at the first that
 * is wrong. Run as `posix child CODE` it is its own child: it ends with this code, or, without one,
 * reads its input forever. */
#include <errno.h>
#include <fcntl.h>
#include <penumbra.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include <wasi/api.h>

#define _WASI_EMULATED_SIGNAL
#include <signal.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("wrong: %s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Returns the descriptor of the directory `/`. */
static uint32_t root(void)
{
    __wasi_prestat_t about;
    uint8_t name[1];
    for (__wasi_fd_t at = 3; __wasi_fd_prestat_get(at, &about) == 0; at++)
        if (about.u.dir.pr_name_len == 1 && __wasi_fd_prestat_dir_name(at, name, 1) == 0 &&
            name[0] == '/')
            return at;
    return 3;
}

/* Starts this program as a child with an argument and an input. */
static pid_t start(const char *code, int input)
{
    char words[32];
    int bytes = snprintf(words, sizeof words, "posix%cchild%c%s", 0, 0, code) + 1;
    const struct penumbra_file given = {.descriptor = (uint32_t)input, .becomes = 0};
    const struct penumbra_spawn what = {
        .path = penumbra_piece("bin/posix", 9),
        .arguments = penumbra_piece(words, (uint32_t)bytes),
        .files = penumbra_piece(&given, 1),
        .directory = root(),
        .kernel = PENUMBRA_ANY_KERNEL,
    };
    uint32_t pid = 0;
    errno = penumbra_spawn(&what, &pid);
    CHECK(errno == 0 && pid != 0);
    return (pid_t)pid;
}

static void descriptors(void)
{
    char text[8] = "";
    int ends[2];
    CHECK(pipe(ends) == 0);
    int copy = dup(ends[1]);
    CHECK(copy > 2 && copy != ends[1]);
    CHECK(write(copy, "one", 3) == 3 && read(ends[0], text, 8) == 3 && !memcmp(text, "one", 3));
    /* The copy becomes another pipe's end; the old one is closed. */
    int others[2];
    CHECK(pipe(others) == 0 && dup2(others[1], copy) == copy);
    CHECK(write(copy, "two", 3) == 3 && read(others[0], text, 8) == 3 && !memcmp(text, "two", 3));
    CHECK(dup2(copy, copy) == copy && write(copy, "3", 1) == 1 && read(others[0], text, 8) == 1);
    close(ends[1]);
    CHECK(read(ends[0], text, 8) == 0);
    CHECK(dup(-1) == -1 && errno == EBADF && dup2(-1, copy) == -1 && errno == EBADF);
    /* A number that is not open, as the comment at dup2 says; nothing is left of the attempt. */
    int next = dup(copy);
    close(next);
    CHECK(dup2(copy, 200) == -1 && errno == EBADF && dup(copy) == next);
    puts("ok descriptors");
}

static void processes(void)
{
    int ends[2], status = 0;
    CHECK(getpid() > 0 && getppid() >= 0 && getpid() != getppid() && getuid() == 0);
    CHECK(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    CHECK(pipe(ends) == 0);
    pid_t child = start("7", ends[0]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    child = start("", ends[0]);
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(kill(child, 0) == 0 && kill(child, SIGTERM) == 0);
    CHECK(wait(&status) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK(kill(child, SIGTERM) == -1 && errno == ESRCH);
    puts("ok processes");
}

static void temporary(void)
{
    char one[] = "/temporary-XXXXXX", other[] = "/temporary-XXXXXX", wrong[] = "/temporary";
    int fd = mkstemp(one), fd_other = mkstemp(other);
    CHECK(fd >= 0 && fd_other >= 0 && strcmp(one, other) != 0);
    CHECK(write(fd, "text", 4) == 4 && access(one, R_OK) == 0);
    CHECK(open(one, O_CREAT | O_EXCL | O_RDWR, 0600) == -1 && errno == EEXIST);
    CHECK(unlink(one) == 0 && unlink(other) == 0);
    CHECK(mkstemp(wrong) == -1 && errno == EINVAL);
    puts("ok temporary");
}

struct element {
    int number;
    STAILQ_ENTRY(element) next;
};

static void lists(void)
{
    STAILQ_HEAD(, element) list = STAILQ_HEAD_INITIALIZER(list);
    struct element all[3] = {{.number = 1}, {.number = 2}, {.number = 3}}, *each;
    int sum = 0;
    STAILQ_INIT(&list);
    CHECK(STAILQ_EMPTY(&list));
    STAILQ_INSERT_TAIL(&list, &all[1], next);
    STAILQ_INSERT_TAIL(&list, &all[2], next);
    STAILQ_INSERT_HEAD(&list, &all[0], next);
    STAILQ_FOREACH(each, &list, next)
        sum = 10 * sum + each->number;
    CHECK(sum == 123);
    for (int index = 0; index < 3; index++)
        STAILQ_REMOVE_HEAD(&list, next);
    CHECK(STAILQ_EMPTY(&list));
    STAILQ_INSERT_TAIL(&list, &all[0], next);
    CHECK(STAILQ_FIRST(&list) == &all[0] && !STAILQ_NEXT(&all[0], next));
    puts("ok lists");
}

/* Messages go to standard error, which is a pipe here. */
static void log_messages(void)
{
    char text[64] = "";
    int ends[2], errors = dup(2);
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    openlog("posix", LOG_PID, LOG_DAEMON);
    CHECK(setlogmask(LOG_UPTO(LOG_ERR)) == LOG_UPTO(LOG_DEBUG));
    syslog(LOG_ERR, "number %d", 5);
    syslog(LOG_INFO, "not this");
    closelog();
    CHECK(dup2(errors, 2) == 2);
    CHECK(read(ends[0], text, sizeof text - 1) == 16 && strcmp(text, "posix: number 5\n") == 0);
    tzset();
    puts("ok log");
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "child") == 0) {
        char byte;
        if (*words[2])
            return atoi(words[2]);
        while (read(0, &byte, 1) >= 0) {
        }
        return 1;
    }
    descriptors();
    processes();
    temporary();
    lists();
    log_messages();
    return 0;
}
