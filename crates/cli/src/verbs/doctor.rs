//! `bp doctor`: checks a facility for problems, and says the next step for each.
//!
//! The head says how its parts are; what only its host knows (files, ports, certificates, the audit log) is looked at there.

mod findings;
mod host;

use crate::{
    context::{Context, Run},
    output::{Output, Tone},
};
use base::{ErrorKind, Failure, Timestamp, units::Span};
use findings::Finding;
use std::{path::Path, time::SystemTime};
use wire::control::{GetHosts, GetKeys, GetStatus};

/// The exit code if something is wrong.
const SOMETHING_IS_WRONG: u8 = 1;

/// Check the facility for problems and suggest the next step for each
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 no problem, 1 at least one problem. Run it on the facility's host, as the user \
        who runs the facility,\nwith --facility DIR; elsewhere it skips the checks that need that host or that user."
)]
pub(crate) struct Args {
    /// Report the newest backup of the catalogue if it is older than this
    #[arg(long, default_value = "7d", value_name = "TIME")]
    backup_age: Span,
    /// Report the key of the facility if it is older than this
    #[arg(long, default_value = "365d", value_name = "TIME")]
    key_age: Span,
    /// Print only the problems
    #[arg(long)]
    wrong: bool,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let place = context.place()?.to_owned();
    let now = Timestamp::from_system(SystemTime::now());
    let mut found = of_facility(&args, now, context);
    if !place.contains("://") {
        found.extend(host::look(Path::new(&place), args.backup_age.0, now));
    }
    let wrong = found.iter().filter(|finding| finding.is_wrong()).count();
    for finding in found.iter().filter(|finding| finding.is_wrong() || !args.wrong) {
        show(&mut context.output, finding)?;
    }
    if wrong == 0 {
        context.output.news("no problem found")?;
        return Ok(0);
    }
    Ok(SOMETHING_IS_WRONG)
}

/// What the head says. A facility that does not answer is a finding, too.
fn of_facility(args: &Args, now: Timestamp, context: &mut Context) -> Vec<Finding> {
    let status = match context.call(&GetStatus {}) {
        Ok(status) => status,
        Err(failure) => return vec![Finding::failed("daemon", failure, "`bp up` starts it")],
    };
    let mut found = findings::of_status(&status, now);
    if let Ok(facility) = context.facility() {
        found.extend(host::ports(&facility.endpoints));
    }
    let hosts = context.call(&GetHosts {});
    found.extend(
        hosts.map_or_else(
            |failure| vec![skipped_or_wrong("hosts", failure)],
            |hosts| host::doors(&hosts.hosts),
        ),
    );
    let keys = context.call(&GetKeys {});
    found.push(keys.map_or_else(
        |failure| skipped_or_wrong("key", failure),
        |keys| findings::of_keys(&keys.generations, args.key_age.0, now),
    ));
    found
}

/// A call that failed: no problem found if the person may not make it.
fn skipped_or_wrong(check: &'static str, failure: Failure) -> Finding {
    match failure.kind {
        ErrorKind::Permission => Finding::skipped(check, failure.what),
        _ => Finding::failed(check, failure, "`bp status` shows whether the facility answers"),
    }
}

fn show(output: &mut Output, finding: &Finding) -> Run<()> {
    if output.is_json() {
        return output.json(finding);
    }
    let tone = match finding.verdict {
        findings::Verdict::Good => Tone::Good,
        findings::Verdict::Wrong => Tone::Bad,
        findings::Verdict::Skipped => Tone::Faint,
    };
    let word = finding.verdict.as_str();
    output.toned(tone, &format!("{word:<8} {:<12} {}", finding.check, finding.found))?;
    if let Some(next) = &finding.next {
        output.line(format!("{:21} next: {next}", ""))?;
    }
    Ok(())
}
