//! Credentials of the authentication protocol `ztn`: a token in an envelope (spec/xrootd.md §8.2).
//!
//! `"ztn" NUL   version [1]: 0   what [1]: 'T' token, 'S' asks for issuers   0 [2]   length [2]   token   NUL`

use super::TOKEN_BYTES_MAX;
use base::{Failure, Result};

/// The name in a request's kind of credentials.
pub const KIND: [u8; 4] = *b"ztn\0";
/// Bytes before the token.
const FRONT_BYTES: usize = 10;

/// What a server says at login to clients that shall bring a token: the protocol's version and the longest token.
#[must_use]
pub fn offer() -> String {
    format!("&P=ztn,0:{TOKEN_BYTES_MAX}:")
}

/// Puts a token into its envelope.
#[must_use]
pub fn encode(token: &str) -> Vec<u8> {
    let length = (token.len().min(TOKEN_BYTES_MAX) + 1) as u16;
    [&b"ztn\0\0T\0\0"[..], &length.to_be_bytes(), token.as_bytes(), &[0]].concat()
}

/// Takes the token out. Trailing bytes are allowed: clients send one more than they say.
pub fn parse(credentials: &[u8]) -> Result<&str> {
    let refuse = |what: &str| Failure::invalid(format!("ztn credentials {what}"));
    let (front, rest) = credentials.split_at_checked(FRONT_BYTES).ok_or_else(|| refuse("are cut short"))?;
    if front[..4] != KIND || front[4] != 0 {
        return Err(refuse("are not of version 0"));
    }
    if front[5] != b'T' {
        return Err(Failure::unsupported("ztn: no token was sent, and issuers are not listed here")
            .hint("set BEARER_TOKEN or BEARER_TOKEN_FILE"));
    }
    let length = usize::from(u16::from_be_bytes([front[8], front[9]]));
    if length > TOKEN_BYTES_MAX + 1 {
        return Err(refuse("are too long"));
    }
    let token = rest.get(..length).ok_or_else(|| refuse("are cut short"))?;
    let token = token.strip_suffix(&[0]).filter(|token| !token.is_empty() && !token.contains(&0));
    let token = token.ok_or_else(|| refuse("hold no token"))?;
    std::str::from_utf8(token).map_err(|_| refuse("are not text"))
}

/// Fuzz body: what is read comes back from its envelope.
pub fn fuzz_ztn(data: &[u8]) {
    if let Ok(token) = parse(data) {
        assert_eq!(parse(&encode(token)).expect("what was encoded can be read"), token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_envelope_of_the_field_is_read() {
        let sent = b"ztn\0\0T\0\0\0\x04abc\0";
        assert_eq!(parse(sent).unwrap(), "abc");
        assert_eq!(encode("abc"), sent);
        assert_eq!(parse(&[&sent[..], b"\0"].concat()).unwrap(), "abc", "clients send one byte more");
        assert!(parse(b"ztn\0\0S\0\0").is_err() && parse(b"ztn\0\0S\0\0\0\0").unwrap_err().hint.is_some());
        for bad in
            [&b"ztn\0\0T\0\0\0\x09abc\0"[..], b"ztn\0\0T\0\0\0\x01\0", b"ztn\0\x01T\0\0\0\x04abc\0", b""]
        {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(offer(), "&P=ztn,0:4096:");
    }

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..60), at in 0usize..14, byte: u8) {
            fuzz_ztn(&data);
            let mut sent = encode("abc");
            sent[at] = byte;
            fuzz_ztn(&sent);
        }
    }
}
