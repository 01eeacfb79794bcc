use super::*;
use crate::access::host_registry::Member;
use base::{Millis, Timestamp};
use wire::{
    auth::{
        keys::KeyFile,
        token::{LIFETIME_MAX, enrolment},
    },
    control::HostNames,
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn authenticator(is_token_required: bool) -> Authenticator {
    Authenticator::new(TokenKey::derive(&[1; 32]), "f00", "root", is_token_required, Arc::new(|| NOW))
}

fn token(subject: &str, scopes: Option<&str>) -> String {
    let claims = Claims {
        issuer: "f00".to_owned(),
        subject: subject.to_owned(),
        audience: Vec::new(),
        id: String::new(),
        issued: NOW,
        starts: NOW,
        expires: NOW + Millis(1000),
        scopes: scopes.map(|scopes| Scopes::parse(scopes).unwrap()),
        groups: vec!["prod".to_owned()],
        is_of_job: false,
        host: None,
    };
    TokenKey::derive(&[1; 32]).sign(&claims)
}

#[tokio::test]
async fn tokens_of_jobs_end_with_their_host() {
    let member = |joined| Member {
        name: "c1".to_owned(),
        enrolment: enrolment("c1", joined),
        roles: Vec::new(),
        reached: HostNames::default(),
    };
    let claims = Claims {
        issuer: "f00".to_owned(),
        subject: "ann".to_owned(),
        audience: Vec::new(),
        id: String::new(),
        issued: NOW,
        starts: NOW,
        expires: NOW + Millis(1000),
        scopes: None,
        groups: Vec::new(),
        is_of_job: true,
        host: Some(enrolment("c1", NOW)),
    };
    let token = TokenKey::derive(&[1; 32]).sign(&claims);
    let host_registry = HostRegistry::default();
    let authenticator = authenticator(true).with_hosts(host_registry.clone());
    host_registry.set([("certificate".to_owned(), member(NOW))]);
    let session = authenticator.bearer(&token).await.unwrap();
    session.is_good(NOW).unwrap();
    for later in [vec![], vec![("another".to_owned(), member(NOW + Millis(1)))]] {
        host_registry.set(later);
        let refused = authenticator.bearer(&token).await.unwrap_err();
        assert!(refused.what.contains("removed") && refused.hint.is_some(), "{refused}");
        assert!(session.is_good(NOW).is_err(), "a session that goes on");
    }
}

#[tokio::test]
async fn sessions_end_with_the_generation_that_signed_their_token() {
    let file = KeyFile::first([1; 32], NOW);
    let keys = Keyring::new(&file);
    let tokens = TokenKey::new(keys.clone(), LIFETIME_MAX);
    let authenticator = Authenticator::new(tokens, "f00", "root", true, Arc::new(|| NOW));
    let session = authenticator.bearer(&token("alice", None)).await.unwrap();
    assert_eq!(session.token().unwrap().generation, Some(1));
    let rotated = file.rotate([2; 32], Millis(500), NOW).unwrap();
    keys.set(&rotated);
    session.is_good(NOW + Millis(499)).unwrap();
    assert!(session.is_good(NOW + Millis(500)).unwrap_err().what.contains("generation 1"));
    keys.set(&rotated.revoke(1, [3; 32], NOW).unwrap());
    assert!(session.is_good(NOW).is_err(), "a session that goes on");
    assert!(session.may(Right::Read, &path("/x"), NOW).is_err());
    assert!(authenticator.bearer(&token("alice", None)).await.is_err());
}

fn path(text: &str) -> FilePath {
    text.parse().unwrap()
}

const DAEMON: u32 = 900;
const ALICE: u32 = 1001;
const NAMESAKE: u32 = 1002;

fn local_authenticator(is_token_required: bool) -> Authenticator {
    let users = [(0, "root"), (DAEMON, "backplane"), (ALICE, "alice"), (NAMESAKE, "curator_of_data")];
    let authenticator = Authenticator::new(
        TokenKey::derive(&[1; 32]),
        "f00",
        "curator_of_data",
        is_token_required,
        Arc::new(|| NOW),
    );
    authenticator.with_users(LocalUsers::fixed(DAEMON, &users))
}

async fn local(uid: u32, claim: Claim<'_>) -> Result<(String, bool), Failure> {
    local_authenticator(false).local(Some(uid), claim).await.map(|it| (it.who.name, it.who.is_operator))
}

#[tokio::test]
async fn only_root_and_the_daemons_user_are_the_owner() {
    let owner = Ok(("curator_of_data".to_owned(), true));
    for uid in [0, DAEMON] {
        for claim in [
            Claim::None,
            Claim::Login(""),
            Claim::Login("curator_"),
            Claim::Login("backplan"),
            Claim::Named("curator_of_data"),
        ] {
            if uid == DAEMON || claim != Claim::Login("backplan") {
                assert_eq!(local(uid, claim).await, owner, "{uid} {claim:?}");
            }
        }
        for claim in [Claim::Login("alice"), Claim::Named("alice")] {
            assert_eq!(local(uid, claim).await, Ok(("alice".to_owned(), false)));
        }
        for odd in ["host:d1", "a,b", "", "x\u{1b}[2J"] {
            assert!(local(uid, Claim::Named(odd)).await.is_err(), "{odd:?}");
        }
    }
}

#[tokio::test]
async fn everybody_else_is_whom_the_kernel_says() {
    for claim in [
        Claim::None,
        Claim::Login("root"),
        Claim::Login("curator_"),
        Claim::Login("alice"),
        Claim::Named("alice"),
    ] {
        assert_eq!(local(ALICE, claim).await, Ok(("alice".to_owned(), false)), "{claim:?}");
    }
    for name in ["root", "curator_of_data", "backplane", ""] {
        let refused = local(ALICE, Claim::Named(name)).await.unwrap_err();
        assert!(refused.kind == base::ErrorKind::Permission && refused.hint.is_some(), "{refused}");
    }
    assert!(local(NAMESAKE, Claim::None).await.unwrap_err().what.contains("name of the facility's owner"));
    assert_eq!(local(77, Claim::Login("alice")).await, Ok(("uid77".to_owned(), false)));
    assert!(local_authenticator(false).local(None, Claim::Login("alice")).await.is_err());
}

#[tokio::test]
async fn where_tokens_are_demanded_only_the_owner_does_without_at_the_socket() {
    let authenticator = local_authenticator(true);
    assert!(authenticator.local(Some(0), Claim::None).await.unwrap_err().hint.is_some());
    assert!(authenticator.at_socket(Some(0), Claim::None).await.unwrap().who.is_operator);
    assert!(authenticator.at_socket(Some(ALICE), Claim::None).await.is_err());
    assert!(authenticator.at_socket(None, Claim::None).await.is_err());
    let open = local_authenticator(false).at_socket(Some(ALICE), Claim::None).await.unwrap();
    assert_eq!((open.who.name.as_str(), open.who.is_operator), ("alice", false));
}

#[tokio::test]
async fn scopes_bind_everybody_and_only_while_the_token_holds() {
    let owner = authenticator(true).bearer(&token("root", Some("storage.read:/data"))).await.unwrap();
    assert!(owner.who.is_operator && owner.is_scoped() && !owner.who.is_in("prod"));
    assert!(owner.may(Right::Read, &path("/data/x"), NOW).is_ok());
    let refused = owner.may(Right::Modify, &path("/data/x"), NOW).unwrap_err();
    assert!(refused.what.contains("does not allow to modify /data/x"), "{refused}");
    assert_eq!(refused.hint.as_deref(), Some("it allows storage.read:/data"));
    assert!(owner.may(Right::Read, &path("/other"), NOW).is_err());
    assert!(
        owner.may(Right::Read, &path("/data/x"), NOW + Millis(1000)).unwrap_err().what.contains("expired")
    );
}

#[test]
fn no_issuer_speaks_for_the_owner() {
    let person = |user: &str| Person {
        user: user.to_owned(),
        groups: vec!["prod".to_owned()],
        scopes: Scopes::everything_below(&path("/vo")),
        expires: NOW + Millis(1000),
    };
    assert!(authenticator(true).outsider(person("root")).unwrap_err().what.contains("its owner"));
    let ann = authenticator(true).outsider(person("ann")).unwrap();
    assert!(!ann.who.is_operator && ann.is_scoped() && ann.who.is_in("prod") && ann.who.is_in("ann"));
    assert_eq!((ann.who.group(), Principal::user("ann").group()), ("prod", "ann"));
    assert!(ann.may(Right::Modify, &path("/vo/x"), NOW).is_ok());
    assert!(ann.may(Right::List, &path("/"), NOW).is_err());
}

#[tokio::test]
async fn a_token_without_scopes_is_its_user() {
    let alice = authenticator(true).bearer(&token("alice", None)).await.unwrap();
    assert!(!alice.who.is_operator && !alice.is_scoped() && alice.who.is_in("prod"));
    assert!(alice.may(Right::Modify, &path("/home/alice"), NOW).is_ok());
    let refused = Identity::refused(Failure::permission("no"));
    assert!(refused.may(Right::Look, &path("/"), NOW).is_err() && !refused.who.is_operator);
    let nothing = authenticator(true).bearer(&token("alice", Some("openid"))).await.unwrap();
    assert!(nothing.may(Right::Look, &path("/"), NOW).is_err());
    assert!(authenticator(true).bearer("a.b.c").await.is_err());
}
