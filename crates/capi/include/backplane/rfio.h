/*
 * Remote file I/O, after the POSIX calls. The manual page is rfio(3).
 *
 * Generated from crates/capi/src/calls.rs: UPDATE_HEADER=1 cargo test -p capi
 *
 * SPDX-License-Identifier: Apache-2.0
 */

#ifndef BACKPLANE_RFIO_H
#define BACKPLANE_RFIO_H

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/*
 Read-ahead follows what is read. This is how a file is read unless rfio_advise says otherwise.
 */
#define RFIO_AUTOMATIC 0

/*
 The file is read from its start to its end: much is read ahead.
 */
#define RFIO_SEQUENTIAL 1

/*
 The file is read here and there: nothing is read ahead.
 */
#define RFIO_RANDOM 2

/*
 For rfio_open: what is written is seen at once by all that have the file open like this or in a mount, instead of
 becoming the file at rfio_close. For files of the facility, bp:, and of this host.
 */
#define RFIO_SHARED (1 << 30)

/*
 A directory that is being read.
 */
struct rfio_dir;

/*
 Bytes of a file: length of them from offset on.
 */
struct rfio_range {
  /*
   First byte, from the start of the file.
   */
  int64_t offset;
  /*
   Number of bytes.
   */
  int64_t length;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens a file as open does, and returns its descriptor, or -1 with errno set. All three arguments must be given; mode
 matters with O_CREAT only. A path that begins with root:// or roots:// is on a server, one that begins with bp: in the
 facility that BP_FACILITY names, any other on this host. The descriptor is for the calls of this file only.
 */
int rfio_open(const char *path, int flags, mode_t mode);

/*
 Closes a file. What was written becomes the file now: a failure means that it did not, and that the file is as it was
 before it was opened. A process that ends without this call leaves nothing.
 */
int rfio_close(int fd);

/*
 Reads at the position and moves it. Fewer bytes than asked for, on a server, means the end of the file.
 */
ssize_t rfio_read(int fd, void *buffer, size_t length);

/*
 Writes at the position and moves it. Small writes are gathered; when one of them fails, a later call tells, at the
 latest rfio_close.
 */
ssize_t rfio_write(int fd, const void *buffer, size_t length);

/*
 Reads at an offset; the position stays. Threads may do so at the same time.
 */
ssize_t rfio_pread(int fd, void *buffer, size_t length, int64_t offset);

/*
 Writes at an offset; the position stays.
 */
ssize_t rfio_pwrite(int fd, const void *buffer, size_t length, int64_t offset);

/*
 Moves the position as lseek does, and returns it; whence is SEEK_SET, SEEK_CUR or SEEK_END.
 */
int64_t rfio_lseek(int fd, int64_t offset, int whence);

/*
 Announces n ranges that will be read, in this order: the server sends them ahead, and reads inside them are answered
 from what has come. Announcements add up; n = 0 takes them back. A hint, which changes speed and never results.
 */
int rfio_preseek(int fd, const struct rfio_range *ranges, int n);

/*
 Reads n ranges in few requests, each into a buffer of its length, and returns the number of bytes. A range that
 reaches past the end of the file fails with EINVAL; buffers must not share memory.
 */
ssize_t rfio_readv_ranges(int fd, const struct rfio_range *ranges, void *const *buffers, int n);

/*
 Says how the file will be read: RFIO_AUTOMATIC, RFIO_SEQUENTIAL or RFIO_RANDOM. A hint, as above.
 */
int rfio_advise(int fd, int advice);

/*
 Sets the size of an open file.
 */
int rfio_ftruncate(int fd, int64_t length);

/*
 Takes or changes a lock on length bytes from start on, 0: to the end however long the file becomes. Kind is F_RDLCK,
 F_WRLCK, or F_UNLCK to give it back, as fcntl has them; it belongs to the descriptor. Against others, in mounts too, it
 is waited for if wait is not 0; else the call fails with EAGAIN. For files of this host, and for RFIO_SHARED.
 */
int rfio_lock(int fd, int kind, int64_t start, int64_t length, int wait);

/*
 Returns when what was written is on stable storage. On a server it still becomes the file at rfio_close only.
 */
int rfio_fsync(int fd);

/*
 Tells the attributes of an open file.
 */
int rfio_fstat(int fd, struct stat *buffer);

/*
 Tells the attributes of a file.
 */
int rfio_stat(const char *path, struct stat *buffer);

/*
 Tells the size of a file, or -1: for languages that do not know struct stat.
 */
int64_t rfio_stat_size(const char *path);

/*
 Makes a directory.
 */
int rfio_mkdir(const char *path, mode_t mode);

/*
 Removes an empty directory.
 */
int rfio_rmdir(const char *path);

/*
 Removes a file.
 */
int rfio_unlink(const char *path);

/*
 Renames, within this host or within one server; EXDEV otherwise.
 */
int rfio_rename(const char *from, const char *to);

/*
 Changes the permission bits of a file.
 */
int rfio_chmod(const char *path, mode_t mode);

/*
 Fails unless the caller may do all of mode: F_OK, or R_OK, W_OK and X_OK.
 */
int rfio_access(const char *path, int mode);

/*
 Sets the size of a file.
 */
int rfio_truncate(const char *path, int64_t length);

/*
 Puts the checksum of a file, in hex, into a buffer of length bytes. The kind is "adler32", "crc32c" or "md5"; NULL
 means adler32. It is taken where the file is. ERANGE: the buffer is too short; 33 bytes hold any of them.
 */
int rfio_checksum(const char *path, const char *kind, char *buffer, size_t length);

/*
 Opens a directory, to be read entry by entry; NULL with errno set if that fails.
 */
struct rfio_dir *rfio_opendir(const char *path);

/*
 Returns the next entry of a directory, without "." and "..", or NULL: behind the last with errno as it was, else with
 errno set. The entry is good until the next call with this directory.
 */
struct dirent *rfio_readdir(struct rfio_dir *directory);

/*
 Closes a directory.
 */
int rfio_closedir(struct rfio_dir *directory);

/*
 Tells why the last call of this thread that failed did so: operation, path, server, cause, and behind a line break a
 hint at the next step if there is one. The text is good until the next call of this thread that fails.
 */
const char *rfio_error(void);

/*
 Writes text, a colon and what rfio_error tells to the standard error stream; only that if text is NULL or empty.
 */
void rfio_perror(const char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BACKPLANE_RFIO_H */
