//! The policy of a pool, set by the operator.

use crate::{
    control::facility::labels::{LABEL_BYTES_MAX, SERVER_WORD, check_name, is_word},
    media::coded::{ALIGNMENT, CELL_BYTES_MAX},
};
use base::{Failure, Millis, Result};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Most copies of a file: beyond this, coding is cheaper and safer.
pub const COPIES_MAX: u8 = 8;
/// Most pieces of a coded file: bounds the domains that a pool needs and the buffers of one stripe.
pub const PIECES_MAX: u8 = 32;
/// Bytes of a full cell where files are coded: what is read at least of a piece, and what one damaged byte costs.
const CELL_BYTES: u32 = 256 << 10;

/// Policy of one pool. Missing fields of a stored one have their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Replicas of each file, 1 to [`COPIES_MAX`]; a copy on tape counts as one. Not used where the pool is coded.
    pub copies: u8,
    /// The number of durable replicas that acknowledge a write, 1 to `copies`; repair makes the others.
    pub acknowledged_copies: u8,
    /// Pieces of a file instead of replicas: for cold data.
    pub coding: Option<Coding>,
    /// The failure domain of copies.
    pub failure_domain: FailureDomain,
    /// The weights for the choice of a partition.
    pub weights: Weights,
    /// Files are spread over several disk servers for speed, without redundancy.
    pub stripe: Stripe,
    /// Objects are written and read without the page cache.
    pub direct: bool,
    /// Space that writes of users leave free on each partition; repair may use it.
    pub reserved_bytes: u64,
    /// When files are evicted to free space, and which; `None`: never by itself.
    pub collection: Option<Collection>,
    /// Each piece is read and compared with its checksum once in this time.
    pub verify_interval: Millis,
    /// A server that was heard within this time answers; one that was not is silent.
    pub heard_bound: Millis,
    /// A server that is silent for longer is given up: its pieces are made anew elsewhere.
    pub silence_bound: Millis,
    /// Bounds of copies that restore the promise.
    pub repair: Rate,
    /// Bounds of copies that drain, spread and balance.
    pub moves: Rate,
    /// How far the fill of a partition may be from the pool's before files move, in thousandths of its capacity.
    pub spread_permille: u16,
    /// What one user may have reserved and not written, in thousandths of what the pool has free. The facility's owner is not bound.
    pub user_reserved_permille: u16,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            name: "main".into(),
            copies: 1,
            acknowledged_copies: 1,
            coding: None,
            failure_domain: FailureDomain::Server,
            weights: Weights::default(),
            stripe: Stripe::default(),
            direct: false,
            // What partitions keep free themselves is not reported as free.
            reserved_bytes: 0,
            collection: None,
            verify_interval: Millis::from_seconds(30 * 86_400),
            heard_bound: Millis::from_seconds(15),
            silence_bound: Millis::from_seconds(600),
            repair: Rate::default(),
            moves: Rate { server_copies: 2, server_bytes: 64 << 30, pool_copies: 64, pool_bytes: 1 << 40 },
            spread_permille: 100,
            user_reserved_permille: 250,
        }
    }
}

/// What two copies of a file must not share, so that one fault cannot take both.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FailureDomain {
    /// The disk server.
    Server,
    /// The label of this name that the operator gave to the server: a rack, a room, a power line. A server that has none shares
    /// nothing with others.
    Label(String),
}

impl FailureDomain {
    /// The word for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Server => SERVER_WORD,
            Self::Label(name) => name,
        }
    }
}

impl FromStr for FailureDomain {
    type Err = Failure;

    fn from_str(word: &str) -> Result<Self> {
        if word == SERVER_WORD {
            return Ok(Self::Server);
        }
        check_name(word)?;
        Ok(Self::Label(word.to_owned()))
    }
}

impl TryFrom<String> for FailureDomain {
    type Error = Failure;

    fn try_from(word: String) -> Result<Self> {
        word.parse()
    }
}

impl From<FailureDomain> for String {
    fn from(domain: FailureDomain) -> Self {
        domain.as_str().to_owned()
    }
}

/// `data` pieces with the content and `parity` more; any `data` of them give the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coding {
    /// Pieces that hold the content.
    pub data: u8,
    /// Pieces that may be lost.
    pub parity: u8,
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

