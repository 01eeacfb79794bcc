//! Files that ROOT wrote, of the collection that uproot is tested with; `testdata/README.md` says where they are from.

use super::{super::MemorySource, *};
use proptest::prelude::*;

fn path(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/rntuple").join(name)
}

fn source(name: &str) -> Arc<dyn Source> {
    let bytes = std::fs::read(path(name)).unwrap();
    Arc::new(MemorySource::new(name, bytes))
}

/// The only RNTuple of the file `test_{name}_rntuple_v1-….root`.
fn open(name: &str) -> RNTuple {
    let names = std::fs::read_dir(path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    let file = names.iter().find(|file| file.starts_with(&format!("test_{name}_rntuple"))).unwrap();
    let source = source(file);
    let object = choose(file, root_objects(&*source).unwrap(), None).unwrap();
    RNTuple::open(source, &object.path).unwrap()
}

fn describe(file: &RNTuple) -> Vec<String> {
    let one = |column: &FileColumn| match column.kind() {
        Ok(kind) => {
            let list = if column.is_list { "list " } else { "" };
            let optional = if column.is_optional { " optional" } else { "" };
            format!("{}: {list}{}{optional}", column.name, kind.name())
        }
        Err(why) => format!("{}: {why}", column.name),
    };
    file.columns().iter().map(one).collect()
}

fn column(file: &RNTuple, name: &str, cluster: usize) -> Values {
    let index = file.columns().iter().position(|column| column.name == name);
    file.read(cluster, index.unwrap_or_else(|| panic!("no {name} in {:?}", describe(file)))).unwrap()
}

fn f32s(values: &Values) -> &[f32] {
    let Array::F32(values) = &values.array else { panic!("{values:?}") };
    values
}

fn i32s(values: &Values) -> &[i32] {
    let Array::I32(values) = &values.array else { panic!("{values:?}") };
    values
}

#[test]
fn standard_types_are_columns_or_refused_by_reason() {
    let file = open("stl_containers");
    let described = describe(&file);
    for expected in [
        "vector_int32: list i4",
        "array_float: list f4",
        "lorentz_vector.pt: f4",
        "array_lv.pt: list f4",
        "string: is text or bytes, not numbers",
        "vector_vector_int32: is a list of lists; only lists of values can be used",
        "variant_int32_string: is a variant; only values of one type can be used",
    ] {
        assert!(described.iter().any(|one| one == expected), "{expected}: {described:?}");
    }
    let lists = column(&file, "vector_int32", 0);
    assert_eq!(i32s(&lists), [1, 1, 2, 1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4, 5]);
    assert_eq!(*lists.offsets.unwrap(), [0, 1, 3, 6, 10, 15]);
    let arrays = column(&file, "array_lv.pt", 0);
    assert_eq!(f32s(&arrays)[..4], [1.0, 1.0, 1.0, 2.0]);
    assert_eq!(*arrays.offsets.unwrap(), [0, 3, 6, 9, 12, 15]);
}

#[test]
fn packed_split_and_zigzag_numbers_are_exact() {
    let file = open("float_types");
    let float = |name: &str| f32s(&column(&file, name, 0)).to_vec();
    assert_eq!(float("trunc10"), [1.0, 13_194_139_533_312.0, -4.235_164_7e-22, -1.5]);
    assert_eq!(float("quant8"), [1.235_294_1, 1.666_666_6, 0.0, -1.901_960_7]);
    assert_eq!(float("quant20"), [1.234_566, 1.666_666_6, 0.0, -1.906_067_7]);
    let file = open("splitint");
    let big = 1 << 62;
    let expected = [0, 1, -1, big, -big, i64::MAX, i64::MIN];
    assert_eq!(column(&file, "int64", 0).array, Array::I64(expected.to_vec()));
    assert_eq!(i32s(&column(&file, "int16", 0)), [0, 1, -1, 16384, -16384, 32767, -32768]);
    let bits = column(&open("bit"), "one_bit", 0);
    assert_eq!(bits.array, Array::Bool(vec![1, 0, 0, 1, 0, 0, 1, 0, 0, 1]));
}

/// Columns that were added after 200 and 400 entries, by entries of the whole file.
#[test]
fn columns_that_were_added_later_begin_with_zeros() {
    let file = open("extension_columns");
    let all = |name: &str| -> Vec<Values> {
        (0..file.row_groups()).map(|cluster| column(&file, name, cluster)).collect()
    };
    let floats: Vec<f32> = all("float_field").iter().flat_map(|values| f32s(values).to_vec()).collect();
    assert_eq!((floats.len(), &floats[198..203]), (600, &[0.0, 0.0, 0.5, 1.5, 2.5][..]));
    let lists = all("intvec_field");
    let lengths: Vec<u32> = lists
        .iter()
        .flat_map(|values| values.offsets.as_ref().unwrap().windows(2).map(|pair| pair[1] - pair[0]))
        .collect();
    assert_eq!((lengths.len(), &lengths[398..402]), (600, &[0, 0, 2, 2][..]));
    assert_eq!(
        lists.iter().find_map(|values| i32s(values).get(..4).map(<[i32]>::to_vec)).unwrap(),
        [0, 1, 1, 2]
    );
}

#[test]
fn each_cluster_has_its_own_representation() {
    let file = open("multiple_representations");
    let all: Vec<f32> =
        (0..file.row_groups()).flat_map(|cluster| f32s(&column(&file, "real", cluster)).to_vec()).collect();
    assert_eq!(all, [1.0, 2.0, 3.0]);
}

/// As ROOT's importer of NanoAOD makes them: the columns of a collection show one that has no name.
#[test]
fn projected_collections_share_the_ends_of_their_lists() {
    let source = source("Run2012BC_DoubleMuParked_Muons_1000evts_rntuple_v1-0-0-0.root");
    let file = RNTuple::open(source, "Events").unwrap();
    let [pt, eta] = ["Muon_pt", "Muon_eta"].map(|name| column(&file, name, 0));
    assert!(describe(&file).iter().all(|name| !name.starts_with('_')), "{:?}", describe(&file));
    assert!(Arc::ptr_eq(pt.offsets.as_ref().unwrap(), eta.offsets.as_ref().unwrap()));
    assert_eq!(f32s(&pt)[..3], [10.763_697, 15.736_523, 10.538_49]);
    let counts = column(&file, "nMuon", 0);
    assert_eq!(i32s(&counts)[..5], [2, 2, 1, 4, 4]);
    assert_eq!(i32s(&counts).iter().sum::<i32>() as usize, pt.array.len());
}

/// Lists of one length and values that can be missing, both after the ends of other lists: no ROOT writes that.
#[test]
fn shared_ends_of_another_number_of_lists_are_damage() {
    let mut file = open("stl_containers");
    let index = |name: &str| file.columns().iter().position(|column| column.name == name).unwrap();
    let (lists, arrays) = (index("vector_int32"), index("array_lv.pt"));
    let Some(List::Ends(ends)) = file.accesses[lists].as_ref().unwrap().list.clone() else { panic!() };
    file.accesses[arrays].as_mut().unwrap().optional = Some(ends);
    let alone = file.read(0, arrays).unwrap_err().what;
    let _in_use = file.read(0, lists).unwrap();
    assert_eq!(file.read(0, arrays).unwrap_err().what, alone);
    assert!(alone.ends_with("5 elements of 15"), "{alone}");
}

#[test]
fn damage_is_found_by_checksums() {
    let name = "test_1jag_int_float_rntuple_v1-0-0-0.root";
    let bytes = std::fs::read(path(name)).unwrap();
    let failures = (0..bytes.len()).step_by(7).filter_map(|at| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let source: Arc<dyn Source> = Arc::new(MemorySource::new("f", bytes));
        let read = || {
            let file = RNTuple::open(source, "ntuple")?;
            (0..2).map(|column| file.read(0, column)).collect::<Result<Vec<_>>>()
        };
        read().err()
    });
    let failures: Vec<Failure> = failures.collect();
    assert!(failures.len() > 50, "{}", failures.len());
    assert!(failures.iter().all(|failure| failure.what.starts_with("f: ")));
    assert!(failures.iter().any(|failure| failure.what.ends_with("page 0: checksum does not match")));
}

