! Remote file I/O for FORTRAN: the calls of rfio(3) with strings and arrays as the language has them.
!
! Functions answer -1, or .false., if they fail; rfio_error() tells why. Blanks at the end of paths do not count. Offsets
! and sizes are in bytes, from 0; what is read and written is counted in elements of the array.

module rfio
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  implicit none
  private

  public :: rfio_open, rfio_close, rfio_read, rfio_write, rfio_pread, rfio_pwrite, rfio_readv
  public :: rfio_lseek, rfio_preseek, rfio_advise, rfio_ftruncate, rfio_fsync, rfio_lock, rfio_unlock
  public :: rfio_stat_size, rfio_exists, rfio_mkdir, rfio_rmdir, rfio_unlink, rfio_rename
  public :: rfio_checksum, rfio_error

  !> How a file is read, for rfio_advise.
  integer, parameter, public :: rfio_automatic = 0, rfio_sequential = 1, rfio_random = 2
  !> From where rfio_lseek counts.
  integer, parameter, public :: rfio_from_start = 0, rfio_from_here = 1, rfio_from_end = 2

  ! Flags of fcntl.h on Linux.
  integer(c_int), parameter :: o_rdonly = 0, o_wronly = 1, o_rdwr = 2
  integer(c_int), parameter :: o_creat = int(o'100'), o_excl = int(o'200')
  integer(c_int), parameter :: o_trunc = int(o'1000'), o_append = int(o'2000')
  !> RFIO_SHARED, and the types of locks of fcntl.h.
  integer(c_int), parameter :: shared_flag = int(z'40000000')
  integer(c_int), parameter :: f_rdlck = 0, f_wrlck = 1, f_unlck = 2
  !> Permission bits of new files and directories, less the umask.
  integer(c_int), parameter :: mode_file = int(o'666'), mode_directory = int(o'777')
  !> Room for any checksum and its NUL.
  integer, parameter :: checksum_length = 129

  type, bind(c) :: range
    integer(c_int64_t) :: offset
    integer(c_int64_t) :: length
  end type range

  !> Reads elements at the position into an array, and moves it. Fewer than fit mean the end of the file.
  interface rfio_read
    module procedure read_int8, read_int32, read_int64, read_real32, read_real64
  end interface rfio_read

  !> Writes the elements of an array at the position, and moves it.
  interface rfio_write
    module procedure write_int8, write_int32, write_int64, write_real32, write_real64
  end interface rfio_write

  !> Reads elements at an offset; the position stays.
  interface rfio_pread
    module procedure pread_int8, pread_int32, pread_int64, pread_real32, pread_real64
  end interface rfio_pread

  !> Writes elements at an offset; the position stays.
  interface rfio_pwrite
    module procedure pwrite_int8, pwrite_int32, pwrite_int64, pwrite_real32, pwrite_real64
  end interface rfio_pwrite

  interface
    integer(c_int) function c_open(path, flags, mode) bind(c, name='rfio_open')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: flags, mode
    end function c_open

    integer(c_int) function c_close(fd) bind(c, name='rfio_close')
      import :: c_int
      integer(c_int), value :: fd
    end function c_close

    integer(c_size_t) function c_read(fd, buffer, length) bind(c, name='rfio_read')
      import :: c_int, c_ptr, c_size_t
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: length
    end function c_read

    integer(c_size_t) function c_write(fd, buffer, length) bind(c, name='rfio_write')
      import :: c_int, c_ptr, c_size_t
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: length
    end function c_write

    integer(c_size_t) function c_pread(fd, buffer, length, offset) bind(c, name='rfio_pread')
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: length
      integer(c_int64_t), value :: offset
    end function c_pread

    integer(c_size_t) function c_pwrite(fd, buffer, length, offset) bind(c, name='rfio_pwrite')
      import :: c_int, c_int64_t, c_ptr, c_size_t
      integer(c_int), value :: fd
      type(c_ptr), value :: buffer
      integer(c_size_t), value :: length
      integer(c_int64_t), value :: offset
    end function c_pwrite

    integer(c_size_t) function c_readv(fd, ranges, buffers, n) bind(c, name='rfio_readv_ranges')
      import :: c_int, c_ptr, c_size_t, range
      integer(c_int), value :: fd
      type(range), intent(in) :: ranges(*)
      type(c_ptr), intent(in) :: buffers(*)
      integer(c_int), value :: n
    end function c_readv

    integer(c_int64_t) function c_lseek(fd, offset, whence) bind(c, name='rfio_lseek')
      import :: c_int, c_int64_t
      integer(c_int), value :: fd, whence
      integer(c_int64_t), value :: offset
    end function c_lseek

    integer(c_int) function c_preseek(fd, ranges, n) bind(c, name='rfio_preseek')
      import :: c_int, range
      integer(c_int), value :: fd, n
      type(range), intent(in) :: ranges(*)
    end function c_preseek

    integer(c_int) function c_advise(fd, advice) bind(c, name='rfio_advise')
      import :: c_int
      integer(c_int), value :: fd, advice
    end function c_advise

    integer(c_int) function c_lock(fd, kind, start, length, wait) bind(c, name='rfio_lock')
      import :: c_int, c_int64_t
      integer(c_int), value :: fd, kind, wait
      integer(c_int64_t), value :: start, length
    end function c_lock

    integer(c_int) function c_ftruncate(fd, length) bind(c, name='rfio_ftruncate')
      import :: c_int, c_int64_t
      integer(c_int), value :: fd
      integer(c_int64_t), value :: length
    end function c_ftruncate

    integer(c_int) function c_fsync(fd) bind(c, name='rfio_fsync')
      import :: c_int
      integer(c_int), value :: fd
    end function c_fsync

    integer(c_int64_t) function c_stat_size(path) bind(c, name='rfio_stat_size')
      import :: c_char, c_int64_t
      character(kind=c_char), intent(in) :: path(*)
    end function c_stat_size

    integer(c_int) function c_access(path, mode) bind(c, name='rfio_access')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: mode
    end function c_access

    integer(c_int) function c_mkdir(path, mode) bind(c, name='rfio_mkdir')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: mode
    end function c_mkdir

    integer(c_int) function c_rmdir(path) bind(c, name='rfio_rmdir')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: path(*)
    end function c_rmdir

    integer(c_int) function c_unlink(path) bind(c, name='rfio_unlink')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: path(*)
    end function c_unlink

    integer(c_int) function c_rename(from, to) bind(c, name='rfio_rename')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: from(*), to(*)
    end function c_rename

    integer(c_int) function c_checksum(path, kind, buffer, length) bind(c, name='rfio_checksum')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: path(*), kind(*)
      character(kind=c_char), intent(out) :: buffer(*)
      integer(c_size_t), value :: length
    end function c_checksum

    type(c_ptr) function c_error() bind(c, name='rfio_error')
      import :: c_ptr
    end function c_error

    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function c_strlen
  end interface

