/* The resolver of sdk/posix on this host, with a simulated network and clock: each case says which
 * datagrams arrive when. It exits with 1 and a sentence at the first answer that is wrong. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The system calls of the resolver are those below. */
#define socket simulated_socket
#define connect simulated_connect
#define send simulated_send
#define recv simulated_recv
#define poll simulated_poll
#define close simulated_close
#define getentropy simulated_getentropy
#define clock_gettime simulated_clock_gettime

#define FD 3
#define NEVER INT64_MAX
/* Longest time that a call of the resolver may take, in us. */
#define LONGEST 6100000

/* What arrives between answers. */
enum noise { SILENCE, STRANGERS, WRONG_NUMBERS, NO_DATAGRAM };

struct scene {
    const char *name;
    enum noise noise;
    /* Time from one datagram of the noise to the next, in us. */
    int64_t pause;
    /* When the answer arrives, in us. */
    int64_t answer;
    /* The answer's flags and code. */
    uint16_t flags;
    /* How many sends have no room; errno of those after them, or 0. */
    int full, send_error;
    bool no_entropy;
    /* Addresses of both families are asked for, not only those of IPv4. */
    bool both;
    /* What is expected: number of addresses, error, and when, in ms. */
    int found, error;
    int64_t least_ms, most_ms;
};

static const struct scene SCENES[] = {
    {.name = "an answer", .answer = 30000, .flags = 0x8180, .found = 1, .most_ms = 31},
    {.name = "answers of both families", .both = true, .answer = 30000, .flags = 0x8180, .found = 2,
     .most_ms = 31},
    {.name = "no such name in either family", .both = true, .answer = 30000, .flags = 0x8183,
     .error = EAI_NONAME, .most_ms = 31},
    {.name = "silence for both families", .both = true, .answer = NEVER, .error = EAI_AGAIN,
     .least_ms = 5900, .most_ms = 6100},
    {.name = "no such name", .answer = 30000, .flags = 0x8183, .error = EAI_NONAME, .most_ms = 31},
    {.name = "a server that fails", .answer = 30000, .flags = 0x8182, .error = EAI_FAIL,
     .most_ms = 31},
    {.name = "silence", .answer = NEVER, .error = EAI_AGAIN, .least_ms = 5900, .most_ms = 6100},
    {.name = "an answer to the second question", .answer = 2500000, .flags = 0x8180, .found = 1,
     .least_ms = 2500, .most_ms = 2501},
    {.name = "an answer among datagrams without pause", .noise = STRANGERS, .pause = 100,
     .answer = 1000000, .flags = 0x8180, .found = 1, .least_ms = 1000, .most_ms = 1001},
    {.name = "strangers without pause", .noise = STRANGERS, .pause = 100, .answer = NEVER,
     .error = EAI_AGAIN, .least_ms = 5900, .most_ms = 6100},
    {.name = "strangers now and then", .noise = STRANGERS, .pause = 1900000, .answer = NEVER,
     .error = EAI_AGAIN, .least_ms = 5900, .most_ms = 6100},
    {.name = "wrong numbers without pause", .noise = WRONG_NUMBERS, .pause = 100, .answer = NEVER,
     .error = EAI_AGAIN, .least_ms = 5900, .most_ms = 6100},
    {.name = "datagrams that are gone when they are received", .noise = NO_DATAGRAM, .pause = 100,
     .answer = NEVER, .error = EAI_AGAIN, .least_ms = 5900, .most_ms = 6100},
    {.name = "no room for the first question", .full = 1, .answer = 2030000, .flags = 0x8180,
     .found = 1, .least_ms = 2030, .most_ms = 2031},
    {.name = "no network", .send_error = ENETUNREACH, .answer = NEVER, .error = EAI_AGAIN},
    {.name = "no random numbers", .no_entropy = true, .answer = 30000, .flags = 0x8180,
     .error = EAI_AGAIN},
};

static const uint8_t ADDRESS[] = {192, 0, 2, 7};
static const uint8_t ADDRESS6[] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};

static const struct scene *scene;
static int64_t now_us, next_noise;
static int sends;
static uint8_t question[512];
static size_t asked;

_Noreturn static void wrong(const char *what)
{
    printf("%s: %s\n", scene->name, what);
    exit(1);
}

static void advance(int64_t us)
{
    now_us += us;
    if (now_us > LONGEST)
        wrong("the resolver does not return");
}

