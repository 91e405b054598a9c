// A database by commands: `sqlite FILE` carries out the SQL of its input and writes each row as a
// line, its values with a `|` between them. What goes wrong is said on the output too, and ends it
// with 1.

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static int row(void *nothing, int count, char **values, char **names) {
    (void)nothing;
    (void)names;
    for (int at = 0; at < count; at++)
        printf("%s%s", at ? "|" : "", values[at] ? values[at] : "NULL");
    printf("\n");
    return 0;
}

// All of the input, with a NUL behind it.
static char *input(void) {
    size_t room = 1 << 20, length = 0, got;
    char *text = malloc(room);
    while (text && (got = fread(text + length, 1, room - length - 1, stdin)) > 0)
        length += got;
    if (text)
        text[length] = 0;
    return text;
}

int main(int count, char **arguments) {
    sqlite3 *base;
    char *text = input(), *why = NULL;
    if (count != 2 || !text || sqlite3_open(arguments[1], &base) != SQLITE_OK) {
        printf("no database\n");
        return 2;
    }
    int done = sqlite3_exec(base, text, row, NULL, &why);
    if (done != SQLITE_OK)
        printf("error %d: %s\n", done, why ? why : "?");
    sqlite3_close(base);
    return done != SQLITE_OK;
}
