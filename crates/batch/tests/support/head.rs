//! A head that remembers what it is told.

use super::DEADLINE;
use base::{Failure, Millis};
use client::Control;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};
use wire::control::{
    Done, GetJobToken, JobEnded, JobOrder, JobOrders, JobRun, JobStarted, JobToken, NextJob, OutputReported,
    RegisterWorker, ReportOutput, RunDelivery, WorkerOrders,
};

/// Longest time an empty answer is held back: short, so that a stopped room leaves no threads for long.
const HOLD: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) orders: Vec<JobOrder>,
    pub(crate) kills: Vec<JobRun>,
    pub(crate) drops: Vec<JobRun>,
    /// The data door.
    pub(crate) root: String,
    pub(crate) registered: Vec<RegisterWorker>,
    pub(crate) started: Vec<JobRun>,
    pub(crate) ended: Vec<JobEnded>,
    pub(crate) is_down: bool,
    /// The answers to starts are lost.
    pub(crate) is_deaf_to_starts: bool,
    /// Runs that are not under way any more.
    pub(crate) given_up: Vec<JobRun>,
    pub(crate) refused_calls: u32,
    /// Runs that somebody follows.
    pub(crate) followed: Vec<JobRun>,
    pub(crate) told: Vec<ReportOutput>,
    /// How far both outputs were told.
    pub(crate) told_next: [u64; 2],
    /// Signals and messages for runs.
    pub(crate) deliver: Vec<RunDelivery>,
    /// The last one that the worker says to have.
    pub(crate) delivered: u64,
}

impl State {
    /// What was told of standard output or standard error.
    pub(crate) fn text(&self, stream: usize) -> String {
        self.told.iter().filter_map(|told| told.pieces[stream].as_ref()).map(|piece| &*piece.text).collect()
    }

    fn is_silent(&self) -> bool {
        self.text(0).is_empty() && self.text(1).is_empty()
    }
}

/// The state and the bell that rings when it changes.
type Remembered = Arc<(Mutex<State>, Condvar)>;

pub(crate) struct Head {
    remembered: Remembered,
    address: String,
}

impl Head {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let remembered = Remembered::default();
        let shared = Arc::clone(&remembered);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&socket, &shared));
            }
        });
        Self { remembered, address }
    }

    pub(crate) fn control(&self) -> Control {
        Control::new(&self.address, "worker")
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.remembered.0.lock().unwrap());
        self.remembered.1.notify_all();
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.remembered.0.lock().unwrap())
    }

    /// Waits until the head has been told something.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut(&State) -> Option<T>) -> T {
        let mut found = None;
        let state = self.remembered.0.lock().unwrap();
        let (_state, timeout) = self
            .remembered
            .1
            .wait_timeout_while(state, DEADLINE, |state| {
                found = look(state);
                found.is_none()
            })
            .unwrap();
        assert!(!timeout.timed_out(), "{what} never came");
        found.unwrap()
    }

    /// Waits for the end of a run.
    #[track_caller]
    pub(crate) fn ended(&self, run: JobRun) -> JobEnded {
        self.until("the end of the run", |state| state.ended.iter().find(|ended| ended.run == run).cloned())
    }
}

fn serve(socket: &TcpStream, remembered: &Remembered) {
    let mut reader = BufReader::new(socket);
    while let Some((name, body)) = request(&mut reader) {
        let Some((status, answer)) = answer(&name, &body, remembered) else {
            return;
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let mut writer = socket;
        if writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&answer)).is_err() {
            return;
        }
    }
}

fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let name = line.split(['/', '?', ' ']).nth(4)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((name, body))
}

/// The answer to a call; `None` hangs up.
fn answer(name: &str, body: &[u8], remembered: &Remembered) -> Option<(&'static str, Vec<u8>)> {
    let (lock, bell) = &**remembered;
    let mut state = lock.lock().unwrap();
    if state.is_down || (state.is_deaf_to_starts && name == "job_started") {
        state.refused_calls += 1;
        bell.notify_all();
        return None;
    }
    let reply = match name {
        "register_worker" => {
            state.registered.push(parse(body));
            to_json(&WorkerOrders { drop: state.drops.clone(), root: state.root.clone() })
        }
        "next_job" => {
            let call: NextJob = parse(body);
            state.delivered = call.delivered;
            bell.notify_all();
            let orders = |state: &State| JobOrders {
                start: state.orders.iter().filter(|order| !call.runs.contains(&order.run)).cloned().collect(),
                kill: state.kills.iter().filter(|run| !call.killing.contains(run)).copied().collect(),
                report: state
                    .followed
                    .iter()
                    // A room that has stopped may have told once more that there is nothing new.
                    .filter(|run| state.is_silent() && call.runs.contains(run))
                    .copied()
                    .collect(),
                deliver: state.deliver.iter().filter(|one| one.number > call.delivered).cloned().collect(),
                keys: 0,
            };
            state = bell.wait_timeout_while(state, HOLD, |state| orders(state).is_empty()).unwrap().0;
            to_json(&orders(&state))
        }
        "job_started" => {
            let JobStarted { run, .. } = parse(body);
            state.orders.retain(|order| order.run != run);
            if state.given_up.contains(&run) {
                state.refused_calls += 1;
                bell.notify_all();
                return Some(("404 Not Found", to_json(&Failure::not_found("the run is not under way"))));
            }
            state.started.push(run);
            to_json(&Done {})
        }
        "job_ended" => {
            let ended: JobEnded = parse(body);
            state.orders.retain(|order| order.run != ended.run);
            state.kills.retain(|run| *run != ended.run);
            state.ended.push(ended);
            to_json(&Done {})
        }
        "report_output" => {
            let told: ReportOutput = parse(body);
            for (next, piece) in state.told_next.iter_mut().zip(&told.pieces) {
                *next = piece.as_ref().map_or(*next, |piece| piece.end);
            }
            state.told.push(told);
            to_json(&OutputReported { is_followed: !state.followed.is_empty(), next: state.told_next })
        }
        "job_token" => {
            let GetJobToken { run } = parse(body);
            let token = format!("token of {}.{}", run.job, run.attempt);
            to_json(&JobToken { token, lifetime: Millis::from_seconds(60) })
        }
        other => panic!("unexpected call {other}"),
    };
    bell.notify_all();
    Some(("200 OK", reply))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> T {
    serde_json::from_slice(body).unwrap()
}

fn to_json<T: Serialize>(reply: &T) -> Vec<u8> {
    serde_json::to_vec(reply).unwrap()
}
