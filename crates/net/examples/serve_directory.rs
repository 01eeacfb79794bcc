//! Serves a directory over the XRootD protocol: `cargo run -p net --example serve_directory -- DIRECTORY [PORT]`.

#[path = "../tests/xrd/directory.rs"]
#[expect(clippy::unwrap_used, reason = "test support, where a panic is the report")]
mod directory;

use base::{Failure, Result, limits::CONNECTIONS_MAX};
use directory::DirService;
use net::{listener::Listener, shutdown::Shutdown, xrd::ReadMethod};
use std::{net::SocketAddr, path::Path, time::Duration};

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or_else(|| Failure::invalid("usage: serve_directory DIRECTORY [PORT]"))?;
    let port = args.next().and_then(|port| port.parse().ok()).unwrap_or(0);
    let shutdown = Shutdown::new();
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], port)), CONNECTIONS_MAX).await?;
    #[expect(clippy::print_stdout, reason = "an example shows where it listens")]
    {
        println!("root://{}//", listener.address()?);
    }
    let service = DirService::new(Path::new(&directory), Duration::from_millis(200), ReadMethod::Automatic);
    net::xrd::serve(service, listener, &shutdown);
    tokio::signal::ctrl_c().await.map_err(|e| Failure::io("wait for the signal", &e))?;
    shutdown.stop(Duration::from_secs(10)).await
}
