//! A file of two copies: one that fails is dropped before anything counts that it does not have (`spec/share.md` §9).
//!
//! Two writers in turn, two disk servers that stop at any time, with what they have not synced, and come back. Grants and fences have
//! models of their own: here a writer that has ended writes nothing more. What readers see is that of one copy of the layout, any.

use stateright::{Model, Property};
use std::collections::BTreeSet;

const COPIES: usize = 2;
/// Values that are written, in this order.
const VALUES: u8 = 2;
const STARTS: u8 = 1;

/// What is done wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// What one copy missed counts before that copy has left the layout.
    CommitsFirst,
    /// Copies of a writer that is gone are read as if they were the same.
    ComparesNothing,
    /// A disk server that is back has its copy read again.
    TakesBack,
    /// The last copy may leave, too: what comes then is empty.
    DropsLast,
    /// A sync counts though the disk server was started again since the write.
    SyncsAcrossStarts,
    /// Of copies that differ the one with the older content is kept: one that has not all that was committed.
    KeepsDropped,
}

impl Mistake {
    pub(crate) const ALL: [Self; 6] = [
        Self::CommitsFirst,
        Self::ComparesNothing,
        Self::TakesBack,
        Self::DropsLast,
        Self::SyncsAcrossStarts,
        Self::KeepsDropped,
    ];
}

#[derive(Debug, Clone)]
pub(crate) struct Copies {
    pub(crate) mistake: Option<Mistake>,
}

/// What a disk server has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Disk {
    is_up: bool,
    start: u8,
    value: u8,
    synced: u8,
}

/// Who writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Writer {
    /// The layout as it knows it.
    layout: BTreeSet<usize>,
    /// What it writes, and the starts of the disk servers that have said that they have it.
    value: u8,
    written: BTreeSet<(usize, u8)>,
    synced: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    disks: [Disk; COPIES],
    /// The layout as the head has it, and copies that it has dropped.
    layout: BTreeSet<usize>,
    dropped: BTreeSet<usize>,
    is_uneven: bool,
    committed: u8,
    writer: Option<Writer>,
    last: u8,
    /// What readers saw since nobody writes.
    seen: BTreeSet<u8>,
    has_old: bool,
    is_lost: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A client gets the grant to write.
    Begins,
    Writes,
    WriteArrives(usize),
    Syncs(usize),
    Drops(usize),
    Commits,
    /// It returns its grant: all copies have the same.
    Returns,
    /// It is evicted, or gives up.
    Ends,
    /// An uneven file is sealed: copies that answer are compared.
    Compares,
    Reads(usize),
    Stops(usize),
    Starts(usize),
}

