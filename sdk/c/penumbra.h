/* What Penumbra offers a WASI program beyond WASI: processes, pipes, duplicated descriptors.
 *
 * The same interface as the Rust crate `penumbra`; the layouts are those of `abi::program`. Every
 * function returns 0 or one of WASI's error numbers (the values of errno.h of wasi-libc). */
#ifndef PENUMBRA_H
#define PENUMBRA_H

#include <assert.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENUMBRA_CALL(name) __attribute__((import_module("penumbra"), import_name(name)))

/* struct penumbra_spawn.kernel: the one that the manifest names or the load suggests. */
#define PENUMBRA_ANY_KERNEL UINT32_MAX
/* struct penumbra_spawn.flags: start a new group, whose number is the child's. */
#define PENUMBRA_NEW_GROUP 1u
/* penumbra_wait: return pid 0 instead of waiting. */
#define PENUMBRA_NO_HANG 1u

/* A range of the program's memory; for files, `count` is their number. */
struct penumbra_piece {
    uint32_t address;
    uint32_t count;
};

/* A file that is passed to a new process. */
struct penumbra_file {
    uint32_t descriptor;           /* the caller's; stays open */
    uint32_t becomes;              /* the child's descriptor */
    struct penumbra_piece preopen; /* name of a preopened directory; count 0: it is none */
};

/* A program to start. */
struct penumbra_spawn {
    struct penumbra_piece path;        /* relative to `directory` */
    struct penumbra_piece arguments;   /* the program's name first; each followed by a NUL */
    struct penumbra_piece environment; /* NAME=VALUE, each followed by a NUL */
    struct penumbra_piece files;       /* struct penumbra_file: address and count */
    uint32_t directory;                /* descriptor that the path is relative to */
    uint32_t kernel;                   /* or PENUMBRA_ANY_KERNEL */
    uint32_t group;                    /* 0: the caller's */
    uint32_t flags;                    /* PENUMBRA_NEW_GROUP */
    uint64_t memory;                   /* limit in bytes for it and for each descendant; 0: only
                                          the limits of its manifest and of the caller */
    uint32_t descriptors;              /* limit on descriptors, likewise */
    uint32_t reserved;                 /* 0 */
};

/* How a process ended. */
enum penumbra_end {
    PENUMBRA_EXIT = 1,   /* status: its code */
    PENUMBRA_SIGNAL = 2, /* status: the signal */
    PENUMBRA_TRAP = 3,   /* status: enum penumbra_trap */
    PENUMBRA_LOST = 4    /* its kernel died */
};

enum penumbra_trap {
    PENUMBRA_TRAP_OTHER = 0,
    PENUMBRA_TRAP_STACK = 1,
    PENUMBRA_TRAP_MEMORY = 2,
    PENUMBRA_TRAP_TABLE = 3,
    PENUMBRA_TRAP_UNREACHABLE = 4,
    PENUMBRA_TRAP_NUMBER = 5,
    PENUMBRA_TRAP_NO_MEMORY = 6
};

struct penumbra_ended {
    uint32_t pid; /* 0: no child has ended */
    uint32_t kind;
    uint32_t status;
    uint32_t reserved;
    uint64_t cpu;    /* CPU time in ns */
    uint64_t memory; /* peak in bytes */
};

/* The caller's identity. */
struct penumbra_identity {
    uint32_t pid;
    uint32_t parent;
    uint32_t group;
    uint32_t kernel;
};

enum penumbra_state {
    PENUMBRA_WAITING = 1,
    PENUMBRA_STARTING = 2,
    PENUMBRA_RUNNING = 3,
    PENUMBRA_ENDED = 4
};

/* A process in a list. */
struct penumbra_listed {
    uint32_t pid;
    uint32_t parent; /* 0: the system */
    uint32_t group;
    uint16_t kernel;
    uint16_t state;
    uint32_t kind; /* once it has ended */
    uint32_t status;
    uint64_t began; /* soc time of the spawn request, in ns */
    uint64_t cpu;
    uint64_t memory;
    uint64_t messages;
    char name[32]; /* NUL padded */
};

static_assert(sizeof(struct penumbra_spawn) == 64, "as abi::program::Spawn");
static_assert(sizeof(struct penumbra_file) == 16, "as abi::program::InheritedFile");
static_assert(sizeof(struct penumbra_ended) == 32, "as abi::program::Ended");
static_assert(sizeof(struct penumbra_identity) == 16, "as abi::program::Identity");
static_assert(sizeof(struct penumbra_listed) == 88, "as abi::process::Listed");

/* Starts a program and stores its number in *pid. If a limit is too low for it to start, the call
 * returns 33 (EMFILE), or the program ends with PENUMBRA_TRAP_NO_MEMORY. */
PENUMBRA_CALL("spawn")
int penumbra_spawn(const struct penumbra_spawn *what, uint32_t *pid);

/* Waits as waitpid does: for a child, -1 any, 0 any in the caller's group, negative: any in a
 * group. */
PENUMBRA_CALL("wait")
int penumbra_wait(int32_t pid, uint32_t flags, struct penumbra_ended *ended);

/* Sends a signal to a process or (negative) to a group. Allowed for the caller's group, the caller
 * and its descendants. For other processes, the manifests of the caller and of the process that
 * started it must say `signals = "all"`; otherwise 63 (EPERM). */
PENUMBRA_CALL("kill")
int penumbra_kill(int32_t pid, uint32_t signal);

/* Moves a running process to another kernel, with its memory, descriptors and waits. Returns when
 * it runs there. Its program must be installed with `movable = true` (58, ENOTSUP). Allowed as for
 * penumbra_kill. */
PENUMBRA_CALL("move")
int penumbra_move(uint32_t pid, uint32_t kernel);

/* Changes the group of a process, as setpgid does. */
PENUMBRA_CALL("group")
int penumbra_group(uint32_t pid, uint32_t group);

/* Returns the caller's identity. */
PENUMBRA_CALL("self")
int penumbra_self(struct penumbra_identity *what);

/* Lists processes with numbers above `above`, and stores the bytes written in *used. */
PENUMBRA_CALL("list")
int penumbra_list(uint32_t above, struct penumbra_listed *buffer, uint32_t bytes, uint32_t *used);

/* Creates a pipe: ends[0] reads, ends[1] writes. */
PENUMBRA_CALL("pipe")
int penumbra_pipe(uint32_t ends[2]);

/* Duplicates a descriptor. */
PENUMBRA_CALL("dup")
int penumbra_dup(uint32_t descriptor, uint32_t *new_descriptor);

/* Sets how a terminal is read, and which group ctrl-c ends (0: none). */
#define PENUMBRA_TERMINAL_RAW 1u
#define PENUMBRA_TERMINAL_LINES 2u
#define PENUMBRA_TERMINAL_GROUP 4u
PENUMBRA_CALL("terminal")
int penumbra_terminal(uint32_t descriptor, uint32_t mode, uint32_t group);

/* Returns a range of memory, as the structures above hold it. */
static inline struct penumbra_piece penumbra_piece(const void *address, uint32_t count)
{
    struct penumbra_piece piece = {(uint32_t)(uintptr_t)address, count};
    return piece;
}

#ifdef __cplusplus
}
#endif

#endif
