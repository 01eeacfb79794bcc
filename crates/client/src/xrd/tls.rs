//! TLS on a connection.

use super::Options;
use base::Failure;
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::TcpStream,
};

/// The state of an encrypted connection.
#[derive(Debug)]
pub(super) struct Tls {}

impl Tls {
    pub(super) fn connect(_: &TcpStream, host: &str, _: &Options) -> Result<Self, Failure> {
        Err(Failure::unsupported(format!("TLS to {host} is not offered by this client")))
    }

    pub(super) fn receive(&self, _: &TcpStream, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(0)
    }

    pub(super) fn send(&self, _: &TcpStream, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(0)
    }

    pub(super) fn flush(&self, _: &TcpStream) -> io::Result<()> {
        Ok(())
    }
}
