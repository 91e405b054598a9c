// zlib over megabytes: `zlib OUT` makes text of its own, compresses it as each of some levels does,
// says how long that became, checks that it is the same again, and leaves the last one in OUT.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { LENGTH = 1 << 20 };

// Words of a small language, in an order that looks like chance.
static void make(uint8_t *text) {
    static const char *words[] = {"kernel", "memory", " of ", "two ", "weak", "\n", "cores", ", "};
    uint64_t state = 42;
    size_t at = 0;
    while (at < LENGTH) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        for (const char *word = words[state >> 61]; *word && at < LENGTH; word++)
            text[at++] = (uint8_t)*word;
        if ((state >> 40) % 32 == 0 && at < LENGTH)
            text[at++] = (uint8_t)(state >> 32);
    }
}

int main(int count, char **arguments) {
    static const int levels[] = {1, 6, 9};
    uLong room = compressBound(LENGTH);
    uint8_t *text = malloc(LENGTH), *packed = malloc(room), *again = malloc(LENGTH);
    if (count != 2 || !text || !packed || !again)
        return 2;
    make(text);
    printf("%s: %d bytes, crc %08lx, adler %08lx\n", zlibVersion(), LENGTH,
           crc32(0, text, LENGTH), adler32(1, text, LENGTH));
    uLongf length = 0;
    for (int at = 0; at < 3; at++) {
        uLongf back = LENGTH;
        length = room;
        if (compress2(packed, &length, text, LENGTH, levels[at]) != Z_OK)
            return 3;
        if (uncompress(again, &back, packed, length) != Z_OK || back != LENGTH)
            return 4;
        printf("level %d: %lu bytes, crc %08lx, again %08lx\n", levels[at], length,
               crc32(0, packed, length), crc32(0, again, LENGTH));
    }
    FILE *out = fopen(arguments[1], "wb");
    if (!out || fwrite(packed, 1, length, out) != length || fclose(out))
        return 5;
    return 0;
}
