/* Operations on many small files from several threads: `metadata DIRECTORY FILES THREADS`.
 * One line of JSON for each kind of operation: {"op": "create", "operations": 4000, "seconds": 0.5}. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES = 3901, THREADS_MAX = 64 };

static const char *directory;
static int files_each;
static char content[FILE_BYTES];
static int (*operation)(const char *path);

static int create(const char *path)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}

static int look(const char *path)
{
	struct stat found;
	return stat(path, &found);
}

static int write_all(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t written = write(fd, content, sizeof content);
	return close(fd) || written != sizeof content ? -1 : 0;
}

static int read_all(const char *path)
{
	char buffer[FILE_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t got = read(fd, buffer, sizeof buffer);
	return close(fd) || got != sizeof buffer || memcmp(buffer, content, sizeof buffer) ? -1 : 0;
}

static const struct { const char *name; int (*does)(const char *path); int times; } operations[] = {
	{ "create", create, 1 }, { "write", write_all, 1 }, { "stat", look, 10 }, { "read", read_all, 1 },
	{ "unlink", unlink, 1 },
};

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

static void *work(void *number)
{
	char path[4096];
	for (int file = 0; file < files_each; file++) {
		snprintf(path, sizeof path, "%s/%ld/%d", directory, (long)number, file);
		if (operation(path)) {
			fprintf(stderr, "%s: %s\n", path, strerror(errno));
			exit(1);
		}
	}
	return NULL;
}

static void run(int threads)
{
	pthread_t started[THREADS_MAX];
	for (long number = 0; number < threads; number++)
		pthread_create(&started[number], NULL, work, (void *)number);
	for (int number = 0; number < threads; number++)
		pthread_join(started[number], NULL);
}

int main(int count, char **words)
{
	int threads = count == 4 ? atoi(words[3]) : 0;
	if (threads < 1 || threads > THREADS_MAX || atoi(words[2]) < threads) {
		fprintf(stderr, "usage: metadata DIRECTORY FILES THREADS (1 to %d)\n", THREADS_MAX);
		return 2;
	}
	directory = words[1];
	files_each = atoi(words[2]) / threads;
	memset(content, 'x', sizeof content);
	for (int number = 0; number < threads; number++) {
		char path[4096];
		snprintf(path, sizeof path, "%s/%d", directory, number);
		if (mkdir(path, 0755)) {
			fprintf(stderr, "%s: %s\n", path, strerror(errno));
			return 1;
		}
	}
	for (size_t which = 0; which < sizeof operations / sizeof *operations; which++) {
		operation = operations[which].does;
		double begin = now();
		for (int time = 0; time < operations[which].times; time++)
			run(threads);
		printf("{\"op\": \"%s\", \"operations\": %d, \"seconds\": %.6f}\n", operations[which].name,
		       files_each * threads * operations[which].times, now() - begin);
	}
	return 0;
}
