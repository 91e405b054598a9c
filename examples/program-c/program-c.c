/* An example to copy: a WASI program in C. It copies its standard input to its standard output with
 * the number of each line, and ends with 1 where there was none.
 *
 * `./pen new program NAME --c` makes a copy that is built, installed and tested. */
#include <penumbra.h>

#include <stdio.h>

int main(void)
{
    struct penumbra_identity me = {0};
    /* Standard error, so that the output is the same on each kernel. */
    if (penumbra_self(&me) == 0)
        fprintf(stderr, "process %u on kernel %u\n", me.pid, me.kernel);
    char line[256];
    unsigned number = 0;
    while (fgets(line, sizeof line, stdin))
        printf("%u %s", ++number, line);
    return number == 0;
}
