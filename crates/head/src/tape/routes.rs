//! Which copies of a file its storage class still wants: pure.

use crate::store::CopyPlace;
use base::Vid;
use wire::control::{CopyRoute, StorageClass, VolumeState};

/// The routes of a class that no copy has taken. Copies that are lost do not count, nor those on volumes that are to become empty.
///
/// Without a class a file has one copy, wherever it is.
pub(super) fn missing(class: Option<&StorageClass>, copies: &[CopyPlace], leaving: &[Vid]) -> Vec<CopyRoute> {
    let counts = |copy: &&CopyPlace| copy.state != VolumeState::Broken && !leaving.contains(&copy.vid);
    let mut left: Vec<&CopyPlace> = copies.iter().filter(counts).collect();
    let Some(class) = class else {
        return if left.is_empty() { vec![CopyRoute::default()] } else { Vec::new() };
    };
    let mut routes: Vec<&CopyRoute> = class.copies.iter().collect();
    // What fits one route only must not take the copy of that for one which takes any.
    routes.sort_by_key(|route| route.library.is_none());
    routes.retain(|route| {
        let taken = left.iter().position(|copy| route.accepts(&copy.library, &copy.pool));
        taken.map(|place| left.swap_remove(place)).is_none()
    });
    routes.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(vid: &str, library: &str, pool: &str) -> CopyPlace {
        let (library, pool) = (library.to_owned(), pool.to_owned());
        CopyPlace { vid: vid.parse().unwrap(), library, pool, state: VolumeState::Full }
    }

    fn routes(texts: &[&str]) -> Vec<CopyRoute> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn without_a_class_one_copy_is_enough_wherever_it_is() {
        assert_eq!(missing(None, &[], &[]), routes(&["any"]));
        assert_eq!(missing(None, &[copy("A", "lib1", "raw")], &[]), []);
    }

    #[test]
    fn each_route_wants_a_copy_of_its_own() {
        let class = StorageClass { copies: routes(&["any", "library=lib2", "pool=raw"]) };
        assert_eq!(missing(Some(&class), &[], &[]).len(), 3);
        let (second, first) = (copy("B", "lib2", ""), copy("A", "lib1", ""));
        // The one in lib2 is not spent on the route that takes any library.
        assert_eq!(missing(Some(&class), std::slice::from_ref(&second), &[]), routes(&["any", "pool=raw"]));
        assert_eq!(missing(Some(&class), &[second.clone(), first.clone()], &[]), routes(&["pool=raw"]));
        let other = copy("C", "lib1", "other");
        assert_eq!(missing(Some(&class), &[other, second, first], &[]), routes(&["pool=raw"]));
    }

    #[test]
    fn lost_copies_and_those_of_a_repack_do_not_count() {
        let class = StorageClass { copies: routes(&["any", "any"]) };
        let (mut lost, kept) = (copy("A", "lib1", ""), copy("B", "lib1", ""));
        lost.state = VolumeState::Broken;
        assert_eq!(missing(Some(&class), &[lost.clone(), kept.clone()], &[]), routes(&["any"]));
        assert_eq!(missing(Some(&class), &[lost, kept.clone()], &[kept.vid]).len(), 2);
    }

    #[test]
    fn a_volume_on_the_shelf_is_where_it_was() {
        let class = StorageClass { copies: routes(&["library=lib1"]) };
        assert_eq!(missing(Some(&class), &[copy("A", "", "")], &[]), []);
    }
}
