use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    sessions_max: 8,
    sessions_per_address_max: 4,
    bytes_max: 1000,
    requests_per_s_max: 10,
    deadline: PROOF_DEADLINE,
};

fn source(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn door(slots: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(slots))
}

#[test]
fn an_address_is_an_ipv4_address_or_a_network_of_a_host() {
    let of = |text: &str| Source::of(text.parse().unwrap());
    assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_ne!(of("0.0.0.1"), of("0:0:0:1::"), "a network is not an address");
}

#[test]
fn a_flood_displaces_itself_and_nobody_else() {
    let (budget, door) = (Unproven::new(LIMITS), door(100));
    let other = budget.enter(source(2), &door);
    let flood: Vec<_> = (0..100).map(|_| budget.enter(source(1), &door)).collect();
    assert_eq!((budget.sessions(), budget.displaced()), (5, 96));
    assert!(
        flood[..96].iter().all(ConnectionSlot::is_over) && !flood[96..].iter().any(ConnectionSlot::is_over)
    );
    assert!(!other.is_over());
    // As a whole it is full now, of two addresses; the next one takes a slot of the larger.
    let third: Vec<_> = (3..6).map(|last| budget.enter(source(last), &door)).collect();
    assert_eq!(budget.sessions(), 8);
    let last = budget.enter(source(9), &door);
    assert!(
        flood[96].is_over()
            && !flood[97].is_over()
            && !third.iter().chain([&other, &last]).any(ConnectionSlot::is_over)
    );
    drop(flood);
    assert_eq!(budget.sessions(), 5);
}

#[test]
fn who_is_proven_takes_a_place_of_the_door_and_none_of_the_budget() {
    let (budget, door) = (Unproven::new(LIMITS), door(2));
    let slots: Vec<_> = (0..3).map(|_| budget.enter(source(1), &door)).collect();
    slots[0].prove().unwrap();
    slots[0].prove().unwrap();
    slots[1].prove().unwrap();
    assert_eq!((budget.sessions(), door.available_permits()), (1, 0));
    let refused = slots[2].prove().unwrap_err();
    assert!(refused.kind == base::ErrorKind::Busy && !slots[2].is_proven());
    drop(slots);
    assert_eq!((budget.sessions(), door.available_permits()), (0, 2));
}

#[test]
fn who_holds_most_memory_loses_it() {
    let (budget, door) = (Unproven::new(LIMITS), door(100));
    let hogs: Vec<_> = (0..3).map(|_| budget.enter(source(1), &door)).collect();
    let other = budget.enter(source(2), &door);
    let beyond = |bytes| UNPROVEN_BYTES + bytes;
    assert!(other.hold(UNPROVEN_BYTES) && hogs[0].hold(beyond(500)) && hogs[1].hold(beyond(500)));
    assert!(other.hold(beyond(300)));
    assert!(hogs[0].is_over() && !hogs[1].is_over() && !hogs[0].hold(beyond(1)));
    assert!(hogs[1].hold(0) && hogs[2].hold(beyond(700)), "given back");
    assert!(!hogs[1].hold(beyond(1001)), "more than there is for all");
    other.prove().unwrap();
    assert!(other.hold(1 << 30));
}

#[test]
fn requests_are_counted_by_the_second_and_everybody_has_a_share() {
    let mut ledger = Ledger::default();
    let (now, ended) = (Instant::now(), Arc::default());
    let (loud, quiet) = (Source::of(source(1)), Source::of(source(2)));
    ledger.enter(&LIMITS, loud, &ended);
    ledger.enter(&LIMITS, quiet, &ended);
    let passed = (0..100).filter(|_| ledger.request(&LIMITS, loud, now)).count();
    assert_eq!(passed, 10);
    let passed = (0..100).filter(|_| ledger.request(&LIMITS, quiet, now)).count();
    assert_eq!(passed, 5, "half of it, whoever was first");
    assert!(ledger.request(&LIMITS, loud, now + Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_over_when_it_is_needed_and_never_once_it_is_proven() {
    let (budget, door) = (Unproven::new(LIMITS), door(100));
    let first = Arc::new(budget.enter(source(1), &door));
    let waits = tokio::spawn({
        let first = Arc::clone(&first);
        async move { first.over().await }
    });
    tokio::task::yield_now().await;
    let others: Vec<_> = (0..4).map(|_| budget.enter(source(1), &door)).collect();
    waits.await.unwrap();
    others[0].prove().unwrap();
    assert!(!others[0].is_over());
    let forever = tokio::time::timeout(2 * PROOF_DEADLINE, others[0].over());
    assert!(forever.await.is_err());
}

#[derive(Debug, Clone)]
enum Step {
    Enter(u8),
    Leave(usize),
    Hold(usize, usize),
    Prove(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..5).prop_map(Step::Enter),
        1 => (0_usize..20).prop_map(Step::Leave),
        3 => (0_usize..20, 0_usize..8000).prop_map(|(which, bytes)| Step::Hold(which, bytes)),
        1 => (0_usize..20).prop_map(Step::Prove),
    ]
}

proptest! {
    #[test]
    fn the_budget_is_kept_and_nothing_is_lost_of_it(steps in prop::collection::vec(step(), 0..200)) {
        let (budget, door) = (Unproven::new(LIMITS), door(6));
        let mut slots: Vec<ConnectionSlot> = Vec::new();
        for step in steps {
            let count = slots.len();
            match step {
                Step::Enter(last) => {
                    slots.push(budget.enter(source(last), &door));
                    prop_assert!(!slots[count].is_over(), "who comes gets in");
                }
                Step::Leave(which) if count > 0 => drop(slots.swap_remove(which % count)),
                Step::Hold(which, bytes) if count > 0 => {
                    let slot = &slots[which % count];
                    prop_assert_eq!(slot.hold(bytes), !slot.is_over());
                }
                Step::Prove(which) if count > 0 => {
                    let has_place = door.available_permits() > 0 || slots[which % count].is_proven();
                    prop_assert_eq!(slots[which % count].prove().is_ok(), has_place);
                }
                _ => {}
            }
            let ledger = budget.ledger();
            let live = slots.iter().filter(|slot| !slot.is_proven() && !slot.is_over()).count();
            prop_assert_eq!(ledger.sessions, live);
            prop_assert!(ledger.sessions <= LIMITS.sessions_max && ledger.bytes <= LIMITS.bytes_max);
            let groups = ledger.groups.values();
            prop_assert!(groups.clone().all(|group| group.entries.len() <= LIMITS.sessions_per_address_max));
            prop_assert_eq!(groups.map(|group| group.bytes).sum::<usize>(), ledger.bytes);
        }
        drop(slots);
        prop_assert!(budget.ledger().groups.is_empty() && budget.ledger().bytes == 0);
        prop_assert_eq!(door.available_permits(), 6);
    }
}
