/* A resolver: a question for each family over UDP to the network's server of names, which is always
 * at 127.0.0.53, port 53. The system passes it to the server of the network outside; a program with
 * rules needs "connect:127.0.0.53:53". A and AAAA records; the server follows aliases.
 *
 * What the server sends is not trusted: the answer must repeat the question and its random number,
 * every length is checked, and datagrams that are no answer do not prolong the wait. */
#include "resolve.h"
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* 127.0.0.53 */
#define SERVER 0x7f000035u
#define SERVER_PORT 53
/* Most bytes of a message. */
#define MESSAGE 512
#define HEADER 12
/* Most bytes of a name, and of a part of it. */
#define NAME 253
#define LABEL 63
/* How often the question is sent, and the time for an answer to each in ms. */
#define TRIES 3
#define PATIENCE 2000

#define FLAGS_QUESTION 0x0100 /* recursion is desired */
#define FLAG_ANSWER 0x8000
#define CODE 0x000f
#define CODE_NO_NAME 3
#define TYPE_A 1
#define TYPE_AAAA 28
#define CLASS_IN 1

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static uint8_t *put16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
    return at + 2;
}

/* A name without an address of this family. It may have one of the other. */
#define WITHOUT_ADDRESS 1

/* A question for the addresses of a name. */
struct question {
    uint16_t type;
    size_t bytes;
    uint8_t message[MESSAGE];
};

/* Writes a question of a type. Returns its length, or 0 if `name` is not one. */
static size_t ask(uint8_t message[MESSAGE], uint16_t number, const char *name, uint16_t type)
{
    size_t left = strlen(name);
    uint8_t *to = message;
    if (left > 0 && name[left - 1] == '.')
        left--;
    if (left == 0 || left > NAME)
        return 0;
    to = put16(put16(put16(to, number), FLAGS_QUESTION), 1);
    memset(to, 0, 6);
    to += 6;
    for (;;) {
        const char *dot = memchr(name, '.', left);
        size_t length = dot ? (size_t)(dot - name) : left;
        if (length == 0 || length > LABEL)
            return 0;
        *to++ = (uint8_t)length;
        memcpy(to, name, length);
        to += length;
        if (!dot)
            break;
        left -= length + 1;
        name += length + 1;
    }
    *to++ = 0;
    to = put16(put16(to, type), CLASS_IN);
    return (size_t)(to - message);
}

/* Returns the place after the name at `at`, or 0 if the message ends before it does. */
static size_t after_name(const uint8_t *message, size_t bytes, size_t at)
{
    while (at < bytes) {
        uint8_t length = message[at];
        if (length >= 0xc0) /* The rest is elsewhere. */
            return at + 2 <= bytes ? at + 2 : 0;
        if (length > LABEL)
            return 0;
        at += 1 + length;
        if (length == 0)
            return at <= bytes ? at : 0;
    }
    return 0;
}

/* Stores an address of `length` bytes, if it has those of the family. */
static bool store(const uint8_t *bytes, size_t length, uint16_t type, struct host_address *to)
{
    bool is_v4 = type == TYPE_A;
    if (length != (is_v4 ? sizeof to->v4 : sizeof to->v6))
        return false;
    to->family = is_v4 ? AF_INET : AF_INET6;
    memcpy(is_v4 ? (void *)&to->v4 : (void *)&to->v6, bytes, length);
    return true;
}

/* Reads an answer to `question`. Returns the number of addresses; if there are none, `error` says
 * why, or is 0 if this is no answer to it. */
