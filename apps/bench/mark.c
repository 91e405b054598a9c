/* A kernel like CoreMark's, of the same four kinds of work in about equal parts: a linked list that
 * is searched, reversed and sorted; products of small matrices; a machine of states that reads
 * numbers; a CRC over all results. It uses no library and no memory but its own. */
#include "mark.h"

enum { NODES = 64, SIDE = 12, TEXT = 512, STATES = 8 };

struct node {
    struct node *next;
    int16_t key;
    int16_t value;
};

static struct node nodes[NODES];
static int16_t left[SIDE * SIDE], right[SIDE * SIDE];
static int32_t product[SIDE * SIDE];
static char text[TEXT];

static uint32_t random_state;

static uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 16;
}

static uint16_t crc8(uint8_t byte, uint16_t crc)
{
    for (int bit = 0; bit < 8; bit++) {
        int carry = (byte ^ crc) & 1;
        byte >>= 1;
        crc >>= 1;
        if (carry)
            crc ^= 0xa001;
    }
    return crc;
}

static uint16_t crc32_of(uint32_t word, uint16_t crc)
{
    for (int at = 0; at < 4; at++, word >>= 8)
        crc = crc8((uint8_t)word, crc);
    return crc;
}

/* The list. */

static struct node *make_list(void)
{
    for (int at = 0; at < NODES; at++) {
        nodes[at].next = at + 1 < NODES ? &nodes[at + 1] : 0;
        nodes[at].key = (int16_t)(next_random() & 0x7fff);
        nodes[at].value = (int16_t)at;
    }
    return nodes;
}

static struct node *reverse(struct node *list)
{
    struct node *done = 0;
    while (list) {
        struct node *rest = list->next;
        list->next = done;
        done = list;
        list = rest;
    }
    return done;
}

static const struct node *find(const struct node *list, int16_t value)
{
    while (list && list->value != value)
        list = list->next;
    return list;
}

typedef int (*order)(const struct node *, const struct node *);

static int by_key(const struct node *a, const struct node *b)
{
    return a->key - b->key;
}

static int by_value(const struct node *a, const struct node *b)
{
    return a->value - b->value;
}

static struct node *merge(struct node *a, struct node *b, order compare)
{
    struct node head = {0}, *last = &head;
    while (a && b) {
        struct node **smaller = compare(a, b) <= 0 ? &a : &b;
        last->next = *smaller;
        last = *smaller;
        *smaller = last->next;
    }
    last->next = a ? a : b;
    return head.next;
}

static struct node *sort(struct node *list, int count, order compare)
{
    if (count < 2) {
        list->next = 0;
        return list;
    }
    struct node *middle = list;
    for (int at = 0; at < count / 2; at++)
        middle = middle->next;
    struct node *second = sort(middle, count - count / 2, compare);
    return merge(sort(list, count / 2, compare), second, compare);
}

static uint16_t lists(uint16_t crc)
{
    struct node *list = make_list();
    for (int16_t wanted = 0; wanted < NODES; wanted += 2) {
        const struct node *found = find(list, wanted);
        crc = crc32_of(found ? (uint32_t)found->key : 0, crc);
        list = reverse(list);
    }
    list = sort(list, NODES, by_key);
    for (const struct node *at = list; at; at = at->next)
        crc = crc8((uint8_t)at->value, crc);
    return crc32_of((uint32_t)sort(list, NODES, by_value)->key, crc);
}

/* Matrices. */

static void multiply(void)
{
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            int32_t sum = 0;
            for (int at = 0; at < SIDE; at++)
                sum += (int32_t)left[row * SIDE + at] * right[at * SIDE + column];
            product[row * SIDE + column] = sum;
        }
}

/* Parts of the products, so that bits matter. */
static void multiply_bits(void)
{
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            int32_t sum = 0;
            for (int at = 0; at < SIDE; at++) {
                int32_t one = (int32_t)left[row * SIDE + at] * right[at * SIDE + column];
                sum += ((one >> 2) & 0xf) * ((one >> 5) & 0x7f);
            }
            product[row * SIDE + column] += sum;
        }
}

static uint16_t matrices(uint16_t crc)
{
    for (int at = 0; at < SIDE * SIDE; at++) {
        left[at] = (int16_t)(next_random() & 0xfff);
        right[at] = (int16_t)(next_random() & 0xfff);
    }
    multiply();
    multiply_bits();
    int32_t before = 0, sum = 0;
    for (int at = 0; at < SIDE * SIDE; at++) {
        sum += product[at] > before ? 10 : product[at] & 7;
        before = product[at];
    }
    return crc32_of((uint32_t)sum, crc);
}

/* The machine of states. */

enum state { START, SIGN, INTEGER, POINT, FRACTION, EXPONENT, SCIENTIFIC, INVALID };

static void write_text(void)
{
    static const char letters[] = "0123456789+-.eE,,x7";
    for (int at = 0; at < TEXT - 1; at++)
        text[at] = letters[next_random() % (sizeof letters - 1)];
    text[TEXT - 1] = 0;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum state step(enum state state, char c)
{
    switch (state) {
    case START:
        return is_digit(c) ? INTEGER : c == '+' || c == '-' ? SIGN : c == '.' ? POINT : INVALID;
    case SIGN:
        return is_digit(c) ? INTEGER : c == '.' ? POINT : INVALID;
    case INTEGER:
        return is_digit(c) ? INTEGER : c == '.' ? POINT : c == 'e' || c == 'E' ? EXPONENT : INVALID;
    case POINT:
    case FRACTION:
        return is_digit(c) ? FRACTION : c == 'e' || c == 'E' ? EXPONENT : INVALID;
    case EXPONENT:
        return is_digit(c) || c == '+' || c == '-' ? SCIENTIFIC : INVALID;
    case SCIENTIFIC:
        return is_digit(c) ? SCIENTIFIC : INVALID;
    default:
        return INVALID;
    }
}

static uint16_t states(uint16_t crc)
{
    uint32_t ends[STATES] = {0}, passed[STATES] = {0};
    write_text();
    const char *at = text;
    while (*at) {
        enum state state = START;
        for (; *at && *at != ','; at++) {
            state = step(state, *at);
            passed[state]++;
        }
        ends[state]++;
        if (*at == ',')
            at++;
    }
    for (int state = 0; state < STATES; state++)
        crc = crc32_of(ends[state], crc32_of(passed[state], crc));
    return crc;
}

uint32_t mark(uint32_t rounds)
{
    uint16_t crc = 0;
    random_state = 0x3415;
    for (uint32_t round = 0; round < rounds; round++) {
        crc = lists(crc);
        crc = matrices(crc);
        crc = states(crc);
    }
    return (uint32_t)crc << 16 | (random_state & 0xffff);
}
