/* Who a program runs for, and where: one user, root, and no time zones. All functions are weak, as
 * in sockets.c. */
#include <time.h>
#include <unistd.h>

#define WEAK __attribute__((weak))

WEAK uid_t getuid(void) { return 0; }
WEAK uid_t geteuid(void) { return 0; }
WEAK gid_t getgid(void) { return 0; }
WEAK gid_t getegid(void) { return 0; }

/* Local time is UTC, whatever TZ says. */
WEAK void tzset(void) {}
