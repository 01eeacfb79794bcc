//! The lines of one pass, as an index over groups, and in each group over the lines of its users.
//!
//! When a job is taken, only the rank of its group and that of its owner change. So the group moves in the index of groups, the lines of
//! the owner move in the index of the group, and nobody else is looked at.

use crate::{
    batch::fair_share::Rank,
    store::{Member, QueueRow, Wish},
};
use base::JobId;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    iter::Peekable,
};

/// What is left of a line.
pub(super) type OpenLine<'a> = Peekable<Box<dyn Iterator<Item = &'a (Reverse<i32>, JobId)> + 'a>>;
/// What decides which line of a group goes next, the lowest: priority, rank of the user, job, and the number of the line.
type Head = (Reverse<i32>, Rank, JobId, usize);
/// What decides which group goes next, the lowest: priority, rank of the group, rank of the user, job, and the number of the group.
type GroupKey = (Reverse<i32>, Rank, Rank, JobId, usize);

/// A line that may give the next job.
pub(super) struct Cursor<'a> {
    pub(super) queue: &'a QueueRow,
    pub(super) wish: &'a Wish,
    pub(super) line: OpenLine<'a>,
}

/// An owner who waits, with the numbers of their lines.
struct Owner<'a> {
    member: &'a Member,
    group: usize,
    rank: Rank,
    lines: Vec<usize>,
}

/// A group of which somebody waits.
struct Group {
    rank: Rank,
    heads: BTreeSet<Head>,
}

/// The job that goes next.
pub(super) struct Next<'a> {
    line: usize,
    pub(super) id: JobId,
    pub(super) queue: &'a QueueRow,
    pub(super) wish: &'a Wish,
    pub(super) member: &'a Member,
}

/// The lines in the order in which they go.
#[derive(Default)]
pub(super) struct Order<'a> {
    /// Each with the number of its owner.
    lines: Vec<(Cursor<'a>, usize)>,
    owners: Vec<Owner<'a>>,
    groups: Vec<Group>,
    numbers: BTreeMap<&'a Member, usize>,
    group_numbers: BTreeMap<&'a str, usize>,
    index: BTreeSet<GroupKey>,
}

impl<'a> Order<'a> {
    /// Adds a line; `rank` yields the ranks of the owner's group and of the owner.
    pub(super) fn add(
        &mut self,
        member: &'a Member,
        cursor: Cursor<'a>,
        rank: impl FnOnce(&Member) -> (Rank, Rank),
    ) {
        let owner = match self.numbers.get(member) {
            Some(owner) => *owner,
            None => self.add_owner(member, rank(member)),
        };
        self.owners[owner].lines.push(self.lines.len());
        self.lines.push((cursor, owner));
    }

    fn add_owner(&mut self, member: &'a Member, (group_rank, rank): (Rank, Rank)) -> usize {
        let group = *self.group_numbers.entry(&member.group).or_insert_with(|| {
            self.groups.push(Group { rank: group_rank, heads: BTreeSet::new() });
            self.groups.len() - 1
        });
        self.owners.push(Owner { member, group, rank, lines: Vec::new() });
        self.numbers.insert(member, self.owners.len() - 1);
        self.owners.len() - 1
    }

    /// All lines are there: makes the index.
    pub(super) fn begin(&mut self) {
        for line in 0..self.lines.len() {
            if let Some(head) = self.head(line) {
                let group = self.owners[self.lines[line].1].group;
                self.groups[group].heads.insert(head);
            }
        }
        self.index = (0..self.groups.len()).filter_map(|group| self.group_key(group)).collect();
    }

    fn head(&mut self, line: usize) -> Option<Head> {
        let (cursor, owner) = &mut self.lines[line];
        let (priority, id) = cursor.line.peek().copied().copied()?;
        Some((priority, self.owners[*owner].rank, id, line))
    }

    fn group_key(&self, number: usize) -> Option<GroupKey> {
        let group = &self.groups[number];
        group.heads.first().map(|(priority, rank, id, _)| (*priority, group.rank, *rank, *id, number))
    }

    /// The first job that `may` start. A line that may not is left out from then on: what runs in a pass only grows.
    pub(super) fn next(&mut self, may: impl Fn(&QueueRow, &Member, &Wish) -> bool) -> Option<Next<'a>> {
        while let Some(&(.., group)) = self.index.first() {
            let &(_, _, id, line) = self.groups[group].heads.first()?;
            let (Cursor { queue, wish, .. }, owner) = &self.lines[line];
            let member = self.owners[*owner].member;
            if may(queue, member, wish) {
                return Some(Next { line, id, queue, wish, member });
            }
            self.index.pop_first();
            self.groups[group].heads.pop_first();
            self.index.extend(self.group_key(group));
        }
        None
    }

    /// Takes the job that goes next away; `ranks` are those of its owner's group and of its owner from now on.
    pub(super) fn take(&mut self, next: &Next<'a>, (group_rank, rank): (Rank, Rank)) {
        let owner = self.lines[next.line].1;
        let group = self.owners[owner].group;
        self.index.pop_first();
        let lines = std::mem::take(&mut self.owners[owner].lines);
        // Lines that were left out stay so.
        let mut heads: Vec<_> = lines.iter().filter_map(|line| self.head(*line)).collect();
        heads.retain(|head| self.groups[group].heads.remove(head));
        self.owners[owner].rank = rank;
        self.lines[next.line].0.line.next();
        for (.., line) in heads {
            let head = self.head(line);
            self.groups[group].heads.extend(head);
        }
        self.owners[owner].lines = lines;
        self.groups[group].rank = group_rank;
        self.index.extend(self.group_key(group));
    }
}
