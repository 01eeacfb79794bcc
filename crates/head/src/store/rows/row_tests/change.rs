//! Random changes of a catalogue.

use super::{Change, NAMES, NOW, content, files, partition};
use crate::store::{CopyRow, GrantRow, NOT_BEGUN, NewNode, Piece, Replica, ReplicaState, Store, TrashRow};
use base::{FileId, ObjectId, Timestamp};
use wire::control::{Coding, NodeKind, PartitionState, Pool, RegisterPartition, Rights, TrashReason};

/// One change as the head makes it; what the head would refuse changes nothing.
pub(super) fn change(store: &Store, Change { what, a, b }: Change) {
    let all = files(store);
    let target = &all[a as usize % all.len()];
    let parent = all.iter().find(|node| node.name == "d" && b % 2 == 0).map_or(FileId(1), |node| node.id);
    let name = NAMES[(b / 2) as usize % 3];
    let is_free = store.child(parent, name).unwrap().is_none();
    let is_file = !target.is_directory();
    let object = target.replicas.first().map(|replica| replica.object);
    match what {
        0 if is_free => {
            let kind = NodeKind::File;
            store.insert_node(&NewNode { parent, name, kind, owner: "ada", mode: 0, now: NOW }).unwrap();
        }
        1 if store.child(FileId(1), "d").unwrap().is_none() => {
            let kind = NodeKind::Directory;
            let new = NewNode { parent: FileId(1), name: "d", kind, owner: "ada", mode: 0, now: NOW };
            store.insert_node(&new).unwrap();
        }
        2 => store.set_mode(target.id, b as u32 % 8).unwrap(),
        3 if is_file => store.set_content(target.id, content(b), NOW).unwrap(),
        4 if is_file && is_free => store.move_node(target.id, parent, name).unwrap(),
        // Two files change their names.
        5 => {
            let other = &all[b as usize % all.len()];
            if is_file && !other.is_directory() && other.id != target.id {
                store.move_node(target.id, FileId(99), "aside").unwrap();
                store.move_node(other.id, target.parent, &target.name).unwrap();
                store.move_node(target.id, other.parent, &other.name).unwrap();
            }
        }
        6 if is_file => {
            for replica in &target.replicas {
                store.remove_replica(replica).unwrap();
            }
            store.delete_copies(target.id).unwrap();
            store.delete_node(target.id).unwrap();
        }
        7 if is_file => {
            let partition = if b % 2 == 0 { "p" } else { "q" }.to_owned();
            let (state, created) = match b % 4 {
                0 => (ReplicaState::Recalling, NOW),
                1 => (ReplicaState::Reserved, NOT_BEGUN),
                _ => (ReplicaState::Writing, NOW),
            };
            let (object, owner) = (ObjectId(0), "ada".to_owned());
            let size = b % 10;
            let piece = (b % 5 > 1).then(|| {
                let coding = Coding { data: 2, parity: 1 };
                let checksums = (b % 3 == 0).then(|| base::Checksums::of(b"piece"));
                Piece { coding, cell_bytes: 4096, index: b as u8 % 3, checksums }
            });
            let file = target.id;
            let new = Replica { object, file, partition, state, owner, size, created, used: NOW, piece };
            store.insert_replica(new).unwrap();
        }
        8 => object.into_iter().for_each(|object| store.set_replica_online(object, b % 10, NOW).unwrap()),
        9 => object.into_iter().for_each(|object| {
            if let Some(replica) = store.replica(object).unwrap() {
                store.note_use(&replica, Timestamp(NOW.0 + 100_000 + b as i64 % 9));
            }
            store.write_uses(1).unwrap();
        }),
        10 => target.replicas.first().into_iter().for_each(|replica| store.remove_replica(replica).unwrap()),
        11 if is_file => {
            let (vid, fseq) = ("BP0001".parse().unwrap(), b as u32);
            let copy = CopyRow { file: target.id, vid, fseq, block: 1, size: 1, member: None };
            // A volume's file that is there: as the database refuses it. The head does not go on then.
            if store.all("SELECT 1 FROM copy WHERE fseq = ?1", (fseq,), |_| Ok(())).unwrap().is_empty() {
                store.insert_copy(&copy, NOW).unwrap();
                store.set_lacks_copies(target.id, b % 3 == 0).unwrap();
            }
        }
        12 => store.delete_copies(target.id).unwrap(),
        13 => {
            let charge = crate::store::Charge { jobs: b % 5, tape_loads: 0.5, ..Default::default() };
            store.charge(crate::store::Payer::user("ada"), &charge).unwrap();
        }
        14 => store.set_space("p", 1000, b % 1000).unwrap(),
        15 => {
            let paths = NAMES.iter().flat_map(|name| [format!("/{name}"), format!("/d/{name}/x")]);
            let paths: Vec<_> = paths.map(|path| path.parse().unwrap()).collect();
            store.look_ahead(&paths).unwrap();
        }
        16 => store.set_project(target.id, ["", "run1", "run2"][b as usize % 3]).unwrap(),
        17 => store.set_time(Timestamp(NOW.0 + b as i64 % 90 * 86_400_000)),
        18 => {
            store.put_partition(RegisterPartition { boot: b % 5, ..partition("q") }).unwrap();
            store.set_partition_pool("r", ["main", "cold"][b as usize % 2]).unwrap();
            store.set_size_max("q", (b % 3 > 0).then_some(b % 1000)).unwrap();
        }
        19 => {
            let subject = if b % 2 == 0 { "user:ann" } else { "group:prod" }.parse().unwrap();
            let (rights, giver) =
                (if b % 3 == 0 { Rights::Read } else { Rights::ReadWrite }, "ada".to_owned());
            store.put_grant(&GrantRow { directory: target.id, subject, rights, giver, made: NOW }).unwrap();
        }
        20 => store.delete_grant(target.id, &"user:ann".parse().unwrap()).unwrap(),
        21 => object.into_iter().for_each(|object| {
            let states = [ReplicaState::Lost, ReplicaState::Online, ReplicaState::Damaged];
            let state = states[b as usize % 3];
            store.set_replica_state(object, state).unwrap();
        }),
        22 => store.set_partition_state("p", PartitionState::ALL[b as usize % 4]).unwrap(),
        23 => store.set_given_up("p", (b % 2 == 0).then_some(NOW)).unwrap(),
        24 if is_file => store.put_shortage(target.id, "main", b as usize % 3, NOW).unwrap(),
        25 => store.delay_shortage(target.id, NOW, (b % 2 == 0).then_some("no room")).unwrap(),
        26 => {
            let copies = b as u8 % 3 + 1;
            let name = "main".to_owned();
            store.set_policy(&Pool { name, copies, acknowledged_copies: 1, ..Pool::default() }).unwrap();
        }
        27 => {
            let some = store.removals("p", 1 + b as usize % 3).unwrap();
            store.end_removals("p", &some).unwrap();
            // Of another partition, or said for the second time.
            store.end_removals("q", &some).unwrap();
        }
        28 => store.forget_removals().unwrap(),
        29 => {
            let label = ["rack=r1", "rack=r2", "rack=", "room=b1"][b as usize % 4].parse().unwrap();
            store.set_host_label(["d1", "d2"][a as usize % 2], &label).unwrap();
        }
        30 if is_file && !target.has_further_names() => {
            let path = format!("/{}", target.name).parse().unwrap();
            let row = TrashRow {
                file: target.id,
                path,
                removed: NOW,
                remover: "bob".into(),
                why: TrashReason::Removed,
            };
            if b % 3 > 0 && target.checksums.is_some() {
                store.split_content(target, &[], row).unwrap();
            } else {
                store.put_trash(&row).unwrap();
            }
        }
        31 => {
            let rows = store.oldest_trash(9).unwrap();
            if let Some((_, file)) = rows.get(a as usize % 9)
                && is_free
            {
                store.take_from_trash(*file, parent, name).unwrap();
            }
        }
        32 if is_file && is_free => store.add_hard_link(target.id, parent, name).unwrap(),
        33 if is_file && target.has_further_names() => {
            let names = store.hard_links(target.id).unwrap();
            let (_, parent, name) = &names[b as usize % names.len()];
            match b % 2 {
                0 => store.remove_name(target, *parent, name).unwrap(),
                _ => store.remove_name(target, target.parent, &target.name).unwrap(),
            }
        }
        34 if is_file && is_free && target.has_further_names() => {
            let names = store.hard_links(target.id).unwrap();
            store.move_node(names[b as usize % names.len()].0, parent, name).unwrap();
        }
        // A query that needs what was changed.
        _ => drop(store.children(FileId(1), "", 9).unwrap()),
    }
}