static int socket(int family, int type, int protocol)
{
    (void)protocol;
    return family == AF_INET && type == SOCK_DGRAM ? FD : -1;
}

static int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    const struct sockaddr_in *in = (const void *)address;
    if (fd != FD || bytes != sizeof *in || in->sin_port != htons(53)
        || in->sin_addr.s_addr != htonl(0x7f000035))
        wrong("the server of names is 127.0.0.53, port 53");
    return 0;
}

static int close(int fd)
{
    return fd == FD ? 0 : -1;
}

static int getentropy(void *to, size_t bytes)
{
    memset(to, 0x5a, bytes);
    errno = EIO;
    return scene->no_entropy ? -1 : 0;
}

static int clock_gettime(clockid_t clock, struct timespec *to)
{
    if (clock != CLOCK_MONOTONIC)
        wrong("another clock may be set meanwhile");
    advance(1);
    *to = (struct timespec){now_us / 1000000, now_us % 1000000 * 1000};
    return 0;
}

static ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    if (fd != FD || bytes > sizeof question)
        wrong("this is no question");
    if (scene->no_entropy)
        wrong("the question has a number that is known");
    if (sends++ < scene->full) {
        if (!(flags & MSG_DONTWAIT))
            wrong("send waits for room");
        errno = EAGAIN;
        return -1;
    }
    errno = scene->send_error;
    if (errno)
        return -1;
    memcpy(question, data, bytes);
    asked = bytes;
    return (ssize_t)bytes;
}

static int64_t next_datagram(void)
{
    int64_t noise = scene->noise == SILENCE ? NEVER : next_noise;
    return noise < scene->answer ? noise : scene->answer;
}

static int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int64_t end = now_us + timeout * INT64_C(1000), next = next_datagram();
    if (count != 1 || fds->fd != FD || timeout < 0)
        wrong("poll waits for something else than an answer");
    if (next > end) {
        advance(end - now_us);
        return 0;
    }
    if (next > now_us)
        advance(next - now_us);
    fds->revents = POLLIN;
    return 1;
}

/* Writes an answer with one address, of the family that was asked for. */
static size_t write_answer(uint8_t *to)
{
    uint8_t record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, sizeof ADDRESS};
    bool is_v4 = question[asked - 3] == 1;
    size_t bytes = is_v4 ? sizeof ADDRESS : sizeof ADDRESS6;
    record[3] = question[asked - 3];
    record[11] = (uint8_t)bytes;
    memcpy(to, question, asked);
    to[2] = (uint8_t)(scene->flags >> 8);
    to[3] = (uint8_t)scene->flags;
    to[7] = 1;
    memcpy(to + asked, record, sizeof record);
    memcpy(to + asked + sizeof record, is_v4 ? ADDRESS : ADDRESS6, bytes);
    return asked + sizeof record + bytes;
}

static ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    uint8_t message[600] = {0};
    bool is_answer = now_us >= scene->answer;
    size_t length;
    advance(1);
    if (fd != FD)
        wrong("it reads something else than a socket");
    if (!is_answer)
        next_noise = now_us + scene->pause;
    if (!is_answer && scene->noise == NO_DATAGRAM) {
        if (!(flags & MSG_DONTWAIT))
            wrong("recv waits for a datagram");
        errno = EAGAIN;
        return -1;
    }
    length = is_answer || scene->noise == WRONG_NUMBERS ? write_answer(message) : 5;
    if (!is_answer)
        message[0] ^= 1;
    length = length < bytes ? length : bytes;
    memcpy(data, message, length);
    return (ssize_t)length;
}

#include "resolve.c"

int main(void)
{
    for (size_t index = 0; index < sizeof SCENES / sizeof *SCENES; index++) {
        struct host_address addresses[RESOLVED];
        int error = 0;
        scene = &SCENES[index];
        now_us = next_noise = asked = sends = 0;
        int family = scene->both ? AF_UNSPEC : AF_INET;
        int found = penumbra_resolve("host.example", family, addresses, &error);
        if (found != scene->found || (found == 0 && error != scene->error))
            wrong("another result");
        if (found > 0 && memcmp(&addresses[0].v4, ADDRESS, sizeof ADDRESS) != 0)
            wrong("another address");
        if (found > 1 && memcmp(&addresses[1].v6, ADDRESS6, sizeof ADDRESS6) != 0)
            wrong("another address of IPv6");
        if (now_us / 1000 < scene->least_ms || now_us / 1000 > scene->most_ms)
            wrong("it took another time");
    }
    return 0;
}