contains

  !> Opens a file, and returns its descriptor.
  !!
  !! action: 'read' (as without it), 'write', 'readwrite' or 'append'. status: 'old' for a file that is there (as without
  !! it when reading), 'new' for one that is not, 'replace' for one that takes its place, 'unknown' for either (as without
  !! it when writing). shared: what is written is seen at once by all that have the file open like this or in a mount.
  integer function rfio_open(path, action, status, shared) result(fd)
    character(*), intent(in) :: path
    character(*), intent(in), optional :: action, status
    logical, intent(in), optional :: shared
    character(:), allocatable :: act, state
    integer(c_int) :: flags

    act = 'read'
    if (present(action)) act = trim(action)
    state = 'unknown'
    if (act == 'read') state = 'old'
    if (present(status)) state = trim(status)
    ! What is not understood becomes flags that the call refuses, with errno and text as for any mistake.
    select case (act)
    case ('read'); flags = o_rdonly
    case ('write'); flags = o_wronly
    case ('readwrite'); flags = o_rdwr
    case ('append'); flags = ior(o_wronly, o_append)
    case default; flags = ior(o_wronly, o_rdwr)
    end select
    select case (state)
    case ('old'); continue
    case ('new'); flags = ior(flags, ior(o_creat, o_excl))
    case ('replace'); flags = ior(flags, ior(o_creat, o_trunc))
    case ('unknown'); if (act /= 'read') flags = ior(flags, o_creat)
    case default; flags = ior(o_wronly, o_rdwr)
    end select
    if (present(shared)) flags = merge(ior(flags, shared_flag), flags, shared)
    fd = c_open(c_text(path), flags, mode_file)
  end function rfio_open

  !> Closes. What was written becomes the file now; .false. means that it did not.
  logical function rfio_close(fd) result(is_good)
    integer, intent(in) :: fd

    is_good = c_close(fd) == 0
  end function rfio_close

  !> Moves the position to an offset from whence (as without it: from the start), and returns it.
  integer(int64) function rfio_lseek(fd, offset, whence) result(position)
    integer, intent(in) :: fd
    integer(int64), intent(in) :: offset
    integer, intent(in), optional :: whence
    integer(c_int) :: from

    from = rfio_from_start
    if (present(whence)) from = whence
    position = c_lseek(fd, offset, from)
  end function rfio_lseek

  !> Announces ranges that will be read, in this order.
  logical function rfio_preseek(fd, offsets, lengths) result(is_good)
    integer, intent(in) :: fd
    integer(int64), intent(in) :: offsets(:), lengths(:)
    type(range), allocatable :: ranges(:)

    call make_ranges(offsets, lengths, ranges)
    is_good = c_preseek(fd, ranges, size(ranges)) == 0
  end function rfio_preseek

  !> Reads ranges, in few requests, one behind the other into a buffer; returns the number of bytes.
  integer(int64) function rfio_readv(fd, offsets, lengths, buffer) result(got)
    integer, intent(in) :: fd
    integer(int64), intent(in) :: offsets(:), lengths(:)
    integer(int8), intent(out), contiguous, target :: buffer(:)
    type(range), allocatable :: ranges(:)
    type(c_ptr), allocatable :: rooms(:)
    integer(int64) :: at
    integer :: number

    call make_ranges(offsets, lengths, ranges)
    allocate (rooms(size(ranges)))
    rooms = c_null_ptr
    at = 1
    do number = 1, size(ranges)
      if (ranges(number)%length <= 0) cycle
      ! A buffer that is too short leaves null pointers, which the call refuses.
      if (at + ranges(number)%length - 1 > size(buffer, kind=int64)) exit
      rooms(number) = c_loc(buffer(at))
      at = at + ranges(number)%length
    end do
    got = c_readv(fd, ranges, rooms, size(ranges))
  end function rfio_readv

  !> Says how the file will be read: rfio_automatic, rfio_sequential or rfio_random.
  logical function rfio_advise(fd, advice) result(is_good)
    integer, intent(in) :: fd, advice

    is_good = c_advise(fd, advice) == 0
  end function rfio_advise

  !> Takes a lock on bytes of a file that is open shared, or of this host: on all of it without start and length. Only with
  !! exclusive nobody else may have one. It waits until it can be had, unless wait is .false.
  logical function rfio_lock(fd, start, length, exclusive, wait) result(is_good)
    integer, intent(in) :: fd
    integer(int64), intent(in), optional :: start, length
    logical, intent(in), optional :: exclusive, wait
    integer(c_int) :: kind, patience

    kind = f_rdlck
    if (present(exclusive)) kind = merge(f_wrlck, f_rdlck, exclusive)
    patience = 1
    if (present(wait)) patience = merge(1, 0, wait)
    is_good = c_lock(fd, kind, from(start), from(length), patience) == 0
  end function rfio_lock

  !> Gives a lock back.
  logical function rfio_unlock(fd, start, length) result(is_good)
    integer, intent(in) :: fd
    integer(int64), intent(in), optional :: start, length

    is_good = c_lock(fd, f_unlck, from(start), from(length), 0) == 0
  end function rfio_unlock

  !> A bound of a lock; 0 without one.
  integer(c_int64_t) function from(bound)
    integer(int64), intent(in), optional :: bound

    from = 0
    if (present(bound)) from = bound
  end function from

  !> Sets the size of an open file.
  logical function rfio_ftruncate(fd, length) result(is_good)
    integer, intent(in) :: fd
    integer(int64), intent(in) :: length

    is_good = c_ftruncate(fd, length) == 0
  end function rfio_ftruncate

  !> Returns when what was written is on stable storage.
  logical function rfio_fsync(fd) result(is_good)
    integer, intent(in) :: fd

    is_good = c_fsync(fd) == 0
  end function rfio_fsync

  !> Size of a file.
  integer(int64) function rfio_stat_size(path) result(bytes)
    character(*), intent(in) :: path

    bytes = c_stat_size(c_text(path))
  end function rfio_stat_size

  !> Whether there is a file or directory of this name.
  logical function rfio_exists(path) result(is_there)
    character(*), intent(in) :: path

    is_there = c_access(c_text(path), 0_c_int) == 0
  end function rfio_exists

  !> Makes a directory.
  logical function rfio_mkdir(path) result(is_good)
    character(*), intent(in) :: path

    is_good = c_mkdir(c_text(path), mode_directory) == 0
  end function rfio_mkdir

  !> Removes an empty directory.
  logical function rfio_rmdir(path) result(is_good)
    character(*), intent(in) :: path

    is_good = c_rmdir(c_text(path)) == 0
  end function rfio_rmdir

  !> Removes a file.
  logical function rfio_unlink(path) result(is_good)
    character(*), intent(in) :: path

    is_good = c_unlink(c_text(path)) == 0
  end function rfio_unlink

  !> Renames, within this host or within one server.
  logical function rfio_rename(from, to) result(is_good)
    character(*), intent(in) :: from, to

    is_good = c_rename(c_text(from), c_text(to)) == 0
  end function rfio_rename

  !> Checksum of a file in hex, taken where the file is: 'adler32', 'crc32c' or 'md5'. Empty if it fails.
  function rfio_checksum(path, kind) result(sum)
    character(*), intent(in) :: path, kind
    character(:), allocatable :: sum
    character(kind=c_char), target :: buffer(checksum_length)

    sum = ''
    if (c_checksum(c_text(path), c_text(kind), buffer, int(checksum_length, c_size_t)) == 0) sum = f_text(c_loc(buffer))
  end function rfio_checksum

  !> Why the last call that failed did so, with a hint at the next step if there is one.
  function rfio_error() result(text)
    character(:), allocatable :: text

    text = f_text(c_error())
  end function rfio_error

  ! Arrays

  integer(int64) function read_int8(fd, array) result(got)
    integer, intent(in) :: fd
    integer(int8), intent(inout), contiguous, target :: array(:)

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 1_int64)
  end function read_int8

  integer(int64) function read_int32(fd, array) result(got)
    integer, intent(in) :: fd
    integer(int32), intent(inout), contiguous, target :: array(:)

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 4_int64)
  end function read_int32

  integer(int64) function read_int64(fd, array) result(got)
    integer, intent(in) :: fd
    integer(int64), intent(inout), contiguous, target :: array(:)

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 8_int64)
  end function read_int64

  integer(int64) function read_real32(fd, array) result(got)
    integer, intent(in) :: fd
    real(real32), intent(inout), contiguous, target :: array(:)

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 4_int64)
  end function read_real32

  integer(int64) function read_real64(fd, array) result(got)
    integer, intent(in) :: fd
    real(real64), intent(inout), contiguous, target :: array(:)

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 8_int64)
  end function read_real64

  integer(int64) function pread_int8(fd, array, offset) result(got)
    integer, intent(in) :: fd
    integer(int8), intent(inout), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 1_int64, offset)
  end function pread_int8

  integer(int64) function pread_int32(fd, array, offset) result(got)
    integer, intent(in) :: fd
    integer(int32), intent(inout), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 4_int64, offset)
  end function pread_int32

  integer(int64) function pread_int64(fd, array, offset) result(got)
    integer, intent(in) :: fd
    integer(int64), intent(inout), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 8_int64, offset)
  end function pread_int64

  integer(int64) function pread_real32(fd, array, offset) result(got)
    integer, intent(in) :: fd
    real(real32), intent(inout), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 4_int64, offset)
  end function pread_real32

  integer(int64) function pread_real64(fd, array, offset) result(got)
    integer, intent(in) :: fd
    real(real64), intent(inout), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    got = read_elements(fd, c_loc(array), size(array, kind=int64), 8_int64, offset)
  end function pread_real64

  integer(int64) function write_int8(fd, array) result(put)
    integer, intent(in) :: fd
    integer(int8), intent(in), contiguous, target :: array(:)

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 1_int64)
  end function write_int8

  integer(int64) function write_int32(fd, array) result(put)
    integer, intent(in) :: fd
    integer(int32), intent(in), contiguous, target :: array(:)

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 4_int64)
  end function write_int32

  integer(int64) function write_int64(fd, array) result(put)
    integer, intent(in) :: fd
    integer(int64), intent(in), contiguous, target :: array(:)

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 8_int64)
  end function write_int64

  integer(int64) function write_real32(fd, array) result(put)
    integer, intent(in) :: fd
    real(real32), intent(in), contiguous, target :: array(:)

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 4_int64)
  end function write_real32

  integer(int64) function write_real64(fd, array) result(put)
    integer, intent(in) :: fd
    real(real64), intent(in), contiguous, target :: array(:)

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 8_int64)
  end function write_real64

  integer(int64) function pwrite_int8(fd, array, offset) result(put)
    integer, intent(in) :: fd
    integer(int8), intent(in), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 1_int64, offset)
  end function pwrite_int8

  integer(int64) function pwrite_int32(fd, array, offset) result(put)
    integer, intent(in) :: fd
    integer(int32), intent(in), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 4_int64, offset)
  end function pwrite_int32

  integer(int64) function pwrite_int64(fd, array, offset) result(put)
    integer, intent(in) :: fd
    integer(int64), intent(in), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 8_int64, offset)
  end function pwrite_int64

  integer(int64) function pwrite_real32(fd, array, offset) result(put)
    integer, intent(in) :: fd
    real(real32), intent(in), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 4_int64, offset)
  end function pwrite_real32

  integer(int64) function pwrite_real64(fd, array, offset) result(put)
    integer, intent(in) :: fd
    real(real64), intent(in), contiguous, target :: array(:)
    integer(int64), intent(in) :: offset

    put = write_elements(fd, c_loc(array), size(array, kind=int64), 8_int64, offset)
  end function pwrite_real64

  ! Memory

  !> Reads until all elements are there or the file ends: the system may give less than there is.
  integer(int64) function read_elements(fd, room, count, width, offset) result(got)
    integer, intent(in) :: fd
    type(c_ptr), intent(in) :: room
    integer(int64), intent(in) :: count, width
    integer(int64), intent(in), optional :: offset
    integer(int64) :: done, step

    done = 0
    do while (done < count*width)
      if (present(offset)) then
        step = c_pread(fd, moved(room, done), int(count*width - done, c_size_t), offset + done)
      else
        step = c_read(fd, moved(room, done), int(count*width - done, c_size_t))
      end if
      if (step == 0) exit
      if (step < 0) then
        got = -1
        return
      end if
      done = done + step
    end do
    got = done/width
  end function read_elements

  !> Writes all elements: the system may take less at a time.
  integer(int64) function write_elements(fd, room, count, width, offset) result(put)
    integer, intent(in) :: fd
    type(c_ptr), intent(in) :: room
    integer(int64), intent(in) :: count, width
    integer(int64), intent(in), optional :: offset
    integer(int64) :: done, step

    done = 0
    do while (done < count*width)
      if (present(offset)) then
        step = c_pwrite(fd, moved(room, done), int(count*width - done, c_size_t), offset + done)
      else
        step = c_write(fd, moved(room, done), int(count*width - done, c_size_t))
      end if
      if (step < 0) then
        put = -1
        return
      end if
      done = done + step
    end do
    put = done/width
  end function write_elements

  !> The place so many bytes behind another.
  type(c_ptr) function moved(room, bytes)
    type(c_ptr), intent(in) :: room
    integer(int64), intent(in) :: bytes
    integer(int8), pointer :: all(:)

    call c_f_pointer(room, all, [bytes + 1])
    moved = c_loc(all(bytes + 1))
  end function moved

  subroutine make_ranges(offsets, lengths, ranges)
    integer(int64), intent(in) :: offsets(:), lengths(:)
    type(range), allocatable, intent(out) :: ranges(:)
    integer :: count

    count = min(size(offsets), size(lengths))
    allocate (ranges(count))
    ranges%offset = offsets(:count)
    ranges%length = lengths(:count)
  end subroutine make_ranges

  !> A text as C has it, without blanks at its end.
  pure function c_text(text)
    character(*), intent(in) :: text
    character(len_trim(text) + 1, kind=c_char) :: c_text

    c_text = trim(text)//c_null_char
  end function c_text

  !> A text of C.
  function f_text(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: at

    call c_f_pointer(pointer, letters, [c_strlen(pointer)])
    allocate (character(size(letters)) :: text)
    do at = 1, size(letters)
      text(at:at) = letters(at)
    end do
  end function f_text

end module rfio
