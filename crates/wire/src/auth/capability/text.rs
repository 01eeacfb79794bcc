//! The text of a capability, as it is signed.

use super::{Access, Cap, Content, Times};
use crate::{
    auth::token::base64url,
    control::Coding,
    media::object::{Holder, Piece},
};
use base::{ByteRange, Checksums, Timestamp};
use std::fmt;

impl Content {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let size = fields.next()?.parse().ok()?;
        let checksums =
            Checksums { adler32: fields.next()?.parse().ok()?, crc32c: fields.next()?.parse().ok()? };
        fields.next().is_none().then_some(Self { size, checksums })
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.size, self.checksums.adler32, self.checksums.crc32c)
    }
}

fn encode_name(name: &str) -> String {
    base64url::encode(name.as_bytes())
}

fn decode_name(text: &str) -> Option<String> {
    String::from_utf8(base64url::decode(text)?).ok()
}

fn holder_text(holder: &Holder) -> String {
    format!("{}~{}~{}", encode_name(&holder.owner), encode_name(&holder.group), holder.mode)
}

fn parse_holder(text: &str) -> Option<Holder> {
    let mut fields = text.split('~');
    let (owner, group) = (decode_name(fields.next()?)?, decode_name(fields.next()?)?);
    let mode = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some(Holder { owner, group, mode })
}

fn piece_text(piece: &Piece) -> String {
    let Piece { coding: Coding { data, parity }, cell_bytes, index, file_bytes: size, file_checksums } =
        *piece;
    format!("{data}-{parity}-{cell_bytes}-{index}-{}", Content { size, checksums: file_checksums })
}

fn parse_piece(text: &str) -> Option<Piece> {
    let mut fields = text.splitn(5, '-');
    let coding = Coding { data: fields.next()?.parse().ok()?, parity: fields.next()?.parse().ok()? };
    let (cell_bytes, index) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let Content { size, checksums } = Content::parse(fields.next()?)?;
    Some(Piece { coding, cell_bytes, index, file_bytes: size, file_checksums: checksums })
}

fn times_text(Times { modified, shown }: Times) -> String {
    format!(".t{}~{}", modified.0, shown.0)
}

fn parse_times(text: &str) -> Option<Times> {
    let (modified, shown) = text.strip_prefix('t')?.split_once('~')?;
    Some(Times { modified: Timestamp(modified.parse().ok()?), shown: Timestamp(shown.parse().ok()?) })
}

impl Cap {
    pub(super) fn text(&self) -> String {
        let Self { object, file, generation, range, .. } = self;
        let name = encode_name;
        let holder = self.holder.as_ref().map_or_else(|| "-".to_owned(), holder_text);
        let content = self.content.map_or_else(|| "-".to_owned(), |content| content.to_string());
        let (access, partition, user) = (self.access.word(), name(&self.partition), name(&self.user));
        let (offset, end, expires) = (range.offset, range.end, self.expires.0);
        // Left out where there is none: as before there were pieces.
        let piece = self.piece.map_or_else(String::new, |piece| format!(".{}", piece_text(&piece)));
        let times = self.times.map_or_else(String::new, times_text);
        format!(
            "{access}.{partition}.{object}.{file}.{generation}.{holder}.{offset}-{end}.{content}.{user}.{expires}{piece}{times}"
        )
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('.').peekable();
        let cap = Self {
            access: Access::parse(fields.next()?)?,
            partition: decode_name(fields.next()?)?,
            object: fields.next()?.parse().ok()?,
            file: fields.next()?.parse().ok()?,
            generation: fields.next()?.parse().ok()?,
            holder: match fields.next()? {
                "-" => None,
                text => Some(parse_holder(text)?),
            },
            range: {
                let (offset, end) = fields.next()?.split_once('-')?;
                ByteRange { offset: offset.parse().ok()?, end: end.parse().ok()? }
            },
            content: match fields.next()? {
                "-" => None,
                text => Some(Content::parse(text)?),
            },
            user: decode_name(fields.next()?)?,
            expires: Timestamp(fields.next()?.parse().ok()?),
            piece: match fields.next_if(|text| !text.starts_with('t')) {
                None => None,
                Some(text) => Some(parse_piece(text)?),
            },
            times: match fields.next() {
                None => None,
                Some(text) => Some(parse_times(text)?),
            },
        };
        // Numbers, hex digits and base64 have several spellings; only one is the text that is signed, compared and kept.
        (fields.next().is_none() && cap.range.offset <= cap.range.end && cap.text() == text).then_some(cap)
    }
}
