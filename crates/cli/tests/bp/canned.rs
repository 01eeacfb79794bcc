//! A management API that says what it is told to say.

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What the server answers to a call: status and body.
pub(crate) type Answer = (u16, Value);

/// A call that was made: its name, who made it, its body.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) body: Value,
}

/// A server on a free port of the loopback; it ends with the test's process.
pub(crate) struct Canned {
    pub(crate) http: String,
    made: Arc<Mutex<Vec<Made>>>,
}

impl Canned {
    /// Answers calls by name and body with what `answer` says.
    pub(crate) fn start(answer: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let http = format!("http://{}", listener.local_addr().unwrap());
        let made = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&made);
        thread::spawn(move || {
            for socket in listener.incoming() {
                let Some((call, socket)) = receive(socket.unwrap()) else {
                    continue;
                };
                let (status, body) = answer(&call.name, &call.body);
                log.lock().unwrap().push(call);
                respond(socket, status, &body);
            }
        });
        Self { http, made }
    }

    /// The calls of this name so far.
    pub(crate) fn made(&self, name: &str) -> Vec<Made> {
        self.made.lock().unwrap().iter().filter(|call| call.name == name).cloned().collect()
    }
}

fn receive(socket: TcpStream) -> Option<(Made, TcpStream)> {
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let name = target.strip_prefix("/api/v1/")?.split('?').next()?.to_owned();
    let (mut length, mut user) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((field, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match field.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "x-backplane-user" => value.clone_into(&mut user),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((Made { name, user, body: serde_json::from_slice(&body).ok()? }, reader.into_inner()))
}

fn respond(mut socket: TcpStream, status: u16, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // The client may have given up: then the test says so.
    let _ = socket.write_all(format!("{head}{body}").as_bytes());
}
