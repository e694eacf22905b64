//! Serves a text over HTTP, to Prometheus and nobody else.
//!
//! Idea: one answer for each connection, which is then closed. What a peer may take is bounded: connections at once,
//! bytes of a request, and the time from its connection to the end of the answer. Connections beyond the limit get
//! the answer to come again, without a wait for their request. `httparse` reads requests.
//!
//! Known weaknesses: neither TLS nor passwords. Whoever reaches the address reads names of programs and functions; a
//! loopback address or a proxy keeps others out.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::metrics::CONTENT_TYPE;

/// Longest request.
const REQUEST_BYTES: usize = 8 << 10;
/// Most header lines.
const HEADERS: usize = 64;
/// Most connections at once.
const CONNECTIONS: usize = 8;
/// From a connection to the end of its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The text of the moment; empty while there is none yet.
pub type Source = Arc<dyn Fn() -> String + Send + Sync>;

/// Why nothing is served.
#[derive(Debug, Error)]
#[error("--metrics {address}: cannot listen there: {source}{}", remedy(source))]
pub struct ServerError {
    /// As given.
    address: SocketAddr,
    /// What the system said.
    source: io::Error,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another port, or 0 for any that is free",
        io::ErrorKind::AddrNotAvailable => "; choose an address of this machine, as `ip address` lists them",
        // EAFNOSUPPORT: no std::io::ErrorKind stands for it.
        _ if error.raw_os_error() == Some(97) => {
            "; a systemd unit may forbid it: see RestrictAddressFamilies in systemd.exec(5)"
        }
        _ => "",
    }
}

