/* Light tasks, as programs: what the lab measures (benches/light.toml, `./pen lab day`). */
#include "role.h"

#include <stdio.h>
#include <string.h>

int main(int count, char **words)
{
    if (count >= 5 && strcmp(words[1], "episode") == 0) {
        episode(count - 2, words + 2);
        return 0;
    }
    if (count == 5 && day(words + 1))
        return 0;
    if (count == 3 && serve(words + 1))
        return 0;
    fprintf(stderr, "usage: light episode SECONDS FOLDER BYTES [sync]\n"
                    "       light episode SECONDS datagrams|requests NUMBER\n"
                    "       light sensor|mail SECONDS PERIOD FOLDER\n"
                    "       light work SECONDS START LENGTH\n"
                    "       light web|stamp PORT\n"
                    "       light requests COUNT\n");
    return 2;
}
