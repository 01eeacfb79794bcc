use super::{
    super::{
        OpenOptions, open,
        testing::{Data, Layout, source, write},
    },
    *,
};
use proptest::prelude::*;

/// A file of numbers from `start`, every third missing, in row groups of so many rows.
fn file(name: &str, start: i32, rows: usize, rows_per_group: usize) -> Arc<dyn DataFile> {
    let value = |row: i32| (row % 3 != 0).then_some(row);
    let values = (start..start + rows as i32).map(value).collect();
    let layout = Layout { rows_per_group, ..Layout::default() };
    let bytes = write(&[("n", "optional int32", Data::I32(values))], &layout);
    open(source(&format!("{name}:{start}:{rows}:{rows_per_group}"), bytes), OpenOptions::default()).unwrap()
}

fn files(name: &str, rows: &[usize], rows_per_group: usize) -> Vec<Arc<dyn DataFile>> {
    let mut start = 0;
    let next = |rows: &usize| {
        start += *rows as i32;
        file(name, start - *rows as i32, *rows, rows_per_group)
    };
    rows.iter().map(next).collect()
}

fn schema() -> Vec<Column> {
    vec![Column { kind: Kind::I32, is_optional: true, ..Column::of("n", crate::Type::Int) }]
}

fn befriend(main: &[Arc<dyn DataFile>], friend: &[Arc<dyn DataFile>]) -> Result<Vec<Befriended>> {
    let entries: Vec<u64> = main.iter().map(|file| file.entries()).collect();
    let placed: Vec<_> = friend.iter().map(|file| (Arc::clone(file), String::new())).collect();
    let slices = divide(&entries, &placed)?.into_iter();
    let one = |(main, slices): (&Arc<dyn DataFile>, Vec<Slice>)| {
        Befriended::new(Arc::clone(main), vec![Friend::new(slices, "f_", &schema())?])
    };
    main.iter().zip(slices).map(one).collect()
}

#[test]
fn friends_have_other_names_and_as_many_entries() {
    let (main, friend) = (files("m", &[5], 2), files("f", &[5], 3));
    let both = befriend(&main, &friend).unwrap().remove(0);
    let names: Vec<_> = both.columns().iter().map(FileColumn::name).collect();
    assert_eq!(names, ["n", "f_n"]);
    assert!(both.cache_key(0) == main[0].cache_key(0) && both.cache_key(1).0 != main[0].identity());
    let failure = befriend(&main, &files("f", &[4], 3)).unwrap_err();
    assert_eq!(failure.what, "n-tuple of 5 entries has a friend of 4");
    let slices = divide(&[5], &[(Arc::clone(&friend[0]), String::new())]).unwrap().remove(0);
    let same = Befriended::new(Arc::clone(&main[0]), vec![Friend::new(slices, "", &schema()).unwrap()]);
    assert!(same.err().unwrap().what.ends_with("a friend has a column \"n\", too"));
}

/// What the cache gives for the column of a friend, of a file with columns `n` and `score` as another chain has them.
fn cached(cache: &ColumnCache, name: &str, kind: Kind) -> Array {
    let data = |start: i32| Data::I32((start..start + 5).map(Some).collect());
    let columns = [("n", "required int32", data(0)), ("score", "required int32", data(100))];
    let bytes = write(&columns, &Layout::default());
    let friend = open(source("two columns", bytes), OpenOptions::default()).unwrap();
    let main = files("m", &[5], 2).remove(0);
    let slices = divide(&[5], &[(friend, String::new())]).unwrap().remove(0);
    let columns = [Column { kind, ..Column::of(name, kind.ty()) }];
    let both = Befriended::new(main, vec![Friend::new(slices, "f_", &columns).unwrap()]).unwrap();
    let (identity, cached_as) = both.cache_key(1);
    cache.get(identity, 1, cached_as, || both.read(1, 1)).unwrap().array.clone()
}

#[test]
fn columns_of_one_file_that_chains_see_otherwise_are_cached_apart() {
    let cache = ColumnCache::new(1 << 20);
    assert_eq!(cached(&cache, "n", Kind::I32), Array::I32(vec![2, 3]));
    assert_eq!(cached(&cache, "score", Kind::I32), Array::I32(vec![102, 103]));
    assert_eq!(cached(&cache, "score", Kind::I64), Array::I64(vec![102, 103]));
    assert_eq!(cached(&cache, "n", Kind::I32), Array::I32(vec![2, 3]));
    assert_eq!(cache.use_now().hits, 1);
}

#[test]
fn lists_are_cut_and_joined() {
    let lists = |values: &[i32], offsets: &[u32]| Values {
        array: Array::I32(values.to_vec()),
        present: None,
        offsets: Some(Arc::new(offsets.to_vec())),
    };
    let mut found = Gathered { all: Array::empty(Kind::I64).into(), ends: None };
    found.append(&lists(&[1, 2, 3, 4], &[0, 1, 1, 4]), 1..3);
    found.append(&lists(&[5, 6], &[0, 2]), 0..1);
    let found = found.finish();
    assert_eq!(found.array, Array::I64(vec![2, 3, 4, 5, 6]));
    assert_eq!(*found.offsets.unwrap(), [0, 0, 3, 5]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn entries_stand_beside_their_own(
        main in prop::collection::vec(0usize..30, 1..5), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        group in 1usize..9, friend_group in 1usize..9,
    ) {
        let total: usize = main.iter().sum();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(total + 1)).chain([0, total]).collect();
        at.sort_unstable();
        let friend: Vec<usize> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let all = befriend(&files("m", &main, group), &files("f", &friend, friend_group)).unwrap();
        for file in all {
            for row_group in 0..file.row_groups() {
                let (own, beside) = (file.read(row_group, 0).unwrap(), file.read(row_group, 1).unwrap());
                prop_assert_eq!(own.settled(), beside);
            }
        }
    }
}