impl FromStr for Coding {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let parts =
            text.split_once('+').and_then(|(data, parity)| Some((data.parse().ok()?, parity.parse().ok()?)));
        let (data, parity) = parts.ok_or_else(|| {
            Failure::invalid(format!("{text:?} is not a coding"))
                .hint("for example 4+2: four data pieces and two parity pieces")
        })?;
        Ok(Self { data, parity })
    }
}

impl Coding {
    /// All pieces.
    #[must_use]
    pub fn pieces(self) -> u8 {
        self.data.saturating_add(self.parity)
    }
}

/// Exponents of the weights in hundredths: 100 is proportional, 0 ignores the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// Of the free space.
    pub free_percent: u16,
    /// Of one over the transfers in progress.
    pub load_percent: u16,
}

impl Default for Weights {
    fn default() -> Self {
        Self { free_percent: 100, load_percent: 100 }
    }
}

/// The striping of a file: units go to `width` disk servers in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stripe {
    /// Disk servers; 1 is a plain replica.
    pub width: u8,
    /// Bytes of a unit with its checksum: a multiple of 4096.
    pub unit_bytes: u32,
}

impl Default for Stripe {
    fn default() -> Self {
        Self { width: 1, unit_bytes: 1 << 20 }
    }
}

/// When and what is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Collection {
    /// Eviction begins on a partition of which less is free: the low water of free space.
    pub begin_free_permille: u16,
    /// It ends as soon as so much is free: the high water of free space.
    pub end_free_permille: u16,
    /// Files that were made or used later are left alone.
    pub age_min: Millis,
    /// The order of eviction.
    pub order: CollectionOrder,
}

impl Default for Collection {
    fn default() -> Self {
        Self {
            begin_free_permille: 50,
            end_free_permille: 100,
            age_min: Millis::from_seconds(3600),
            order: CollectionOrder::LeastRecentlyUsed,
        }
    }
}

/// The order of eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectionOrder {
    /// The least recently used first.
    LeastRecentlyUsed,
    /// The oldest first.
    Age,
    /// The largest first.
    Size,
}

impl CollectionOrder {
    /// Every order: what an operator writes, and what it means.
    pub const WORDS: [(Self, &'static str, &'static str); 3] = [
        (Self::LeastRecentlyUsed, "used", "Not used for the longest time"),
        (Self::Age, "age", "Made first"),
        (Self::Size, "size", "The largest"),
    ];
}

/// Bounds of copies under way. One copy may always run, however large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rate {
    /// Copies that come from or go to one server.
    pub server_copies: u16,
    /// Bytes of these.
    pub server_bytes: u64,
    /// Copies in the whole pool.
    pub pool_copies: u32,
    /// Bytes of these.
    pub pool_bytes: u64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { server_copies: 4, server_bytes: 256 << 30, pool_copies: 256, pool_bytes: 8 << 40 }
    }
}

