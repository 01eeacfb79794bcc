/*
 * What the calls of rfio do, seen from C; each check ends the program with a line number if it does not hold.
 *
 *     checks posix DIRECTORY       every call, below a directory that must exist
 *     checks shared DIRECTORY      the same on files that are changed in place, and locks
 *     checks count FILE TIMES      adds 1 to the number in a file, each time under a lock
 *     checks refused PATH          opens for reading, which must fail; prints errno and text
 *     checks threads FILE          reads a file by eight threads at once
 *     checks fork FILE NEW         forks while files are open for reading and for writing
 *     checks gone NEW              writes; when a line comes writes on, which must fail; prints errno and text
 *     checks patient FILE          reads a little; when a line comes reads on; prints the sum of all bytes
 *     checks unclosed NEW          writes and ends without closing
 *     checks append FILE TEXT      adds a text at the end
 */
#define _GNU_SOURCE
#include <backplane/rfio.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define CHECK(is_so)                                                                                                   \
    do {                                                                                                               \
        if (!(is_so)) {                                                                                                \
            fprintf(stderr, "checks.c:%d: %s\n  errno %d, %s\n", __LINE__, #is_so, errno, rfio_error());              \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)
/* A call that must fail with this number. */
#define REFUSED(call, number)                                                                                          \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        CHECK((call) == -1 && errno == (number));                                                                      \
    } while (0)

enum { SIZE = 9 << 20, SMALL = 1000 };

/* Beside the flags of each open of `posix`. */
static int extra = 0;

static char *below(const char *directory, const char *name)
{
    char *path;
    CHECK(asprintf(&path, "%s/%s", directory, name) > 0);
    return path;
}

static unsigned char at(int64_t offset)
{
    return (unsigned char)(offset * 7 + offset / 1021);
}

static void await_line(void)
{
    puts("ready");
    fflush(stdout);
    CHECK(getchar() != EOF);
}

static void print_failure(void)
{
    printf("%d\n%s\n", errno, rfio_error());
}

/* Small writes one after the other, then one in the middle and one that is large. */
static void write_file(const char *path)
{
    unsigned char *all = malloc(SIZE);
    for (int64_t offset = 0; offset < SIZE; offset++)
        all[offset] = at(offset);
    int fd = rfio_open(path, O_RDWR | O_CREAT | O_EXCL | extra, 0640);
    CHECK(fd >= 1 << 20);
    int64_t offset = 0;
    for (; offset + SMALL < SIZE / 2; offset += SMALL)
        CHECK(rfio_write(fd, all + offset, SMALL) == SMALL);
    CHECK(rfio_lseek(fd, 0, SEEK_CUR) == offset);
    CHECK(rfio_pwrite(fd, "xyz", 3, 5) == 3);
    unsigned char back[8];
    CHECK(rfio_pread(fd, back, 8, 4) == 8 && back[0] == at(4) && memcmp(back + 1, "xyz", 3) == 0 && back[4] == at(8));
    CHECK(rfio_pwrite(fd, all + 5, 3, 5) == 3);
    CHECK(rfio_write(fd, all + offset, (size_t)(SIZE - offset)) == SIZE - offset);
    CHECK(rfio_lseek(fd, 0, SEEK_END) == SIZE);
    CHECK(rfio_write(fd, "more", 4) == 4);
    CHECK(rfio_ftruncate(fd, SIZE) == 0);
    CHECK(rfio_fsync(fd) == 0);
    struct stat attributes;
    CHECK(rfio_fstat(fd, &attributes) == 0 && attributes.st_size == SIZE && S_ISREG(attributes.st_mode));
    CHECK(rfio_close(fd) == 0);
    REFUSED(rfio_close(fd), EBADF);
    free(all);
}

static void read_ranges(int fd)
{
    struct rfio_range ranges[] = {{100, 10}, {SIZE - 5, 5}, {0, 0}, {3 << 20, 70000}};
    static unsigned char a[10], b[5], d[70000];
    void *buffers[] = {a, b, NULL, d};
    CHECK(rfio_preseek(fd, ranges, 4) == 0);
    CHECK(rfio_pread(fd, d, 10, 100) == 10 && d[3] == at(103));
    CHECK(rfio_readv_ranges(fd, ranges, buffers, 4) == 10 + 5 + 70000);
    CHECK(a[9] == at(109) && b[4] == at(SIZE - 1) && d[69999] == at((3 << 20) + 69999));
    CHECK(rfio_readv_ranges(fd, NULL, NULL, 0) == 0);
    struct rfio_range late = {SIZE - 1, 2}, negative = {-1, 2};
    void *same[] = {d, d};
    REFUSED(rfio_readv_ranges(fd, &late, buffers, 1), EINVAL);
    REFUSED(rfio_readv_ranges(fd, &negative, buffers, 1), EINVAL);
    REFUSED(rfio_readv_ranges(fd, ranges, same, 2), EINVAL);
    REFUSED(rfio_readv_ranges(fd, ranges, NULL, 1), EFAULT);
    REFUSED(rfio_preseek(fd, NULL, 1), EFAULT);
    REFUSED(rfio_preseek(fd, ranges, -1), EINVAL);
    CHECK(rfio_preseek(fd, &late, 1) == 0);
}

static void read_file(const char *path)
{
    int fd = rfio_open(path, O_RDONLY | O_CLOEXEC | extra, 0);
    CHECK(fd >= 0);
    CHECK(rfio_advise(fd, RFIO_SEQUENTIAL) == 0 && rfio_advise(fd, RFIO_AUTOMATIC) == 0);
    REFUSED(rfio_advise(fd, 9), EINVAL);
    unsigned char piece[12345];
    int64_t offset = 0;
    ssize_t got;
    errno = EDOM;
    while ((got = rfio_read(fd, piece, sizeof piece)) > 0) {
        for (ssize_t index = 0; index < got; index++)
            CHECK(piece[index] == at(offset + index));
        offset += got;
    }
    CHECK(got == 0 && offset == SIZE && errno == EDOM);
    CHECK(rfio_lseek(fd, -10, SEEK_END) == SIZE - 10 && rfio_lseek(fd, -10, SEEK_CUR) == SIZE - 20);
    CHECK(rfio_read(fd, piece, sizeof piece) == 20 && piece[0] == at(SIZE - 20));
    CHECK(rfio_pread(fd, piece, 10, SIZE + 10) == 0);
    CHECK(rfio_lseek(fd, SIZE + 10, SEEK_SET) == SIZE + 10 && rfio_read(fd, piece, 1) == 0);
    REFUSED(rfio_lseek(fd, -1, SEEK_SET), EINVAL);
    REFUSED(rfio_lseek(fd, 0, 77), EINVAL);
    REFUSED(rfio_pread(fd, piece, 1, -1), EINVAL);
    REFUSED(rfio_read(fd, NULL, 1), EFAULT);
    CHECK(rfio_read(fd, NULL, 0) == 0);
    REFUSED(rfio_write(fd, piece, 1), EBADF);
    REFUSED(rfio_ftruncate(fd, 0), EINVAL);
    REFUSED(rfio_fstat(fd, NULL), EFAULT);
    read_ranges(fd);
    CHECK(rfio_close(fd) == 0);
    REFUSED(rfio_read(fd, piece, 1), EBADF);
    REFUSED(rfio_read(0, piece, 1), EBADF);
    REFUSED(rfio_lseek(-1, 0, SEEK_SET), EBADF);
}

static void check_sums(const char *path)
{
    char one[40], other[40];
    CHECK(rfio_checksum(path, NULL, one, sizeof one) == 0 && strlen(one) == 8);
    CHECK(rfio_checksum(path, "adler32", other, sizeof other) == 0 && strcmp(one, other) == 0);
    CHECK(rfio_checksum(path, "crc32c", other, 9) == 0 && strcmp(one, other) != 0);
    CHECK(rfio_checksum(path, "md5", other, sizeof other) == 0 && strlen(other) == 32);
    REFUSED(rfio_checksum(path, "adler32", other, 8), ERANGE);
    REFUSED(rfio_checksum(path, "adler32", NULL, 9), EFAULT);
    REFUSED(rfio_checksum(path, "rot13", other, sizeof other), ENOTSUP);
}

static void check_names(const char *directory, const char *path)
{
    struct stat attributes;
    CHECK(rfio_stat(path, &attributes) == 0 && attributes.st_size == SIZE && (attributes.st_mode & 0777) == 0640);
    CHECK(rfio_stat_size(path) == SIZE);
    CHECK(rfio_chmod(path, 0600) == 0 && rfio_stat(path, &attributes) == 0 && (attributes.st_mode & 0777) == 0600);
    CHECK(rfio_stat(directory, &attributes) == 0 && S_ISDIR(attributes.st_mode));
    CHECK(rfio_access(path, F_OK) == 0 && rfio_access(path, R_OK | W_OK) == 0);
    char *none = below(directory, "none"), *moved = below(directory, "moved"), *inside = below(path, "x");
    REFUSED(rfio_stat(none, &attributes), ENOENT);
    CHECK(strstr(rfio_error(), "none") != NULL);
    REFUSED(rfio_stat_size(none), ENOENT);
    REFUSED(rfio_open(none, O_RDONLY, 0), ENOENT);
    REFUSED(rfio_open(none, O_WRONLY, 0), ENOENT);
    REFUSED(rfio_open(none, O_WRONLY | O_TRUNC, 0), ENOENT);
    /* Servers make the directories that a new file needs, this host does not. */
    REFUSED(rfio_open(below(none, "deep"), O_WRONLY, 0600), ENOENT);
    REFUSED(rfio_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    REFUSED(rfio_open(directory, O_WRONLY, 0), EISDIR);
    REFUSED(rfio_open(inside, O_RDONLY, 0), ENOTDIR);
    REFUSED(rfio_access(none, F_OK), ENOENT);
    REFUSED(rfio_unlink(none), ENOENT);
    REFUSED(rfio_mkdir(directory, 0700), EEXIST);
    REFUSED(rfio_rmdir(directory), ENOTEMPTY);
    CHECK(rfio_rename(path, moved) == 0 && rfio_access(path, F_OK) == -1);
    CHECK(rfio_truncate(moved, 100) == 0 && rfio_stat(moved, &attributes) == 0 && attributes.st_size == 100);
    REFUSED(rfio_truncate(moved, -1), EINVAL);
    REFUSED(rfio_rename(moved, strstr(directory, ":") ? "/tmp/x" : "root://localhost//x"), EXDEV);
    CHECK(rfio_rename(moved, path) == 0);
}

static void check_directory(const char *directory)
{
    CHECK(rfio_mkdir(below(directory, "below"), 0755) == 0);
    struct rfio_dir *open = rfio_opendir(directory);
    CHECK(open != NULL);
    int files = 0, directories = 0;
    struct dirent *entry;
    errno = 0;
    while ((entry = rfio_readdir(open)) != NULL) {
        files += strcmp(entry->d_name, "file") == 0 && entry->d_type == DT_REG;
        directories += strcmp(entry->d_name, "below") == 0 && entry->d_type == DT_DIR;
    }
    CHECK(errno == 0 && files == 1 && directories == 1);
    CHECK(rfio_closedir(open) == 0);
    REFUSED(rfio_closedir(open), EBADF);
    CHECK(rfio_readdir(open) == NULL && errno == EBADF);
    CHECK(rfio_opendir(below(directory, "none")) == NULL && errno == ENOENT);
    CHECK(rfio_rmdir(below(directory, "below")) == 0);
}

/* Locks belong to descriptors, so that two of one program exclude each other. */
static void check_locks(const char *path, int flags)
{
    int one = rfio_open(path, O_RDWR | flags, 0), other = rfio_open(path, O_RDWR | flags, 0);
    CHECK(one >= 0 && other >= 0);
    CHECK(rfio_lock(one, F_WRLCK, 0, 10, 0) == 0);
    REFUSED(rfio_lock(other, F_WRLCK, 9, 5, 0), EAGAIN);
    REFUSED(rfio_lock(other, F_RDLCK, 0, 0, 0), EAGAIN);
    CHECK(rfio_lock(other, F_WRLCK, 10, 0, 0) == 0);
    REFUSED(rfio_lock(one, F_WRLCK, SIZE * 2, 1, 0), EAGAIN);
    CHECK(rfio_lock(one, F_RDLCK, 0, 10, 1) == 0 && rfio_lock(other, F_RDLCK, 0, 10, 1) == 0);
    CHECK(rfio_lock(one, F_UNLCK, 0, 0, 0) == 0 && rfio_lock(other, F_WRLCK, 0, 0, 1) == 0);
    CHECK(rfio_close(other) == 0 && rfio_lock(one, F_WRLCK, 0, 0, 0) == 0);
    REFUSED(rfio_lock(one, 9, 0, 0, 0), EINVAL);
    REFUSED(rfio_lock(one, F_WRLCK, -1, 0, 0), EINVAL);
    CHECK(rfio_close(one) == 0);
}

/* What is written through one descriptor is seen through the other one at once. */
static void check_sharing(const char *path)
{
    int one = rfio_open(path, O_RDWR | RFIO_SHARED, 0), other = rfio_open(path, O_RDWR | O_APPEND | RFIO_SHARED, 0);
    char back[4];
    CHECK(one >= 0 && other >= 0);
    CHECK(rfio_pwrite(one, "abcd", 4, 100) == 4 && rfio_pread(other, back, 4, 100) == 4 && memcmp(back, "abcd", 4) == 0);
    CHECK(rfio_write(other, "end", 3) == 3 && rfio_lseek(one, 0, SEEK_END) == SIZE + 3);
    CHECK(rfio_lseek(other, 0, SEEK_CUR) == SIZE + 3);
    CHECK(rfio_ftruncate(one, SIZE) == 0 && rfio_lseek(other, 0, SEEK_END) == SIZE);
    CHECK(rfio_pwrite(one, (unsigned char[]){at(100), at(101), at(102), at(103)}, 4, 100) == 4);
    CHECK(rfio_close(one) == 0 && rfio_close(other) == 0);
}

static void count_up(const char *path, int times)
{
    int fd = rfio_open(path, O_RDWR | RFIO_SHARED, 0);
    CHECK(fd >= 0);
    for (int time = 0; time < times; time++) {
        char text[20] = "";
        CHECK(rfio_lock(fd, F_WRLCK, 0, 0, 1) == 0);
        CHECK(rfio_pread(fd, text, sizeof text - 1, 0) > 0);
        int length = snprintf(text, sizeof text, "%d", atoi(text) + 1);
        CHECK(rfio_pwrite(fd, text, (size_t)length, 0) == length);
        CHECK(rfio_lock(fd, F_UNLCK, 0, 0, 0) == 0);
    }
    CHECK(rfio_close(fd) == 0);
}

static void posix(const char *above)
{
    char *directory = below(above, "rfio"), *path = below(directory, "file");
    CHECK(rfio_mkdir(directory, 0755) == 0);
    write_file(path);
    if (extra != 0)
        check_sharing(path);
    if (extra != 0 || strchr(path, ':') == NULL)
        check_locks(path, extra);
    else {
        int fd = rfio_open(path, O_RDONLY, 0);
        REFUSED(rfio_lock(fd, F_RDLCK, 0, 0, 0), EOPNOTSUPP);
        CHECK(rfio_close(fd) == 0);
    }
    read_file(path);
    check_sums(path);
    check_directory(directory);
    check_names(directory, path);
    CHECK(rfio_unlink(path) == 0 && rfio_rmdir(directory) == 0);
    REFUSED(rfio_open(NULL, O_RDONLY, 0), EFAULT);
    CHECK(strcmp(rfio_error(), "the path is a null pointer") == 0);
}

struct shared {
    int fd;
    const unsigned char *content;
    int64_t size;
};

static void *read_by_thread(void *argument)
{
    const struct shared *shared = argument;
    static _Thread_local unsigned char piece[50021];
    for (int64_t offset = 0; offset < shared->size; offset += (int64_t)sizeof piece) {
        ssize_t got = rfio_pread(shared->fd, piece, sizeof piece, offset);
        CHECK(got > 0 && memcmp(piece, shared->content + offset, (size_t)got) == 0);
    }
    REFUSED(rfio_read(-1, piece, 1), EBADF);
    return NULL;
}

static struct shared read_whole(const char *path)
{
    int fd = rfio_open(path, O_RDONLY, 0);
    CHECK(fd >= 0);
    int64_t size = rfio_lseek(fd, 0, SEEK_END);
    unsigned char *content = malloc((size_t)size + 1);
    CHECK(rfio_pread(fd, content, (size_t)size, 0) == size);
    return (struct shared){fd, content, size};
}

static void threads(const char *path)
{
    struct shared shared = read_whole(path);
    pthread_t all[8];
    for (int number = 0; number < 8; number++)
        CHECK(pthread_create(&all[number], NULL, read_by_thread, &shared) == 0);
    for (int number = 0; number < 8; number++)
        CHECK(pthread_join(all[number], NULL) == 0);
    CHECK(rfio_close(shared.fd) == 0);
}

static void in_child(const struct shared *shared, int fd, int written)
{
    unsigned char piece[5000];
    /* A position of its own, beginning at the parent's. */
    CHECK(rfio_read(fd, piece, 5000) == 5000 && memcmp(piece, shared->content + 1000, 5000) == 0);
    CHECK(rfio_pread(shared->fd, piece, 5000, 7) == 5000 && memcmp(piece, shared->content + 7, 5000) == 0);
    REFUSED(rfio_write(written, "child", 5), EBADF);
    REFUSED(rfio_fsync(written), EBADF);
    CHECK(rfio_close(written) == 0 && rfio_close(fd) == 0);
    _exit(EXIT_SUCCESS);
}

static void forks(const char *path, const char *new)
{
    struct shared shared = read_whole(path);
    int fd = rfio_open(path, O_RDONLY, 0), written = rfio_open(new, O_WRONLY | O_CREAT | O_EXCL, 0600);
    unsigned char piece[1000];
    CHECK(fd >= 0 && written >= 0 && rfio_read(fd, piece, 1000) == 1000);
    CHECK(rfio_write(written, "parent", 6) == 6);
    /* Threads that are in the middle of calls when the process forks. */
    pthread_t all[4];
    for (int number = 0; number < 4; number++)
        CHECK(pthread_create(&all[number], NULL, read_by_thread, &shared) == 0);
    for (int number = 0; number < 5; number++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            in_child(&shared, fd, written);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int number = 0; number < 4; number++)
        CHECK(pthread_join(all[number], NULL) == 0);
    CHECK(rfio_read(fd, piece, 1000) == 1000 && memcmp(piece, shared.content + 1000, 1000) == 0);
    CHECK(rfio_write(written, " only", 5) == 5 && rfio_close(written) == 0);
}

static int begin(const char *path)
{
    int fd = rfio_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    static const char block[1 << 20];
    CHECK(fd >= 0 && rfio_write(fd, block, sizeof block) == sizeof block && rfio_fsync(fd) == 0);
    return fd;
}

static void gone(const char *path)
{
    int fd = begin(path);
    await_line();
    ssize_t put = rfio_write(fd, "x", 1);
    int synced = put == 1 ? rfio_fsync(fd) : -1;
    CHECK(synced == -1);
    print_failure();
    CHECK(rfio_close(fd) == -1);
}

static void patient(const char *path)
{
    int fd = rfio_open(path, O_RDONLY, 0);
    unsigned char piece[10000];
    unsigned long long sum = 0;
    ssize_t got = rfio_read(fd, piece, 10);
    CHECK(got == 10);
    await_line();
    do {
        for (ssize_t index = 0; index < got; index++)
            sum += piece[index];
    } while ((got = rfio_read(fd, piece, sizeof piece)) > 0);
    CHECK(got == 0 && rfio_close(fd) == 0);
    printf("%llu\n", sum);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "posix") == 0)
        posix(argv[2]);
    else if (strcmp(what, "shared") == 0) {
        extra = RFIO_SHARED;
        posix(argv[2]);
        REFUSED(rfio_open("root://localhost//x", O_RDWR | RFIO_SHARED, 0), EOPNOTSUPP);
    } else if (strcmp(what, "count") == 0 && argc == 4)
        count_up(argv[2], atoi(argv[3]));
    else if (strcmp(what, "threads") == 0)
        threads(argv[2]);
    else if (strcmp(what, "fork") == 0 && argc == 4)
        forks(argv[2], argv[3]);
    else if (strcmp(what, "gone") == 0)
        gone(argv[2]);
    else if (strcmp(what, "patient") == 0)
        patient(argv[2]);
    else if (strcmp(what, "unclosed") == 0)
        begin(argv[2]);
    else if (strcmp(what, "append") == 0 && argc == 4) {
        int fd = rfio_open(argv[2], O_WRONLY | O_APPEND | O_CREAT, 0600);
        ssize_t length = (ssize_t)strlen(argv[3]);
        CHECK(fd >= 0 && rfio_write(fd, argv[3], (size_t)length) == length && rfio_close(fd) == 0);
    } else if (strcmp(what, "refused") == 0) {
        CHECK(rfio_open(argv[2], O_RDONLY, 0) == -1);
        print_failure();
        rfio_perror("checks");
    } else
        return 2;
    return EXIT_SUCCESS;
}
