//! The server of metrics, as the command line asks for it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use pcstream_watch::{Metrics, Server};

use crate::failure::Failure;
use crate::ui::Ui;

/// Serves what `metrics` says at the moment, and says where.
pub fn serve(address: SocketAddr, metrics: &Arc<Mutex<Metrics>>, ui: Ui) -> Result<Server, Failure> {
    let metrics = metrics.clone();
    let refused = metrics.lock().unwrap_or_else(PoisonError::into_inner).refused();
    let text = move || metrics.lock().unwrap_or_else(PoisonError::into_inner).text().to_owned();
    let server = Server::start(address, Arc::new(text), refused).map_err(Failure::failed)?;
    ui.remark(&format!("metrics at http://{}/metrics", server.address()));
    if !address.ip().is_loopback() {
        ui.remark("whoever reaches this address can read names of programs and functions there");
    }
    Ok(server)
}
