/* The heap, from several threads while memory grows. */
#include "threads.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, BLOCKS = 64, ROUNDS = 2000, LARGEST = 40000 };

struct block {
    unsigned char *at;
    size_t size;
    unsigned char filled_with;
};

static void look(const struct block *block)
{
    for (size_t i = 0; i < block->size; i += 97)
        check(block->at[i] == block->filled_with, "a block has another's bytes");
    if (block->size)
        check(block->at[block->size - 1] == block->filled_with, "a block's last byte is another's");
}

static void fill(struct block *block, uint32_t random)
{
    block->filled_with = (unsigned char)random;
    memset(block->at, block->filled_with, block->size);
}

/* Gives the block another size, or frees it. */
static void change(struct block *block, uint32_t random)
{
    look(block);
    if (random % 3 == 0) {
        free(block->at);
        *block = (struct block){0};
        return;
    }
    size_t size = 1 + random / 8 % LARGEST, kept = size < block->size ? size : block->size;
    block->at = realloc(block->at, size);
    check(block->at != NULL, "no memory");
    block->size = kept;
    look(block);
    block->size = size;
    fill(block, random >> 9);
}

static void *work(void *with)
{
    struct block blocks[BLOCKS] = {{0}};
    uint32_t random = (uint32_t)(uintptr_t)with * 2654435761u + 1;
    for (int i = 0; i < ROUNDS; i++) {
        random = compute(random, 1);
        change(&blocks[random % BLOCKS], random / BLOCKS);
    }
    for (int i = 0; i < BLOCKS; i++) {
        look(&blocks[i]);
        free(blocks[i].at);
    }
    return NULL;
}

void check_malloc(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = start(work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
}
