//! Reading ahead of the caller.

use super::core::Core;
use crate::xrd::mux::Wait;
use base::{ByteRange, Result};

/// How a file will be read. A hint, which changes speed and never results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Found out from what is read.
    #[default]
    Automatic,
    /// From the start to the end: much is read ahead.
    Sequential,
    /// Here and there: nothing is read ahead.
    Random,
}

impl Core {
    pub(in crate::xrd) fn advise(&self, _mode: ReadMode) {}

    pub(in crate::xrd) async fn preseek(&self, _ranges: &[ByteRange], _wait: Wait) -> Result<()> {
        Ok(())
    }
}
