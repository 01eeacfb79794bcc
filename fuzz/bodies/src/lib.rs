//! Every fuzz body of the workspace by name, with inputs to begin from.
//!
//! `fuzz/libfuzzer` drives them with coverage; the tests here run them on seeds, on mutations of seeds, and on every
//! input in `fuzz/regressions` that once broke one.

mod seeds;

/// What is fuzzed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: directories of corpus, seeds and regressions are called so.
    pub name: &'static str,
    /// The body; it must never panic.
    pub body: fn(&[u8]),
}

macro_rules! targets {
    ($($name:literal => $body:path,)*) => {
        /// All targets, by name.
        pub const TARGETS: &[Target] = &[$(Target { name: $name, body: $body }),*];
        #[cfg(test)]
        const PATHS: &[&str] = &[$(stringify!($body)),*];
    };
}

targets! {
    "acts_for" => wire::control::fuzz_acts_for,
    "attributes" => client::xrd::fuzz_names,
    "audit" => wire::audit::fuzz_audit,
    "awstape" => wire::media::awstape::fuzz_awstape,
    "backup" => wire::backup::fuzz_backup,
    "bundle" => wire::media::bundle::fuzz_bundle,
    "cap" => wire::auth::capability::fuzz_cap,
    "cell" => wire::media::coded::fuzz_cell,
    "certificate" => daemon::hosts::authority::fuzz_certificate,
    "cgroup" => batch::cgroup::fuzz_tables,
    "condition" => wire::http::condition::fuzz_condition,
    "framing" => wire::http::framing::fuzz_framing,
    "control" => wire::control::fuzz_control,
    "date" => wire::http::date::fuzz_date,
    "digest" => wire::http::digest::fuzz_digest,
    "disk_column" => ntuple::column::fuzz_disk_column,
    "expect" => wire::xrd::fuzz_expectation,
    "expr" => ntuple::expr::fuzz_expr,
    "fences" => disk::object::live::fuzz_fences,
    "foreign" => wire::auth::token::issued::fuzz_foreign,
    "identity" => disk::object::partition::fuzz_identity,
    "index" => disk::object::index::fuzz_index,
    "join" => wire::control::fuzz_join_token,
    "key" => wire::auth::keys::fuzz_key_file,
    "label" => wire::media::label::fuzz_label,
    "mount_name" => fuse::kernel::names::fuzz_names,
    "name" => disk::object::list::fuzz_name,
    "object" => wire::media::object::fuzz_object,
    "parquet" => ntuple::column::fuzz_parquet,
    "path" => wire::http::path::fuzz_path,
    "place" => wire::http::dav::fuzz_place,
    "propfind" => wire::http::dav::fuzz_propfind,
    "range_query" => wire::xrd::fuzz_range_query,
    "ranges" => wire::http::range::fuzz_ranges,
    "request" => wire::xrd::fuzz_request,
    "response" => wire::xrd::fuzz_response,
    "rntuple" => ntuple::column::fuzz_rntuple,
    "run" => batch::run_dir::fuzz_names,
    "slurm" => batch::fuzz_slurm,
    "stat" => batch::fuzz_stat,
    "tag" => wire::http::tag::fuzz_tag,
    "token" => wire::auth::token::fuzz_token,
    "trace" => sim::replay::fuzz_trace,
    "tpc" => wire::xrd::tpc::fuzz_tpc,
    "x509" => wire::auth::x509::fuzz_x509,
    "ztn" => wire::auth::token::ztn::fuzz_ztn,
}

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Target {
    /// Inputs to begin from: valid encodings of every kind, and the files of `fuzz/seeds/NAME`.
    #[must_use]
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds = seeds::made(self.name);
        seeds.extend(files("seeds", self.name).into_iter().map(|(_, data)| data));
        seeds
    }
}

/// The files of `fuzz/KIND/NAME` with their names, in order.
fn files(kind: &str, name: &str) -> Vec<(String, Vec<u8>)> {
    let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = home.join("..").join(kind).join(name);
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| Some((path.display().to_string(), std::fs::read(path).ok()?))).collect()
}

#[cfg(test)]
mod tests;
