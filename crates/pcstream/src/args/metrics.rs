//! Arguments of commands that serve metrics.

use std::net::SocketAddr;

use clap::Args;
use pcstream_watch::metrics;

use crate::values;

#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Serve OpenMetrics at http://ADDR/metrics; a port alone, such as 9469, is one of the loopback address
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Contexts with metrics of their own, those that write fastest, 1 to 1000; the others are added up
    #[arg(long, value_name = "N", default_value_t = metrics::TOP_CONTEXTS, value_parser = values::within::<usize>(1, 1000), requires = "metrics")]
    pub metrics_contexts: usize,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    port.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).or_else(|_| text.parse()).map_err(|_| {
        format!(
            "'{text}' is not an address: expected a port or an IP address and a port, such as 127.0.0.1:9469"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_loopback_unless_they_say_otherwise() {
        let good = [
            ("9469", "127.0.0.1:9469"),
            (":9469", "127.0.0.1:9469"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:80", "[::1]:80"),
        ];
        good.iter().for_each(|(text, parsed)| assert_eq!(address(text).unwrap().to_string(), *parsed));
        for bad in ["", "host:80", "1.2.3.4", "99999", "::1"] {
            assert!(address(bad).is_err_and(|error| error.contains("such as 127.0.0.1:9469")), "{bad}");
        }
    }
}
