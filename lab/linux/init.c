/* Process 1 of the lab's Linux: mounts what the cases need, starts /bench, powers off.
 *
 * Whatever happens to /bench, the machine powers off: the host waits for that. The last line says
 * how it went: "lab: done" or "lab: failed". `penumbra.case=shell` starts busybox's shell instead,
 * to look around, and `penumbra.case=replay` starts /replay.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void mount_at(const char *kind, const char *folder)
{
    mkdir(folder, 0755);
    if (mount(kind, folder, kind, 0, NULL) < 0 && errno != EBUSY)
        printf("lab: mount %s: %s\n", folder, strerror(errno));
}

static int wants(const char *words)
{
    char line[4096] = "";
    int file = open("/proc/cmdline", O_RDONLY);
    if (file < 0 || read(file, line, sizeof line - 1) < 0)
        return 0;
    close(file);
    return strstr(line, words) != NULL;
}

/* Runs `program` as the terminal's own; answers whether it ended with code 0. */
static int run(char *const program[])
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        char *environment[] = { "PATH=/bin", "HOME=/", "TERM=vt100", NULL };
        execve(program[0], program, environment);
        printf("lab: %s: %s\n", program[0], strerror(errno));
        _exit(127);
    }
    while (child > 0) {
        pid_t ended = wait(&status);
        if (ended == child || (ended < 0 && errno == ECHILD))
            break;
    }
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    char *bench[] = { "/bench", NULL };
    char *replay[] = { "/replay", NULL };
    char *shell[] = { "/bin/busybox", "sh", NULL };
    char *links[] = { "/bin/busybox", "--install", "-s", "/bin", NULL };
    int good;

    setvbuf(stdout, NULL, _IOLBF, 0);
    mount_at("proc", "/proc");
    mount_at("sysfs", "/sys");
    mount_at("devtmpfs", "/dev");
    mount_at("tmpfs", "/tmp");
    mount_at("debugfs", "/sys/kernel/debug");
    if (wants("penumbra.case=shell"))
        good = run(links) && run(shell);
    else if (wants("penumbra.case=replay"))
        good = run(replay);
    else
        good = run(bench);
    printf("lab: %s\n", good ? "done" : "failed");
    /* The line leaves the UART before the power does. */
    fsync(1);
    sync();
    usleep(100 * 1000);
    reboot(RB_POWER_OFF);
    return 1;
}
