//! The PostgreSQL server of the workload `pgbench`: the same one for all runs, for two servers differ more than what is
//! measured.

use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal};

use crate::AnyError;

/// `create` makes a database of 150 MB with a buffer of 64 MB. `serve` serves it and ends with its parent. `fill` fills it.
/// `run` prints the microseconds of one of pgbench's transactions, four at a time, after a checkpoint.
const PGBENCH: &str = r#"
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
postgres="setpriv --reuid postgres --regid postgres --init-groups"
case $1 in
create)
    mkdir data socket; chown postgres data socket
    $postgres "$bin/initdb" -D data -A trust >/dev/null ;;
serve)
    exec $postgres --pdeathsig QUIT "$bin/postgres" -D data -c listen_addresses= -c unix_socket_directories="$PWD/socket" \
        -c shared_buffers=64MB -c max_wal_size=1GB >log 2>&1 ;;
fill)
    tries=0
    until $postgres "$bin/pg_isready" -q -h "$PWD/socket"; do
        [ $((tries += 1)) -lt 600 ] || { cat log >&2; exit 1; }
        sleep 0.1
    done
    $postgres "$bin/pgbench" -q -i -s 10 -h "$PWD/socket" postgres >/dev/null 2>&1 ;;
run)
    $postgres "$bin/psql" -q -h "$PWD/socket" -c checkpoint postgres
    $postgres "$bin/pgbench" -n -h "$PWD/socket" -c 4 -T 4 postgres 2>/dev/null | awk '/^tps/ { print 1e6 / $3 }' ;;
esac
"#;

/// A running server.
pub struct Server {
    process: Child,
}

impl Server {
    /// Makes a database below `directory`, serves and fills it.
    pub fn start(directory: &Path) -> Result<Server, AnyError> {
        let done = |what: &str| match pgbench(directory, what).status()? {
            status if status.success() => Ok::<_, AnyError>(()),
            status => Err(format!("PostgreSQL: {what} failed: {status}").into()),
        };
        done("create")?;
        let server = Server { process: pgbench(directory, "serve").spawn()? };
        done("fill")?;
        Ok(server)
    }
}

/// A step of the script.
pub fn pgbench(directory: &Path, what: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", PGBENCH, "pgbench", what]).current_dir(directory);
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without a last checkpoint: the database is thrown away.
        let ended = rustix::process::kill_process(Pid::from_child(&self.process), Signal::QUIT)
            .map_err(std::io::Error::from)
            .and_then(|()| self.process.wait());
        if let Err(error) = ended {
            eprintln!("PostgreSQL did not stop: {error}");
        }
    }
}
