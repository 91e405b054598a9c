/* What the files of this program share. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Ends the program, and says where, unless this holds. */
#define CHECK(holds)                                                                               \
    do {                                                                                           \
        if (!(holds))                                                                              \
            wrong(__FILE__, __LINE__, #holds);                                                     \
    } while (0)

_Noreturn void wrong(const char *file, int line, const char *what);

/* Returns an address of this chip. */
struct sockaddr_in address(uint16_t port);

/* Returns a listener at a port; 0: any. */
int listener_at(uint16_t port, int backlog);

/* The same of both families. */
int listener6_at(uint16_t port, int backlog);

/* Returns the port of a socket. */
uint16_t port_of(int fd);

/* Returns a stream connected to a port of this chip, or -1. */
int connect_to(uint16_t port);

/* Byte `at` of the pattern that clients send. */
uint8_t pattern(uint32_t at);

void check_all(void);
void check_many(void);
void check_full(void);
_Noreturn void endure(uint16_t port);

#endif
