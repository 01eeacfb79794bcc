/*
 * Counts the lines of files, wherever they are: line-count FILE...
 *
 * A name that begins with bp: is in the facility that BP_FACILITY names, one with root:// or roots:// on a server, any
 * other on this host.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <backplane/rfio.h>

#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 1 << 20 };

/* Returns the number of lines, or -1 after it said why. */
static long long count(const char *path, char *block)
{
    long long lines = 0;
    ssize_t length;
    int fd = rfio_open(path, O_RDONLY, 0);
    if (fd < 0) {
        rfio_perror(path);
        return -1;
    }
    /* A hint: the server may send ahead. */
    rfio_advise(fd, RFIO_SEQUENTIAL);
    while ((length = rfio_read(fd, block, BLOCK)) > 0) {
        for (ssize_t at = 0; at < length; at++) {
            lines += block[at] == '\n';
        }
    }
    if (length < 0) {
        rfio_perror(path);
    }
    if (rfio_close(fd) < 0 || length < 0) {
        return -1;
    }
    return lines;
}

int main(int argc, char **argv)
{
    int is_failed = argc < 2;
    char *block = malloc(BLOCK);
    if (block == NULL) {
        perror("line-count");
        return EXIT_FAILURE;
    }
    for (int i = 1; i < argc; i++) {
        long long lines = count(argv[i], block);
        if (lines < 0) {
            is_failed = 1;
        } else {
            printf("%lld %s\n", lines, argv[i]);
        }
    }
    free(block);
    return is_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
