/* Memory that main and a light thread share, also when it grows. */
#include "light.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNTERS = 500, ROUNDS = 100, BLOCK = 300000, LINES = 20, LONGEST = 40 };
static const char PATH[] = "light-threads.share";

static unsigned counters[COUNTERS];
static atomic_ullong total;
static unsigned char *block;

static unsigned char byte_at(size_t place, unsigned seed)
{
    return (unsigned char)(place * 7 + (place >> 12) + seed);
}

static void fill(unsigned char *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_at(i, seed);
}

static int is_filled(const unsigned char *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != byte_at(i, seed))
            return 0;
    return 1;
}

static int is_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return 0;
    return 1;
}

/* Line `number` of the file, without its end. */
static void line_of(char line[LONGEST], int number)
{
    snprintf(line, LONGEST, "line %d of a light thread", number);
}

static void write_lines(FILE *file)
{
    char line[LONGEST];
    for (int i = 0; i < LINES; i++) {
        line_of(line, i);
        check(fprintf(file, "%s\n", line) > 0, "a line cannot be written");
    }
}

static void *use_all(void *with)
{
    check(is_filled(block, BLOCK, 1), "main's bytes do not reach the light thread");
    for (int round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < COUNTERS; i++) {
            counters[i] += i;
            atomic_fetch_add(&total, i);
        }
    free(block);
    block = malloc(2 * BLOCK);
    check(block != NULL, "no memory");
    fill(block, 2 * BLOCK, 2);
    printf("a light thread writes %d lines\n", LINES);
    FILE *file = fopen(PATH, "w");
    check(file != NULL, "the file cannot be made");
    write_lines(file);
    check(fclose(file) == 0, "the file cannot be closed");
    return (void *)((uintptr_t)with * 3);
}

static void check_lines(void)
{
    char line[LONGEST], wanted[LONGEST + 1];
    FILE *file = fopen(PATH, "r");
    check(file != NULL, "the light thread's file is not there");
    for (int i = 0; i < LINES; i++) {
        line_of(wanted, i);
        strcat(wanted, "\n");
        check(fgets(line, LONGEST, file) != NULL, "the file is short");
        check(strcmp(line, wanted) == 0, "the file has another line");
    }
    check(fgets(line, LONGEST, file) == NULL, "the file is long");
    fclose(file);
    check(unlink(PATH) == 0, "the file cannot be removed");
}

void share(void)
{
    unsigned long long sum = 0;
    block = malloc(BLOCK);
    check(block != NULL, "no memory");
    fill(block, BLOCK, 1);
    for (unsigned i = 0; i < COUNTERS; i++)
        counters[i] = 1000 + i;
    void *result = join(start_light(use_all, (void *)17));
    check(result == (void *)51, "the light thread's result is lost");
    for (unsigned i = 0; i < COUNTERS; i++) {
        check(counters[i] == 1000 + i + ROUNDS * i, "additions to a counter are lost");
        sum += ROUNDS * i;
    }
    check(total == sum, "atomic additions are lost");
    check(is_filled(block, 2 * BLOCK, 2), "the light thread's bytes do not reach main");
    free(block);
    check_lines();
}

enum { LARGE = 8 << 20, PAGE = 65536, PAGES = 16 };
static unsigned char *large, *zeroed;

/* Returns pages that are new in the program's memory; malloc might return used ones. */
static unsigned char *new_pages(void)
{
#ifdef __wasm__
    size_t at = __builtin_wasm_memory_grow(0, PAGES);
    check(at != (size_t)-1, "memory does not grow");
    return (unsigned char *)(at * PAGE);
#else
    return calloc(PAGES, PAGE);
#endif
}

static void *grow_light(void *with)
{
    large = malloc(LARGE);
    check(large != NULL, "the light thread gets no memory");
    fill(large, LARGE, 3);
    zeroed = calloc(1, LARGE);
    check(zeroed != NULL, "the light thread gets no zeroed memory");
    reach(1);
    await(2);
    check(is_filled(large, LARGE, 4), "main's bytes in new memory do not reach the light thread");
    check(is_zero(zeroed, LARGE), "main's zeroed memory is not zero in the light thread");
    check(is_filled(with, PAGES * PAGE, 5), "main's bytes do not reach the light thread");
    fill(large, LARGE, 6);
    unsigned char *pages = new_pages();
    check(is_zero(pages, PAGES * PAGE), "the light thread's new pages are not zero");
    return pages;
}

void grow(void)
{
    unsigned char *early = new_pages();
    pthread_t thread = start_light(grow_light, early);
    await(1);
    check(is_filled(large, LARGE, 3), "the light thread's bytes in new memory do not reach main");
    check(is_zero(zeroed, LARGE), "the light thread's zeroed memory is not zero in main");
    free(large);
    fill(zeroed, LARGE, 7);
    free(zeroed);
    large = malloc(LARGE);
    zeroed = calloc(1, LARGE);
    check(large && zeroed, "main gets no memory");
    fill(large, LARGE, 4);
    check(is_zero(early, PAGES * PAGE), "main's new pages are not zero");
    fill(early, PAGES * PAGE, 5);
    reach(2);
    unsigned char *late = join(thread);
    check(is_zero(late, PAGES * PAGE), "the light thread's new pages are not zero in main");
    check(is_filled(large, LARGE, 6), "the light thread's second bytes do not reach main");
    free(large);
    free(zeroed);
}
