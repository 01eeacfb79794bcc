//! Remote file I/O for C and FORTRAN, after the POSIX calls.
//!
//! C programs see `include/backplane/rfio.h`, which is generated from [`calls`]; FORTRAN programs the module in
//! `fortran/rfio.f90`; people `man/rfio.3`. Raw pointers and `errno` stay in `calls` and `foreign`; everything else here
//! is safe code that knows nothing of C but its numbers.

mod attributes;
mod behind;
pub mod calls;
mod checksum;
mod descriptor;
mod directory;
mod fault;
mod flags;
mod foreign;
mod fork;
mod local;
mod names;
mod place;
mod remote;
mod table;
