! Adds 1 to the number in a file, which others may do at the same time.
!
!     count FILE TIMES
!     count bp:/data/counter 100

program count
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64
  use rfio
  implicit none

  character(1024) :: path, text
  integer(int32) :: number(1)
  integer :: fd, times, time

  call get_command_argument(1, path)
  call get_command_argument(2, text)
  if (len_trim(path) == 0 .or. len_trim(text) == 0) error stop 'usage: count FILE TIMES'
  read (text, *) times

  fd = rfio_open(path, action='readwrite', status='old', shared=.true.)
  call check(fd >= 0)
  do time = 1, times
    call check(rfio_lock(fd, exclusive=.true.))
    call check(rfio_pread(fd, number, 0_int64) == 1)
    number = number + 1
    ! All others see it before the lock is free.
    call check(rfio_pwrite(fd, number, 0_int64) == 1)
    call check(rfio_unlock(fd))
  end do
  call check(rfio_close(fd))

contains

  subroutine check(is_good)
    logical, intent(in) :: is_good

    if (is_good) return
    write (error_unit, '(a)') 'count: '//rfio_error()
    error stop
  end subroutine check

end program count