/// A server in threads of its own. Stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address` (port 0: any that is free) and answers `GET /metrics` with what `source` says then, or with the
    /// status 503 if that is nothing. `refused` counts connections beyond the limit, and those for which there was no thread.
    pub fn start(
        address: SocketAddr,
        source: Source,
        refused: Arc<AtomicU64>,
    ) -> Result<Server, ServerError> {
        Server::start_with(address, source, refused, PATIENCE)
    }

    /// `patience`: from a connection to the end of its answer.
    fn start_with(
        address: SocketAddr,
        source: Source,
        refused: Arc<AtomicU64>,
        patience: Duration,
    ) -> Result<Server, ServerError> {
        let error = |source| ServerError { address, source };
        let listener = TcpListener::bind(address).map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new();
        let thread =
            thread.spawn(move || accept(&listener, &stopped, &source, &refused, patience)).map_err(error)?;
        Ok(Server { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Ends the wait for a connection. An address that stands for all is reached by loopback.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let loopback = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
            address.set_ip(loopback.parse().expect("an address"));
        }
        let woken = TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    stop: &AtomicBool,
    source: &Source,
    refused: &AtomicU64,
    patience: Duration,
) {
    let open = Arc::new(AtomicUsize::new(0));
    // Those refused last: a connection that is closed before its request is read may lose the answer.
    let mut kept = VecDeque::new();
    for connection in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(connection) = connection else {
            // Out of descriptors, perhaps: asking again at once would only burn time. The connection waits, so it is not refused.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        kept.retain(|(refused_at, _): &(Instant, _)| refused_at.elapsed() < patience);
        if open.load(Ordering::Relaxed) >= CONNECTIONS {
            refused.fetch_add(1, Ordering::Relaxed);
            kept.extend(refuse(connection, patience).ok().map(|connection| (Instant::now(), connection)));
            if kept.len() > CONNECTIONS {
                kept.pop_front();
            }
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (slot, source) = (ConnectionSlot(open.clone()), source.clone());
        let thread = std::thread::Builder::new().name("metrics".into());
        let thread = thread.spawn(move || {
            let _slot = slot;
            // A peer that goes away gets no answer.
            let _ = serve(connection, &source, Instant::now() + patience);
        });
        if thread.is_err() {
            refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Says at once that there is no place. The answer is so short that nothing waits for the peer.
fn refuse(mut connection: TcpStream, patience: Duration) -> io::Result<TcpStream> {
    let body = format!("{CONNECTIONS} connections are open already\n");
    let seconds = patience.as_secs();
    let answer = format!("{}Retry-After: {seconds}\r\n\r\n{body}", head(UNAVAILABLE, PLAIN, &body));
    connection.set_nonblocking(true)?;
    connection.write_all(answer.as_bytes())?;
    connection.shutdown(std::net::Shutdown::Write)?;
    Ok(connection)
}

/// The head of an answer, without the empty line at its end.
fn head(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n",
        body.len()
    )
}

/// One of the connections at once.
struct ConnectionSlot(Arc<AtomicUsize>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(mut connection: TcpStream, source: &Source, until: Instant) -> io::Result<()> {
    let request = read_request(&mut connection, until)?;
    let (status, kind, body) = match &request {
        Ok(Request { path, .. }) if path == "/metrics" => match source() {
            text if text.is_empty() => (UNAVAILABLE, PLAIN, "nothing is watched yet\n".to_owned()),
            text => ("200 OK", CONTENT_TYPE, text),
        },
        Ok(Request { path, .. }) if path == "/" => ("200 OK", PLAIN, "pcstream: see /metrics\n".to_owned()),
        Ok(_) => ("404 Not Found", PLAIN, "only /metrics is here\n".to_owned()),
        Err(status) => (*status, PLAIN, format!("{status}\n")),
    };
    let bodiless = matches!(&request, Ok(Request { is_head: true, .. }));
    let head = head(status, kind, &body) + "\r\n";
    let answer = if bodiless { head.into_bytes() } else { (head + &body).into_bytes() };
    let mut left = answer.as_slice();
    while !left.is_empty() {
        connection.set_write_timeout(Some(remaining(until)?))?;
        let written = connection.write(left)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        left = &left[written..];
    }
    connection.shutdown(std::net::Shutdown::Write)?;
    // What the peer still sends is read, or the answer might be lost with it; within the limits.
    let mut rest = [0; 1024];
    for _ in 0..REQUEST_BYTES / rest.len() {
        connection.set_read_timeout(Some(remaining(until)?))?;
        if connection.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

const UNAVAILABLE: &str = "503 Service Unavailable";
const PLAIN: &str = "text/plain; charset=utf-8";

fn remaining(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

struct Request {
    path: String,
    is_head: bool,
}

/// Reads a request's head. The inner error is the status of the answer.
fn read_request(connection: &mut TcpStream, until: Instant) -> io::Result<Result<Request, &'static str>> {
    let mut bytes = vec![0; REQUEST_BYTES];
    let mut filled = 0;
    loop {
        connection.set_read_timeout(Some(remaining(until)?))?;
        let read = connection.read(&mut bytes[filled..])?;
        filled += read;
        match parse(&bytes[..filled]) {
            Some(result) => return Ok(result),
            None if read == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None if filled == bytes.len() => return Ok(Err("431 Request Header Fields Too Large")),
            None => {}
        }
    }
}

/// `None`: the request is not whole yet.
fn parse(bytes: &[u8]) -> Option<Result<Request, &'static str>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Err(httparse::Error::TooManyHeaders) => Some(Err("431 Request Header Fields Too Large")),
        Err(_) => Some(Err("400 Bad Request")),
        Ok(httparse::Status::Complete(_)) => Some(match (request.method, request.path) {
            (Some(method @ ("GET" | "HEAD")), Some(path)) => Ok(Request {
                path: path.split('?').next().unwrap_or_default().to_owned(),
                is_head: method == "HEAD",
            }),
            _ => Err("405 Method Not Allowed"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        let source: Source = Arc::new(|| "text 1\n# EOF\n".to_owned());
        counting(source, Arc::default())
    }

    fn counting(source: Source, refused: Arc<AtomicU64>) -> Server {
        Server::start("127.0.0.1:0".parse().expect("an address"), source, refused).expect("loopback is free")
    }

    fn ask(server: &Server, request: &[u8]) -> String {
        let mut connection = TcpStream::connect(server.address()).expect("it listens");
        connection.write_all(request).expect("it reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("it answers and closes");
        answer
    }

    #[test]
    fn metrics_are_served_and_nothing_else() {
        let server = server();
        let answer = ask(&server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(CONTENT_TYPE), "{head}");
        assert!(head.contains("Content-Length: 13\r\n") && head.contains("Connection: close"), "{head}");
        assert_eq!(body, "text 1\n# EOF\n");
        let head = ask(&server, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.contains("Content-Length: 13\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let status = |request: &[u8]| ask(&server, request).split(' ').nth(1).unwrap_or_default().to_owned();
        assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), "200");
        assert_eq!(status(b"GET /etc/passwd HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status(b"GET /../metrics HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), "405");
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01"), "400");
    }

    #[test]
    fn there_are_no_metrics_before_something_is_watched() {
        let metrics = Arc::new(std::sync::Mutex::new(crate::Metrics::new(1)));
        let shared = metrics.clone();
        let server =
            counting(Arc::new(move || shared.lock().expect("whole").text().to_owned()), Arc::default());
        let answer = || ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer().starts_with("HTTP/1.1 503 ") && answer().ends_with("nothing is watched yet\n"));
        metrics.lock().expect("whole").describe(crate::About::default());
        assert!(answer().starts_with("HTTP/1.1 200 ") && answer().ends_with("# EOF\n"));
    }

    #[test]
    fn a_request_has_a_largest_size() {
        let server = server();
        let many = [b"GET /metrics HTTP/1.1\r\n".to_vec(), b"A: b\r\n".repeat(HEADERS + 1), b"\r\n".to_vec()]
            .concat();
        assert!(ask(&server, &many).starts_with("HTTP/1.1 431 "));
        let mut long = b"GET /metrics HTTP/1.1\r\nA: ".to_vec();
        long.resize(REQUEST_BYTES, b'x');
        assert!(ask(&server, &long).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn connections_are_limited_and_given_back() {
        let refused = Arc::new(AtomicU64::new(0));
        // Idle connections stay, however slow the rest is.
        let (patience, address) = (Duration::from_secs(3600), "127.0.0.1:0".parse().expect("an address"));
        let source: Source = Arc::new(|| "text 1\n# EOF\n".to_owned());
        let server = Server::start_with(address, source, refused.clone(), patience);
        let server = server.expect("loopback is free");
        let idle: Vec<TcpStream> =
            (0..CONNECTIONS).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
        // They are accepted in order: these come last. Nobody reads what they ask.
        for late in 1..=2 * CONNECTIONS as u64 {
            let answer = ask(&server, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(
                answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: 3600\r\n"),
                "{answer}"
            );
            assert!(answer.ends_with("\r\n\r\n8 connections are open already\n"), "{answer}");
            assert_eq!(refused.load(Ordering::Relaxed), late);
        }
        drop(idle);
        // A place is free once the server has seen that its peer is gone.
        let served = || {
            let mut connection = TcpStream::connect(server.address()).ok()?;
            connection.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").ok()?;
            let mut answer = String::new();
            connection.read_to_string(&mut answer).ok().filter(|_| answer.ends_with("# EOF\n"))
        };
        while served().is_none() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_peer_that_says_nothing_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is free");
        let peer = TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
        let (connection, _) = listener.accept().expect("somebody came");
        let source: Source = Arc::new(String::new);
        let error =
            serve(connection, &source, Instant::now() + Duration::from_millis(30)).expect_err("too slow");
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        drop(peer);
    }

    #[test]
    fn it_stops_and_frees_its_address() {
        let server = server();
        let address = server.address();
        drop(server);
        assert!(TcpStream::connect(address).is_err());
        let taken = TcpListener::bind("127.0.0.1:0").expect("loopback is free");
        let address = taken.local_addr().expect("it has one");
        let error = Server::start(address, Arc::new(String::new), Arc::default())
            .expect_err("it is taken")
            .to_string();
        assert!(error.contains(&format!("--metrics {address}: cannot listen there: ")), "{error}");
        assert!(error.ends_with("choose another port, or 0 for any that is free"), "{error}");
    }
}
