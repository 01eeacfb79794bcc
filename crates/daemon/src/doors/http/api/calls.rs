//! The management API: every call of `wire::control` as `POST /api/v1/NAME`.

use crate::doors::http::{
    HttpDoor,
    answer::Refused,
    api::{hosts, keys},
    guard::caller::Caller,
};
use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{Query, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base::{Failure, Millis, units::Span};
use head::{Apply, Principal};
use serde::{Deserialize, Serialize};
use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
    time::Instant,
};
use wire::control::{self, Call, REPLY_TAG_HEADER};

/// Longest time that an answer is held back.
const WAIT_MAX: Millis = Millis::from_seconds(60);

/// How long an answer is held back.
#[derive(Default, Deserialize)]
struct Wait {
    #[serde(default)]
    wait: Option<Span>,
    /// The tag of a pending reply that the caller has seen: another one is given at once.
    #[serde(default)]
    seen: Option<String>,
}

/// Routes of all calls.
pub(in crate::doors::http) fn routes() -> Router<Arc<HttpDoor>> {
    let router = Router::new()
        .route("/api/v1/status", get(handle_get::<control::GetStatus>))
        .route("/api/v1/bill", get(handle_get::<control::GetBill>))
        .route("/api/v1/jobs", get(handle_get::<control::Jobs>));
    let router = people(router);
    crate::doors::http::api::backup::routes(keys::routes(hosts::routes(rooms(router))))
}

fn names(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    let router = add::<control::Stat>(router);
    let router = add::<control::GetEntry>(router);
    let router = add::<control::List>(router);
    let router = add::<control::Mkdir>(router);
    let router = add::<control::Remove>(router);
    let router = add::<control::RemoveDirectory>(router);
    let router = add::<control::RemoveEntry>(router);
    let router = add::<control::Rename>(router);
    let router = add::<control::SetMode>(router);
    let router = add::<control::SetTime>(router);
    add::<control::SetOwner>(router)
}

fn people(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    let router = names(router);
    let router = add::<control::SetGrant>(router);
    let router = add::<control::GetGrants>(router);
    let router = add::<control::GetAttributes>(router);
    let router = add::<control::SetAttributes>(router);
    let router = add::<control::GetTrash>(router);
    let router = add::<control::RestoreTrash>(router);
    let router = add::<control::EmptyTrash>(router);
    let router = add::<control::GetSpace>(router);
    let router = add::<control::Allocate>(router);
    let router = add::<control::Archive>(router);
    let router = add::<control::Stage>(router);
    let router = add::<control::Evict>(router);
    let router = add::<control::Release>(router);
    let router = add::<control::CancelRequests>(router);
    let router = add::<control::Await>(router);
    let router = add::<control::AwaitAny>(router);
    let router = add::<control::AddVolumes>(router);
    let router = add::<control::SetVolumeState>(router);
    let router = add::<control::SurveyVolumes>(router);
    let router = add::<control::RetryRequest>(router);
    let router = add::<control::EnableDrive>(router);
    let router = add::<control::DisableDrive>(router);
    let router = add::<control::SettleCatalogue>(router);
    let router = add::<control::RecoverCatalogue>(router);
    let router = add::<control::TakeOver>(router);
    let router = add::<control::Refer>(router);
    let router = add::<control::GetReferrals>(router);
    let router = add::<control::Submit>(router);
    let router = add::<control::Jobs>(router);
    let router = add::<control::AwaitJobs>(router);
    let router = add::<control::CancelJob>(router);
    let router = add::<control::JobLog>(router);
    let router = add::<control::FollowJob>(router);
    let router = add::<control::GetEvents>(router);
    operators(add::<control::GetStatus>(router))
}

/// Calls about what operators look after.
fn operators(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    let router = add::<control::GetHosts>(router);
    let router = add::<control::GetSoleFiles>(router);
    let router = add::<control::LabelHost>(router);
    let router = add::<control::GetPools>(router);
    let router = add::<control::SetPool>(router);
    let router = add::<control::CollectPool>(router);
    let router = add::<control::GetCollectable>(router);
    let router = add::<control::SetPartition>(router);
    let router = add::<control::Drain>(router);
    let router = add::<control::ResizePartition>(router);
    let router = add::<control::MovePartition>(router);
    let router = add::<control::SetProject>(router);
    let router = add::<control::GetAccounts>(router);
    let router = add::<control::SetQuota>(router);
    let router = add::<control::GetQuotas>(router);
    let router = add::<control::StartAdoption>(router);
    let router = add::<control::StopAdoption>(router);
    let router = add::<control::GetAdoptions>(router);
    let router = add::<control::GetLeftAlone>(router);
    let router = add::<control::StartScan>(router);
    let router = add::<control::StopScan>(router);
    let router = add::<control::ResumeScan>(router);
    let router = add::<control::RepairScan>(router);
    let router = add::<control::GetScans>(router);
    let router = add::<control::GetFindings>(router);
    add::<control::GetBill>(router)
}

