// A database over a socket, for `./pen test servers.store`: `store FILE` serves SQLite at the
// listener that the system opens for it.
//
// A client sends lines of SQL. For each it gets the rows, a line each with a tab between values,
// then `ok` or `error: WHY`. A line is a transaction: what was answered with `ok` is on the disk.
// `.quit` ends the connection. One thread serves all clients, one line of each in turn; a client
// that does not read its answers holds up no other.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 64, LINE = 65536, ANSWER = 1 << 20 };

struct client {
    int socket; // -1: free
    bool ending;
    size_t received, answered, sent;
    char line[LINE];
    char *answer; // ANSWER bytes
};

static struct client clients[CLIENTS];

// Adds to the answer, or returns false if there is no room.
static bool add(struct client *client, const char *text) {
    size_t length = strlen(text);
    // Room for the last line is always left.
    if (length > ANSWER - 1024 - client->answered)
        return false;
    memcpy(client->answer + client->answered, text, length);
    client->answered += length;
    return true;
}

static int row(void *argument, int count, char **values, char **names) {
    struct client *client = argument;
    (void)names;
    for (int at = 0; at < count; at++)
        if ((at && !add(client, "\t")) || !add(client, values[at] ? values[at] : ""))
            return 1;
    return !add(client, "\n");
}

// One line is one transaction, and concerns this database only.
static int allow(void *nothing, int what, const char *a, const char *b, const char *c,
                 const char *d) {
    (void)nothing, (void)a, (void)b, (void)c, (void)d;
    bool refused = what == SQLITE_TRANSACTION || what == SQLITE_SAVEPOINT ||
                   what == SQLITE_ATTACH || what == SQLITE_DETACH;
    return refused ? SQLITE_DENY : SQLITE_OK;
}

static void execute(sqlite3 *base, struct client *client, const char *line) {
    size_t start = client->answered;
    char *why = NULL;
    if (strcmp(line, ".quit") == 0) {
        client->ending = true;
        return;
    }
    int done = sqlite3_exec(base, line, row, client, &why);
    if (done == SQLITE_OK) {
        memcpy(client->answer + client->answered, "ok\n", 3);
        client->answered += 3;
    } else {
        client->answered = start;
        int length = snprintf(client->answer + start, 1024, "error: %.900s\n",
                              done == SQLITE_ABORT ? "too many rows" : why ? why : "?");
        client->answered += (size_t)length;
    }
    sqlite3_free(why);
}

// Carries out the first whole line that has come, if the last answer has been sent.
static void proceed(sqlite3 *base, struct client *client) {
    char *end = memchr(client->line, '\n', client->received);
    if (client->answered || client->ending || !end)
        return;
    *end = 0;
    if (end > client->line && end[-1] == '\r')
        end[-1] = 0;
    execute(base, client, client->line);
    size_t used = (size_t)(end + 1 - client->line);
    memmove(client->line, end + 1, client->received - used);
    client->received -= used;
}

static void leave(struct client *client) {
    close(client->socket);
    free(client->answer);
    client->socket = -1;
}

static void receive(struct client *client) {
    ssize_t got = read(client->socket, client->line + client->received, LINE - client->received);
    if (got > 0)
        client->received += (size_t)got;
    // The end of its stream, an error, or a line without an end.
    else if (got == 0 || errno != EAGAIN)
        leave(client);
}

static void transmit(struct client *client) {
    ssize_t put = write(client->socket, client->answer + client->sent,
                        client->answered - client->sent);
    if (put < 0 && errno != EAGAIN) {
        leave(client);
        return;
    }
    client->sent += put > 0 ? (size_t)put : 0;
    if (client->sent == client->answered)
        client->sent = client->answered = 0;
}

static void greet(int listener) {
    int socket = accept(listener, NULL, NULL);
    struct client *client = clients;
    while (client < clients + CLIENTS && client->socket >= 0)
        client++;
    char *answer = malloc(ANSWER);
    if (socket < 0 || client == clients + CLIENTS || !answer ||
        fcntl(socket, F_SETFL, O_NONBLOCK) < 0) {
        free(answer);
        if (socket >= 0)
            close(socket);
        return;
    }
    client->socket = socket;
    client->answer = answer;
    client->ending = false;
    client->received = client->answered = client->sent = 0;
}

static void serve(sqlite3 *base, int listener) {
    struct pollfd all[CLIENTS + 1];
    struct client *of[CLIENTS + 1];
    for (;;) {
        nfds_t count = 1;
        all[0] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (struct client *client = clients; client < clients + CLIENTS; client++) {
            if (client->socket < 0)
                continue;
            proceed(base, client);
            if (client->ending && !client->answered) {
                leave(client);
                continue;
            }
            of[count] = client;
            all[count++] = (struct pollfd){.fd = client->socket,
                                           .events = client->answered ? POLLOUT : POLLIN};
        }
        if (poll(all, count, -1) < 0) {
            perror("poll");
            exit(1);
        }
        for (nfds_t at = 1; at < count; at++)
            if (all[at].revents)
                (all[at].events == POLLOUT ? transmit : receive)(of[at]);
        if (all[0].revents)
            greet(listener);
    }
}

int main(int count, char **arguments) {
    const char *first = getenv("LISTEN_FDS_FIRST");
    sqlite3 *base;
    if (count != 2 || !first) {
        fprintf(stderr, "usage: store FILE, with listen = [\"tcp:PORT\"] in its manifest\n");
        return 2;
    }
    if (sqlite3_open(arguments[1], &base) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", arguments[1], sqlite3_errmsg(base));
        return 1;
    }
    sqlite3_set_authorizer(base, allow, NULL);
    for (struct client *client = clients; client < clients + CLIENTS; client++)
        client->socket = -1;
    serve(base, atoi(first));
}