static int read_answer(const uint8_t *message, size_t bytes, const struct question *question,
                       struct host_address *addresses, int *error)
{
    int found = 0;
    size_t asked = question->bytes;
    *error = 0;
    if (bytes < asked || memcmp(message, question->message, 2) != 0 || get16(message + 4) != 1
        || memcmp(message + HEADER, question->message + HEADER, asked - HEADER) != 0)
        return 0;
    uint16_t flags = get16(message + 2), records = get16(message + 6);
    if (!(flags & FLAG_ANSWER))
        return 0;
    if (flags & CODE) {
        *error = (flags & CODE) == CODE_NO_NAME ? EAI_NONAME : EAI_FAIL;
        return 0;
    }
    size_t at = asked;
    while (records-- > 0 && found < RESOLVED / 2) {
        at = after_name(message, bytes, at);
        if (at == 0 || bytes - at < 10)
            break;
        const uint8_t *record = message + at;
        size_t length = get16(record + 8);
        at += 10;
        if (bytes - at < length)
            break;
        if (get16(record) == question->type && get16(record + 2) == CLASS_IN)
            found += store(message + at, length, question->type, &addresses[found]);
        at += length;
    }
    if (found == 0)
        *error = WITHOUT_ADDRESS;
    return found;
}

/* Returns the time of a clock that is never set, in ms. */
static int64_t now(void)
{
    struct timespec time = {0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Receives datagrams for PATIENCE, until one is an answer. Returns as read_answer does. */
static int await_answer(int fd, const struct question *question, struct host_address *addresses,
                        int *error)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int64_t deadline = now() + PATIENCE, left;
    *error = 0;
    while ((left = deadline - now()) > 0 && poll(&one, 1, (int)left) == 1) {
        uint8_t message[MESSAGE];
        /* It does not wait: the datagram that poll saw may be gone. */
        ssize_t bytes = recv(fd, message, sizeof message, MSG_DONTWAIT);
        if (bytes < 0 && errno == EAGAIN)
            continue;
        if (bytes < 0)
            break;
        size_t length = (size_t)bytes < sizeof message ? (size_t)bytes : sizeof message;
        int found = read_answer(message, length, question, addresses, error);
        if (found > 0 || *error != 0)
            return found;
    }
    return 0;
}

/* Sends the question until there is an answer. */
static int exchange(int fd, const struct question *question, struct host_address *addresses,
                    int *error)
{
    for (int attempt = 0; attempt < TRIES; attempt++) {
        /* Without room it counts as sent and lost. */
        if (send(fd, question->message, question->bytes, MSG_DONTWAIT) < 0 && errno != EAGAIN)
            break;
        int found = await_answer(fd, question, addresses, error);
        if (found > 0 || *error != 0)
            return found;
    }
    *error = EAI_AGAIN;
    return 0;
}

/* Asks for the addresses of one type. */
static int resolve(int fd, const char *name, uint16_t type, struct host_address *addresses,
                   int *error)
{
    struct question question = {.type = type};
    uint16_t number;
    *error = EAI_AGAIN;
    if (getentropy(&number, sizeof number) != 0)
        return 0; /* An answer to a number that is known could be forged. */
    question.bytes = ask(question.message, number, name, type);
    *error = EAI_NONAME;
    return question.bytes ? exchange(fd, &question, addresses, error) : 0;
}

__attribute__((weak)) int penumbra_resolve(const char *name, int family,
                                           struct host_address addresses[RESOLVED], int *error)
{
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(SERVER_PORT)};
    server.sin_addr.s_addr = htonl(SERVER);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), found = 0;
    *error = EAI_SYSTEM;
    if (fd < 0)
        return 0;
    /* Connected, so that only the server's answers are received. */
    if (connect(fd, (struct sockaddr *)&server, sizeof server) == 0) {
        *error = WITHOUT_ADDRESS;
        if (family != AF_INET6)
            found = resolve(fd, name, TYPE_A, addresses, error);
        /* A name that does not exist, or a server that is silent, is asked for once. */
        if (family != AF_INET && (found > 0 || *error == WITHOUT_ADDRESS)) {
            int second = 0;
            found += resolve(fd, name, TYPE_AAAA, addresses + found, &second);
            *error = second;
        }
        if (*error == WITHOUT_ADDRESS)
            *error = EAI_NONAME;
    } else if (errno == ENETUNREACH) {
        *error = EAI_AGAIN;
    }
    close(fd);
    return found;
}
