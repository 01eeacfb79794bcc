//! Queries: configuration, checksums, space, state of prepares, counters (spec/xrootd.md §4.6).

use super::{NameRequest, ServerConfig, Service, SpaceInfo, calls::Context, limits::STREAMS_MAX};
use base::{
    Failure, FilePath, Result,
    limits::{READV_ELEMENT_BYTES_MAX, READV_ELEMENTS_MAX},
};
use std::sync::atomic::Ordering;
use wire::xrd::{Query, QueryCode, StatFlags, Target};

/// Keys of one configuration query.
const CONFIG_KEYS_MAX: usize = 64;

/// The body of the answer to a query.
pub(super) async fn answer<S: Service>(
    context: &Context<S>,
    session: &S::Session,
    query: Query,
) -> Result<Vec<u8>> {
    let text = |query: &Query| query.text().map(str::to_owned).map_err(Failure::from);
    match query.code {
        QueryCode::Config => Ok(config(context.service.config(), &text(&query)?).into_bytes()),
        QueryCode::Checksum => checksum(context, session, &Target::from_text(&text(&query)?)).await,
        QueryCode::ChecksumCancel => Ok(Vec::new()),
        QueryCode::Space => {
            let target = Target::from_text(&text(&query)?);
            let path = if target.path.is_empty() { FilePath::root() } else { target.path.parse()? };
            let group = target.opaque.get("oss.cgroup").unwrap_or("public").to_owned();
            let space: SpaceInfo = context.ask(session, NameRequest::Space { path }).await?;
            Ok(format!("{}\0", space.to_query_text(&group)).into_bytes())
        }
        QueryCode::Xattr => xattr(context, session, &Target::from_text(&text(&query)?)).await,
        QueryCode::Stats => Ok(stats(context).into_bytes()),
        QueryCode::Prepare => {
            let text = text(&query)?;
            let mut lines = text.lines().filter(|line| !line.is_empty());
            let id = lines.next().ok_or_else(|| Failure::invalid("prepare request id is missing"))?;
            let paths = lines.map(|line| Target::from_text(line).path.parse()).collect::<Result<Vec<_>>>()?;
            let request = NameRequest::PrepareStatus { id: id.to_owned(), paths };
            context.ask(session, request).await.map(String::into_bytes)
        }
        QueryCode::Opaque => Err(Failure::unsupported("opaque query is not offered here")),
        QueryCode::Visa
        | QueryCode::FileInfo
        | QueryCode::FilesystemInfo
        | QueryCode::OpaquePath
        | QueryCode::OpaqueFile => {
            Err(Failure::unsupported(format!("query {:?} is not offered here", query.code)))
        }
    }
}

/// One line for each key; what is not known is echoed, as servers of the field do.
fn config(config: &ServerConfig, keys: &str) -> String {
    let keys = keys.split_ascii_whitespace().take(CONFIG_KEYS_MAX);
    let lines: Vec<_> = keys.map(|key| config_value(config, key) + "\n").collect();
    lines.concat()
}

fn config_value(config: &ServerConfig, key: &str) -> String {
    if let Some(answer) = config.answers.get(key) {
        return answer.clone();
    }
    match key {
        // Connections that a session may have besides its first.
        "bind_max" => STREAMS_MAX.to_string(),
        "chksum" => {
            let numbered = config.checksums.iter().enumerate().map(|(index, name)| format!("{index}:{name}"));
            numbered.collect::<Vec<_>>().join(",")
        }
        "pio_max" => "1".to_owned(),
        "readv_ior_max" => READV_ELEMENT_BYTES_MAX.to_string(),
        "readv_iov_max" => READV_ELEMENTS_MAX.to_string(),
        "role" => config.role.clone(),
        "sitename" => config.sitename.clone(),
        "version" => config.version.clone(),
        unknown => unknown.to_owned(),
    }
}

async fn checksum<S: Service>(
    context: &Context<S>,
    session: &S::Session,
    target: &Target,
) -> Result<Vec<u8>> {
    let path = context.path_of(session, target).await?;
    let offered = &context.service.config().checksums;
    let wanted = target.opaque.get("cks.type").or(offered.first().map(String::as_str)).unwrap_or_default();
    let kind = offered.iter().find(|name| name.eq_ignore_ascii_case(wanted)).ok_or_else(|| {
        let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
        Failure::unsupported(format!("checksum type {wanted:?} is not offered here"))
            .hint(format!("offered: {offered}"))
    })?;
    let request = NameRequest::Checksum { path, kind: kind.clone() };
    let value: String = context.ask(session, request).await?;
    Ok(format!("{kind} {value}\0").into_bytes())
}

/// Attributes of a file in the form of the storage system of the field.
async fn xattr<S: Service>(context: &Context<S>, session: &S::Session, target: &Target) -> Result<Vec<u8>> {
    let stat = context.stat(session, context.path_of(session, target).await?, target).await?;
    let kind = if stat.is_directory() { 'd' } else { 'f' };
    let mode = if stat.flags.contains(StatFlags::WRITABLE) { 'w' } else { 'r' };
    let times =
        stat.owner.as_ref().map_or((stat.modified_s, stat.modified_s), |o| (o.changed_s, o.accessed_s));
    Ok(format!(
        "oss.cgroup=public&oss.type={kind}&oss.used={}&oss.mt={}&oss.ct={}&oss.at={}&oss.u=*&oss.g=*&oss.fs={mode}\0",
        stat.size, stat.modified_s, times.0, times.1
    )
    .into_bytes())
}

/// Counters as the XML of the field's summary monitoring.
fn stats<S: Service>(context: &Context<S>) -> String {
    let config = context.service.config();
    let now = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &context.counters;
    format!(
        "<statistics ver=\"{}\" src=\"{}\" pgm=\"bpd\" site=\"{}\"><stats id=\"link\"><num>{}</num><tot>{}</tot>\
         <in>{}</in><out>{}</out></stats><stats id=\"xrootd\"><num>{}</num><err>{}</err></stats></statistics>",
        config.version,
        context.local,
        config.sitename,
        now(&counters.sessions_now),
        now(&counters.sessions_total),
        now(&counters.received_bytes_total),
        now(&counters.sent_bytes_total),
        now(&counters.requests_total),
        now(&counters.malformed_total),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_keys_have_values_and_others_are_echoed() {
        let mut server = ServerConfig { sitename: "T2_XX".into(), ..ServerConfig::default() };
        server.answers.insert("tpc".into(), "1".into());
        assert_eq!(
            config(&server, "readv_iov_max tpc no_such_key sitename"),
            "1024\n1\nno_such_key\nT2_XX\n"
        );
        assert_eq!(config(&server, "chksum"), "0:adler32,1:crc32c\n");
    }
}
