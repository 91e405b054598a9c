/* What lighttpd's configure script would find out about Penumbra: WASI's C library, the sockets of
 * sdk/posix, no processes by fork, no users, no TLS. What is not defined here is compiled out. */
#ifndef LIGHTTPD_CONFIG_H
#define LIGHTTPD_CONFIG_H

#define PACKAGE_NAME "lighttpd"
#define PACKAGE_VERSION "1.4.69"
#define LIBRARY_DIR "/lib/lighttpd"
#define LIGHTTPD_VERSION_ID 0x10445

#define _GNU_SOURCE

/* Modules are linked in: plugin-static.h lists them. */
#define LIGHTTPD_STATIC

#define HAVE_INTTYPES_H 1
#define HAVE_POLL_H 1
#define HAVE_STDINT_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STRINGS_H 1
#define HAVE_SYSLOG_H 1
#define HAVE_SYS_POLL_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_UIO_H 1
#define HAVE_SYS_UN_H 1
#define HAVE_SYS_WAIT_H 1
#define HAVE_UNISTD_H 1

#define HAVE_SOCKLEN_T 1
#define HAVE_STRUCT_TM_GMTOFF 1
#define SIZEOF_LONG 4
#define SIZEOF_OFF_T 8

#define HAVE_CLOCK_GETTIME 1
#define HAVE_EXPLICIT_BZERO 1
#define HAVE_GETENTROPY 1
#define HAVE_GMTIME_R 1
#define HAVE_INET_PTON 1
#define HAVE_IPV6 1
#define HAVE_LOCALTIME_R 1
#define HAVE_LSTAT 1
#define HAVE_MEMPCPY 1
#define HAVE_POLL 1
#define HAVE_PREAD 1
#define HAVE_PREADV 1
#define HAVE_PWRITE 1
#define HAVE_PWRITEV 1
#define HAVE_TIMEGM 1
#define HAVE_WRITEV 1

/* time_t has 64 bits. */
#define HAS_TIME_BITS64 1

/* There is no fork, so a restart cannot leave a process behind for the connections that are open. */
#define fork() (-1)
#define execv(path, arguments) (-1)

#endif