#[test]
fn what_is_meant_must_be_clear() {
    let objects = || root_objects(&*source("rntviewer-testfile-multiple-rntuples-v1-0-0-0.root")).unwrap();
    assert_eq!(choose("f", objects(), None).unwrap_err().what, "f: has 2 n-tuples: \"A\", \"B\"");
    assert_eq!(
        choose("f", objects(), Some("C")).unwrap_err().what,
        "f: no n-tuple \"C\", there are \"A\", \"B\""
    );
    assert_eq!(choose("f", objects(), Some("B")).unwrap().path, "B");
    assert_eq!(choose("f", vec![], None).unwrap_err().what, "f: no RNTuple or TTree in this ROOT file");
}

#[test]
fn every_column_of_every_file_is_read_or_refused() {
    for entry in std::fs::read_dir(path("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let source = source(&name);
        for object in root_objects(&*source).unwrap() {
            let file = RNTuple::open(Arc::clone(&source), &object.path).unwrap();
            for cluster in 0..file.row_groups() {
                for (index, about) in file.columns().iter().enumerate() {
                    let values = file.read(cluster, index);
                    assert_eq!(values.is_ok(), about.kind().is_ok(), "{name}: {}: {values:?}", about.name);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_files_never_panic(
        at in prop::collection::vec(any::<prop::sample::Index>(), 1..8), byte: u8, cut: prop::sample::Index
    ) {
        for name in ["test_stl_containers_rntuple_v1-0-0-0.root", "test_float_types_rntuple_v1-0-0-0.root"] {
            let mut bytes = std::fs::read(path(name)).unwrap();
            for at in &at {
                let place = at.index(bytes.len());
                bytes[place] = byte;
            }
            fuzz_rntuple(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            fuzz_rntuple(&bytes);
        }
    }
}
