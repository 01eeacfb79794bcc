//! A picture as PNG (W3C Portable Network Graphics, third edition): four colours, not compressed.

use super::{
    Plot,
    layout::{Anchor, Ink, SIZE, Shape, shapes},
    letters::{self, HEIGHT, WIDTH},
};
use base::Adler32;

/// Pixels of a dot of a letter.
const DOT: usize = 2;
const INKS: [Ink; 4] = [Ink::White, Ink::Black, Ink::Grey, Ink::Blue];
/// Pixels of a byte.
const PACKED: usize = 4;
/// Longest stored block (RFC 1951, 3.2.4).
const BLOCK_BYTES_MAX: usize = 0xffff;

/// The picture of a histogram.
pub(crate) fn png(plot: &Plot) -> Vec<u8> {
    let mut canvas = Canvas::new(SIZE.0 as usize, SIZE.1 as usize);
    for shape in shapes(plot) {
        match shape {
            Shape::Box(left, top, right, bottom, ink) => canvas.fill((left, top, right, bottom), ink),
            Shape::Text(x, y, anchor, text) => canvas.write(x, y, anchor, &text),
        }
    }
    canvas.encode()
}

struct Canvas {
    width: usize,
    height: usize,
    /// Number of the ink of each pixel.
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, pixels: vec![0; width * height] }
    }

    fn fill(&mut self, (left, top, right, bottom): (f64, f64, f64, f64), ink: Ink) {
        let number = INKS.iter().position(|known| *known == ink).unwrap_or(0) as u8;
        let pixel = |at: f64, end: usize| (at.round().max(0.0) as usize).min(end);
        // A line of one pixel is one pixel wide, wherever it falls between two.
        let (x, y) = (pixel(left, self.width), pixel(top, self.height));
        let right = pixel(right, self.width).max((x + 1).min(self.width));
        let bottom = pixel(bottom, self.height).max((y + 1).min(self.height));
        for row in y..bottom {
            self.pixels[row * self.width..][x..right].fill(number);
        }
    }

    fn write(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        let length = (text.chars().count() * WIDTH * DOT) as f64;
        let mut left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - length / 2.0,
            Anchor::End => x - length,
        };
        let top = y - (HEIGHT * DOT) as f64;
        for letter in text.chars() {
            for (column, row) in letters::dots(letter) {
                let (x, y) = (left + (column * DOT) as f64, top + (row * DOT) as f64);
                self.fill((x, y, x + DOT as f64, y + DOT as f64), Ink::Black);
            }
            left += (WIDTH * DOT) as f64;
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut header = Vec::new();
        header.extend((self.width as u32).to_be_bytes());
        header.extend((self.height as u32).to_be_bytes());
        // Two bits for a pixel, from a palette; the only methods of compression and filtering; not interlaced.
        header.extend([2, 3, 0, 0, 0]);
        let palette: Vec<u8> = INKS.iter().flat_map(|ink| ink.rgb()).collect();
        let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
        for (kind, data) in
            [(b"IHDR", header), (b"PLTE", palette), (b"IDAT", stored(&self.rows())), (b"IEND", vec![])]
        {
            chunk(&mut out, *kind, &data);
        }
        out
    }

    /// The rows, each behind a byte that says that it is not filtered.
    fn rows(&self) -> Vec<u8> {
        let mut rows = Vec::new();
        for row in self.pixels.chunks(self.width) {
            rows.push(0);
            rows.extend(row.chunks(PACKED).map(|four| {
                four.iter().enumerate().fold(0, |byte, (index, pixel)| byte | pixel << (6 - 2 * index))
            }));
        }
        rows
    }
}

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    let from = out.len();
    out.extend(kind);
    out.extend(data);
    let sum = crc32fast::hash(&out[from..]);
    out.extend(sum.to_be_bytes());
}

/// A zlib stream of stored blocks (RFC 1950).
fn stored(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let blocks: Vec<&[u8]> = data.chunks(BLOCK_BYTES_MAX).collect();
    for (number, block) in blocks.iter().enumerate() {
        out.push(u8::from(number + 1 == blocks.len()));
        let length = block.len() as u16;
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(*block);
    }
    out.extend(Adler32::of(data).0.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::{super::tests::plot, *};

    #[test]
    fn a_picture_has_the_parts_of_its_format() {
        let bytes = png(&plot());
        let (mut at, mut kinds) = (8, Vec::new());
        while at < bytes.len() {
            let length = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            kinds.push(String::from_utf8(bytes[at + 4..at + 8].to_vec()).unwrap());
            let sum = u32::from_be_bytes(bytes[at + 8 + length..at + 12 + length].try_into().unwrap());
            assert_eq!(sum, crc32fast::hash(&bytes[at + 4..at + 8 + length]));
            at += 12 + length;
        }
        assert_eq!(kinds, ["IHDR", "PLTE", "IDAT", "IEND"]);
    }
}
