//! Remote file I/O for C and FORTRAN, after the POSIX calls.
//!
//! **Problem.** Programs in C and FORTRAN read local files with `open` and `read`. They should read remote files with few
//! changes.
//!
//! **Idea.** Each POSIX call has a counterpart with the same arguments and `errno`. Raw pointers and `errno` stay in `calls`
//! and `foreign`. All other code here is safe and uses only the numbers of C.
//!
//! **Start reading** with [`calls`]: `include/backplane/rfio.h` is generated from it. FORTRAN programs use the module in
//! `fortran/rfio.f90`; `man/rfio.3` is the manual page.

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
mod shared;
mod table;
