//! Files that somebody made so that a reader breaks.

use super::{super::MemorySource, block::checksum, *};

/// Where the record of the only directory stands, and what comes behind it.
const DIRECTORY: usize = 100;
const CONTENT: usize = 160;

/// A key whose content stands at `start`.
fn key(class: &str, name: &str, start: usize, length: usize) -> Vec<u8> {
    let header = 29 + class.len() + name.len();
    let mut out = ((header + length) as u32).to_be_bytes().to_vec();
    out.extend(4_u16.to_be_bytes());
    out.extend([length as u32, 0].map(u32::to_be_bytes).as_flattened());
    out.extend([header as u16, 1].map(u16::to_be_bytes).as_flattened());
    out.extend([(start - header) as u32, 0].map(u32::to_be_bytes).as_flattened());
    for text in [class, name, ""] {
        out.push(text.len() as u8);
        out.extend(text.as_bytes());
    }
    out
}

/// A file of one directory.
fn file(keys: &[Vec<u8>], content: &[u8]) -> Vec<u8> {
    let list = [key("TFile", "f", DIRECTORY, 0), (keys.len() as u32).to_be_bytes().to_vec(), keys.concat()];
    let list = list.concat();
    let mut out = b"root".to_vec();
    let header = [62_400, DIRECTORY as u32, 0, 0, 0, 0, 0];
    out.extend(header.map(u32::to_be_bytes).as_flattened());
    out.resize(DIRECTORY, 0);
    out.extend(5_u16.to_be_bytes());
    let record = [0, 0, list.len() as u32, 0, DIRECTORY as u32, 0, (CONTENT + content.len()) as u32];
    out.extend(record.map(u32::to_be_bytes).as_flattened());
    out.resize(CONTENT, 0);
    [out, content.to_vec(), list].concat()
}

fn refused(bytes: Vec<u8>) -> String {
    let source: Arc<dyn Source> = Arc::new(MemorySource::new("f", bytes));
    let opened = root_objects(&*source).and_then(|objects| RNTuple::open(source, &objects[0].path));
    opened.unwrap_err().what
}

/// The directory is in itself, a hundred times.
fn nested() -> Vec<u8> {
    file(&vec![key("TDirectory", "d", DIRECTORY, 0); 100], &[])
}

#[test]
fn a_directory_in_itself_is_refused_before_its_paths_fill_the_memory() {
    assert!(refused(nested()).contains("lists of keys are longer than the file"), "{}", refused(nested()));
    let once = file(&[key("TDirectory", "d", DIRECTORY, 0)], &[0; 1 << 20]);
    assert_eq!(refused(once), "f: keys: directories are nested too deeply");
}

/// Many names in a directory of a long name.
#[test]
fn paths_are_bounded_together() {
    let name = "d".repeat(60);
    let mut keys = vec![key("TDirectory", &name, DIRECTORY, 0)];
    keys.extend(vec![key("TTree", "t", DIRECTORY, 0); 14_000]);
    let what = refused(file(&keys, &vec![0; 16 << 20]));
    assert!(what.starts_with("f: keys: paths are longer than"), "{what}");
}

/// The same bytes are run by the fuzz body.
#[test]
fn the_fuzzer_knows_the_directory_in_itself() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let known = path.join("../../fuzz/regressions/rntuple/directory_in_itself.root");
    assert_eq!(std::fs::read(known).unwrap(), nested());
}

fn envelope(id: u64, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u64 + 16;
    let mut out = [&(id | length << 16).to_le_bytes(), payload].concat();
    out.extend(checksum(&out).to_le_bytes());
    out
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let items = [(items.len() as u32).to_le_bytes().to_vec(), items.concat()].concat();
    [(-8 - items.len() as i64).to_le_bytes().to_vec(), items].concat()
}

fn record(content: &[u8]) -> Vec<u8> {
    [&(8 + content.len() as u64).to_le_bytes(), content].concat()
}

/// An RNTuple without columns, whose cluster groups all have the same page list of a megabyte.
fn one_page_list(groups: usize) -> Vec<u8> {
    let texts = [0; 12];
    let header = envelope(1, &[&[0; 8], &texts[..], &list(&[]), &list(&[]), &list(&[])].concat());
    let own = &header[header.len() - 8..];
    let pages = envelope(3, &[own, &list(&[]), &list(&[]), &[0; 1 << 20]].concat());
    let at = CONTENT + header.len();
    let link = [pages.len() as u64, 0, at as u64].map(u64::to_le_bytes);
    let size = (pages.len() as u32).to_le_bytes();
    let group = record(&[&[0; 20], &link[0][..], &size, &link[2]].concat());
    let footer = envelope(2, &[&[0; 8], own, &record(&[]), &list(&vec![group; groups])].concat());
    let fields = [header.len(), header.len(), at + pages.len(), footer.len(), footer.len(), 0];
    let fields = [&[CONTENT][..], &fields[..]].concat();
    let fields: Vec<u8> = fields.iter().flat_map(|field| (*field as u64).to_be_bytes()).collect();
    let fields = [&[0, 1, 0, 0, 0, 0, 0, 0], &fields[..]].concat();
    let anchor = [&[0; 6], &fields[..], &checksum(&fields).to_be_bytes()].concat();
    let content = [header, pages, footer].concat();
    let keys = [key(ANCHOR, "n", CONTENT + content.len(), anchor.len())];
    file(&keys, &[content, anchor].concat())
}

#[test]
fn page_lists_are_bounded_together() {
    let small: Arc<dyn Source> = Arc::new(MemorySource::new("f", one_page_list(3)));
    assert_eq!(RNTuple::open(small, "n").unwrap().row_groups(), 0);
    assert_eq!(refused(one_page_list(513)), "f: RNTuple \"n\": page lists are too long together");
}
