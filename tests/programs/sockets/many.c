/* As many descriptors as there can be. Needs `limits = { files = 1024 }` in its manifest. */
#include "sockets.h"

#include <errno.h>
#include <penumbra.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { CONNECTIONS = 448, PIPES = 60, POLLED = 1024 };

/* Adds a descriptor. */
static void add(struct pollfd *fds, int *used, int fd)
{
    CHECK(fd >= 0);
    fds[(*used)++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* A poll of 1,024 descriptors, files and sockets, of which one becomes ready. */
void check_many(void)
{
    static struct pollfd fds[POLLED];
    static int writers[POLLED];
    int used = 0, listener = listener_at(0, 128);
    uint16_t port = port_of(listener);
    add(fds, &used, listener);
    for (int index = 0; index < CONNECTIONS; index++) {
        int near = connect_to(port);
        CHECK(near >= 0);
        int far = accept(listener, NULL, NULL);
        CHECK(far >= 0);
        writers[used] = far;
        add(fds, &used, near);
        writers[used] = near;
        add(fds, &used, far);
    }
    int sockets = used;
    for (int index = 0; index < PIPES; index++) {
        uint32_t ends[2];
        CHECK(penumbra_pipe(ends) == 0);
        writers[used] = (int)ends[1];
        add(fds, &used, (int)ends[0]);
    }
    /* The rest are some of them again. */
    while (used < POLLED) {
        writers[used] = -1;
        fds[used] = fds[sockets + used % PIPES];
        used++;
    }
    CHECK(poll(fds, POLLED, 0) == 0);
    CHECK(poll(fds, POLLED, 20) == 0);
    int ready[] = {1, sockets / 2, sockets - 1, sockets + 1};
    for (unsigned index = 0; index < sizeof ready / sizeof *ready; index++) {
        int at = ready[index];
        char byte = 0;
        CHECK(write(writers[at], "!", 1) == 1);
        int count = poll(fds, POLLED, -1), same = 0;
        for (int other = 0; other < POLLED; other++) {
            same += fds[other].fd == fds[at].fd;
            CHECK((fds[other].revents == POLLIN) == (fds[other].fd == fds[at].fd));
        }
        CHECK(count == same);
        CHECK(read(fds[at].fd, &byte, 1) == 1 && byte == '!');
        CHECK(poll(fds, POLLED, 0) == 0);
    }
    puts("ok many");
}

/* As many sockets as a tree of processes gets. The end of the process closes them. */
void check_full(void)
{
    int count = 0;
    while (socket(AF_INET, SOCK_STREAM, 0) >= 0)
        count++;
    int error = errno;
    CHECK(error == ENFILE || error == EMFILE);
    printf("%d sockets, then %s\n", count, error == ENFILE ? "ENFILE" : "EMFILE");
}
