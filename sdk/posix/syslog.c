/* syslog: there is no daemon for a system's log, so messages go to standard error, as LOG_PERROR
 * would write them. Facilities have no effect. All functions are weak, as in sockets.c. */
#include <errno.h>
#include <stdio.h>
#include <syslog.h>

#define WEAK __attribute__((weak))

/* Most bytes of a message. */
#define MESSAGE 1024

static const char *name;
static int mask = LOG_UPTO(LOG_DEBUG);

WEAK void openlog(const char *ident, int options, int facility)
{
    (void)options, (void)facility;
    name = ident;
}

WEAK void closelog(void)
{
    name = NULL;
}

WEAK int setlogmask(int wanted)
{
    int old = mask;
    if (wanted)
        mask = wanted;
    return old;
}

WEAK void vsyslog(int priority, const char *format, va_list arguments)
{
    char text[MESSAGE];
    int error = errno;
    if (!(mask & LOG_MASK(LOG_PRI(priority))))
        return;
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "%s%s%s\n", name ? name : "", name ? ": " : "", text);
    errno = error;
}

WEAK void syslog(int priority, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsyslog(priority, format, arguments);
    va_end(arguments);
}