impl Copies {
    fn does(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn drops(&self, world: &mut World, copy: usize) -> Option<()> {
        let is_last = world.layout.len() < 2;
        if is_last && !self.does(Mistake::DropsLast) {
            return None;
        }
        let writer = world.writer.as_mut()?;
        writer.layout.remove(&copy);
        if !self.does(Mistake::CommitsFirst) || is_last {
            world.layout.remove(&copy);
            world.dropped.insert(copy);
        }
        world.is_lost |= world.layout.is_empty();
        Some(())
    }

    fn syncs(&self, world: &mut World, copy: usize) -> Option<()> {
        let (disk, writer) = (&mut world.disks[copy], world.writer.as_mut()?);
        let has_told = writer.written.iter().any(|(other, start)| {
            *other == copy && (*start == disk.start || self.does(Mistake::SyncsAcrossStarts))
        });
        if !disk.is_up || !has_told {
            return None;
        }
        disk.synced = disk.value;
        writer.synced.insert(copy);
        Some(())
    }

    fn compares(&self, world: &mut World) -> Option<()> {
        if world.writer.is_some() || !world.is_uneven {
            return None;
        }
        // Who does not answer is waited for, or dropped; if nobody answers, everybody waits.
        let up: BTreeSet<usize> =
            world.layout.iter().copied().filter(|copy| world.disks[*copy].is_up).collect();
        let first = *up.first()?;
        let from = if self.does(Mistake::KeepsDropped) {
            world.dropped.iter().copied().find(|copy| world.disks[*copy].is_up).unwrap_or(first)
        } else {
            first
        };
        let value = world.disks[from].value;
        world.disks[from].synced = value;
        let kept = up.into_iter().filter(|copy| world.disks[*copy].value == value).chain([from]).collect();
        let gone: Vec<_> = world.layout.difference(&kept).copied().collect();
        world.dropped.extend(gone);
        world.layout = kept;
        world.layout.iter().for_each(|copy| world.disks[*copy].synced = value);
        world.is_uneven = false;
        Some(())
    }
}

fn reads(world: &mut World, copy: usize) -> Option<()> {
    let disk = world.disks[copy];
    if world.writer.is_some() || world.is_uneven || !disk.is_up {
        return None;
    }
    world.seen.insert(disk.value);
    world.has_old |= disk.value < world.committed;
    Some(())
}

impl Model for Copies {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let disks = [Disk { is_up: true, ..Disk::default() }; COPIES];
        vec![World { disks, layout: (0..COPIES).collect(), ..World::default() }]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        events.extend([
            Event::Begins,
            Event::Writes,
            Event::Commits,
            Event::Returns,
            Event::Ends,
            Event::Compares,
        ]);
        for copy in 0..COPIES {
            events.extend([Event::WriteArrives(copy), Event::Syncs(copy), Event::Drops(copy)]);
            events.extend([Event::Stops(copy), Event::Starts(copy)]);
        }
        events.extend(world.layout.iter().map(|copy| Event::Reads(*copy)));
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::Begins => {
                let is_free = world.writer.is_none() && !world.is_uneven && world.last < VALUES;
                let layout = is_free.then(|| world.layout.clone())?;
                world.seen.clear();
                world.writer = Some(Writer { layout, value: world.last, ..Writer::default() });
            }
            Event::Writes => {
                let writer = world.writer.as_mut().filter(|_| world.last < VALUES)?;
                world.last += 1;
                *writer = Writer { layout: writer.layout.clone(), value: world.last, ..Writer::default() };
            }
            Event::WriteArrives(copy) => {
                let writer = world.writer.as_mut().filter(|writer| writer.value > world.committed)?;
                let disk = &mut world.disks[copy];
                if !disk.is_up || !writer.layout.contains(&copy) {
                    return None;
                }
                disk.value = writer.value;
                writer.written.insert((copy, disk.start));
            }
            Event::Syncs(copy) => self.syncs(&mut world, copy)?,
            Event::Drops(copy) => self.drops(&mut world, copy)?,
            Event::Commits => {
                let writer = world.writer.as_ref().filter(|writer| writer.value > world.committed)?;
                if writer.layout.is_empty() || !writer.layout.is_subset(&writer.synced) {
                    return None;
                }
                world.committed = writer.value;
            }
            Event::Returns => {
                world.writer.take_if(|writer| writer.value <= world.committed)?;
            }
            Event::Ends => {
                world.writer.take()?;
                world.is_uneven = !self.does(Mistake::ComparesNothing);
            }
            Event::Compares => self.compares(&mut world)?,
            Event::Reads(copy) => reads(&mut world, copy)?,
            Event::Stops(copy) => {
                let disk = &mut world.disks[copy];
                let value = disk.synced;
                *disk = Disk { is_up: false, value, ..*disk };
            }
            Event::Starts(copy) => {
                let disk = &mut world.disks[copy];
                if disk.is_up || disk.start >= STARTS {
                    return None;
                }
                *disk = Disk { is_up: true, start: disk.start + 1, ..*disk };
                if self.does(Mistake::TakesBack) {
                    world.layout.insert(copy);
                }
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("readers see two contents though nobody writes", |_, world: &World| {
                world.seen.len() < 2
            }),
            Property::always("a reader sees less than was committed", |_, world: &World| !world.has_old),
            Property::always("no copy is left", |_, world: &World| !world.is_lost),
            Property::sometimes("possible", |_, world: &World| {
                // All was written and read, though each of the disk servers stopped once, and one copy was dropped.
                let has_stopped = world.disks.iter().all(|disk| disk.start > 0);
                world.committed == VALUES
                    && has_stopped
                    && !world.dropped.is_empty()
                    && !world.seen.is_empty()
            }),
        ]
    }
}
