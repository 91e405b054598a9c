/* What a WASI program asks Penumbra beyond WASI: other processes, pipes, second descriptors.
 *
 * The same as the Rust crate `penumbra`, and as `abi::program` of the system. Every function
 * answers 0 or an error of WASI's numbering (the values of errno.h of wasi-libc). */
#ifndef PENUMBRA_H
#define PENUMBRA_H

#include <assert.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENUMBRA_CALL(name) __attribute__((import_module("penumbra"), import_name(name)))

/* struct penumbra_spawn.kernel: whichever its manifest, or the load, suggests. */
#define PENUMBRA_ANY_KERNEL UINT32_MAX
/* struct penumbra_spawn.flags: in a group of its own, which has its number. */
#define PENUMBRA_NEW_GROUP 1u
/* penumbra_wait: answers pid 0 where it would wait. */
#define PENUMBRA_NO_HANG 1u

/* A piece of the program's memory; of files: how many there are. */
struct penumbra_piece {
    uint32_t address;
    uint32_t count;
};

/* A file that a new process gets. */
struct penumbra_file {
    uint32_t descriptor;           /* the caller's, which it keeps */
    uint32_t becomes;              /* which one it is to be there */
    struct penumbra_piece preopen; /* a preopened directory of this name; count 0: none */
};

/* What to begin. */
struct penumbra_spawn {
    struct penumbra_piece path;        /* a path that `directory` leads to */
    struct penumbra_piece arguments;   /* the program's name first, each with a NUL behind it */
    struct penumbra_piece environment; /* NAME=VALUE, each with a NUL behind it */
    struct penumbra_piece files;       /* struct penumbra_file: address and number */
    uint32_t directory;                /* where the path begins */
    uint32_t kernel;                   /* or PENUMBRA_ANY_KERNEL */
    uint32_t group;                    /* 0: the caller's */
    uint32_t flags;                    /* PENUMBRA_NEW_GROUP */
    uint64_t memory;                   /* most bytes for it and each that it begins; 0: as many as
                                          its manifest, and those who began the caller, allow */
    uint32_t descriptors;              /* most of them, likewise */
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
    uint32_t pid; /* 0: none yet */
    uint32_t kind;
    uint32_t status;
    uint32_t reserved;
    uint64_t cpu;    /* ns on a core */
    uint64_t memory; /* most bytes */
};

/* Who the caller is. */
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

/* One process of a list. */
struct penumbra_listed {
    uint32_t pid;
    uint32_t parent; /* 0: the system */
    uint32_t group;
    uint16_t kernel;
    uint16_t state;
    uint32_t kind; /* once it ended */
    uint32_t status;
    uint64_t began; /* ns of the chip */
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

/* Begins a program; its number to *pid. With a limit too low to begin with: 33 (EMFILE), or it ends
 * by PENUMBRA_TRAP_NO_MEMORY. */
PENUMBRA_CALL("spawn")
int penumbra_spawn(const struct penumbra_spawn *what, uint32_t *pid);

/* As waitpid: a child, -1 any, 0 any of the caller's group, or (negative) of a group. */
PENUMBRA_CALL("wait")
int penumbra_wait(int32_t pid, uint32_t flags, struct penumbra_ended *ended);

/* A signal for a process, or (negative) for a group: the caller's own, the caller, and those that
 * descend from it; for others only if its manifest says `signals = "all"` and so does that of who
 * began it, else 63 (EPERM). */
PENUMBRA_CALL("kill")
int penumbra_kill(int32_t pid, uint32_t signal);

/* As setpgid. */
PENUMBRA_CALL("group")
int penumbra_group(uint32_t pid, uint32_t group);

/* Who the caller is. */
PENUMBRA_CALL("self")
int penumbra_self(struct penumbra_identity *what);

/* Processes above a number; bytes that were written to *used. */
PENUMBRA_CALL("list")
int penumbra_list(uint32_t above, struct penumbra_listed *buffer, uint32_t bytes, uint32_t *used);

/* Two descriptors: to read, to write. */
PENUMBRA_CALL("pipe")
int penumbra_pipe(uint32_t ends[2]);

/* A second descriptor of the same file. */
PENUMBRA_CALL("dup")
int penumbra_dup(uint32_t descriptor, uint32_t *new_descriptor);

/* How a terminal is read, and which group ctrl-c ends there (0: none). */
#define PENUMBRA_TERMINAL_RAW 1u
#define PENUMBRA_TERMINAL_LINES 2u
#define PENUMBRA_TERMINAL_GROUP 4u
PENUMBRA_CALL("terminal")
int penumbra_terminal(uint32_t descriptor, uint32_t mode, uint32_t group);

/* A piece of memory, as the structures above name it. */
static inline struct penumbra_piece penumbra_piece(const void *address, uint32_t count)
{
    struct penumbra_piece piece = {(uint32_t)(uintptr_t)address, count};
    return piece;
}

#ifdef __cplusplus
}
#endif

#endif
