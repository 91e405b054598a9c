/* `light web PORT`: an HTTP server that waits in poll, without end.
 * `light stamp PORT`: returns datagrams with the time at which recv returned in bytes 8 to 15.
 * `light requests COUNT`: so many HTTP requests over loopback; prints ns for each of them. */
#include "role.h"
#include "web.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { ROOM = 2048, REQUEST = 1024 };

static void web(uint16_t port)
{
    struct pollfd wait = { .fd = web_listen(port), .events = POLLIN };
    if (wait.fd < 0)
        must("listen");
    for (;;)
        if (poll(&wait, 1, -1) < 0)
            must("poll");
        else
            web_answer(wait.fd);
}

static void stamp(uint16_t port)
{
    static char bytes[ROOM];
    struct sockaddr_in at, from;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0)
        must("bind");
    for (;;) {
        socklen_t length = sizeof from;
        ssize_t some = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length);
        uint64_t time = now();
        if (some < 16)
            continue;
        memcpy(bytes + 8, &time, sizeof time);
        sendto(fd, bytes, (size_t)some, 0, (struct sockaddr *)&from, length);
    }
}

static void requests(unsigned long count)
{
    const uint16_t port = 80;
    int listener = web_listen(port);
    if (listener < 0)
        must("listen");
    uint64_t began = 0;
    for (unsigned long at = 0; at < count + count / 4; at++) {
        if (at == count / 4)
            began = now();
        must(web_request(listener, port, REQUEST));
    }
    printf("record http.request %.1f ns\n", (double)(now() - began) / (double)count);
}

int serve(char **words)
{
    unsigned long number = strtoul(words[1], NULL, 10);
    if (strcmp(words[0], "web") == 0)
        web((uint16_t)number);
    else if (strcmp(words[0], "stamp") == 0)
        stamp((uint16_t)number);
    else if (strcmp(words[0], "requests") == 0 && number)
        requests(number);
    else
        return 0;
    return 1;
}
