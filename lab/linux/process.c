/* Processes: a byte to another one and back; starting one and waiting for its end, by posix_spawn,
 * by fork alone, by fork and exec. */
#define _GNU_SOURCE
#include "bench.h"
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int to_echo[2], from_echo[2];
static pid_t echo;

static void pipe_setup(const struct bench *bench)
{
    (void)bench;
    must(pipe(to_echo), "pipe");
    must(pipe(from_echo), "pipe");
    echo = must(fork(), "fork");
    if (echo == 0) {
        char byte;
        close(to_echo[1]);
        while (read(to_echo[0], &byte, 1) == 1)
            if (write(from_echo[1], &byte, 1) != 1)
                break;
        _exit(0);
    }
    close(to_echo[0]);
    close(from_echo[1]);
}

static void pipe_run(const struct bench *bench, unsigned long times)
{
    char byte = 1;
    (void)bench;
    while (times--) {
        must(write(to_echo[1], &byte, 1), "write to a pipe");
        must(read(from_echo[0], &byte, 1), "read from a pipe");
    }
}

static void pipe_teardown(const struct bench *bench)
{
    (void)bench;
    close(to_echo[1]);
    close(from_echo[0]);
    must(waitpid(echo, NULL, 0), "waitpid");
}

static void end_of(pid_t child)
{
    int status;
    must(waitpid(child, &status, 0), "waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("the program that was started did not end with code 0");
}

static char *const tiny[] = { "/tiny", NULL };
static char *const no_environment[] = { NULL };

static void spawn_run(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--) {
        pid_t child;
        if (posix_spawn(&child, tiny[0], NULL, NULL, tiny, no_environment) != 0)
            fail("posix_spawn");
        end_of(child);
    }
}

static void fork_run(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--) {
        pid_t child = must(fork(), "fork");
        if (child == 0)
            _exit(0);
        end_of(child);
    }
}

static void fork_exec_run(const struct bench *bench, unsigned long times)
{
    (void)bench;
    while (times--) {
        pid_t child = must(fork(), "fork");
        if (child == 0) {
            execve(tiny[0], tiny, no_environment);
            _exit(127);
        }
        end_of(child);
    }
}

void run_program(char *const arguments[])
{
    pid_t child;
    if (posix_spawn(&child, arguments[0], NULL, NULL, arguments, no_environment) != 0)
        fail(arguments[0]);
    end_of(child);
}

const struct bench process_cases[] = {
    { .name = "pipe.round_trip", .unit = "ns", .warmup = 500, .rounds = 4000, .per_round = 1,
      .setup = pipe_setup, .run = pipe_run, .teardown = pipe_teardown },
    { .name = "spawn.posix", .unit = "ns", .warmup = 20, .rounds = 200, .per_round = 1,
      .run = spawn_run },
    { .name = "spawn.fork", .unit = "ns", .warmup = 20, .rounds = 200, .per_round = 1,
      .run = fork_run },
    { .name = "spawn.fork_exec", .unit = "ns", .warmup = 20, .rounds = 200, .per_round = 1,
      .run = fork_exec_run },
    { 0 },
};
