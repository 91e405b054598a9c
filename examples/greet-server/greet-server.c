/* An example: greets the names that a client sends over the channel at descriptor 10.
 * docs/tutorial/two-programs.md explains it. */
#include <penumbra_channel.h>

#include "greet_v1.h"

#include <errno.h>
#include <stdio.h>

enum { END = 10 };

int main(void)
{
    struct penumbra_identity me = {0};
    struct greet_v1_received asked = {0};
    int error = penumbra_self(&me);
    if (error == 0)
        error = greet_v1_use(END, PENUMBRA_SERVER);
    if (error == 0)
        error = greet_v1_receive(END, &asked, 0);
    while (error == 0) {
        const struct greet_v1_name *name = &asked.message.name;
        struct greet_v1_greeting greeting = {.kernel = me.kernel};
        greeting.text_length = (uint16_t)snprintf((char *)greeting.text, sizeof(greeting.text),
                                                  "hello, %.*s", name->text_length, name->text);
        error = greet_v1_greeting_call(END, &greeting, &asked);
    }
    /* The client has closed the channel: EPIPE. Anything else is a failure. */
    return error == EPIPE ? 0 : 1;
}
