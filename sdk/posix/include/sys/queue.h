/* BSD's singly linked tail queues (queue(3)): the kind of list that most sources use of this
 * header. The others are not here yet. */
#ifndef PENUMBRA_SYS_QUEUE_H
#define PENUMBRA_SYS_QUEUE_H

#define STAILQ_HEAD(name, type)                                                                    \
    struct name {                                                                                  \
        struct type *stqh_first; /* or null */                                                     \
        struct type **stqh_last; /* the field that the next element is stored in */                \
    }

#define STAILQ_ENTRY(type)                                                                         \
    struct {                                                                                       \
        struct type *stqe_next; /* or null */                                                      \
    }

#define STAILQ_HEAD_INITIALIZER(head) {NULL, &(head).stqh_first}
#define STAILQ_FIRST(head) ((head)->stqh_first)
#define STAILQ_NEXT(element, field) ((element)->field.stqe_next)
#define STAILQ_EMPTY(head) (!STAILQ_FIRST(head))
#define STAILQ_FOREACH(each, head, field)                                                          \
    for ((each) = STAILQ_FIRST(head); (each); (each) = STAILQ_NEXT(each, field))

#define STAILQ_INIT(head)                                                                          \
    do {                                                                                           \
        (head)->stqh_first = NULL;                                                                 \
        (head)->stqh_last = &(head)->stqh_first;                                                   \
    } while (0)

#define STAILQ_INSERT_HEAD(head, element, field)                                                   \
    do {                                                                                           \
        if (!(STAILQ_NEXT(element, field) = STAILQ_FIRST(head)))                                   \
            (head)->stqh_last = &STAILQ_NEXT(element, field);                                      \
        STAILQ_FIRST(head) = (element);                                                            \
    } while (0)

#define STAILQ_INSERT_TAIL(head, element, field)                                                   \
    do {                                                                                           \
        STAILQ_NEXT(element, field) = NULL;                                                        \
        *(head)->stqh_last = (element);                                                            \
        (head)->stqh_last = &STAILQ_NEXT(element, field);                                          \
    } while (0)

#define STAILQ_REMOVE_HEAD(head, field)                                                            \
    do {                                                                                           \
        if (!(STAILQ_FIRST(head) = STAILQ_NEXT(STAILQ_FIRST(head), field)))                        \
            (head)->stqh_last = &STAILQ_FIRST(head);                                               \
    } while (0)

#endif
