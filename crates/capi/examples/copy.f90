! Writes numbers to a file, wherever it is, and copies them back.
!
!     copy FILE COUNT
!     copy root://disk1//data/numbers 100000

program copy
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use rfio
  implicit none

  character(1024) :: path, text
  real(real64), allocatable :: numbers(:), found(:)
  integer :: fd, count, index

  call get_command_argument(1, path)
  call get_command_argument(2, text)
  if (len_trim(path) == 0 .or. len_trim(text) == 0) error stop 'usage: copy FILE COUNT'
  read (text, *) count
  allocate (numbers(count), found(count + 1))
  numbers = [(sqrt(real(index, real64)), index=1, count)]

  fd = rfio_open(path, action='write', status='replace')
  call check(fd >= 0)
  call check(rfio_write(fd, numbers) == count)
  ! The file is there when it is closed, and only then.
  call check(rfio_close(fd))
  call check(rfio_stat_size(path) == 8_int64*count)

  fd = rfio_open(path)
  call check(fd >= 0)
  ! One more is asked for than there is: the file ends before it.
  call check(rfio_read(fd, found) == count)
  if (any(found(:count) /= numbers)) error stop 'other numbers came back'

  call check(rfio_lseek(fd, 8_int64*(count - 1)) == 8_int64*(count - 1))
  call check(rfio_read(fd, found(:1)) == 1)
  if (found(1) /= numbers(count)) error stop 'another number is the last'
  call check(rfio_close(fd))

  print '(i0, a, a)', count, ' numbers, adler32 ', rfio_checksum(path, 'adler32')

contains

  subroutine check(is_good)
    logical, intent(in) :: is_good

    if (is_good) return
    write (error_unit, '(a)') 'copy: '//rfio_error()
    error stop
  end subroutine check

end program copy