impl Pool {
    /// Refuses a policy that nobody can keep.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(Failure::invalid(format!("pool {}: {what}", self.name)));
        if !is_word(&self.name) {
            return Err(Failure::invalid(format!("{:?} is not a valid pool name", self.name))
                .hint(format!("1 to {LABEL_BYTES_MAX} of a-z A-Z 0-9 . - _")));
        }
        if !(1..=COPIES_MAX).contains(&self.copies) {
            return refuse(format!("copies is {}; it must be 1 to {COPIES_MAX}", self.copies));
        }
        if !(1..=self.copies).contains(&self.acknowledged_copies) {
            let (asked, copies) = (self.acknowledged_copies, self.copies);
            return refuse(format!(
                "acknowledged_copies is {asked}; it must be 1 to copies, which is {copies}"
            ));
        }
        if let Some(Coding { data, parity }) = self.coding
            && (data == 0 || parity == 0 || u16::from(data) + u16::from(parity) > u16::from(PIECES_MAX))
        {
            return refuse(format!(
                "coding is {data}+{parity}; both must be 1 or more, together {PIECES_MAX} at most"
            ));
        }
        self.check_stripe().map_err(|what| Failure::invalid(format!("pool {}: {what}", self.name)))?;
        self.check_waters().and_then(|()| self.check_times())
    }

    fn check_stripe(&self) -> Result<(), String> {
        let Stripe { width, unit_bytes } = self.stripe;
        if !(1..=PIECES_MAX).contains(&width) {
            return Err(format!("the stripe is {width} wide; it must be 1 to {PIECES_MAX}"));
        }
        if width > 1 && self.coding.is_some() {
            return Err("coded files are spread already; the stripe must be 1 wide".into());
        }
        if width > 1 && self.copies > 1 {
            return Err("striped files have one copy; for more than one they can be coded".into());
        }
        let is_legal =
            (ALIGNMENT..=CELL_BYTES_MAX).contains(&unit_bytes) && unit_bytes.is_multiple_of(ALIGNMENT);
        if !is_legal {
            return Err(format!(
                "the stripe's unit is {unit_bytes} bytes; it must be a multiple of {ALIGNMENT}, \
                    {CELL_BYTES_MAX} at most"
            ));
        }
        Ok(())
    }

    /// The pieces of which new files consist, if they are no replicas: coded ones, or without parity.
    #[must_use]
    pub fn pieces(&self) -> Option<Coding> {
        let Stripe { width, .. } = self.stripe;
        self.coding.or_else(|| (width > 1).then_some(Coding { data: width, parity: 0 }))
    }

    /// Bytes of a full cell of these pieces.
    #[must_use]
    pub fn cell_bytes(&self) -> u32 {
        if self.coding.is_some() { CELL_BYTES } else { self.stripe.unit_bytes }
    }

    fn check_waters(&self) -> Result<()> {
        let Some(collection) = self.collection else { return Ok(()) };
        let (begin, end) = (collection.begin_free_permille, collection.end_free_permille);
        if begin < end && end < 1000 {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "pool {}: collection begins at {begin} and ends at {end} thousandths free",
            self.name
        ))
        .hint("it must end with more free than it begins with, and below 1000"))
    }

    fn check_times(&self) -> Result<()> {
        let name = &self.name;
        if self.heard_bound.0 <= 0 || self.silence_bound <= self.heard_bound || self.verify_interval.0 <= 0 {
            return Err(Failure::invalid(format!(
                "pool {name}: heard_bound, silence_bound and verify_interval must be above zero, and \
                    silence_bound above heard_bound"
            )));
        }
        if self.user_reserved_permille > 1000 {
            return Err(Failure::invalid(format!(
                "pool {name}: user_reserved_permille is {}; it must be 1000 at most",
                self.user_reserved_permille
            )));
        }
        let is_idle = |rate: Rate| rate.server_copies == 0 || rate.pool_copies == 0;
        if is_idle(self.repair) {
            return Err(Failure::invalid(format!("pool {name}: repair may not make any copy")).hint(
                "a lost disk would stay lost; set repair.server_copies and repair.pool_copies to 1 or more",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_keep_is_refused() {
        assert_eq!(Pool::default().check(), Ok(()));
        let wrong: [fn(&mut Pool); 12] = [
            |pool| pool.name.clear(),
            |pool| pool.copies = 0,
            |pool| pool.acknowledged_copies = 2,
            |pool| pool.coding = Some(Coding { data: 31, parity: 2 }),
            |pool| pool.coding = Some(Coding { data: 4, parity: 0 }),
            |pool| pool.stripe.unit_bytes = 1000,
            |pool| pool.stripe.width = 0,
            |pool| (pool.stripe.width, pool.coding) = (2, Some(Coding { data: 4, parity: 2 })),
            |pool| (pool.stripe.width, pool.copies) = (2, 2),
            |pool| pool.silence_bound = pool.heard_bound,
            |pool| pool.repair.server_copies = 0,
            |pool| pool.collection = Some(Collection { begin_free_permille: 100, ..Collection::default() }),
        ];
        for (index, change) in wrong.iter().enumerate() {
            let mut pool = Pool::default();
            change(&mut pool);
            assert!(pool.check().is_err(), "change {index}");
        }
    }

    #[test]
    fn a_stored_policy_has_defaults_and_no_unknown_keys() {
        let pool: Pool =
            serde_json::from_str(r#"{"name": "cold", "coding": {"data": 4, "parity": 2}}"#).unwrap();
        assert_eq!(pool.coding.map(Coding::pieces), Some(6));
        assert_eq!(pool.copies, Pool::default().copies);
        assert!(serde_json::from_str::<Pool>(r#"{"name": "cold", "copys": 2}"#).is_err());
        let racks = r#"{"name": "cold", "failure_domain": "rack"}"#;
        let pool =
            Pool { failure_domain: serde_json::from_str::<Pool>(racks).unwrap().failure_domain, ..pool };
        assert_eq!(pool.failure_domain, FailureDomain::Label("rack".to_owned()));
        let text = serde_json::to_string(&pool).unwrap();
        assert_eq!(serde_json::from_str::<Pool>(&text).unwrap(), pool);
    }
}
