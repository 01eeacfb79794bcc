/*
 * Copies a file, wherever it is, and compares the checksum of what came with that of what is there then.
 *
 *     copy FROM TO
 *     copy root://disk1//data/run1 /tmp/run1
 */
#include <backplane/rfio.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 };

/* Adler-32 of what came before followed by these bytes (RFC 1950). */
static uint32_t adler32(uint32_t sum, const unsigned char *bytes, size_t length)
{
    /* So many bytes can be added before 32 bits overflow. */
    enum { MODULUS = 65521, RUN = 5552 };
    uint32_t a = sum & 0xffff, b = sum >> 16;
    while (length > 0) {
        size_t run = length < RUN ? length : RUN;
        for (size_t at = 0; at < run; at++) {
            a += bytes[at];
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
        bytes += run;
        length -= run;
    }
    return b << 16 | a;
}

static int fail(const char *what)
{
    rfio_perror(what);
    return EXIT_FAILURE;
}

/* Copies to the end; returns bytes, or -1. */
static int64_t copy(int from, int to, uint32_t *sum)
{
    static unsigned char piece[PIECE_BYTES];
    int64_t total = 0;
    ssize_t got;
    while ((got = rfio_read(from, piece, sizeof piece)) > 0) {
        *sum = adler32(*sum, piece, (size_t)got);
        for (ssize_t done = 0; done < got;) {
            ssize_t put = rfio_write(to, piece + done, (size_t)(got - done));
            if (put < 0)
                return -1;
            done += put;
        }
        total += got;
    }
    return got < 0 ? -1 : total;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s FROM TO\n", argv[0]);
        return 2;
    }
    int from = rfio_open(argv[1], O_RDONLY, 0);
    if (from < 0)
        return fail("copy");
    int to = rfio_open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (to < 0)
        return fail("copy");
    uint32_t sum = 1;
    int64_t total = copy(from, to, &sum);
    if (total < 0)
        return fail("copy");
    /* The file is there when it is closed, and only then. */
    if (rfio_close(to) < 0)
        return fail("copy");
    rfio_close(from);

    char sent[9], stored[33];
    snprintf(sent, sizeof sent, "%08x", sum);
    if (rfio_checksum(argv[2], "adler32", stored, sizeof stored) < 0)
        return fail("copy");
    if (strcmp(sent, stored) != 0) {
        fprintf(stderr, "copy: %s has checksum %s, not %s\n", argv[2], stored, sent);
        return EXIT_FAILURE;
    }
    printf("%lld bytes, adler32 %s\n", (long long)total, stored);
    return EXIT_SUCCESS;
}
