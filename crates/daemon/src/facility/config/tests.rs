//! Tests.

use super::doors::*;
use super::*;

#[test]
fn what_is_written_is_read() {
    let config = Config::default();
    assert_eq!(Config::parse(&config.text()).unwrap(), config);
    assert_eq!(Config::parse("").unwrap(), config);
}

#[test]
fn guarded_doors_may_be_open_to_the_world() {
    let text = "[doors]\nbind = \"0.0.0.0\"\nrequire_token = true\nroot_tls = \"login\"\n";
    assert_eq!(Config::parse(text).unwrap().doors.root_tls, RootTls::Login);
}

#[test]
fn unknown_keys_and_bad_values_are_named() {
    for (text, word) in [
        ("[disk]\nsise = \"1GiB\"\n", "sise"),
        ("[disk]\nsize = \"1 elephant\"\n", "elephant"),
        ("[doors]\nbind = \"0.0.0.0\"\n", "0.0.0.0"),
        ("[doors]\nbind = \"0.0.0.0\"\nrequire_token = true\n", "0.0.0.0"),
        ("[doors]\nroot_tls = \"sometimes\"\n", "sometimes"),
        ("catalogue = \"postgresql://ada:pass@db/cat\"\n", "password"),
        ("catalogue = \"/var/lib/cat\"\n", "catalogue"),
        ("catalogue_password = \"/etc/pw\"\n", "catalogue_password"),
        ("cache = \"100KiB\"\n", "cache"),
        ("[batch]\nuid_min = 0\n", "uid_min"),
        ("[batch]\nslot_uids = \"60000\"\n", "is not a range"),
        ("[batch]\nslot_uids = \"60009-60000\"\n", "is empty"),
        ("[batch]\nslot_uids = \"0-99\"\n", "belong to the system"),
        ("[batch]\nslot_uids = \"65500-65600\"\n", "belong to the system"),
        ("[batch]\nslot_uids = \"1-4294967295\"\n", "too long"),
        ("[batch]\nprocesses = 1\n", "batch.processes"),
        ("[batch]\nscratch = \"1KiB\"\n", "batch.scratch"),
        ("take_over_after = \"1s\"\n", "take_over_after"),
        ("[doors]\nunproven_max = 1\n", "unproven_max"),
        ("[doors]\nprove_within = \"10ms\"\n", "prove_within"),
        ("[tls]\nkey = \"/etc/key.pem\"\n", "tls.certificate"),
        ("[disk]\nadopt = [\"data/old\"]\n", "disk.adopt"),
        ("[tokens]\nlifetime_max = \"10m\"\n", "tokens.lifetime_max"),
        ("[tokens]\nlifetime_max = \"3650d\"\n", "tokens.lifetime_max"),
        ("[tape]\nvolumes = 9\nslots = 3\n", "tape.volumes"),
        ("[tape]\nblock = \"8B\"\n", "tape.block"),
        ("[tape]\nprefix = \"bp\"\n", "tape.prefix"),
        ("[tape]\nbundle_below = \"65MiB\"\n", "tape.bundle_below"),
        ("[tape]\nprefix = \"ABC\"\n", "tape.prefix"),
        ("[reach]\nallow = [\"loopback\"]\n", "loopback"),
    ] {
        let failure = Config::parse(text).unwrap_err();
        assert!(failure.what.contains(word), "{failure}");
        assert!(failure.hint.is_some());
    }
}