fn rooms(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    let router = add::<control::RegisterPartition>(router);
    let router = add::<control::ReportSpace>(router);
    let router = add::<control::NextRemovals>(router);
    let router = add::<control::ObjectsRemoved>(router);
    let router = add::<control::CompareCatalogue>(router);
    let router = add::<control::CompareObjects>(router);
    let router = add::<control::GetPieces>(router);
    let router = add::<control::ReportDamage>(router);
    let router = add::<control::ReportMissing>(router);
    let router = add::<control::BeginWrite>(router);
    let router = add::<control::FreeSpace>(router);
    let router = add::<control::PlaceMirrors>(router);
    let router = add::<control::CommitWrite>(router);
    let router = add::<control::AbandonWrite>(router);
    let router = add::<control::ReportUse>(router);
    let router = add::<control::NextCopies>(router);
    let router = add::<control::CopyEnded>(router);
    let router = add::<control::RollCall>(router);
    let router = add::<control::NextAdoption>(router);
    let router = add::<control::BeginAdopted>(router);
    let router = add::<control::EndAdopted>(router);
    let router = add::<control::WithdrawAdopted>(router);
    let router = add::<control::ReportAdoption>(router);
    let router = add::<control::NextScan>(router);
    let router = add::<control::AskObjects>(router);
    let router = add::<control::CatalogueWindow>(router);
    let router = add::<control::ReportScan>(router);
    let router = add::<control::NextFindings>(router);
    let router = add::<control::MendFinding>(router);
    let router = add::<control::GetCapKeys>(router);
    let router = add::<control::HostLeaves>(router);
    let router = add::<control::RegisterLibrary>(router);
    let router = add::<control::NextTapeSession>(router);
    let router = add::<control::CartridgeRefused>(router);
    let router = add::<control::TapeProgress>(router);
    let router = add::<control::FilesArchived>(router);
    let router = add::<control::FileRecalled>(router);
    let router = add::<control::FilesFound>(router);
    let router = add::<control::VolumeSurveyed>(router);
    let router = add::<control::RequestFailed>(router);
    let router = add::<control::EndTapeSession>(router);
    let router = add::<control::RegisterWorker>(router);
    let router = add::<control::NextJob>(router);
    let router = add::<control::JobStarted>(router);
    let router = add::<control::TellOutput>(router);
    let router = add::<control::JobEnded>(router);
    add::<control::GetJobToken>(router)
}

fn add<C: Apply>(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    router.route(&format!("/api/v1/{}", C::NAME), post(handle::<C>))
}

/// A call without parameters, for people with a browser or `curl`.
async fn handle_get<C: Apply + Default>(
    State(door): State<Arc<HttpDoor>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<C::Reply>, Refused> {
    let call = C::default();
    let outcome = carry_out(&door, &caller.who, call.clone(), &Wait::default()).await;
    door.note_call(&caller, &call, outcome.as_ref());
    Ok(Json(outcome?))
}

async fn handle<C: Apply>(
    State(door): State<Arc<HttpDoor>>,
    Query(wait): Query<Wait>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    let call: C = parse(&headers, &body)?;
    let outcome = match caller.principal_for::<C>() {
        Ok(who) => carry_out(&door, &who, call.clone(), &wait).await,
        Err(failure) => Err(failure),
    };
    door.note_call(&caller, &call, outcome.as_ref());
    let reply = outcome?;
    // Whoever waits may want to be told what changes.
    let tag = (wait.wait.is_some() && C::is_pending(&reply)).then(|| [(REPLY_TAG_HEADER, tag_of(&reply))]);
    Ok((tag, Json(reply)).into_response())
}

/// Tells one reply from another.
fn tag_of(reply: &impl Serialize) -> String {
    let mut hasher = DefaultHasher::new();
    // A reply that cannot be written is refused when it is sent.
    hasher.write(&serde_json::to_vec(reply).unwrap_or_default());
    format!("{:016x}", hasher.finish())
}

/// Reads a call.
pub(in crate::doors::http) fn parse<C: Call>(headers: &HeaderMap, body: &[u8]) -> Result<C, Failure> {
    require_json(headers, C::NAME)?;
    serde_json::from_slice(body)
        .map_err(|cause| Failure::invalid(format!("call {} cannot be read: {cause}", C::NAME)))
}

/// A web page of somebody else can make a browser send forms here, but not JSON.
pub(in crate::doors::http) fn require_json(headers: &HeaderMap, call: &str) -> Result<(), Failure> {
    let field = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = field.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Failure::invalid(format!("call {call} came as {field:?}"))
        .hint("send it with content-type: application/json"))
}

async fn carry_out<C: Apply>(
    door: &HttpDoor,
    who: &Principal,
    call: C,
    wait: &Wait,
) -> Result<C::Reply, Failure> {
    let started = Instant::now();
    let is_news = |reply: &C::Reply| wait.seen.as_ref().is_some_and(|seen| *seen != tag_of(reply));
    let wait = wait.wait.as_ref().map_or(Millis(0), |Span(wait)| (*wait).min(WAIT_MAX));
    let reply = tokio::select! {
        reply = door.files.head()?.call_until(who, call.clone(), wait, is_news) => reply,
        // Whoever waits is told the state of now, so that a stop does not wait for it.
        () = door.token.stopped(), if wait.0 > 0 => door.files.head()?.call(who, call).await,
    };
    // Whoever asks for a late answer waits for something else than the head.
    if wait.0 == 0 {
        door.counters.http.took(started.elapsed());
    }
    door.counters.http.answer(reply.as_ref().err().map(|failure| failure.kind));
    reply
}
