/*
 * Sums the bytes of chosen records of a file: every STEP-th record of BYTES bytes.
 *
 *     events FILE BYTES STEP
 *
 * All records are announced before the first is read, so the server sends them ahead and no read waits for the network.
 * A second way, rfio_readv_ranges, fetches them all in one call; both must find the same.
 */
#include <backplane/rfio.h>

#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what)
{
    rfio_perror(what);
    return EXIT_FAILURE;
}

static uint64_t sum_of(const unsigned char *bytes, int64_t length)
{
    uint64_t sum = 0;
    for (int64_t at = 0; at < length; at++)
        sum += bytes[at];
    return sum;
}

/* Reads record after record; each read is answered from what was announced. */
static int sum_announced(int fd, const struct rfio_range *records, int count, unsigned char *room, uint64_t *sum)
{
    if (rfio_preseek(fd, records, count) < 0)
        return -1;
    for (int number = 0; number < count; number++) {
        size_t length = (size_t)records[number].length;
        if (rfio_lseek(fd, records[number].offset, SEEK_SET) < 0)
            return -1;
        if (rfio_read(fd, room, length) != (ssize_t)length)
            return -1;
        *sum += sum_of(room, records[number].length);
    }
    return 0;
}

/* Reads all records at once. */
static int sum_vector(int fd, const struct rfio_range *records, int count, unsigned char *room, uint64_t *sum)
{
    void **buffers = calloc((size_t)count + 1, sizeof *buffers);
    if (buffers == NULL)
        return -1;
    int64_t total = 0;
    for (int number = 0; number < count; number++) {
        buffers[number] = room + total;
        total += records[number].length;
    }
    ssize_t got = rfio_readv_ranges(fd, records, buffers, count);
    free(buffers);
    *sum += sum_of(room, total);
    return got == (ssize_t)total ? 0 : -1;
}

int main(int argc, char **argv)
{
    int64_t bytes = argc == 4 ? atoll(argv[2]) : 0, step = argc == 4 ? atoll(argv[3]) : 0;
    if (bytes <= 0 || step <= 0) {
        fprintf(stderr, "usage: %s FILE BYTES STEP\n", argv[0]);
        return 2;
    }
    int fd = rfio_open(argv[1], O_RDONLY, 0);
    struct stat attributes;
    if (fd < 0 || rfio_fstat(fd, &attributes) < 0)
        return fail("events");
    int64_t in_file = attributes.st_size / bytes;
    int count = (int)((in_file + step - 1) / step);
    struct rfio_range *records = calloc((size_t)count + 1, sizeof *records);
    unsigned char *room = malloc((size_t)(count * bytes) + 1);
    if (records == NULL || room == NULL)
        return EXIT_FAILURE;
    for (int number = 0; number < count; number++) {
        records[number].offset = number * step * bytes;
        records[number].length = bytes;
    }
    uint64_t announced = 0, vector = 0;
    if (sum_announced(fd, records, count, room, &announced) < 0 || sum_vector(fd, records, count, room, &vector) < 0)
        return fail("events");
    rfio_close(fd);
    free(records);
    free(room);
    printf("%d records, sums %llu and %llu\n", count, (unsigned long long)announced, (unsigned long long)vector);
    return announced == vector ? EXIT_SUCCESS : EXIT_FAILURE;
}
